"""Tasks of a SLURM step, by the variables that SLURM gives them."""

import pytest

from t2t_lite import slurm
from t2t_lite.errors import UserError


def step(nodes, counts, index, node, local, job=7):
    """The variables of one task."""
    values = dict(
        JOB_ID=job,
        PROCID=index,
        NODEID=node,
        LOCALID=local,
        STEP_NODELIST=nodes,
        STEP_TASKS_PER_NODE=counts,
    )
    return {f"SLURM_{name}": str(value) for name, value in values.items()}


def test_machines_in_slurms_order():
    addresses, index = slurm.tasks(step("n[9-10],fat", "1(x3)", 1, 1, 0))
    assert addresses == ("n9:10112", "n10:10112", "fat:10112") and index == 1


def test_several_tasks_on_a_machine():
    addresses, index = slurm.tasks(step("a[01-02]", "2,1", 1, 0, 1))
    assert addresses == ("a01:10112", "a01:10113", "a02:10112") and index == 1


def test_two_jobs_may_share_a_machine():
    both = [slurm.tasks(step("m", "2", 0, 0, 0, job=job))[0] for job in (70_001, 70_002)]
    assert not {*both[0]} & {*both[1]}


def test_lists_of_machines():
    assert slurm.hosts("rack[1-2]-ib[08,10]") == [
        *("rack1-ib08", "rack1-ib10", "rack2-ib08", "rack2-ib10")
    ]
    assert slurm.hosts("login.example.org,x[3]") == ["login.example.org", "x3"]


def test_what_it_cannot_tell_is_refused():
    with pytest.raises(UserError, match=r"expected srun --distribution=block"):
        slurm.tasks(step("n[1-2]", "2(x2)", 1, 1, 0))
    variables = step("n[1-2]", "1(x2)", 0, 0, 0)
    del variables["SLURM_STEP_NODELIST"]
    with pytest.raises(UserError, match="SLURM_STEP_NODELIST is not set"):
        slurm.tasks(variables)
    with pytest.raises(UserError, match=r"SLURM_STEP_NODELIST=n\[1: expected names"):
        slurm.tasks(step("n[1", "1(x2)", 0, 0, 0))
