"""Restricted self-attention against full attention behind a mask of its band, and what it costs."""

import math

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import randomise
from numpy_transformer import neighbours

from t2t_lite.layers.attention import MultiHeadAttention, SelfAttention
from t2t_lite.layers.dropout import DropoutSeeds
from t2t_lite.layers.restricted_attention import RestrictedSelfAttention

D, HEADS = 8, (2, 3, 5)  # h, d_k, d_v
LENGTHS = [37, 20, 1]  # of sentences that are padded to 37


def inputs(rows, length):
    x = np.random.default_rng(1).normal(size=(rows, length, D)).astype(np.float32)
    lengths = np.minimum(LENGTHS[:rows], length)
    return x, (np.arange(length) < lengths[:, None])[:, None, None]


def both(neighbourhood):
    """The layer, and MultiHeadAttention of the same weights."""
    layer, full = RestrictedSelfAttention(neighbourhood, *HEADS), MultiHeadAttention(*HEADS)
    for one in layer, full:
        one.build((None, None, D))
    full.set_weights(randomise(layer).get_weights())
    return layer, full


@pytest.mark.parametrize("neighbourhood", [1, 2, 7, 16, 40, 41, 200])
@pytest.mark.parametrize("length", [1, 16, 37])
def test_equals_full_attention_behind_a_mask(neighbourhood, length):
    layer, full = both(neighbourhood)
    x, padding = inputs(3, length)
    expected, weights = full(x, x, padding & neighbours(length, neighbourhood))
    found, whole = layer(x, padding, return_attention=True)
    seen = padding[:, 0, 0]
    np.testing.assert_allclose(found.numpy()[seen], expected.numpy()[seen], atol=1e-5)
    rows = [np.swapaxes(attention, 1, 2)[seen] for attention in (whole, weights)]
    np.testing.assert_allclose(*rows, atol=1e-6)


def test_a_neighbourhood_of_all_is_self_attention():
    layer, _ = both(100)
    other = SelfAttention(*HEADS)
    other.build((None, None, D))
    other.set_weights(layer.get_weights())
    x, padding = inputs(1, 37)
    np.testing.assert_allclose(layer(x, padding)[0], other(x, padding)[0], atol=1e-5)


def test_gradients_are_those_of_full_attention():
    layer, full = both(9)
    x, padding = inputs(1, 37)
    gradients = []
    for call in (
        lambda: layer(x, padding)[0],
        lambda: full(x, x, padding & neighbours(37, 9))[0],
    ):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(call()))
        variables = layer if not gradients else full
        gradients.append(tape.gradient(loss, [v.value for v in variables.trainable_variables]))
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_attention_is_dropped_out_in_training():
    layer = RestrictedSelfAttention(5, *HEADS, dropout=0.5)
    layer.build((None, None, D))
    x, padding = inputs(1, 20)
    dropped = layer(x, padding, seeds=DropoutSeeds(tf.constant([1, 2])))[0]
    assert np.abs(dropped - layer(x, padding)[0]).max() > 0.01


def numbers(length):
    """How many all operations of an update's forward and backward pass yield, and the largest."""
    layer, _ = both(64)

    @tf.function(autograph=False)
    def update(x, mask):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, mask)[0])
        return tape.gradient(loss, [variable.value for variable in layer.trainable_variables])

    spec = tf.TensorSpec([1, length, D]), tf.TensorSpec([1, 1, 1, length], tf.bool)
    graph = update.get_concrete_function(*spec).graph
    sizes = [
        math.prod(output.shape)
        for operation in graph.get_operations()
        for output in operation.outputs
        if output.shape.is_fully_defined()
    ]
    return sum(sizes), max(sizes)


def test_twice_the_length_has_twice_as_many_numbers():
    """Hence takes twice the memory and time; of 8,192 positions squared there is nothing."""
    (total, _), (twice, largest) = numbers(8192), numbers(16384)
    assert 1.9 < twice / total < 2.01
    assert largest <= 2 * 16384 * 3 * 32  # h, positions, places of their windows
