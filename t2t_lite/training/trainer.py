"""The training loop: batches -> updates -> reports, evaluations, checkpoints; it can be resumed."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_lite.arrays import arrays, crc32, load_arrays, model_variables
from t2t_lite.cluster import Agreement, Cluster
from t2t_lite.config import HParams
from t2t_lite.data.buckets import fit_buckets
from t2t_lite.data.pipeline import Position, TrainingBatches, sample_lengths
from t2t_lite.data.prepare import Corpora
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.errors import Failed, Stopped, UserError, reason
from t2t_lite.output import replacing
from t2t_lite.run import Run
from t2t_lite.training.cost import Cost, sustained_rate
from t2t_lite.training.dev_set import DevSet
from t2t_lite.training.memory import TrainingMemory
from t2t_lite.training.micro_batches import choose, choose_by_estimate, evaluation_bounds
from t2t_lite.training.optimizer import learning_rate
from t2t_lite.training.progress import Meter, RunLog, cost_report
from t2t_lite.training.step import POLICIES, TrainStep
from t2t_lite.training.stopping import Standing, StopSignals


class Trainer:
    """Trains the model of a run to its `train_steps`.

    Args:
        run: Run, saved.
        corpora: the problem's data, prepared.
        vocabularies: the run's.
        strategy: tf.distribute.Strategy.
        cluster: the workers that train together, each with a Trainer like this one, if there are
            several. The first, the chief, alone evaluates and writes.
        xla: whether forward and gradients are compiled by XLA.
        precision: a key of POLICIES.
        micro_batch_tokens: tokens a side of a micro-batch at most, on each device; None: as many as
            its memory holds.
        before: the hparams that the run was trained with so far, if it was.
        initial_weights: a file of weights to begin with, where there is no checkpoint yet.
        devices_may_change: go on with other dropout masks where devices or micro-batches are not
            those of the run so far.
        optimizer_may_be_lost: go on with a fresh optimizer where no checkpoint has its state.
        workers: calls of the model at the same time in evaluations (`runtime.start_tensorflow`).
        log: where progress lines go.

    Attributes:
        model: Transformer.
        step: TrainStep.
        buckets: the shapes of the batches.
        lengths: int [N, 2], sub-words of source and target of a sample of the training pairs.
        epoch_pairs: pairs in an epoch, those that are too long included.
        is_chief: whether this process evaluates and writes.
    """

    def __init__(
        self,
        run: Run,
        corpora: Corpora,
        vocabularies: Vocabularies,
        *,
        strategy: tf.distribute.Strategy,
        cluster: Cluster | None = None,
        xla: bool,
        precision: str = "float32",
        micro_batch_tokens: int | None = None,
        before: HParams | None = None,
        initial_weights: Path | None = None,
        devices_may_change: bool = False,
        optimizer_may_be_lost: bool = False,
        workers: int = 1,
        log: Callable[[str], None] = print,
    ):
        self.run, self.hparams = run, run.hparams
        self.is_chief = not cluster or cluster.is_chief
        self.log = log if self.is_chief else lambda _: None
        self._agreement = Agreement(cluster)
        self._vocabularies = vocabularies
        self._mix = corpora.train
        self.epoch_pairs = len(self._mix)
        h = run.hparams
        self.lengths = sample_lengths(self._mix, vocabularies, run.seed, h.subword_sampling)
        names = ("batch_tokens", "max_length", "num_buckets", "packing")
        self.buckets = fit_buckets(self.lengths, **{name: getattr(h, name) for name in names})
        memory = TrainingMemory.of(self.hparams, vocabularies, precision, strategy)
        replicas = strategy.num_replicas_in_sync
        on_cpus = not tf.config.list_logical_devices("GPU")
        # Before there are weights, for which there may be no room either.
        by_estimate = on_cpus and not micro_batch_tokens
        fitting = choose_by_estimate(memory, self.buckets, replicas) if by_estimate else None
        with strategy.scope():
            self.model = run.new_model(vocabularies, POLICIES[precision])
            self.step = TrainStep(self.model, self.hparams, strategy, seed=run.seed, xla=xla)
        self._variables = model_variables(self.model)
        self._checkpoints = run.checkpoints(log)
        self._position, self._devices = Position(), {}
        self._unchecked = None  # (step, batch, report) of the last update
        stored = self._restore(optimizer_may_be_lost)
        if stored is not None:
            self._resume(stored, before or self.hparams)
        elif initial_weights:
            load_arrays(initial_weights, self._variables)
        self._set_devices(strategy, precision, micro_batch_tokens, fitting, devices_may_change)
        self._processors = (len(cluster.workers) if cluster else 1) if on_cpus else replicas
        bounds = {"workers": workers}
        if on_cpus:
            parts = replicas, self.step.micro_batches
            bounds |= evaluation_bounds(memory, self.buckets, *parts, workers)
        device, dev = strategy.extended.worker_devices[0], corpora.dev if self.is_chief else None
        self._dev = DevSet(run, dev, self.model, vocabularies, device, bounds, self.log)
        self._dev.standing = Standing(**(stored or {}).get("dev", {}))
        self._cost = Cost(h, vocabularies.target.size, **(stored or {}).get("cost", {}))
        if cluster:
            self._check_agreement()

    def _check_agreement(self) -> None:
        """Raises UserError, on all workers, where one does not begin as the chief does."""
        self._agreement.check(
            step=self.step.step,
            settings=[self.hparams.to_dict(), self.run.seed, self._devices],
            data=[self._mix.digest, self._position.to_json()],
            vocabulary=[self._vocabularies.source.digest, self._vocabularies.target.digest],
            weights=crc32(arrays(self._variables)),
        )

    def _restore(self, optimizer_may_be_lost: bool) -> dict[str, Any] | None:
        """The chief first: it sets damaged checkpoints aside."""
        if not self.is_chief:
            self._agreement.gather(0)
        state = self._variables, self.step.state()
        stored = self._checkpoints.restore(*state, optimizer_may_be_lost)
        if self.is_chief:
            self._agreement.gather(0)
        return stored

    def _resume(self, stored: dict[str, Any], before: HParams) -> None:
        """Takes up what a checkpoint was saved with, and says what is not as it was."""
        step = self.step.step
        position = Position.from_json(stored["position"] if "position" in stored else stored)
        if stored.get("data") != self._mix.digest:
            if "data" in stored:
                epoch, why = position.epoch + 1, "the data have changed since"
            else:
                epoch, why = position.epoch, "it does not say where in the data it stood"
            self.log(f"step {step:,}: {why}; they are read from epoch {epoch + 1}'s start on")
            position = Position(epoch)
        self._position = position
        self._devices = stored.get("devices", {})
        was, rate = (float(learning_rate(h, step + 1)) for h in (before, self.hparams))
        if was != rate and step < self.hparams.train_steps:
            self.log(
                f"warning: train_steps {before.train_steps:,} -> {self.hparams.train_steps:,} with "
                f"schedule={self.hparams.schedule}: the learning rate of step {step + 1:,} is "
                f"{rate:.3g}, and was to be {was:.3g}"
            )

    def _set_devices(
        self,
        strategy: tf.distribute.Strategy,
        precision: str,
        micro_batch_tokens: int | None,
        fitting: int | None,
        may_change: bool,
    ) -> None:
        """Chooses how updates are cut, and compares the devices with those of the run so far."""
        before, replicas = self._devices, strategy.num_replicas_in_sync
        kept = before.get("micro_batches") if before.get("replicas") == replicas else None
        self.step.micro_batches = choose(
            self.step, self.buckets, replicas, micro_batch_tokens, kept, fitting, self.log
        )
        everyones = self._agreement.gather(self.step.micro_batches)
        self.step.micro_batches = max(everyones)[0]
        self._devices = {
            "replicas": replicas,
            "micro_batches": self.step.micro_batches,
            "precision": precision,
        }
        changed = [name for name, old in before.items() if old != self._devices[name]]
        if not changed:
            return
        text = ", ".join(f"{name} {before[name]} -> {self._devices[name]}" for name in changed)
        h = self.hparams
        drops = any((h.dropout, h.attention_dropout, h.relu_dropout))
        if drops and changed != ["precision"] and not may_change:
            raise UserError(
                f"{self.run.path} was trained with {text}, and dropout's masks follow from these; "
                "expected the same, or to go on with other masks: --devices_changed=continue"
            )
        self.log(f"since the last start: {text}; the batches are the same")

    def train(self, minutes: float | None = None) -> None:
        """Trains, evaluates and saves up to `train_steps`, then averages the last checkpoints.

        Args:
            minutes: after which it ends, if it has not before.

        Raises Stopped, when all is saved, where a signal has asked to stop; Failed where the loss
        is not finite; OSError where the last checkpoint could not be written.
        """
        step, total = self.step.step, self.hparams.train_steps
        folder = self.run.path if self.is_chief else None
        with StopSignals() as signals, RunLog(folder, self.log) as record:
            if step:
                epoch = self._position.epoch + 1
                self.log(f"resuming at step {step:,} of {total:,}, epoch {epoch}")
                record.write("resumed", step)
            try:
                self.log(self._loop(record, signals, minutes))
                self._checkpoints.wait()
                with signals.at_once():
                    self._finish(record)
                self._agreement.gather()  # all end together
            except Stopped as stop:
                self._save(interim=True)
                self._checkpoints.wait()
                stop.add_note(
                    f"saved step {self.step.step:,} of {total:,}, the same command resumes"
                )
                raise
            except tf.errors.OpError:
                # If a worker is lost, perhaps for what this one has not seen yet.
                self._check()
                if self._agreement.cluster and signals.received:
                    raise Stopped(signals.received) from None
                raise

    def _loop(self, record: RunLog, signals: StopSignals, minutes: float | None) -> str:
        """Trains; returns why it has ended. What it ends with is on its way to the disk."""
        h, step = self.hparams, self.step.step
        started = saved_at = time.monotonic()
        saved, meter, batches = step, Meter(h.train_steps, self._cost), iter(self._batches())
        while True:  # `step` updates are done
            if self._dev.is_due(step):
                self._check()
                # Told below, to the workers that wait as well.
                with contextlib.suppress(Stopped), meter.paused(), signals.at_once():
                    self._dev.evaluate(step, record)
            end = self._end(step, (time.monotonic() - started) / 60, minutes)
            stop, end = self._agreement.decide(signals.received, end)
            due = step % h.checkpoint_steps == 0 or step == h.train_steps
            due = due or time.monotonic() - saved_at >= h.checkpoint_minutes * 60
            if step > saved and (due or end):
                with meter.paused():
                    self._save(interim=not due)
                saved, saved_at = step, time.monotonic()
            if stop:
                raise Stopped(stop)
            if end:
                return end
            asked = time.monotonic()
            batch = next(batches)
            meter.waited(time.monotonic() - asked)
            report = self.step(batch.inputs, batch.targets)
            step += 1
            self._check()  # the update before, so that a GPU has not to wait for this one's end
            self._unchecked = step, batch, report
            self._position = batch.position
            meter.add(report, batch.inputs, batch.targets)
            if step % h.report_steps == 0 or step == h.train_steps or meter.is_first:
                epoch, figures = batch.position.epoch + 1, meter.report()
                self._check()
                record.write("train", step, epoch=epoch, dropped=batch.position.dropped, **figures)
                self.log(meter.line(step, epoch, figures))

    def _batches(self) -> TrainingBatches:
        return TrainingBatches(
            self._mix,
            self._vocabularies,
            self.buckets,
            seed=self.run.seed,
            max_length=self.hparams.max_length,
            subword_sampling=self.hparams.subword_sampling,
            packing=self.hparams.packing,
            start=self._position,
        )

    def _end(self, step: int, elapsed: float, minutes: float | None) -> str | None:
        """Why training ends after `step`, if it does."""
        h, standing = self.hparams, self._dev.standing
        if step >= h.train_steps:
            return f"trained {step:,} steps, train_steps={h.train_steps}"
        if h.patience and standing.since_best >= h.patience:
            return (
                f"stopped at step {step:,} of {h.train_steps:,}: {standing.figure} has not been "
                f"better than {standing.best:.4g} in the last {h.patience} evaluations"
            )
        if minutes is not None and elapsed >= minutes and step:
            return f"stopped at step {step:,} of {h.train_steps:,}, after {minutes:g} minutes"
        return None

    def _check(self) -> None:
        """Raises Failed where the last update was not finite; the chief keeps its batch."""
        if not self._unchecked or not self._unchecked[-1].failed:
            self._unchecked = None
            return
        step, batch, report = self._unchecked
        file = self.run.path / f"not_finite.step-{step:08d}.jsonl"
        if self.is_chief:
            with replacing(file) as output:
                for pair in batch.pairs(self._vocabularies):
                    output.write(json.dumps(pair, ensure_ascii=False) + "\n")
        raise Failed(
            f"step {step:,}: loss {float(report.loss.smoothed / report.loss.tokens):.4g}, gradient "
            f"norm {float(report.gradient_norm):.4g}: not finite. The update was not applied and "
            f"nothing saved since; its batch is in {file}. Train anew with a lower learning_rate, "
            "a longer warmup_steps, or clip_norm"
        )

    def _save(self, interim: bool = False) -> None:
        """Begins to write a checkpoint; if the one before could not be written, that is said."""
        self._check()
        if not self.is_chief:
            return
        try:
            self._checkpoints.wait()
        except OSError as error:
            self.log(f"warning: the last checkpoint was not written: {reason(error)}")
        about = {
            "data": self._mix.digest,
            "position": self._position.to_json(),
            "devices": self._devices,
            "dev": self._dev.standing.to_json(),
            "cost": self._cost.to_json(),
        }
        self._checkpoints.save(self.step.step, self._variables, self.step.state(), about, interim)

    def _finish(self, record: RunLog) -> None:
        """Averages the last checkpoints (section 6.1), evaluates the mean on the whole dev set.

        Before that the cost of the training is told, as in Table 2.
        """
        if not self.is_chief:
            return
        if self._cost.steps:
            figures = self._cost.figures(self._processors, sustained_rate())
            record.write("cost", self.step.step, **figures)
            self.log(cost_report(figures))
        paths = self._checkpoints.average(self.hparams.average_checkpoints, self.run.averaged)
        first, last = (path.name[5:] for path in (paths[0], paths[-1]))
        self.log(f"averaged {len(paths)} checkpoints, steps {first} to {last}")
        self._dev.evaluate_whole(self.run.averaged, self.step.step, record)
