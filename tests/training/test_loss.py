"""Label-smoothed cross-entropy against NumPy, its gradients, and that its parts add up."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.training import loss as loss_module
from t2t_lite.training.loss import (
    Loss,
    label_smoothed_cross_entropy,
    negative_log_likelihood,
)

B, T, D, V = 3, 5, 4, 7
RANDOM = np.random.default_rng(1)
STATES = RANDOM.normal(scale=2, size=(B, T, D)).astype(np.float32)
MATRIX = RANDOM.normal(scale=2, size=(V, D)).astype(np.float32)
LOGITS = STATES @ MATRIX.T
TARGETS = RANDOM.integers(1, V, (B, T)).astype(np.int32)
TARGETS[0, 3:] = TARGETS[1, 1:] = 0  # padding
SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1])


@pytest.fixture(params=[1, 4, 1000], ids="{} rows at a time".format)
def rows(request, monkeypatch):
    """How many rows of logits exist at a time."""
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", 4 * V * request.param)


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
def test_equals_numpy(rows, smoothing):
    loss = label_smoothed_cross_entropy(STATES, MATRIX, TARGETS, smoothing)
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


def plain_gradients(smoothing):
    """By TensorFlow, of logits that exist whole, in float64."""
    factors = tf.constant(STATES, tf.float64), tf.constant(MATRIX, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(factors)
        logits = tf.matmul(factors[0], factors[1], transpose_b=True)
        wanted = tf.one_hot(TARGETS, V, dtype=tf.float64) * (1 - smoothing) + smoothing / V
        losses = -tf.reduce_sum(wanted * tf.nn.log_softmax(logits), axis=-1)
        plain = tf.reduce_sum(losses * tf.cast(TARGETS != 0, tf.float64))
    return tape.gradient(plain, factors)


def gradients(smoothing, xla=False, dtype=tf.float32, scale=1.0):
    """Those of the loss times `scale`, taken back out."""

    @tf.function(jit_compile=xla, autograph=False)
    def run(states, matrix):
        with tf.GradientTape() as tape:
            tape.watch([states, matrix])
            loss = label_smoothed_cross_entropy(
                tf.cast(states, dtype), matrix, tf.constant(TARGETS), smoothing, scale
            )
            scaled = loss.smoothed * scale
        return [each / scale for each in tape.gradient(scaled, [states, matrix])]

    return run(tf.constant(STATES), tf.constant(MATRIX))


@SMOOTHING
@pytest.mark.parametrize("xla", [False, True])
def test_gradients_are_those_of_the_plain_formula(rows, smoothing, xla):
    found = gradients(smoothing, xla)
    for gradient, reference in zip(found, plain_gradients(smoothing)):
        np.testing.assert_allclose(gradient, reference, atol=1e-6 * np.abs(reference).max())
    assert np.all(found[0].numpy()[TARGETS == 0] == 0)


@pytest.mark.parametrize("dtype, tolerance", [("bfloat16", 2e-2), ("float16", 2e-3)])
def test_gradients_of_narrow_numbers(rows, dtype, tolerance):
    found = gradients(0.1, dtype=dtype, scale=1024.0)
    for gradient, reference in zip(found, plain_gradients(0.1)):
        np.testing.assert_allclose(gradient, reference, atol=tolerance * np.abs(reference).max())


def test_a_scale_keeps_small_gradients_in_float16():
    """Of symbols that are nearly certain: 1e-8 is 0 in float16."""
    states = np.eye(1, D, dtype=np.float32)[None] * 10
    matrix = np.zeros((V, D), np.float32)
    matrix[2, 0] = 1.8
    target = np.array([[2]], np.int32)

    def norm(scale):
        with tf.GradientTape() as tape:
            variable = tf.Variable(matrix)
            half = tf.cast(states, tf.float16)
            loss = label_smoothed_cross_entropy(half, variable, target, 0.0, scale)
            scaled = loss.smoothed * scale
        return float(tf.norm(tape.gradient(scaled, variable)) / scale)

    assert norm(1.0) < norm(2.0**15)


def test_the_logits_never_exist_whole():
    """No tensor of the graph has a row for each target and a column for each symbol."""
    many = 5000  # so that a chunk is of fewer rows
    inputs = tf.TensorSpec([1, 4096, D]), tf.TensorSpec([many, D])

    def run(states, matrix):
        with tf.GradientTape() as tape:
            tape.watch([states, matrix])
            targets = tf.ones([1, 4096], tf.int32)
            loss = label_smoothed_cross_entropy(states, matrix, targets, 0.1)
        return tape.gradient(loss.smoothed, [states, matrix])

    graph = tf.function(run, inputs, autograph=False).get_concrete_function().graph
    graphs = [graph, *(graph._get_function(name).graph for name in functions_of(graph))]
    sizes = [
        output.shape.num_elements() or 0
        for each in graphs
        for operation in each.get_operations()
        for output in operation.outputs
        if output.shape.rank is not None
    ]
    assert len(graphs) > 1 and max(sizes) <= loss_module.CHUNK_BYTES // 4
    assert max(sizes) > many * 1000


def functions_of(graph):
    """The names of the functions that a graph's operations call."""
    return [function.signature.name for function in graph.as_graph_def().library.function]


def test_what_is_only_reported_has_no_gradient():
    states = tf.constant(STATES)
    with tf.GradientTape() as tape:
        tape.watch(states)
        loss = label_smoothed_cross_entropy(states, MATRIX, TARGETS, 0.1)
    assert tape.gradient([loss.nll, loss.correct], states) is None


def test_parts_of_a_batch_add_up_to_the_whole():
    whole = label_smoothed_cross_entropy(STATES, MATRIX, TARGETS, 0.1)
    parts = [
        label_smoothed_cross_entropy(STATES[i : i + 1], MATRIX, TARGETS[i : i + 1], 0.1)
        for i in range(B)
    ]
    assert len({float(part.tokens) for part in parts}) == B
    total = parts[0] + parts[1] + parts[2]
    assert isinstance(total, Loss)
    np.testing.assert_allclose(total, whole, rtol=1e-6)


def test_padding_alone_is_nothing(rows):
    nothing = label_smoothed_cross_entropy(STATES, MATRIX, np.zeros_like(TARGETS), 0.1)
    assert list(nothing) == [0, 0, 0, 0]


def test_extreme_logits_are_finite():
    loss = label_smoothed_cross_entropy(STATES * np.float32(1e4), MATRIX, TARGETS, 0.1)
    np.testing.assert_allclose(loss, expected(LOGITS * np.float32(1e4), TARGETS, 0.1), rtol=1e-5)


def test_the_smoothed_distribution_itself_is_the_minimum():
    wanted = np.full(V, 0.1 / V)
    wanted[2] += 0.9
    target = np.array([[2]], np.int32)
    logits = np.log(wanted)[None, None].astype(np.float32)
    unit = np.eye(V, dtype=np.float32)

    def smoothed(logits):
        return label_smoothed_cross_entropy(logits, unit, target, 0.1).smoothed

    best = smoothed(logits)
    assert float(best) == pytest.approx(-np.sum(wanted * np.log(wanted)), rel=1e-5)  # its entropy
    for column in range(V):
        assert smoothed(logits + 0.1 * unit[column]) > best
