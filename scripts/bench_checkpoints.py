"""Measures what checkpoints and logging cost a training: blocks of updates with and without.

python scripts/bench_checkpoints.py [--hparams small] [--saved SET] [--folder DIR]
    [--pairs 10] [--updates 10]

Blocks alternate. One with begins with a checkpoint and a line of the log, and ends when both are
on the disk; one without has the same updates alone. Their difference is what a checkpoint costs,
its writing while updates run included. --saved: the checkpoint is of another set's sizes.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from t2t_lite import registry
from t2t_lite.malloc import keep_freed_memory
from t2t_lite.runtime import start_tensorflow

VOCABULARY, LENGTH = 8000, 20


def main():
    """Prints the medians of all pairs of blocks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hparams", default="small", metavar="SET", help="what is trained")
    parser.add_argument("--saved", metavar="SET", help="what is saved (default: what is trained)")
    parser.add_argument("--folder", metavar="DIR", help="on the disk to try (default: /tmp)")
    parser.add_argument("--pairs", type=int, default=10, help="of blocks")
    parser.add_argument("--updates", type=int, default=10, help="in a block")
    args = parser.parse_args()
    keep_freed_memory()
    start_tensorflow()
    from t2t_lite.training.progress import RunLog

    registry.load_plugins()
    h = registry.hparams(args.hparams)
    trained = saved = new(h)
    if args.saved:
        saved = new(registry.hparams(args.saved))
    with (
        tempfile.TemporaryDirectory(dir=args.folder) as folder,
        RunLog(Path(folder), print) as record,
    ):
        blocks = Blocks(trained[1], *saved, Path(folder), record, h.batch_tokens // LENGTH)
        blocks.without(2)  # traces
        writes = [sum(blocks.with_one(0)) for _ in range(3)]
        pairs = [
            (*blocks.with_one(args.updates), blocks.without(args.updates))
            for _ in range(args.pairs)
        ]
        files = list(Path(folder).glob(f"checkpoints/step-{blocks.number:08d}/*"))
        size = sum(file.stat().st_size for file in files)
    pauses, beside, without = zip(*pairs)
    update = statistics.median(without) / args.updates
    cost = statistics.median(sum(pair[:2]) - pair[2] for pair in pairs)
    between = min(h.checkpoint_minutes * 60, h.checkpoint_steps * update)
    print(f"checkpoint   {size / 2**20:,.0f} MiB, on the disk in {median(writes)} s")
    print(f"pause        {median(pauses)} s: training waits for the copy that is written")
    print(f"updates      {args.updates} take {median(beside)} s beside it, {median(without)} alone")
    print(f"cost         {cost:.2f} s for each checkpoint and line of the log, all included")
    print(f"every        {between:,.0f} s: {cost / between:.2%} of the time")


def median(values) -> str:
    """With the least and the most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def new(h):
    """A fresh model of a set, and its TrainStep."""
    from t2t_lite.devices import make_strategy
    from t2t_lite.models.transformer import Transformer
    from t2t_lite.training.step import TrainStep

    strategy = make_strategy(None)
    with strategy.scope():
        model = Transformer(
            h.replace(next_word="counted"), VOCABULARY, VOCABULARY, name="transformer"
        )
        return model, TrainStep(model, h, strategy)


class Blocks:
    """Updates of one TrainStep, and checkpoints of this or another one."""

    def __init__(self, trained, model, saved, folder: Path, record, rows: int):
        import numpy as np

        from t2t_lite.arrays import model_variables
        from t2t_lite.checkpoints import Checkpoints
        from t2t_lite.training.progress import Meter

        self._trained, self._saved = trained, saved
        self._variables = model_variables(model)
        self._checkpoints = Checkpoints(folder / "checkpoints", 2)
        self._meter, self._record = Meter(10**6), record
        self._sides = np.random.default_rng(1).integers(2, VOCABULARY, [2, rows, LENGTH], np.int32)
        self.number = 0

    def without(self, updates: int) -> float:
        """Seconds."""
        start = time.monotonic()
        for _ in range(updates):
            report = self._trained(*self._sides)
            self._meter.add(report, *self._sides)
        float(report.loss.smoothed)
        return time.monotonic() - start

    def with_one(self, updates: int) -> tuple[float, float]:
        """Seconds that training waits, and of the rest, until the checkpoint is on the disk."""
        start = time.monotonic()
        self.number += 1
        self._checkpoints.save(self.number, self._variables, self._saved.state(), {})
        pause = time.monotonic() - start
        if updates:
            self.without(updates)
            self._record.write("train", self.number, **self._meter.report())
        self._checkpoints.wait()
        return pause, time.monotonic() - start - pause


if __name__ == "__main__":
    main()
