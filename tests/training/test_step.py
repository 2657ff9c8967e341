"""One update: the same however a batch is cut, on one device or two, with XLA or without; float16; dropout; traces.

The two devices are logical ones of the CPU, see the tests' conftest.py. Batches are [R, M, B, S]: replicas, micro-batches
of each, rows, symbols.
"""

import functools
import re
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import operations, product_types, randomise

from t2t_lite.config import HParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.devices import choose_xla
from t2t_lite.training.step import POLICIES, TrainStep

N, S, T, V = 8, 7, 6, 20  # N: rows of the whole batch, R * M * B
HPARAMS = HParams(
    num_encoder_layers=1, num_decoder_layers=1, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8,
    dropout=0.0, schedule="constant", learning_rate=1e-3, warmup_steps=0,
)  # fmt: skip


def batch(seed):
    """inputs [N, S], targets [N, T]; the rows get ever shorter and the last is padding alone, as at an epoch's end."""
    random = np.random.default_rng(seed)
    sides = []
    for length in (S, T):
        ids = random.integers(2, V, (N, length)).astype(np.int32)
        for row, used in enumerate(np.linspace(length, 1, N - 1).astype(int)):
            ids[row, used - 1] = 1
            ids[row, used:] = 0
        ids[-1] = 0
        sides.append(ids)
    return sides


def cut(array, replicas, micro_batches):
    """[N, S] -> [R, M, B, S]."""
    return array.reshape(replicas, micro_batches, -1, array.shape[-1])


def new_step(replicas=1, *, xla=False, precision="float32", hparams=HPARAMS, seed=1):
    """-> (model, step, strategy)."""
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(replicas)])
    with strategy.scope():
        model = randomise(Transformer(hparams, V, V, shared=True, dtype=POLICIES[precision], name="transformer"))
        return model, TrainStep(model, hparams, strategy, seed=seed, xla=xla), strategy


def copies(strategy, variable):
    """A variable's value on each replica."""
    return [copy.numpy() for copy in strategy.experimental_local_results(variable)]


def everything(strategy, model, step):
    """{name: [value on each replica]} of all that an update may change, but the loss scale and its counter."""
    slots = {name: value for name, value in step.state().items() if name not in ("loss_scale", "good_updates")}
    weights = {variable.path: variable.value for variable in model.variables}
    return {name: copies(strategy, variable) for name, variable in {**weights, **slots}.items()}


class Trained(NamedTuple):
    gradients: list  # of the first update as the optimiser gets them, one array a variable
    losses: list
    weights: list


def train(replicas, micro_batches, xla=False, updates=20, spoil=None) -> Trained:
    """Trains on batches of unequal token counts; `spoil`, a function of the step, breaks something first."""
    model, step, strategy = new_step(replicas, xla=xla)
    with strategy.scope():
        reduced = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in model.trainable_variables]
    apply = step.optimizer.apply

    def record_and_apply(gradients, finite):
        for variable, gradient in zip(reduced, gradients):
            variable.assign(gradient)
        apply(gradients, finite)

    step.optimizer.apply = record_and_apply
    if spoil:
        spoil(step)
    losses = []
    for update in range(updates):
        inputs, targets = batch(update % 4)
        report = step(cut(inputs, replicas, micro_batches), cut(targets, replicas, micro_batches))
        assert report.applied and (spoil or report.loss.tokens == np.count_nonzero(targets))
        losses.append(float(report.loss.smoothed / report.loss.tokens))
        if update == 0:
            first = [copies(strategy, variable) for variable in reduced]
    weights = [copies(strategy, variable.value) for variable in model.variables]
    assert step.step == updates
    for first_copy, *others in first + weights:
        for other in others:
            np.testing.assert_array_equal(other, first_copy)
    return Trained([copies_[0] for copies_ in first], losses, [copies_[0] for copies_ in weights])


@functools.cache
def one_device() -> Trained:
    return train(1, 1)


def gradient_difference(a, b):
    """Over all variables, the largest difference relative to the largest element."""
    return max(np.max(np.abs(x - y)) / np.max(np.abs(y)) for x, y in zip(a, b, strict=True))


def weight_difference(a, b):
    return max(np.max(np.abs(x - y)) for x, y in zip(a, b, strict=True))


def test_token_counts_of_the_replicas_are_unequal():
    for seed in range(4):
        first, second = cut(batch(seed)[1], 2, 1)
        assert np.count_nonzero(first) > 2 * np.count_nonzero(second) > 0


def test_one_device_has_the_gradients_of_the_plain_formula():
    model, (inputs, targets) = new_step()[0], batch(0)
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        log_probs = tf.nn.log_softmax(model(inputs, targets))
        wanted = tf.one_hot(targets, V) * 0.9 + 0.1 / V
        real = tf.cast(targets != 0, tf.float32)
        loss = -tf.reduce_sum(tf.reduce_sum(wanted * log_probs, axis=-1) * real) / tf.reduce_sum(real)
    plain = [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(loss, variables)]
    assert gradient_difference(one_device().gradients, plain) < 1e-5
    assert one_device().losses[0] == pytest.approx(float(loss), rel=1e-5)


def test_the_loss_falls():
    losses = one_device().losses
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    "replicas, micro_batches, xla",
    [(1, 2, False), (1, 4, False), (2, 1, False), (2, 2, False), (1, 1, True), (2, 2, True)],
)
def test_however_a_batch_is_cut(replicas, micro_batches, xla):
    trained = train(replicas, micro_batches, xla)
    assert gradient_difference(trained.gradients, one_device().gradients) < 1e-5
    np.testing.assert_allclose(trained.losses, one_device().losses, rtol=1e-4)
    assert weight_difference(trained.weights, one_device().weights) < 1e-4


def mean_of_replicas(step):
    """Each replica divides by its own count, and the means are averaged."""
    right = step.gradients

    def wrong(*arguments):
        loss, gradients = right(*arguments)
        return loss._replace(tokens=tf.constant(1.0)), [gradient / loss.tokens for gradient in gradients]

    step.gradients = wrong


def first_micro_batch_alone(step):
    right = step.gradients
    step.gradients = lambda inputs, targets, *rest: right(inputs[:1], targets[:1], *rest)


def one_replica_alone(step):
    right = step.gradients

    def wrong(*arguments):
        me = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.nest.map_structure(lambda value: value * tf.cast(me == 1, value.dtype), right(*arguments))

    step.gradients = wrong


@pytest.mark.parametrize("spoil", [mean_of_replicas, first_micro_batch_alone, one_replica_alone])
def test_a_wrong_reduction_is_detected(spoil):
    """Without this, the tests above might compare what can't differ."""
    trained = train(2, 2, spoil=spoil)
    assert gradient_difference(trained.gradients, one_device().gradients) > 0.01
    assert weight_difference(trained.weights, one_device().weights) > 2e-4
