"""What SLURM tells the tasks of a job step: on which machines they run, and which one this is.

TensorFlow's SlurmClusterResolver sorts the machines by name, so that n10 comes before n9 and the
tasks are not where it says, and it does not start on machines without GPUs.
"""

import itertools
import re
from collections.abc import Iterator, Mapping

from t2t_lite.errors import UserError

# Ports follow from the job, so that two jobs may share a machine: below those that systems give
# to outgoing connections.
_FIRST_PORT, _JOBS, _TASKS = 10_000, 1_250, 16


def tasks(environment: Mapping[str, str]) -> tuple[tuple[str, ...], int]:
    """The addresses `host:port` of a step's tasks, in their order, and the place of this one.

    Raises UserError where SLURM's variables do not say it.
    """
    names = "JOB_ID", "PROCID", "NODEID", "LOCALID", "STEP_NODELIST", "STEP_TASKS_PER_NODE"
    values = {}
    for name in names:
        if (variable := f"SLURM_{name}") not in environment:
            raise UserError(f"{variable} is not set; expected a start by srun, or TF_CONFIG")
        values[name] = environment[variable]
    job, index, node, local = (int(values[name]) for name in names[:4])
    first_port = _FIRST_PORT + _TASKS * (job % _JOBS)
    counts = _counts(values["STEP_TASKS_PER_NODE"])
    places = [(n, i) for n, count in enumerate(counts) for i in range(count)]
    if index >= len(places) or places[index] != (node, local):
        raise UserError(
            f"task {index} of the SLURM step is not where its place among {len(places)} tasks "
            "says; expected srun --distribution=block"
        )
    nodes = hosts(values["STEP_NODELIST"])
    return tuple(f"{nodes[n]}:{first_port + i}" for n, i in places), index


def hosts(nodelist: str) -> list[str]:
    """`n[09-10],m` -> n09, n10, m. Raises UserError for what is no such list."""
    part = r"(?:[^,\[\]]|\[[-0-9,]+\])+"
    if not re.fullmatch(rf"{part}(,{part})*", nodelist):
        raise UserError(f"SLURM_STEP_NODELIST={nodelist}: expected names such as n[1-4]")
    return [host for name in re.findall(part, nodelist) for host in _expanded(name)]


def _expanded(name: str) -> Iterator[str]:
    """`n[09-10]` -> n09, n10."""
    pieces = re.split(r"\[(.+?)\]", name)  # text, range, text, ...
    choices = [[piece] if i % 2 == 0 else list(_range(piece)) for i, piece in enumerate(pieces)]
    return map("".join, itertools.product(*choices))


def _range(text: str) -> Iterator[str]:
    """`1-3,7` -> 1, 2, 3, 7, with the leading zeros that they have."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield str(number).zfill(len(first))


def _counts(text: str) -> list[int]:
    """`2(x3),1` -> 2, 2, 2, 1."""
    found = []
    for part in text.split(","):
        count, _, times = part.partition("(x")
        found += [int(count)] * int(times.rstrip(")") or 1)
    return found
