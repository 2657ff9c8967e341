"""Several machines that train together: which they are, what they agree on, which one is lost."""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from t2t_lite import slurm
from t2t_lite.errors import Failed, UserError

_ROLES = "chief", "worker"
_GROUP = 1_000_000  # TensorFlow's number for the workers' CPUs; a strategy counts its own from 1


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a training, each a process that is given the same command.

    Attributes:
        workers: `host:port` of each. The first is the chief, which alone writes and evaluates.
        index: this process's place among them.
    """

    workers: tuple[str, ...]
    index: int

    @property
    def is_chief(self) -> bool:
        """Whether this process is the first worker."""
        return self.index == 0

    def __str__(self) -> str:
        return f"worker {self.index} of {len(self.workers)}"

    def named(self, indices: Iterable[int]) -> str:
        """Workers with their addresses, in words."""
        return ", ".join(f"worker {n} ({self.workers[n]})" for n in sorted({*indices}))

    @contextlib.contextmanager
    def lost_workers_named(self) -> Iterator[None]:
        """Turns TensorFlow's errors about workers that do not answer into Failed, in one line."""
        import tensorflow as tf

        try:
            yield
        except tf.errors.OpError as error:
            gone = tf.errors.UnavailableError, tf.errors.DeadlineExceededError
            if not isinstance(error, gone) and "Collective ops is aborted" not in str(error):
                raise
            raise Failed(
                f"{self}: {self._lost(str(error))} does not answer any more; when all workers have "
                "ended, the same command on all of them goes on from the last checkpoint"
            ) from error

    def _lost(self, text: str) -> str:
        """The workers that an error of TensorFlow's is about."""
        found = {int(n) for n in re.findall(r"/job:worker(?:/replica:0)?/task:(\d+)", text)}
        lost = found & {*range(len(self.workers))} - {self.index}
        # Heartbeats go to the first worker, and an error about them does not say so.
        if not lost and "CoordinationService" in text and not self.is_chief:
            lost = {0}
        return self.named(lost) or "another worker"


def from_environment() -> Cluster | None:
    """The Cluster that TF_CONFIG, else SLURM's step, describes; None for one process alone.

    So is each task of a step with TF_CONFIG={}.

    Raises UserError for one that is none, or has roles that this training has not.
    """
    if "TF_CONFIG" in os.environ:
        return _from_tf_config(os.environ["TF_CONFIG"] or "{}")
    if int(os.environ.get("SLURM_STEP_NUM_TASKS") or 1) > 1:
        return Cluster(*slurm.tasks(os.environ))
    return None


def _from_tf_config(text: str) -> Cluster | None:
    expected = (
        'expected {"cluster": {"worker": ["HOST:PORT", ...]}, '
        '"task": {"type": "worker", "index": N}}'
    )
    try:
        config = json.loads(text)
        if config == {}:
            return None
        cluster, task = config["cluster"], config.get("task", {"type": "worker", "index": 0})
        role, index = task["type"], int(task["index"])
        sizes = {name: len(addresses) for name, addresses in cluster.items()}
        workers = [address for name in _ROLES for address in cluster.get(name, [])]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"TF_CONFIG={text:.200}: not a cluster; {expected}") from None
    for name in (*cluster, role):
        if name not in _ROLES:
            raise UserError(
                f"TF_CONFIG: role {name!r}: training has workers only, the first of which is the "
                f"chief and evaluates; {expected}"
            )
    for address in workers:
        if not isinstance(address, str) or not re.fullmatch(r".+:\d+", address):
            raise UserError(f"TF_CONFIG: address {address!r}; {expected}")
    if not 0 <= index < sizes.get(role, 0):
        raise UserError(
            f"TF_CONFIG: task {role} {index}: there are {sizes.get(role, 0)} of these; {expected}"
        )
    if role == "worker":
        index += sizes.get("chief", 0)
    return Cluster(tuple(workers), index) if len(workers) > 1 else None


class Agreement:
    """What all workers of a cluster tell each other.

    Args:
        cluster: Cluster, which this process has joined, or None for one process.
    """

    def __init__(self, cluster: Cluster | None):
        self.cluster = cluster

    def gather(self, *numbers: int) -> list[tuple[int, ...]]:
        """Everyone's numbers, worker by worker. All workers call it, with as many."""
        if self.cluster is None:
            return [numbers]
        import tensorflow as tf

        # On CPUs, so that what a GPU still has to do is not waited for.
        with tf.device(f"/job:worker/task:{self.cluster.index}/device:CPU:0"):
            rows = tf.raw_ops.CollectiveGatherV2(
                input=tf.constant([[self.cluster.index, *numbers]], tf.int64),
                group_size=len(self.cluster.workers),
                group_key=_GROUP,
                instance_key=len(numbers),  # one for each shape
                ordering_token=[],
                communication_hint="ring",
            )
        return [tuple(row[1:]) for row in sorted(rows.numpy().tolist())]

    def decide(self, stop: int | None, end: str | None) -> tuple[int | None, str | None]:
        """For all: the signal that any worker was given, and why the chief ends, if it does."""
        if self.cluster is None:
            return stop, end
        everyones = self.gather(stop or 0, bool(end))
        ends = everyones[0][1]
        return stop or max(everyones)[0] or None, (end or "ended by the chief") if ends else None

    def check(self, **values: Any) -> None:
        """Raises UserError, on all workers, where one's JSON value is not the chief's."""
        rows = self.gather(*map(_number, values.values()))
        for index, row in enumerate(rows):
            different = [n for n, mine, chiefs in zip(values, row, rows[0]) if mine != chiefs]
            if different:
                raise UserError(
                    f"worker {index} ({self.cluster.workers[index]}) has not the chief's "
                    f"{', '.join(different)}; expected the same command, the same data, and an "
                    "--output_dir that all machines see"
                )


def _number(value: Any) -> int:
    """Of a JSON value: the same for the same, and in all likelihood only for that."""
    text = json.dumps(value, sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)
