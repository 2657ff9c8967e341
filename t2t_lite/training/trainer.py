"""The training loop: batches -> updates -> reports, evaluations, checkpoints; it can be resumed."""

import math
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from t2t_lite.checkpoints import (
    MODEL,
    arrays,
    average,
    model_variables,
    read_about,
    write_arrays,
)
from t2t_lite.data.buckets import fit_buckets
from t2t_lite.data.pipeline import Position, TrainingBatches, sample_lengths
from t2t_lite.data.prepare import Corpora
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.errors import UserError
from t2t_lite.run import Run
from t2t_lite.training.progress import Meter, RunLog
from t2t_lite.training.step import POLICIES, TrainStep
from t2t_lite.translator import Evaluation, Translator

_SAMPLE = 200  # dev pairs that are decoded at an evaluation while training
_SHOWN = 3  # of them on the screen


class Trainer:
    """Trains the model of a run to its `train_steps`.

    Args:
        run: Run, saved.
        corpora: the problem's data, prepared.
        vocabularies: the run's.
        strategy: tf.distribute.Strategy.
        xla: whether forward and gradients are compiled by XLA.
        precision: a key of POLICIES.
        micro_batches: M, parts that each replica's share of an update is cut into.
        workers: calls of the model at the same time in evaluations (`runtime.start_tensorflow`).
        log: where progress lines go.

    Attributes:
        model: Transformer.
        step: TrainStep.
        buckets: the shapes of the batches.
        lengths: int [N, 2], sub-words of source and target of a sample of the training pairs.
        epoch_pairs: pairs in an epoch, those that are too long included.
    """

    def __init__(
        self,
        run: Run,
        corpora: Corpora,
        vocabularies: Vocabularies,
        *,
        strategy: tf.distribute.Strategy,
        xla: bool,
        precision: str = "float32",
        micro_batches: int = 1,
        workers: int = 1,
        log: Callable[[str], None] = print,
    ):
        self.run, self.hparams, self.log = run, run.hparams, log
        self._vocabularies = vocabularies
        self._slices = {"replicas": strategy.num_replicas_in_sync, "micro_batches": micro_batches}
        self._mix = corpora.train
        self.epoch_pairs = len(self._mix)
        self.lengths = sample_lengths(
            self._mix, vocabularies, run.seed, self.hparams.subword_sampling
        )
        self.buckets = fit_buckets(
            self.lengths,
            batch_tokens=self.hparams.batch_tokens,
            max_length=self.hparams.max_length,
            num_buckets=self.hparams.num_buckets,
            **self._slices,
        )
        with strategy.scope():
            self.model = run.new_model(vocabularies, POLICIES[precision])
            self.step = TrainStep(self.model, self.hparams, strategy, seed=run.seed, xla=xla)
        self._variables = model_variables(self.model)
        self._position = self._restore()
        self._dev = list(corpora.dev.pairs()) if corpora.dev else []
        # One device: copies on others would not follow the training.
        devices = strategy.extended.worker_devices[:1]
        self._workers = workers
        self._translator = Translator(
            self.model, vocabularies, run.problem, devices=devices, workers=workers
        )
        # A wrong one is known before any update.
        self._translator.references(self._dev, corpora.dev and corpora.dev.source)

    def _restore(self) -> Position:
        """Loads the newest checkpoint, if there is one; returns where its data continue."""
        stored = self.run.checkpoints.restore(self._variables, self.step.state())
        if stored is None:
            return Position()
        position = Position.from_json(stored["position"] if "position" in stored else stored)
        if stored.get("data") == self._mix.digest:
            return position
        if "data" in stored:
            epoch, why = position.epoch + 1, "the data have changed since"
        else:
            epoch, why = position.epoch, "it was made by a version that took the data otherwise"
        self.log(f"step {self.step.step:,}: {why}; they are read from epoch {epoch + 1}'s start on")
        return Position(epoch)

    def train(self) -> None:
        """Trains, evaluates and saves up to `train_steps`, then averages the last checkpoints."""
        h = self.hparams
        if self.step.step:
            self.log(f"resuming at step {self.step.step:,}, epoch {self._position.epoch + 1}")
        if self.step.step < h.train_steps:
            with RunLog(self.run.path) as record:
                try:
                    self._loop(record)
                except KeyboardInterrupt:
                    self._save()
                    self.log(
                        f"interrupted; saved step {self.step.step:,}, the same command resumes"
                    )
                    raise
        else:
            self.log(f"already at step {self.step.step:,} of {h.train_steps:,}")
        self._finish()

    def _loop(self, record: "RunLog") -> None:
        h = self.hparams
        batches = TrainingBatches(
            self._mix,
            self._vocabularies,
            self.buckets,
            seed=self.run.seed,
            max_length=h.max_length,
            subword_sampling=h.subword_sampling,
            start=self._position,
            **self._slices,
        )
        step, saved_at = self.step.step, time.monotonic()
        meter = Meter(h.train_steps)
        for batch in batches:
            meter.add(self.step(batch.inputs, batch.targets), np.count_nonzero(batch.targets))
            step += 1
            self._position = batch.position
            epoch = batch.position.epoch + 1
            last = step == h.train_steps
            if step % h.report_steps == 0 or last or meter.is_first:
                figures = meter.report()
                record.write("train", step, epoch=epoch, dropped=batch.position.dropped, **figures)
                self.log(meter.line(step, epoch, figures))
                if not math.isfinite(figures["loss"]):
                    raise UserError(
                        f"the loss is {figures['loss']} at step {step}; "
                        "try a lower learning rate: --set learning_rate="
                    )
            minutes = (time.monotonic() - saved_at) / 60
            if last or step % h.checkpoint_steps == 0 or minutes >= h.checkpoint_minutes:
                with meter.paused():
                    self._save()
                saved_at = time.monotonic()
            if self._dev and step % h.eval_steps == 0 and not last:
                with meter.paused():
                    self._evaluate(step, record)
            if last:
                return

    def _save(self) -> None:
        position = {"data": self._mix.digest, "position": self._position.to_json()}
        self.run.checkpoints.save(self.step.step, self._variables, self.step.state(), position)

    def _evaluate(self, step: int, record: "RunLog") -> None:
        dev = self._translator.evaluate(self._dev, sample=_SAMPLE)
        record.write("dev", step, **dev.figures)
        self.log(_report(f"dev at step {step:,}", dev))
        best, value = self._best(), dev.figures[dev.main]
        if best is None or value > best:
            about = {"step": step, "figure": dev.main, "value": value}
            write_arrays(self.run.best, arrays(self._variables), about)

    def _best(self) -> float | None:
        return read_about(self.run.best)["value"] if self.run.best.is_file() else None

    def _finish(self) -> None:
        """Averages the last checkpoints (section 6.1), evaluates the mean on the whole dev set."""
        wanted = max(1, self.hparams.average_checkpoints)
        paths = [path / MODEL for path in self.run.checkpoints.steps()[-wanted:]]
        average(paths, self.run.averaged)
        first, last = (path.parent.name[5:] for path in (paths[0], paths[-1]))
        self.log(f"averaged {len(paths)} checkpoints, steps {first} to {last}")
        if self._dev:
            dev = self.run.translator(weights=self.run.averaged, workers=self._workers).evaluate(
                self._dev
            )
            with RunLog(self.run.path) as record:
                record.write("dev_final", self.step.step, **dev.figures)
            self.log(_report("dev, whole, averaged", dev))


def _report(title: str, dev: Evaluation) -> str:
    """The figures on a line, then some translations."""
    figures = "  ".join(f"{k} {v:,.4g}" for k, v in dev.figures.items() if k != "tokens")
    lines = [f"{title}: {figures}"]
    for i in range(0, len(dev.inputs), max(1, len(dev.inputs) // _SHOWN))[:_SHOWN]:
        output = dev.outputs[i].text
        lines += [f"  in:  {dev.inputs[i]}", f"  out: {output}", f"  ref: {dev.references[i]}"]
    return "\n".join(lines)
