"""What a training run tells: progress lines, log.jsonl and TensorBoard events."""

import contextlib
import json
import time
from pathlib import Path

import numpy as np
import tensorflow as tf


class Meter:
    """Collects reports between two progress lines and times them, pauses left out."""

    def __init__(self, train_steps: int):
        self._train_steps = train_steps
        self._reported = 0
        self._reset()

    def _reset(self) -> None:
        self._reports, self._tokens, self._pauses, self._start = [], 0, 0.0, time.monotonic()

    @property
    def is_first(self) -> bool:
        """True at the first update, which is reported alone: it holds the compilation."""
        return not self._reported

    def add(self, report, tokens: int) -> None:
        """Counts an update: its Report, and the target tokens of its batch."""
        self._reports.append(report)
        self._tokens += int(tokens)

    @contextlib.contextmanager
    def paused(self):
        """Leaves out the time that the block takes."""
        start = time.monotonic()
        yield
        self._pauses += time.monotonic() - start

    def report(self) -> dict:
        """The figures since the last report: loss and nll in nats per target sub-word."""
        smoothed, nll, correct, tokens = np.sum(
            [[float(v) for v in r.loss] for r in self._reports], axis=0
        )
        seconds = time.monotonic() - self._start - self._pauses
        figures = {
            "loss": smoothed / tokens,
            "nll": nll / tokens,
            "accuracy": correct / tokens,
            "learning_rate": float(self._reports[-1].learning_rate),
            "target_tokens": self._tokens,
            "target_tokens_per_s": self._tokens / seconds,
            "steps_per_s": len(self._reports) / seconds,
            "skipped": sum(not bool(r.applied) for r in self._reports),
        }
        self._reported += len(self._reports)
        self._reset()
        return figures

    def line(self, step: int, epoch: int, figures: dict) -> str:
        """The progress line after update `step`; `figures` as `report` returns them."""
        left = (self._train_steps - step) / figures["steps_per_s"]
        skipped = ""
        if figures["skipped"]:
            skipped = f"  {figures['skipped']} updates skipped (float16 overflow)"
        return (
            f"step {step:,}/{self._train_steps:,}  epoch {epoch}  loss {figures['loss']:.3f}  "
            f"lr {figures['learning_rate']:.2e}  "
            f"{figures['target_tokens_per_s']:,.0f} target tokens/s  {duration(left)} left{skipped}"
        )


class RunLog:
    """Appends a JSON line per report to log.jsonl, and the same numbers to TensorBoard."""

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self):
        self._file = open(self._path / "log.jsonl", "a", encoding="utf-8")
        self._writer = tf.summary.create_file_writer(str(self._path / "tensorboard"))
        return self

    def __exit__(self, *_):
        self._file.close()
        self._writer.close()

    def write(self, kind: str, step: int, **figures) -> None:
        """Writes figures, such as those of Meter.report, as `kind` ("train", "dev") of a step."""
        entry = {"kind": kind, "step": step, "time": round(time.time(), 1), **figures}
        # NumPy's numbers become Python's.
        self._file.write(json.dumps(entry, default=lambda number: number.item()) + "\n")
        self._file.flush()
        with self._writer.as_default(step):
            for name, value in figures.items():
                tf.summary.scalar(f"{kind}/{name}", value)


def duration(seconds: float) -> str:
    """`1:02:03`, or `2:03` below an hour."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
