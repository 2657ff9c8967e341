"""t2t-server as a process of its own: clients that are slow, greedy, gone or many.

And how it starts and ends.
"""

import contextlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from server_process import COMMAND, started

from t2t_lite.cli import server

LINES = [
    f"{word} words of {other} text"
    for word in ("many", "plain", "some more")
    for other in ("plain", "the", "")
]


@pytest.fixture(scope="module")
def export(translator_export):
    return translator_export.folder


@pytest.fixture(scope="module")
def port(export):
    """The port of a server for the tests that leave it running."""
    with started(export, "--timeout", 1, "--max_body_bytes", 100_000) as (_, port):
        yield port


@pytest.fixture(scope="module")
def unchanged(port):
    """Asserts that the server answers 100 lines, alone and together, as before any other test."""
    lines = [f"{line} {number}" for number in range(12) for line in LINES][:100]

    def alone():
        client = Client(port)
        return [client.predict([line])[0] for line in lines]

    wanted = alone()

    def check():
        assert equal(alone(), wanted) and equal(Client(port).predict(lines), wanted)

    return check


class Client:
    """A connection to the server, kept open."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def predict(self, lines: list[str]) -> list[dict]:
        status, answer = self.post(json.dumps({"instances": lines}).encode())
        assert status == 200, answer
        return answer["predictions"]

    def post(self, body, **options) -> tuple[int, dict]:
        self.connection.request("POST", "/v1/models/numbers:predict", body, **options)
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())


def raw(port: int, *parts: bytes) -> socket.socket:
    """A connection in which the parts have been sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    for part in parts:
        connection.sendall(part)
    return connection


def head(length: int) -> bytes:
    return (
        b"POST /v1/models/numbers:predict HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n"
        % length
    )


def equal(found: list[dict], wanted: list[dict]) -> bool:
    return [value["text"] for value in found] == [value["text"] for value in wanted] and [
        value["score"] for value in found
    ] == pytest.approx([value["score"] for value in wanted], abs=1e-4)


def test_a_body_too_large_is_refused(port, unchanged):
    client = Client(port)
    error = {"error": "the body is too large; expected at most 100,000 bytes"}
    assert client.post(b" " * 3_000_000) == (413, error)
    assert client.post(iter([b" " * 10_000] * 300), encode_chunked=True) == (
        413,
        error,
    )  # no length is told
    assert client.post(b" " * 3_000_000, headers={"Connection": "close"}) == (413, error)
    connection = raw(
        port, b"POST /v1/models/numbers:predict HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n"
    )
    connection.sendall(b"Content-Length: 3000000\r\n\r\n")
    assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")  # instead of 100
    unchanged()


@pytest.mark.thorough
def test_slow_clients_hold_up_nobody_and_end(port, unchanged):
    slow = [raw(port, head(1000)) for _ in range(20)]  # their bodies would take 100 s
    headers = [raw(port, b"POST /v1/models/numbers:predict HTTP/1.1\r\n") for _ in range(20)]
    silent = [raw(port) for _ in range(20)]
    stop = threading.Event()

    def dribble():
        while not stop.wait(0.1):
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(b" ")
            for connection in headers:
                with contextlib.suppress(OSError):
                    connection.sendall(b"a")

    thread = threading.Thread(target=dribble)
    thread.start()
    assert Client(port).predict(LINES)
    answers = [connection.recv(1000) for connection in slow]
    assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers), answers
    for connection in (*headers, *silent):
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1000) == b""
    stop.set()
    thread.join()
    unchanged()


@pytest.mark.thorough
def test_clients_that_do_not_read_end(port, unchanged, translator_export):
    [word] = translator_export.run.vocabularies().source.encode_lines(["snow"])
    text = "snow " * (490 // (len(word) - 1))  # one request may ask for 500 x 500 positions
    message = {"signature_name": "attention", "instances": [{"text": text, "target": text}]}
    status, answer = Client(port).post(json.dumps(message).encode())
    assert (
        status == 200 and len(json.dumps(answer)) > 4_500_000
    )  # more than the system takes for a client
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    silent.settimeout(60)
    silent.connect(("127.0.0.1", port))
    body = json.dumps(message).encode()
    silent.sendall(head(len(body)) + body)
    time.sleep(10)
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while part := silent.recv(100_000):
            received += part
            assert not received.endswith(b"]}\n")  # its end
    assert received.startswith(b"HTTP/1.1 200 ")
    unchanged()


@pytest.mark.thorough
def test_clients_that_are_killed(port, unchanged):
    lines = LINES * 11
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", _HAMMER, str(port), json.dumps(lines[seed::10] * 20)],
            stdout=subprocess.PIPE,
        )
        for seed in range(3)
    ]
    for hammer in clients:
        hammer.stdout.readline()
    bodies = [json.dumps({"instances": lines}).encode()] * 10
    gone = [raw(port, head(len(body)), body) for body in bodies] + [
        raw(port, head(1000), b"[") for _ in range(10)
    ]
    for hammer in clients:
        hammer.kill()
        hammer.wait()
    for connection in gone:
        connection.close()
    unchanged()


_HAMMER = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
body = json.dumps({"instances": json.loads(sys.argv[2])})
while True:
    connection.request("POST", "/v1/models/numbers:predict", body)
    print(flush=True)
    connection.getresponse().read()
"""


@pytest.mark.thorough
def test_sigterm_under_load_loses_no_request(export):
    answers, lost, begun = [], [], threading.Barrier(9)

    def hammer(port, line):
        client = Client(port)
        begun.wait()
        while True:
            try:
                client.connection.connect()
            except OSError:
                return  # no longer accepted
            while client.connection.sock:  # until the server says that it closes it
                try:
                    answers.append((line, client.predict([line])[0]))
                except (OSError, http.client.HTTPException, AssertionError) as error:
                    lost.append(error)
                    return

    with started(export) as (process, port):
        wanted = {line: Client(port).predict([line])[0] for line in LINES[:8]}
        threads = [threading.Thread(target=hammer, args=(port, line)) for line in wanted]
        for thread in threads:
            thread.start()
        body = json.dumps({"instances": LINES}).encode()
        uploading = raw(port, head(len(body)), body[:20])
        begun.wait()
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
        uploading.sendall(body[20:])
        assert uploading.makefile("rb").read().startswith(b"HTTP/1.1 200 ")
        for thread in threads:
            thread.join()
        assert process.wait(15) == 0
    assert lost == [] and len(answers) > 16
    assert all(equal([found], [wanted[line]]) for line, found in answers)


@pytest.mark.thorough
def test_what_is_unanswered_in_the_end_is_told_so(export):
    with started(export, "--max_batch_lines", 1) as (process, port):
        body = json.dumps({"instances": ["many plain words of some text"] * 10_000}).encode()
        waiting, sending = raw(port, head(len(body)), body), raw(port, head(1000), b"[")
        assert Client(port).predict(LINES[:1])  # so both have arrived
        process.send_signal(signal.SIGTERM)
        for connection in (waiting, sending):
            answer = connection.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.1 503 ") and answer.endswith(
                b'{"error":"the server stops"}'
            )
        assert process.wait(15) == 0


@pytest.mark.thorough
def test_a_new_version_while_serving_loses_no_request(export, tmp_path):
    """It is copied in bit by bit; the one before answers until it can be served, and in between."""
    folder = tmp_path / "numbers"
    shutil.copytree(export / "1", folder / "1")
    (folder / "3").mkdir()  # which is broken
    answers, lost, stop = [], [], threading.Event()

    def hammer(port):
        client = Client(port)
        while not stop.is_set():
            try:
                answers.append(client.predict(LINES[:1])[0])
            except (OSError, http.client.HTTPException, AssertionError) as error:
                lost.append(error)
                return

    with started(folder, "--poll_seconds", 0.1, first="skipped") as (process, port):
        threads = [threading.Thread(target=hammer, args=(port,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        shutil.copytree(export / "1", tmp_path / "2")
        for file in sorted((tmp_path / "2").rglob("*"), reverse=True):
            if file.is_file():
                target = folder / "2" / file.relative_to(tmp_path / "2")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
        said = []
        while "version 1 is released\n" not in said:
            said.append(process.stderr.readline())
        stop.set()
        for thread in threads:
            thread.join()
        client = Client(port)
        client.connection.request("GET", "/v1/models/numbers")
        status = json.loads(client.connection.getresponse().read())["model_version_status"]
    assert said[-3:] == [
        f"loading {folder}/2\n",
        "serving numbers version 2 instead of 1\n",
        "version 1 is released\n",
    ]
    assert [(about["version"], about["state"]) for about in status] == [
        ("3", "END"), ("2", "AVAILABLE"), ("1", "END"),
    ]  # fmt: skip
    assert lost == [] and len(answers) > 3 and equal(answers, answers[:1] * len(answers))


def test_a_port_in_use_is_one_line(port, export):
    result = subprocess.run(
        [*COMMAND, "--export_dir", str(export), "--port", str(port)], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(
        f"t2t-server: error: --host 127.0.0.1 --port {port}: Address already in use; expected"
    )
    assert result.stderr.count("\n") == 1


def test_mistakes_are_one_line(refusal, export, tmp_path):
    for flags, message in [
        (
            ["--export_dir", tmp_path],
            f"{tmp_path}: no export there (no <version>/saved_model.pb)",
        ),
        (
            ["--export_dir", export, "--name", "a b"],
            "name 'a b': expected letters, digits, dots and dashes only",
        ),
        (
            ["--export_dir", export, "--poll_seconds", "-1"],
            "--poll_seconds=-1: expected at least 0",
        ),
        (["--export_dir", export, "--poll_seconds", "nan"], "--poll_seconds=nan: expected at"),
        (["--export_dir", export, "--port", "70000"], "--port=70000: expected 0 to 65535"),
        (["--export_dir", export, "--host", "192.0.2.1"], "--host 192.0.2.1 --port 8501: "),
        (["--export_dir", export, "--max_lines", "0"], "--max_lines=0: expected more than 0"),
        (
            ["--export_dir", export, "--max_lines", "30000"],
            "--max_waiting_lines=20000: expected at least --max_lines=30000",
        ),
        (
            ["--export_dir", export, "--exportdir", export],
            "unknown flag --exportdir; nearest: --export_dir",
        ),
        ([], "the following arguments are required: --export_dir"),
    ]:
        flags = flags if "--port" in flags or "--host" in flags else [*flags, "--port", 0]
        assert message in refusal(server, *flags)


def test_a_missing_extra_is_one_line(refusal, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    message = refusal(server, "--export_dir", tmp_path)
    assert 'pip install "t2t_lite[serve]"' in message and "uvicorn is missing" in message


def test_help_does_not_load_tensorflow():
    code = "import sys; from t2t_lite.cli import server; server.parser()"
    code += "; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
