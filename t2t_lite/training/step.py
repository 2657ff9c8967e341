"""One update: forward, loss and gradients in XLA on each replica, one all-reduce, Adam."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.subword_training import EOS
from t2t_lite.layers.dropout import DropoutSeeds
from t2t_lite.layers.segments import segmentation
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.loss import Loss, label_smoothed_cross_entropy
from t2t_lite.training.optimizer import Adam

# float16's loss scale starts high, halves at an overflow and doubles after this many updates
# without one.
_FIRST_SCALE, _SCALE_UP_AFTER = 2.0**15, 2000

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


class Report(NamedTuple):
    """One update.

    Attributes:
        loss: summed over all replicas.
        learning_rate: float32 scalar.
        gradient_norm: float32 scalar, of the gradient of the loss's mean, before it is clipped.
        applied: bool scalar; False where the loss or the gradient was not finite: nothing but the
            step, and float16's loss scale, has changed.
        loss_scale: float32 scalar, float16's, 1 otherwise, that the gradient was computed with.
    """

    loss: Loss
    learning_rate: tf.Tensor
    gradient_norm: tf.Tensor
    applied: tf.Tensor
    loss_scale: tf.Tensor

    @property
    def failed(self) -> bool:
        """Whether it was not applied, and no lower loss scale will help."""
        if self.applied:
            return False
        return not np.isfinite(self.loss.smoothed) or float(self.loss_scale) <= 1.0


class TrainStep:
    """The training step of a model under a strategy.

    Construct it, and the model, under `strategy.scope()`.

    Args:
        model: Transformer.
        hparams: HParams.
        strategy: tf.distribute.Strategy.
        seed: of all dropout; a mask follows from (seed, step, micro-batch, replica).
        xla: whether forward and gradients are compiled by XLA. The all-reduce and Adam stay outside
            it.

    Attributes:
        micro_batches: M, parts that each replica's share of an update is cut into.

    Call arguments:
        inputs: int32 array [N, S].
        targets: int32 array [N, T].

    Returns:
        Report. Gradients are sums over replicas and micro-batches, divided once by the number of
        target symbols, so neither the loss nor the update depends on how a batch was cut.
    """

    def __init__(
        self,
        model: Transformer,
        hparams: HParams,
        strategy: tf.distribute.Strategy,
        *,
        seed=1,
        xla=False,
        micro_batches=1,
    ):
        self._model, self._hparams, self._strategy, self._seed = model, hparams, strategy, seed
        self.micro_batches = micro_batches
        self._variables = {variable.path: variable.value for variable in model.trainable_variables}
        self.optimizer = Adam(hparams, self._variables)
        self._scaled = keras.dtype_policies.get(model.dtype_policy).compute_dtype == "float16"
        self.loss_scale = tf.Variable(
            _FIRST_SCALE if self._scaled else 1.0, trainable=False, name="loss_scale"
        )
        self.good_updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="good_updates")
        self.gradients = tf.function(self._gradients, jit_compile=xla, autograph=False)
        self._programs = {}  # of updates, by their number of micro-batches

    @property
    def step(self) -> int:
        """Updates done, those that were not applied included: how many batches were taken."""
        return int(self.optimizer.step.numpy())

    def state(self) -> dict[str, tf.Variable]:
        """Everything but the model's own variables that a resumed run needs, by name."""
        return {
            "step": self.optimizer.step,
            "loss_scale": self.loss_scale,
            "good_updates": self.good_updates,
            **self.optimizer.slots,
        }

    def __call__(self, inputs: np.ndarray, targets: np.ndarray) -> Report:
        """One update; see the class."""
        return self._update(inputs, targets, wanted=True)

    def try_out(self, inputs: np.ndarray, targets: np.ndarray) -> Report:
        """What an update would do, in the same memory; it changes nothing."""
        return self._update(inputs, targets, wanted=False)

    def _update(self, inputs: np.ndarray, targets: np.ndarray, wanted: bool) -> Report:
        shares = self._hand_out(inputs), self._hand_out(targets)
        return self.program(*shares)(*shares, tf.constant(wanted))

    def program(self, *shares) -> tf.types.experimental.PolymorphicFunction:
        """The update as one graph for all buckets, whose lengths and rows vary.

        Not by `reduce_retracing`, with which the first shapes of a process are built into it: after
        a resume they are others, and other kernels may round in another way.
        """
        if self.micro_batches not in self._programs:
            shape = tf.TensorSpec([self.micro_batches, None, None], tf.int32)
            specs = [_like(tf.type_spec_from_value(share), shape) for share in shares]
            self._programs[self.micro_batches] = tf.function(
                self._update_all,
                input_signature=[*specs, tf.TensorSpec([], tf.bool)],
                autograph=False,  # half a second of each start
            )
        return self._programs[self.micro_batches]

    def _hand_out(self, array: np.ndarray):
        """[N, ...] -> each replica's [M, B, ...], placed on its device."""
        parts = cut(array, self._strategy.num_replicas_in_sync, self.micro_batches)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: tf.convert_to_tensor(parts[context.replica_id_in_sync_group])
        )

    def _update_all(self, inputs, targets, wanted) -> Report:
        report = self._strategy.run(self._update_replica, args=(inputs, targets, wanted))
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0], report
        )

    def _update_replica(self, inputs, targets, wanted) -> Report:
        context = tf.distribute.get_replica_context()
        seed = tf.stack([tf.cast(self._seed, tf.int32), tf.cast(self.optimizer.step, tf.int32)])
        seed = tf.random.experimental.stateless_fold_in(seed, context.replica_id_in_sync_group)
        scale = self.loss_scale.read_value()
        loss, gradients = self.gradients(inputs, targets, seed, scale)
        loss, gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, [loss, gradients])
        divisor = loss.tokens * scale
        gradients = [gradient / divisor for gradient in gradients]
        # Of the reduced gradients: every replica takes the same decision, whichever overflowed.
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss.smoothed)
        if self._hparams.clip_norm:
            factor = self._hparams.clip_norm / tf.maximum(norm, self._hparams.clip_norm)
            gradients = [gradient * factor for gradient in gradients]
        rate = self.optimizer.apply(gradients, finite & wanted)
        self.optimizer.step.assign_add(tf.cast(wanted, tf.int64))
        if self._scaled:
            self._adapt_scale(finite, wanted)
        return Report(loss, rate, norm, finite, scale)

    def _adapt_scale(self, finite, wanted) -> None:
        good = tf.where(finite, self.good_updates + 1, 0)
        raised = good >= _SCALE_UP_AFTER
        factor = tf.where(finite, tf.where(raised, 2.0, 1.0), 0.5)
        factor = tf.where(wanted, factor, 1.0)
        self.loss_scale.assign(tf.maximum(1.0, self.loss_scale * factor))
        good = tf.where(raised, tf.zeros_like(good), good)
        self.good_updates.assign(tf.where(wanted, good, self.good_updates))

    def _gradients(self, inputs, targets, seed, scale):
        """inputs [M, B, S], targets [M, B, T] -> (Loss, gradients of scale * it), summed over M."""
        packing = self._hparams.packing

        def micro_batch(index):
            seeds = DropoutSeeds(tf.random.experimental.stateless_fold_in(seed, index))
            with tf.GradientTape() as tape:
                sides = inputs[index], targets[index]
                segments = [segmentation(ids, EOS) for ids in sides] if packing else None
                loss = label_smoothed_cross_entropy(
                    self._model.states(*sides, seeds=seeds, segments=segments),
                    self._model.softmax.embeddings,
                    targets[index],
                    self._hparams.label_smoothing,
                    scale,
                )
                scaled = loss.smoothed * scale
            gradients = tape.gradient(scaled, list(self._variables.values()))
            return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

        def add(index, loss, gradients):
            more_loss, more_gradients = micro_batch(index)
            return index + 1, loss + more_loss, [a + b for a, b in zip(gradients, more_gradients)]

        loss, gradients = micro_batch(0)
        if inputs.shape[0] != 1:
            count = tf.shape(inputs)[0]
            # One after the other: TensorFlow would run several at a time, and hold what each keeps.
            with tf.control_dependencies([*loss, *gradients]):
                _, loss, gradients = tf.while_loop(
                    lambda index, *_: index < count,
                    add,
                    [1, loss, gradients],
                    parallel_iterations=1,
                )
        return loss, gradients


def cut(array: np.ndarray, replicas: int, micro_batches: int) -> np.ndarray:
    """[N, ...] -> [R, M, B, ...], with as few empty rows (PAD) at the end as that takes."""
    rows = -(-len(array) // (replicas * micro_batches))
    whole = np.zeros([replicas * micro_batches * rows, *array.shape[1:]], array.dtype)
    whole[: len(array)] = array
    return whole.reshape(replicas, micro_batches, rows, *array.shape[1:])


def _like(spec: tf.TypeSpec, each: tf.TensorSpec) -> tf.TypeSpec:
    """A spec of the same kind, of one value or of one for each local replica, of another shape."""
    if isinstance(spec, tf.TensorSpec):
        return each
    return type(spec)(*[each] * len(tf.nest.flatten(spec, expand_composites=True)))
