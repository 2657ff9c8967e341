"""One update: forward, loss and gradients in XLA on each replica, one all-reduce, Adam."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.layers.dropout import DropoutSeeds
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.loss import Loss, label_smoothed_cross_entropy
from t2t_lite.training.optimizer import Adam

# float16's loss scale starts high, halves at an overflow and doubles after this many updates
# without one.
_FIRST_SCALE, _SCALE_UP_AFTER = 2.0**15, 2000

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


class Report(NamedTuple):
    """One update: its loss summed over all replicas, its learning rate, whether it was applied."""

    loss: Loss
    learning_rate: tf.Tensor
    applied: tf.Tensor


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

    Call arguments:
        inputs: int32 array [R, M, B, S].
        targets: int32 array [R, M, B, T].

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
    ):
        self._model, self._hparams, self._strategy, self._seed = model, hparams, strategy, seed
        self._variables = {variable.path: variable.value for variable in model.trainable_variables}
        self.optimizer = Adam(hparams, self._variables)
        self._scaled = keras.dtype_policies.get(model.dtype_policy).compute_dtype == "float16"
        self.loss_scale = tf.Variable(
            _FIRST_SCALE if self._scaled else 1.0, trainable=False, name="loss_scale"
        )
        self.good_updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="good_updates")
        self.gradients = tf.function(self._gradients, jit_compile=xla, reduce_retracing=False)
        # Lengths and rows vary by bucket: one trace of the outer function for all of them.
        self._update = tf.function(self._update_all, reduce_retracing=True)

    @property
    def step(self) -> int:
        """Updates done."""
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
        return self._update(self._hand_out(inputs), self._hand_out(targets))

    def _hand_out(self, array: np.ndarray):
        """[R, ...] -> each replica's slice, placed on its device."""
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: tf.convert_to_tensor(array[context.replica_id_in_sync_group])
        )

    def _update_all(self, inputs, targets) -> Report:
        report = self._strategy.run(self._update_replica, args=(inputs, targets))
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0], report
        )

    def _update_replica(self, inputs, targets) -> Report:
        context = tf.distribute.get_replica_context()
        seed = tf.stack([tf.cast(self._seed, tf.int32), tf.cast(self.optimizer.step, tf.int32)])
        seed = tf.random.experimental.stateless_fold_in(seed, context.replica_id_in_sync_group)
        loss, gradients = self.gradients(inputs, targets, seed, self.loss_scale.read_value())
        loss, gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, [loss, gradients])
        divisor = loss.tokens * self.loss_scale
        gradients = [gradient / divisor for gradient in gradients]
        finite = tf.constant(True)
        if self._scaled:
            # On the reduced gradients: every replica takes the same decision, whichever overflowed.
            finite = tf.reduce_all(
                [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients]
            )
            self._adapt_scale(finite)
        rate = self.optimizer.apply(gradients, finite)
        return Report(loss, rate, finite)

    def _adapt_scale(self, finite) -> None:
        good = tf.where(finite, self.good_updates + 1, 0)
        raised = good >= _SCALE_UP_AFTER
        factor = tf.where(finite, tf.where(raised, 2.0, 1.0), 0.5)
        self.loss_scale.assign(tf.maximum(1.0, self.loss_scale * factor))
        self.good_updates.assign(tf.where(raised, tf.zeros_like(good), good))

    def _gradients(self, inputs, targets, seed, scale):
        """inputs [M, B, S], targets [M, B, T] -> (Loss, gradients of scale * it), summed over M."""

        def micro_batch(index):
            seeds = DropoutSeeds(tf.random.experimental.stateless_fold_in(seed, index))
            with tf.GradientTape() as tape:
                logits = self._model(inputs[index], targets[index], seeds=seeds)
                loss = label_smoothed_cross_entropy(
                    logits, targets[index], self._hparams.label_smoothing
                )
                scaled = loss.smoothed * scale
            gradients = tape.gradient(scaled, list(self._variables.values()))
            return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

        loss, gradients = micro_batch(0)
        for index in tf.range(1, tf.shape(inputs)[0]) if inputs.shape[0] != 1 else ():
            more_loss, more_gradients = micro_batch(index)
            loss = loss + more_loss
            gradients = [a + b for a, b in zip(gradients, more_gradients)]
        return loss, gradients
