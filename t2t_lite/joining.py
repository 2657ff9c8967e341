"""Joining the other workers of a cluster: within a limit, and so that a lost one is noticed."""

import concurrent.futures
import re
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import tensorflow as tf

from t2t_lite.cluster import Cluster
from t2t_lite.errors import Failed, UserError

WAIT = 15 * 60  # seconds in which all workers must come
_SILENCE = 40  # seconds after which a worker counts as lost

_Result = TypeVar("_Result")


def join(cluster: Cluster) -> tf.distribute.Strategy:
    """The strategy of all workers, once they are there.

    Raises UserError for a host that is not known, Failed where the own port is in use, or workers
    do not come.
    """
    _check_addresses(cluster)
    _set_limits(len(cluster.workers))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.workers)}),
        task_type="worker",
        task_id=cluster.index,
        rpc_layer="grpc",
    )
    try:
        return _with_signals(lambda: tf.distribute.MultiWorkerMirroredStrategy(resolver))
    except tf.errors.DeadlineExceededError as error:
        raise Failed(
            f"{cluster}: {_missing(cluster, str(error))} did not come in {WAIT / 60:g} minutes; "
            "expected the same command on all machines, and that each reaches the others' ports"
        ) from None


def _check_addresses(cluster: Cluster) -> None:
    """Finds what TensorFlow would wait for in vain."""
    for index, address in enumerate(cluster.workers):
        host, _, port = address.rpartition(":")
        expected = "expected HOST:PORT of a machine"
        if not 0 < int(port) < 1 << 16:
            raise UserError(f"worker {index}: {address}: no port; {expected}")
        try:
            socket.getaddrinfo(host.strip("[]"), int(port))
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"worker {index}: {address}: {reason}; {expected}") from None
    port = int(cluster.workers[cluster.index].rpartition(":")[2])
    # TensorFlow would share it with the process that has it.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise Failed(f"{cluster}: port {port}: {error.strerror}") from None


def _set_limits(count: int) -> None:
    """How long TensorFlow's coordination service waits; it has no public name for that."""
    from tensorflow.python.eager import context

    jobs = tf.compat.v1.ConfigProto().experimental.coordination_config.coordinated_job_list
    context.context().configure_coordination_service(
        "standalone",
        "/job:worker/replica:0/task:0",
        cluster_register_timeout_in_ms=1000 * WAIT,
        heartbeat_timeout_in_ms=1000 * _SILENCE,
        coordinated_jobs=[jobs.add(name="worker", num_tasks=count)],
    )
    # Without it the first worker waits for ever.
    context.context()._coordination_service_config.cluster_register_with_barrier = True


def _with_signals(wait: Callable[[], _Result]) -> _Result:
    """What `wait` returns. Meanwhile Ctrl-C and SIGTERM end the process, unless they are handled.

    Python would notice Ctrl-C when the wait is over. SIGTERM TensorFlow takes for itself in it, and
    does nothing then.
    """
    if threading.current_thread() is not threading.main_thread():  # others may set no handler
        return wait()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    waiting = ThreadPoolExecutor(1).submit(wait)
    try:
        while not concurrent.futures.wait([waiting], timeout=0.5).done:
            signal.signal(signal.SIGTERM, before[signal.SIGTERM])
        return waiting.result()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _missing(cluster: Cluster, text: str) -> str:
    """The workers that TensorFlow's error is about."""
    if not (found := re.search(r"timed out task names:\s*((?:/job:worker\S+\s*)+)", text)):
        return cluster.named([0])  # the others wait for the first, which knows who is there
    return cluster.named(map(int, re.findall(r"task:(\d+)", found[1])))
