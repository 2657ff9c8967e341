"""Kills a training again and again, and compares what becomes of it with one that was left alone.

    python scripts/crash_test.py DIR [--kills 20] [--seed 1] -- t2t-trainer FLAGS

FLAGS without --output_dir; `--deterministic` is added. DIR gets the two runs, `whole` and `killed`,
and the log of each start. Every third kill waits until a checkpoint is being written. Exit code 0:
weights and optimizer are equal to the bit, and each kill has met a training at work.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from safetensors.numpy import load_file

_LONGEST = 600  # seconds in which something must happen


def main() -> None:
    """Runs the test."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("command", nargs="+", help="after --: t2t-trainer FLAGS")
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    command = [*args.command, "--deterministic"]
    whole, killed = (args.folder / name for name in ("whole", "killed"))
    alone = Training(command, whole)
    alone.wait_for_line("step ")
    started = time.monotonic()
    alone.finish()
    seconds = time.monotonic() - started
    print(f"left alone: {seconds:.0f} s from its first update on", flush=True)
    chooser, late = random.Random(args.seed), 0
    for number in range(1, args.kills + 1):
        training = Training(command, killed)
        if number % 3 == 0:
            training.wait_for_new(killed / "checkpoints" / ".partial")
            time.sleep(chooser.random() * 0.02)
            moment = "while a checkpoint was written"
        else:
            training.wait_for_line("step ")
            pause = chooser.random() * seconds / args.kills
            time.sleep(pause)
            moment = f"{pause:.2f} s after its first update"
        met, said = training.kill()
        late += not met
        print(f"kill {number}: {moment}{'' if met else ', too late'}: {said}", flush=True)
    Training(command, killed).finish()
    different = compare(whole, killed)
    print("\n".join(different) if different else "equal to the bit")
    if late:
        print(f"{late} kills came too late: expected more train_steps, or fewer kills")
    sys.exit(bool(different or late))


class Training:
    """A training as a process of its own, whose stderr goes to a file."""

    def __init__(self, command: list[str], run: Path):
        self.started = time.time()
        number = len(list(run.parent.glob(f"{run.name}.*.log")))
        self.log = run.parent / f"{run.name}.{number:02}.log"
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen(
                [*command, f"--output_dir={run}"], stderr=file, start_new_session=True
            )

    def finish(self) -> None:
        """Waits for its end."""
        if code := self.process.wait():
            sys.exit(f"exit code {code}: {self.log.read_text()[-2000:]}")

    def wait_for_new(self, path: Path) -> None:
        """Until there is such a path that this process has made, or it has ended."""

        def is_new() -> bool:
            try:
                return path.stat().st_ctime > self.started
            except FileNotFoundError:
                return False

        self._wait(is_new, pause=0.001)

    def wait_for_line(self, beginning: str) -> None:
        """Until it has said such a line, or has ended."""
        self._wait(lambda: f"\n{beginning}" in self.log.read_text(errors="replace"), pause=0.02)

    def _wait(self, happened, pause: float) -> None:
        until = time.monotonic() + _LONGEST
        while not happened() and self.process.poll() is None:
            if time.monotonic() > until:
                sys.exit(f"nothing happened for {_LONGEST} s: {self.log}")
            time.sleep(pause)

    def kill(self) -> tuple[bool, str]:
        """Kills it; returns whether it was at work, and the last step that it had said."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        met = self.process.wait() == -signal.SIGKILL
        said = [line for line in self.log.read_text().splitlines() if line.startswith("step ")]
        return met, said[-1].split("  ")[0] if said else "no step said"


def compare(a: Path, b: Path) -> list[str]:
    """The names of files and arrays that differ between two runs."""
    different = []
    names = [{path.relative_to(run) for path in run.rglob("*.safetensors")} for run in (a, b)]
    different += [f"only in one: {name}" for name in sorted(map(str, names[0] ^ names[1]))]
    for name in sorted(names[0] & names[1]):
        mine, other = load_file(a / name), load_file(b / name)
        different += [
            f"{name}: {key}"
            for key in sorted(mine.keys() | other.keys())
            if key not in mine or key not in other or mine[key].tobytes() != other[key].tobytes()
        ]
    return different


if __name__ == "__main__":
    main()
