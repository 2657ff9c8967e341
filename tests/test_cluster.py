"""Several machines: which workers TF_CONFIG and SLURM name, and two of them that train.

Those are two processes on this machine.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from t2t_lite.cluster import Agreement, Cluster, from_environment
from t2t_lite.errors import Failed, UserError

TWO = ["a:1000", "b:1001"]


def environment(monkeypatch, cluster, role="worker", index=1):
    config = {"cluster": cluster, "task": {"type": role, "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    return from_environment()


def test_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert from_environment() is None
    assert environment(monkeypatch, {"worker": TWO}) == Cluster(("a:1000", "b:1001"), 1)
    with_chief = {"worker": TWO, "chief": ["c:1002"]}
    assert environment(monkeypatch, with_chief) == Cluster(("c:1002", "a:1000", "b:1001"), 2)
    chief = environment(monkeypatch, with_chief, "chief", 0)
    assert chief.is_chief and str(chief) == "worker 0 of 3"
    assert environment(monkeypatch, {"worker": ["a:1"]}, index=0) is None


@pytest.mark.parametrize(
    "config, message",
    [
        ("{", "not a cluster"),
        ("[]", "not a cluster"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', None),  # the first of them
        ({"cluster": {"ps": TWO}, "task": {"type": "ps", "index": 0}}, "role 'ps'"),
        ({"cluster": {"worker": TWO}, "task": {"type": "evaluator", "index": 0}}, "'evaluator'"),
        ({"cluster": {"worker": TWO}, "task": {"type": "worker", "index": 2}}, "there are 2 of"),
        ({"cluster": {"worker": TWO}, "task": {"type": "worker", "index": -1}}, "worker -1"),
        ({"cluster": {"worker": ["a", "b:1"]}, "task": {"type": "worker", "index": 0}}, "'a'"),
        ({"cluster": {"worker": 3}, "task": {"type": "worker", "index": 0}}, "not a cluster"),
    ],
)
def test_what_is_no_cluster_is_refused_in_one_line(monkeypatch, config, message):
    monkeypatch.setenv("TF_CONFIG", config if isinstance(config, str) else json.dumps(config))
    if message is None:
        assert from_environment().index == 0
        return
    with pytest.raises(UserError, match=re.escape(message)) as error:
        from_environment()
    assert "TF_CONFIG" in str(error.value) and "\n" not in str(error.value)


def test_slurm(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in {
        "JOB_ID": "0",
        "PROCID": "3",
        "NODEID": "1",
        "LOCALID": "1",
        "STEP_NUM_TASKS": "4",
        "STEP_NODELIST": "node[07-08]",
        "STEP_TASKS_PER_NODE": "2(x2)",
    }.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    workers = ("node07:10000", "node07:10001", "node08:10000", "node08:10001")
    assert from_environment() == Cluster(workers, 3)
    for alone in "", "{}":
        monkeypatch.setenv("TF_CONFIG", alone)
        assert from_environment() is None
    monkeypatch.delenv("TF_CONFIG")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert from_environment() is None


@pytest.mark.parametrize(
    "text, index, lost",
    [
        ("from remote target /job:worker/replica:0/task:1 while calling", 0, "worker 1 (b:1001)"),
        ("Error reported from /job:worker/task:0: unhealthy", 1, "worker 0 (a:1000)"),
        (
            "Deadline Exceeded RPC: /tensorflow.CoordinationService/Heartbeat",
            1,
            "worker 0 (a:1000)",
        ),
        ("something else", 0, "another worker"),
    ],
)
def test_a_lost_worker_is_named(text, index, lost):
    import tensorflow as tf

    cluster = Cluster(tuple(TWO), index)
    with pytest.raises(Failed, match=re.escape(f"worker {index} of 2: {lost} does not answer")):
        with cluster.lost_workers_named():
            raise tf.errors.UnavailableError(None, None, text)


class Said(Agreement):
    """An Agreement whose other worker says what it is told to."""

    def __init__(self, *other):
        super().__init__(Cluster(tuple(TWO), 0))
        self.other = other

    def gather(self, *numbers):
        return [numbers, self.other or numbers]


def test_agreement():
    alone = Agreement(None)
    assert alone.gather(3, 4) == [(3, 4)] and alone.decide(15, None) == (15, None)
    alone.check(step=3)
    assert Said(0, 0).decide(None, "done") == (None, "done")
    assert Said(15, 0).decide(None, None) == (15, None)
    assert Said(0, 1).decide(None, None) == (None, None)  # it is for the chief to end
    Said().check(step=3, data=["a", {"b": 1}])
    with pytest.raises(UserError, match=r"worker 1 \(b:1001\) has not the chief's step, data"):
        Said(1, 2).check(step=3, data="x")


SIZES = (
    "num_encoder_layers=1 num_decoder_layers=1 d_model=16 d_ff=32 d_k=8 d_v=8 num_heads=2 "
    "batch_tokens=512 checkpoint_steps=10 eval_steps=25 report_steps=1 warmup_steps=5"
)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Workers:
    """Processes that train together on this machine."""

    def __init__(self, tmp_path, run, *flags, count=2, others=None):
        self.run = tmp_path / run
        command = [
            *(sys.executable, "-c", "from t2t_lite.cli.trainer import main; main()"),
            *("--problem=spelled_numbers_ende", "--hparams=tiny", f"--data_dir={tmp_path}/data"),
            *(f"--set={size}" for size in SIZES.split()),
            *flags,
        ]
        ports = free_ports(count) if count > 1 else []
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        self.processes = []
        for index in range(count):
            config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
            more = {"TF_CONFIG": json.dumps(config)} if count > 1 else {}
            path = tmp_path / others if index and others else self.run
            self.processes.append(
                subprocess.Popen(
                    [*command, f"--output_dir={path}"],
                    stderr=subprocess.PIPE,
                    text=True,
                    env=os.environ | more,
                )
            )

    def ends(self) -> list[tuple[int, str]]:
        """(exit code, stderr) of each."""
        said = [process.communicate(timeout=300)[1] for process in self.processes]
        return [(process.returncode, text) for process, text in zip(self.processes, said)]

    def wait_for_step(self, step):
        for line in self.processes[0].stderr:
            if line.startswith(f"step {step}/"):
                return
        raise AssertionError(f"it ended before step {step}")

    def losses(self):
        entries = map(json.loads, (self.run / "log.jsonl").read_text().splitlines())
        return {entry["step"]: entry["loss"] for entry in entries if entry["kind"] == "train"}


@pytest.fixture
def trained(tmp_path):
    """Trains to the end; -> Workers."""

    def train(run, *flags, **options):
        workers = Workers(tmp_path, run, *flags, **options)
        for code, said in workers.ends():
            assert code == 0, said
        return workers

    return train


@pytest.mark.thorough
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_two_workers_train_as_one_does(trained, dropout):
    """With dropout as one with two devices, whose masks they have."""
    flags = ["--set=train_steps=50", f"--set=dropout={dropout}"]
    devices = ["--logical_devices=2"] if dropout else []
    one, two = trained("one", *flags, *devices, count=1), trained("two", *flags)
    assert len(one.losses()) == len(two.losses()) == 50
    for step, loss in one.losses().items():
        assert two.losses()[step] == pytest.approx(loss, rel=1e-5), step
    a, b = (load_file(run.run / "averaged.safetensors") for run in (one, two))
    for name, value in a.items():
        np.testing.assert_allclose(b[name], value, atol=1e-5, err_msg=name)
    names = [
        sorted(str(f.relative_to(w.run)) for f in w.run.rglob("*.safetensors")) for w in (one, two)
    ]
    assert names[0] == names[1]
    assert len(list((two.run / "tensorboard").iterdir())) == 1


@pytest.mark.parametrize(
    "victim, how",
    [
        pytest.param(0, signal.SIGKILL, marks=pytest.mark.thorough),
        pytest.param(1, signal.SIGSTOP, marks=pytest.mark.thorough),
        pytest.param(1, signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param(0, signal.SIGSTOP, marks=pytest.mark.slow),
    ],
)
def test_the_others_end_when_one_is_lost_and_all_resume(trained, tmp_path, victim, how):
    workers = Workers(tmp_path, "run", "--set=train_steps=100000", "--set=dropout=0.3")
    workers.wait_for_step(12)
    lost, other = workers.processes[victim], workers.processes[1 - victim]
    lost.send_signal(how)
    started = time.monotonic()
    said = other.communicate(timeout=90)[1]
    assert time.monotonic() - started < 90
    lost.kill()
    lost.communicate()
    line = said.splitlines()[-1]
    assert other.returncode == 1 and f"worker {1 - victim} of 2: worker {victim} (127." in line
    [*_, last] = sorted((workers.run / "checkpoints").glob("step-*"))
    step = int(last.name[5:])
    again = trained("run", f"--set=train_steps={step + 2}", "--set=dropout=0.3")
    assert max(again.losses()) >= step + 2


@pytest.mark.thorough
def test_a_signal_to_one_stops_all_after_the_same_update(trained, tmp_path):
    workers = Workers(tmp_path, "run", "--set=train_steps=100000")
    workers.wait_for_step(12)
    workers.processes[1].terminate()
    (chief, said), (other, others) = workers.ends()
    assert chief == other == 128 + signal.SIGTERM
    [step] = set(re.findall(r"saved step ([\d,]+) of", said))
    assert f"{int(step.replace(',', '')):08}" in {
        path.name[5:] for path in (workers.run / "checkpoints").glob("step-*")
    }


@pytest.mark.thorough
def test_workers_that_see_other_runs_are_told_so(trained, tmp_path):
    trained("run", "--set=train_steps=10", count=1)
    flags = ["--set=train_steps=20", "--devices_changed=continue"]
    workers = Workers(tmp_path, "run", *flags, others="elsewhere")
    for code, said in workers.ends():
        assert code == 2 and "has not the chief's step" in said.splitlines()[-1], said
