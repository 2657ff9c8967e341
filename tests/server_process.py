"""A t2t-server in a process of its own."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

COMMAND = [sys.executable, "-c", "from t2t_lite.cli.server import main; main()"]


@contextlib.contextmanager
def started(export, *flags, first: str = "") -> Iterator[tuple[subprocess.Popen, int]]:
    """The process and its port. It is ended by SIGTERM, and must end well, having said nothing.

    `first`: how a line begins that it says before it serves.
    """
    command = [*COMMAND, "--export_dir", str(export), "--port", "0", *map(str, flags)]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}  # as the command has it, unlike tests
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=quiet)
    try:
        line = process.stderr.readline()
        if first:
            assert line.startswith(first), line
            line = process.stderr.readline()
        found = re.fullmatch(r"serving \S+ version 1 at http://127\.0\.0\.1:(\d+)\n", line)
        assert found, line
        yield process, int(found[1])
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
