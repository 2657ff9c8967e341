"""Label-smoothed cross-entropy against NumPy, its gradient, and that its parts add up."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.training.loss import (
    Loss,
    label_smoothed_cross_entropy,
    negative_log_likelihood,
)

B, T, V = 3, 5, 7
RANDOM = np.random.default_rng(1)
LOGITS = RANDOM.normal(scale=3, size=(B, T, V)).astype(np.float32)
TARGETS = RANDOM.integers(1, V, (B, T)).astype(np.int32)
TARGETS[0, 3:] = TARGETS[1, 1:] = 0  # padding
SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1])


def expected(logits, targets, smoothing):
    """Symbol by symbol in float64."""
    smoothed = nll = correct = tokens = 0
    for row, target in zip(logits.reshape(-1, V).astype(np.float64), targets.reshape(-1)):
        if target == 0:
            continue
        log_probs = row - row.max() - np.log(np.sum(np.exp(row - row.max())))
        wanted = np.full(V, smoothing / V)
        wanted[target] += 1 - smoothing
        smoothed -= wanted @ log_probs
        nll -= log_probs[target]
        correct += np.argmax(row) == target
        tokens += 1
    return smoothed, nll, correct, tokens


@SMOOTHING
def test_equals_numpy(smoothing):
    loss = label_smoothed_cross_entropy(LOGITS, TARGETS, smoothing)
    np.testing.assert_allclose(loss, expected(LOGITS, TARGETS, smoothing), rtol=1e-5)
    assert loss.tokens == np.count_nonzero(TARGETS)
    assert {value.dtype for value in loss} == {tf.float32}
    if smoothing == 0:
        assert float(loss.smoothed) == pytest.approx(float(loss.nll), rel=1e-6)


@pytest.mark.parametrize("scale", [1, 100])
def test_negative_log_likelihood(scale):
    nll, correct = negative_log_likelihood(tf.constant(LOGITS * scale), tf.constant(TARGETS))
    log_probs = tf.nn.log_softmax(tf.cast(LOGITS * scale, tf.float64))
    expected = -np.take_along_axis(log_probs.numpy(), TARGETS[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(nll, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(correct, LOGITS.argmax(-1) == TARGETS)


@SMOOTHING
def test_gradient_is_that_of_the_plain_formula(smoothing):
    logits = tf.constant(LOGITS, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        wanted = tf.one_hot(TARGETS, V, dtype=tf.float64) * (1 - smoothing) + smoothing / V
        losses = -tf.reduce_sum(wanted * tf.nn.log_softmax(logits), axis=-1)
        plain = tf.reduce_sum(losses * tf.cast(TARGETS != 0, tf.float64))
    reference = tape.gradient(plain, logits)

    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = label_smoothed_cross_entropy(logits, TARGETS, smoothing).smoothed
    gradient = tape.gradient(loss, logits).numpy()
    np.testing.assert_allclose(gradient, reference, atol=1e-6)
    assert np.all(gradient[TARGETS == 0] == 0)


def test_what_is_only_reported_has_no_gradient():
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = label_smoothed_cross_entropy(logits, TARGETS, 0.1)
    assert tape.gradient([loss.nll, loss.correct], logits) is None


def test_parts_of_a_batch_add_up_to_the_whole():
    whole = label_smoothed_cross_entropy(LOGITS, TARGETS, 0.1)
    parts = [
        label_smoothed_cross_entropy(LOGITS[i : i + 1], TARGETS[i : i + 1], 0.1) for i in range(B)
    ]
    assert len({float(part.tokens) for part in parts}) == B
    total = parts[0] + parts[1] + parts[2]
    assert isinstance(total, Loss)
    np.testing.assert_allclose(total, whole, rtol=1e-6)


def test_padding_alone_is_nothing():
    assert list(label_smoothed_cross_entropy(LOGITS, np.zeros_like(TARGETS), 0.1)) == [0, 0, 0, 0]


def test_extreme_logits_are_finite():
    loss = label_smoothed_cross_entropy(LOGITS * 1e4, TARGETS, 0.1)
    np.testing.assert_allclose(loss, expected(LOGITS * np.float32(1e4), TARGETS, 0.1), rtol=1e-5)


def test_the_smoothed_distribution_itself_is_the_minimum():
    wanted = np.full(V, 0.1 / V)
    wanted[2] += 0.9
    target = np.array([[2]], np.int32)
    logits = np.log(wanted)[None, None].astype(np.float32)
    best = label_smoothed_cross_entropy(logits, target, 0.1).smoothed
    assert float(best) == pytest.approx(-np.sum(wanted * np.log(wanted)), rel=1e-5)  # its entropy
    for column in range(V):
        worse = logits + 0.1 * np.eye(V, dtype=np.float32)[column]
        assert label_smoothed_cross_entropy(worse, target, 0.1).smoothed > best
