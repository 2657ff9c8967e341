"""Measures training side by side: t2t_lite, and PyTorch's nn.Transformer, on the same batches.

python scripts/benchmark.py [--sizes tiny small base] [--peers] [--json FILE]

Each column is a process of its own, which stays. They are asked in turn, round by round, so that
only one works at a time and what slows the machine down hits all alike. A figure is the median of
the rounds, with the least and the most.

tokens/s are real target sub-words, padding not counted. The share is that of the machine's rate of
matrix products: an update's multiply-adds are 3 x rows x `t2t_lite.models.size.multiply_adds`
(forward, and two products of the same size for the gradients; padding is computed too), and the
rate is measured in the same process, round and precision, by products of the model's own shapes:
[batch_tokens, D] with [D, D], [D, F] and [D, V]. Lengths are drawn like those of short captions
(mean 14 sub-words a side); no text is needed.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from t2t_lite import registry
from t2t_lite.config import HParams
from t2t_lite.data.buckets import Bucket, bucket_numbers, fit_buckets
from t2t_lite.models.size import multiply_adds
from t2t_lite.runtime import cores

FOLDER = Path(__file__).parent / "benchmark_columns"
# Columns: the script, and what it is to do.
OURS = {
    "t2t_lite float32": ["--precision=float32"],
    "t2t_lite float32 packing": ["--precision=float32", "--packing"],
    "t2t_lite float32 XLA": ["--precision=float32", "--xla"],
    "t2t_lite bfloat16": ["--precision=bfloat16"],
    "t2t_lite bfloat16 packing": ["--precision=bfloat16", "--packing"],
    "t2t_lite bfloat16 XLA": ["--precision=bfloat16", "--xla"],
}
PYTORCH = {
    "PyTorch float32": ["--precision=float32"],
    "PyTorch bfloat16 autocast": ["--precision=bfloat16"],
}
PYTORCH_NEEDS = ["torch>=2.4,<3", "numpy>=1.26"]  # from 2.4 on autocast has bfloat16 on all CPUs
VOCABULARIES = {"tiny": 2_000, "small": 8_000, "base": 32_768}
UPDATES = {"tiny": 16, "small": 6, "base": 2}  # of a round
BATCH_TOKENS = 4_096
INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def flags() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sizes", nargs="+", choices=VOCABULARIES, default=["small"], help="default: small")
    add("--columns", nargs="+", metavar="NAME", help="those whose names hold one of these")
    add("--rounds", type=int, default=5, help="default: 5")
    add("--threads", type=int, default=cores(), help="of each column (default: all)")
    help = "PyTorch too, in .venv-pytorch, which is made where it is missing"
    add("--peers", action="store_true", help=help)
    add("--pytorch", metavar="PYTHON", help="PyTorch too, in this interpreter's environment")
    add("--json", metavar="FILE", help="write all figures there")
    return parser.parse_args()


@dataclasses.dataclass
class Work:
    """The batches of a size, as every column gets them."""

    size: str
    hparams: HParams
    batches: list[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, size: str, packing: bool = False) -> "Work":
        """Batches of generated ids, a round's; each sequence ends in 1, then padding, 0."""
        h = registry.hparams(size).replace(
            batch_tokens=BATCH_TOKENS, max_length=64, packing=packing
        )
        random = np.random.default_rng(1)
        lengths = np.clip(random.lognormal(2.55, 0.35, [40_000, 1]), 3, 63)
        lengths = np.clip(lengths * random.normal(1.0, 0.12, [40_000, 2]), 3, 63).astype(int) + 1
        if packing:
            return cls(size, h, _packed(random, lengths, h, size))
        buckets = shapes(lengths, h)
        numbers, batches = bucket_numbers(buckets, lengths), []
        # Each bucket as often as the corpus has it.
        for number in random.choice(numbers, UPDATES[size]):
            bucket, those = buckets[number], lengths[numbers == number]
            rows = those[random.integers(len(those), size=bucket.rows)]
            widths = bucket.source_length, bucket.target_length
            batches.append(
                tuple(
                    _ids(random, rows[:, side], width, VOCABULARIES[size])
                    for side, width in enumerate(widths)
                )
            )
        return cls(size, h, batches)

    @property
    def tokens(self) -> int:
        """Target symbols of a round."""
        return sum(int(np.count_nonzero(targets)) for _, targets in self.batches)

    @property
    def multiply_adds(self) -> int:
        """Of a round's updates."""
        symbols = VOCABULARIES[self.size]
        return sum(
            3 * len(a) * multiply_adds(self.hparams, symbols, a.shape[1], b.shape[1])
            for a, b in self.batches
        )

    def write(self, folder: Path) -> None:
        """work.json and batches.npz."""
        about = {"hparams": self.hparams.to_dict(), "vocabulary": VOCABULARIES[self.size]}
        (folder / "work.json").write_text(json.dumps(about))
        arrays = {f"{i}.{side}": a for i, b in enumerate(self.batches) for side, a in enumerate(b)}
        np.savez(folder / "batches.npz", **arrays)


def shapes(lengths: np.ndarray, h: HParams) -> list[Bucket]:
    """Those of batches, fitted as t2t-trainer fits them."""
    names = ("batch_tokens", "max_length", "num_buckets", "packing")
    return fit_buckets(lengths, **{name: getattr(h, name) for name in names})


def _ids(random, lengths, width, vocabulary) -> np.ndarray:
    """int32 [N, width]."""
    ids = random.integers(3, vocabulary, [len(lengths), width])
    places = np.arange(width)
    ids[places == lengths[:, None] - 1] = 1
    return np.where(places < lengths[:, None], ids, 0).astype(np.int32)


def _packed(random, lengths, h: HParams, size: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """As `_ids`, by the project's own packing."""
    from t2t_lite.data.packing import PackedBatch

    [shape, *_] = shapes(lengths, h)
    batch, batches = PackedBatch(shape), []
    while len(batches) < UPDATES[size]:
        rows = lengths[random.integers(len(lengths), size=1_000)]
        sides = (_ids(random, rows[:, side], 64, VOCABULARIES[size]) for side in (0, 1))
        batches += [arrays for _, *arrays in batch.add(np.arange(len(rows)), *sides)]
    return batches[: UPDATES[size]]


class Column:
    """A process that trains when it is asked to."""

    def __init__(self, name: str, command: list[str], work: Work, folder: Path):
        self.name, self.work, self.rounds = name, work, []
        work.write(folder)
        self._log = open(folder / "log", "w")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [*command, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self.first_update = self._answer()["first_update"]

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
        self.rounds.append(self._answer())

    def close(self) -> dict:
        """Ends the process; its figures."""
        self._process.stdin.close()
        peak = self._answer()["peak_mib"]
        self._process.wait()
        self._log.close()
        speeds = [self.work.tokens / each["seconds"] for each in self.rounds]
        rates = [each["multiply_adds_per_second"] for each in self.rounds]
        shares = [
            self.work.multiply_adds / each["seconds"] / rate
            for each, rate in zip(self.rounds, rates)
        ]
        return {
            "size": self.work.size,
            "column": self.name,
            "tokens_per_second": spread(speeds),
            "gflops_of_matrix_products": spread([2 * rate / 1e9 for rate in rates]),
            "share_of_matrix_rate": spread(shares),
            "first_update_seconds": self.first_update,
            "peak_mib": peak,
        }


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def pytorch(args) -> str | None:
    """The interpreter that has PyTorch, if that column is wanted."""
    if args.pytorch or not args.peers:
        return args.pytorch
    folder = Path(".venv-pytorch")
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing {PYTORCH_NEEDS[0]} into {folder} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PYTORCH_NEEDS], check=True)
    return str(python)


def columns(args) -> dict[str, list[str]]:
    """Each column's command, by its name."""
    threads = f"--threads={args.threads}"
    found = {
        name: [sys.executable, str(FOLDER / "ours.py"), threads, *how] for name, how in OURS.items()
    }
    if python := pytorch(args):
        for name, how in PYTORCH.items():
            found[name] = [python, str(FOLDER / "pytorch.py"), threads, *how]
    chosen = {
        name: command
        for name, command in found.items()
        if not args.columns or any(part in name for part in args.columns)
    }
    if not chosen:
        raise SystemExit(f"--columns: expected part of one of: {', '.join(found)}")
    return chosen


def measured(size: str, chosen: dict[str, list[str]], rounds: int) -> list[dict]:
    """The figures of all columns at a size."""
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for number, (name, command) in enumerate(chosen.items()):
            own = Path(folder) / str(number)
            own.mkdir()
            started.append(Column(name, command, Work.of(size, "packing" in name), own))
        for _ in range(rounds):
            for column in started:
                column.measure()
        return [column.close() for column in started]


def table(figures: list[dict]) -> str:
    """The figures of a size as text; ratios are to the first column."""
    first = figures[0]["tokens_per_second"]["median"]
    lines = [
        f"{figures[0]['size']:28} {'tokens/s (min - max)':>24} {'ratio':>6} {'GFLOP/s':>8} "
        f"{'share':>6} {'first':>7} {'peak':>10}"
    ]
    for each in figures:
        speed, rate = each["tokens_per_second"], each["gflops_of_matrix_products"]["median"]
        values = f"{speed['median']:,.0f} ({speed['min']:,.0f} - {speed['max']:,.0f})"
        lines.append(
            f"{each['column']:28} {values:>24} {speed['median'] / first:6.2f} {rate:8,.0f} "
            f"{each['share_of_matrix_rate']['median']:6.0%} {each['first_update_seconds']:5.1f} s "
            f"{each['peak_mib']:6,.0f} MiB"
        )
    return "\n".join(lines)


def machine(threads: int) -> dict:
    """What the figures depend on."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line for line in text.splitlines() if line.startswith("model name")), "unknown")
    return {
        "cpu": model.partition(":")[2].strip() or model,
        "instructions": [name for name in INSTRUCTIONS if f" {name}" in text],
        "threads": threads,
    }


def main():
    """Runs the benchmark."""
    args = flags()
    registry.load_plugins()
    chosen, about = columns(args), machine(args.threads)
    print(f"{about['cpu']}, {args.threads} threads, {' '.join(about['instructions'])}")
    figures = []
    for size in args.sizes:
        figures.append(measured(size, chosen, args.rounds))
        print("\n" + table(figures[-1]), flush=True)
    if args.json:
        text = json.dumps({"machine": about, "figures": sum(figures, [])}, indent=2)
        Path(args.json).write_text(text + "\n")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
