"""What keeps a process from joining others, each said in one line."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from t2t_lite import joining
from t2t_lite.cluster import Cluster
from t2t_lite.errors import Failed, UserError

# Joins a cluster of this machine's ports, within a limit.
JOIN = """
import os
import sys
from t2t_lite.cluster import Cluster
from t2t_lite.errors import Failed
from t2t_lite.runtime import start_tensorflow
start_tensorflow()
from t2t_lite import joining
index, joining.WAIT, *ports = map(int, sys.argv[1:])
cluster = Cluster(tuple(f"127.0.0.1:{port}" for port in ports), index)
print("joining", flush=True)
try:
    print(joining.join(cluster).num_replicas_in_sync, flush=True)
    sys.stdin.readline()
except Failed as error:
    print(error)
except KeyboardInterrupt:
    os._exit(130)  # at once: TensorFlow's own end waits for the others
"""


def start(index, wait, *ports):
    """A process that joins."""
    return subprocess.Popen(
        [sys.executable, "-c", JOIN, *map(str, (index, wait, *ports))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
        text=True,
    )


def free_ports(count):
    """Ports of this machine that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for_listener(port):
    """Until TensorFlow's server is there, and with it what TensorFlow does with signals."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port)).close()


def ended(process, number):
    """The exit code of a process that gets a signal, more than once.

    For a moment TensorFlow has it, and one that comes just before a read does not end that read.
    """
    for _ in range(60):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(1)


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(Failed, match=f"^worker 0 of 2: port {port}: Address already in use$"):
            joining.join(Cluster((f"localhost:{port}", "localhost:1"), 0))


@pytest.mark.parametrize("address", ["no host:1", ".:1", "localhost:99999"])
def test_an_address_that_is_none_is_named(address):
    with pytest.raises(UserError, match=f"^worker 1: {re.escape(address)}: .*; expected HOST:PORT"):
        joining.join(Cluster(("localhost:1", address), 0))


@pytest.mark.parametrize("index", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_who_does_not_come_is_named(index):
    process = start(index, 1, *(ports := free_ports(2)))
    said = process.communicate(timeout=100)[0].splitlines()[-1]
    other = 1 - index
    expected = f"worker {index} of 2: worker {other} (127.0.0.1:{ports[other]}) did not come in "
    assert said.startswith(expected), said


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_wait_and_what_comes_after_it(number):
    ports = free_ports(2)
    waiting = start(0, 60, *ports)
    assert waiting.stdout.readline() == "joining\n"
    wait_for_listener(ports[0])
    assert ended(waiting, number) == -number
    joined = [start(index, 60, *ports) for index in range(2)]
    for process in joined:
        assert [process.stdout.readline() for _ in range(2)] == ["joining\n", "2\n"]
    assert ended(joined[1], number) in (-number, 130)
    joined[0].kill()
    joined[0].wait()
