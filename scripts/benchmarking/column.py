"""A column of the benchmark: a process that stays, and measures when it is asked to."""

import json
import statistics
import subprocess
from pathlib import Path

from benchmarking.work import Work


class Column:
    """A started process.

    Args:
        name: for the table.
        command: of a script of columns/, which gets the folder of its work as the last argument.
        work: what it does in a round.
        folder: an empty one, of its own.

    Attributes:
        first: seconds from the start of the process to the end of the first update or search.
    """

    def __init__(self, name: str, command: list[str], work: Work, folder: Path):
        self.name, self.work, self._rounds = name, work, []
        work.write(folder)
        self._log = open(folder / "log", "w")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [*command, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self.first = self._answer()["first"]

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            self._log.flush()
            tail = Path(self._log.name).read_text(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"{self.name}: ended with {self._process.wait()}: {tail}")
        return json.loads(line)

    def measure(self) -> None:
        """A round."""
        self._process.stdin.write("measure\n")
        self._process.stdin.flush()
        self._rounds.append(self._answer())

    def close(self) -> list[dict]:
        """Ends the process; the figures of each case."""
        self._process.stdin.close()
        peak = self._answer()["peak_mib"]
        self._process.wait()
        self._log.close()
        return [self._figures(name, *counts, peak) for name, counts in self.work.cases.items()]

    def _figures(self, case: str, count: int, adds: int, peak: float) -> dict:
        seconds = [each["seconds"][case] for each in self._rounds]
        rates = [each["multiply_adds_per_second"] for each in self._rounds]
        return {
            "part": self.work.part,
            "size": self.work.size,
            "case": case,
            "column": self.name,
            "unit": self.work.unit,
            "speed": spread([count / s for s in seconds]),
            "gflops_of_matrix_products": spread([2 * rate / 1e9 for rate in rates]),
            "share_of_matrix_rate": spread([adds / s / r for s, r in zip(seconds, rates)]),
            "first_seconds": self.first,
            "peak_mib": peak,
        }


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}
