"""The parts of the benchmark that measure whole commands: data, and starting."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_pipeline import generate

from benchmarking.column import spread
from benchmarking.peers import COLUMNS, environment

PAIRS, SYMBOLS = 200_000, 8_000
PROBLEM, SET = "spelled_numbers_ende", "small"
SETTINGS = ["--set=train_steps=2", "--set=eval_steps=0", "--seed=1"]


def data(rounds: int, peers: bool) -> list[dict]:
    """Vocabulary and reading; ratios are to the first column."""
    columns = {"t2t_lite": (sys.executable, "data_t2t_lite.py")}
    if peers and (python := environment("opennmt")):
        columns["OpenNMT-tf"] = python, "data_opennmt.py"
    found = {name: [] for name in columns}
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(path) for path in generate(Path(folder), PAIRS)]
        for number in range(rounds):
            for name, (python, script) in columns.items():
                own = Path(folder) / f"{name}-{number}"
                own.mkdir()
                command = [python, str(COLUMNS / script), *paths, str(PAIRS), str(SYMBOLS), own]
                found[name].append(json.loads(_output(command).splitlines()[-1]))
    figures = []
    for case in ("vocabulary", "reading"):
        first = None
        for name, runs in found.items():
            seconds = spread([run[case] for run in runs])
            first = first or seconds["median"]
            each = {"part": "data", "case": f"{case}, {name}", "seconds": seconds}
            each["ratio"] = first / seconds["median"]  # of speeds
            if case == "reading":
                each["pairs_per_second"] = PAIRS / seconds["median"]
            figures.append(each)
    return figures


def start(rounds: int, peers: bool) -> list[dict]:
    """Seconds until first results; ratios are to the time of `import tensorflow`."""
    del peers  # none of them has all of these commands
    tools = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        run, again = Path(folder) / "run", Path(folder) / "again"
        training = [tools / "t2t-trainer", f"--problem={PROBLEM}", f"--hparams={SET}", *SETTINGS]
        training.append(f"--data_dir={folder}/data")
        _output([*training, f"--output_dir={run}"])
        line = Path(folder) / "line"
        line.write_text("twenty one\n")
        decoding = [tools / "t2t-decoder", f"--output_dir={run}", f"--input={line}"]
        cases = {
            "import tensorflow": ([sys.executable, "-c", "import tensorflow"], None),
            "t2t-decoder: one line, the whole command": (decoding, None),
            "t2t-server: ready": (
                [tools / "t2t-server", f"--output_dir={run}", "--port=0"],
                r"http://",
            ),
            "t2t-trainer: first update, known corpus": (
                [*training, f"--output_dir={again}"],
                r"step +1\b",
            ),
        }
        seconds = {name: [] for name in cases}
        for number in range(rounds + 1):
            for name, (command, line) in cases.items():
                took = _until(list(map(str, command)), line)
                if number:  # the first fills the caches of the disk
                    seconds[name].append(took)
            subprocess.run(["rm", "-rf", again], check=True)
    spreads = {name: spread(each) for name, each in seconds.items()}
    base = spreads["import tensorflow"]["median"]
    return [
        {"part": "start", "case": name, "seconds": each, "ratio": each["median"] / base}
        for name, each in spreads.items()
    ]


def _until(command: list[str], line: str | None) -> float:
    """Seconds until the command prints such a line, and is stopped then; None: until it ends."""
    started = time.perf_counter()
    if line is None:
        _output(command)
        return time.perf_counter() - started
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment()
    ) as process:
        said = []
        for text in process.stdout:
            said.append(text)
            if re.search(line, text):
                seconds = time.perf_counter() - started
                process.terminate()
                with contextlib.suppress(BrokenPipeError):
                    process.communicate()
                return seconds
    raise RuntimeError(f"{command[0]}: no line with {line!r}: {''.join(said)[-300:]}")


def _output(command) -> str:
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=_environment()
    )
    if result.returncode:
        raise RuntimeError(f"{command[0]}: {result.returncode}: {result.stderr.strip()[-300:]}")
    return result.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
