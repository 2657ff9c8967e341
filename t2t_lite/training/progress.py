"""What a training run tells: progress lines, log.jsonl and TensorBoard events."""

import contextlib
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.errors import reason
from t2t_lite.training.cost import Cost
from t2t_lite.training.memory import peak_memory
from t2t_lite.training.step import Report
from t2t_lite.translator import Evaluation

_SHOWN = 3  # translations of an evaluation
_LONGEST = 1000  # characters of a text that are shown
_PIXELS = 8  # a side, of one weight of an attention


class Meter:
    """Collects reports between two progress lines and times them, pauses left out.

    Args:
        train_steps: how many updates there are to be.
        cost: counts each update.
    """

    def __init__(self, train_steps: int, cost: Cost):
        self._train_steps, self._cost = train_steps, cost
        self._reported = 0
        self._reset()

    def _reset(self) -> None:
        self._reports, self._start = [], time.monotonic()
        self._counted = self._start  # up to when the cost is counted
        self._tokens = self._symbols = self._places = 0
        self._pauses = self._waits = 0.0

    @property
    def is_first(self) -> bool:
        """True at the first update, which is reported alone: it holds the compilation."""
        return not self._reported

    def add(self, report: Report, inputs: np.ndarray, targets: np.ndarray) -> None:
        """Counts an update: its Report, and its batch, ids filled with PAD."""
        self._reports.append(report)
        tokens = np.count_nonzero(targets)
        self._tokens += tokens
        self._symbols += tokens + np.count_nonzero(inputs)
        self._places += inputs.size + targets.size
        now = time.monotonic()
        self._cost.add(inputs, targets, now - self._counted)
        self._counted = now

    def waited(self, seconds: float) -> None:
        """Counts time in which no batch was there."""
        self._waits += seconds

    @contextlib.contextmanager
    def paused(self):
        """Leaves out the time that the block takes."""
        start = time.monotonic()
        yield
        paused = time.monotonic() - start
        self._pauses += paused
        self._counted += paused

    def report(self) -> dict:
        """The figures since the last report.

        loss and nll in nats per target sub-word; gradient_norm of the last update; padding the
        share of the batches' places that hold no symbol; data_wait_s the seconds in which no batch
        was there; memory_mib the most that the process has had so far, or the first GPU.
        """
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
            "gradient_norm": float(self._reports[-1].gradient_norm),
            "padding": 1 - self._symbols / self._places,
            "data_wait_s": self._waits,
            "memory_mib": peak_memory() / 2**20,
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
            skipped = f"  {figures['skipped']} skipped (float16 overflow)"
        return (
            f"step {step:,}/{self._train_steps:,}  epoch {epoch}  loss {figures['loss']:.3f}  "
            f"lr {figures['learning_rate']:.2e}  "
            f"{figures['target_tokens_per_s']:,.0f} target tokens/s  {duration(left)} left{skipped}"
        )


class RunLog:
    """Appends a JSON line per report to log.jsonl, and the same to TensorBoard.

    What cannot be written, as on a full disk, is said once and left out: no training ends for it.

    Args:
        path: the run directory; None: nothing is written.
        log: is told.
    """

    def __init__(self, path: Path | None, log: Callable[[str], object]):
        self._path, self._log, self._complained = path, log, False

    def __enter__(self):
        if self._path:
            file = self._path / "log.jsonl"
            _drop_half_a_line(file)
            self._file = open(file, "a", encoding="utf-8", buffering=1)
            self._writer = tf.summary.create_file_writer(str(self._path / "tensorboard"))
        else:
            self._file, self._writer = io.StringIO(), tf.summary.create_noop_writer()
        return self

    def __exit__(self, *_):
        for file in self._file, self._writer:
            with self._or_left_out():
                file.close()

    def write(self, kind: str, step: int, **figures) -> None:
        """Writes figures, such as those of Meter.report, as `kind` ("train", "dev") of a step."""
        entry = {"kind": kind, "step": step, "time": round(time.time(), 1), **figures}
        # NumPy's numbers become Python's.
        line = json.dumps(entry, default=lambda number: number.item()) + "\n"
        with self._or_left_out():
            self._file.write(line)
        with self._or_left_out(), self._writer.as_default(step):
            for name, value in figures.items():
                tf.summary.scalar(f"{kind}/{name}", value)

    def show(self, step: int, dev: Evaluation, weights: np.ndarray) -> None:
        """Puts some translations, and where the decoder looked in one, into TensorBoard."""
        rows = ["input | output | reference", "--- | --- | ---"]
        rows += [" | ".join(texts).replace("\n", " ") for texts in samples(dev)]
        with self._or_left_out(), self._writer.as_default(step):
            tf.summary.text("dev/samples", "\n".join(rows))
            tf.summary.image("dev/attention", picture(weights))

    @contextlib.contextmanager
    def _or_left_out(self):
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            if not self._complained:
                self._log(f"warning: the log of {self._path} is not complete: {reason(error)}")
            self._complained = True


def _drop_half_a_line(file: Path) -> None:
    """Takes away what a crash or a full disk left of a last line: the next is not to join it."""
    if file.is_file():
        content = file.read_bytes()
        if not content.endswith(b"\n"):
            os.truncate(file, content.rfind(b"\n") + 1)


def samples(dev: Evaluation) -> list[tuple[str, str, str]]:
    """(input, output, reference) of some of the decoded pairs."""
    places = range(0, len(dev.inputs), max(1, len(dev.inputs) // _SHOWN))[:_SHOWN]
    texts = [(dev.inputs[i], dev.outputs[i].text, dev.references[i]) for i in places]
    return [tuple(map(_shortened, row)) for row in texts]


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text):,} characters)"


def dev_report(title: str, dev: Evaluation) -> str:
    """The figures on a line, then some translations."""
    figures = "  ".join(f"{k} {v:,.4g}" for k, v in dev.figures.items() if k != "tokens")
    lines = [f"{title}: {figures}"]
    for texts in samples(dev):
        lines += [f"  {name}: {text}" for name, text in zip(("in ", "out", "ref"), texts)]
    return "\n".join(lines)


def cost_report(figures: dict) -> str:
    """`Cost.figures` in words."""
    return (
        f"cost: {figures['operations']:.3g} floating-point operations in "
        f"{duration(figures['seconds'])} of {figures['steps']:,} updates, "
        f"{figures['operations_per_s'] / 1e9:,.0f} GFLOP/s; as Table 2 of the paper counts, "
        f"that time x {figures['devices']} x {figures['device_operations_per_s'] / 1e9:,.0f} "
        f"GFLOP/s = {figures['papers_estimate']:.3g}"
    )


def picture(weights: np.ndarray) -> np.ndarray:
    """Weights as a picture [1, height, width, 1], 0 (white: no weight) to 1 turned round.

    A row of pictures for each layer, one for each head; in each a row for each target sub-word.
    """
    layers, heads, rows, columns = weights.shape
    framed = np.pad(1 - weights, [(0, 0), (0, 0), (0, 1), (0, 1)])  # black lines between
    grid = framed.transpose(0, 2, 1, 3).reshape(layers * (rows + 1), heads * (columns + 1))
    return np.kron(grid, np.ones([_PIXELS, _PIXELS]))[None, :, :, None]


def duration(seconds: float) -> str:
    """`1:02:03`, or `2:03` below an hour, or `12 days`."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 72:
        return f"{hours / 24:,.0f} days"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
