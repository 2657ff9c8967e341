"""Attention against NumPy, and what its masks promise."""

import timeit

import numpy as np
import numpy_transformer as oracle
import pytest
import tensorflow as tf
from layer_checks import assert_bfloat16, randomise, twin, weights

from t2t_lite.layers.attention import (
    MultiHeadAttention,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)
from t2t_lite.layers.dropout import DropoutSeeds

B, T, S, D, H = 2, 4, 6, 10, 3
IDS = np.array([[5, 7, 4, 9, 1, 0], [8, 1, 0, 0, 0, 0]], np.int32)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X, MEMORY = normal(1, B, T, D), normal(2, B, S, D)


@pytest.fixture(scope="module")
def attention():
    """d_k, d_v and d_model / num_heads all differ."""
    layer = MultiHeadAttention(H, d_k=4, d_v=5)
    layer.build((None, None, D))
    return randomise(layer)


def test_masks():
    mask = padding_mask(IDS)
    assert mask.shape == (B, 1, 1, S)
    np.testing.assert_array_equal(mask[:, 0, 0], IDS != 0)
    np.testing.assert_array_equal(causal_mask(T)[0, 0], np.tril(np.ones((T, T), bool)))


def test_scaled_dot_product_attention():
    queries, keys, values = normal(3, B, H, T, 4), normal(4, B, H, S, 4), normal(5, B, H, S, 5)
    mask = np.random.default_rng(6).random((B, 1, T, S)) < 0.6
    mask[..., 0] = True
    result, probabilities = scaled_dot_product_attention(queries, keys, values, mask)
    expected = oracle.attention(*(x.astype(np.float64) for x in (queries, keys, values)), mask)
    np.testing.assert_allclose(result, expected, atol=1e-6)
    np.testing.assert_allclose(np.sum(probabilities, axis=-1), 1, atol=1e-6)
    assert np.all(probabilities.numpy()[~np.broadcast_to(mask, (B, H, T, S))] == 0)


@pytest.mark.parametrize(
    "memory, mask", [(X, causal_mask), (MEMORY, lambda length: padding_mask(IDS))]
)
def test_multi_head_attention(attention, memory, mask):
    mask = np.array(mask(T))
    expected = oracle.multi_head_attention(X, memory, mask[:, 0], weights(attention), H)
    np.testing.assert_allclose(attention(X, memory, mask), expected, atol=1e-5)


def test_the_projections_have_no_bias(attention):
    shapes = {path: value.shape for path, value in weights(attention).items()}
    assert shapes == {
        "query/kernel": (D, 12),
        "key/kernel": (D, 12),
        "value/kernel": (D, 15),
        "output/kernel": (15, D),
    }


def test_padding_has_no_influence(attention):
    mask = padding_mask(IDS)
    changed = np.where(mask[:, 0, 0, :, None], MEMORY, 1000 * normal(7, B, S, D))
    np.testing.assert_array_equal(attention(X, MEMORY, mask), attention(X, changed, mask))


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_row_with_all_masked_is_the_mean_and_not_nan(policy):
    layer = MultiHeadAttention(H, d_k=4, d_v=5, dtype=policy)
    layer.build((None, None, D))
    randomise(layer)
    result = tf.cast(layer(X, MEMORY, np.zeros((B, 1, 1, S), bool)), "float32")
    mean = (
        MEMORY.mean(axis=1, keepdims=True)
        @ weights(layer)["value/kernel"]
        @ weights(layer)["output/kernel"]
    )
    np.testing.assert_allclose(
        result, np.broadcast_to(mean, X.shape), atol=1e-5 if policy == "float32" else 0.05
    )


def test_no_attention_to_the_right(attention):
    changed = X.copy()
    changed[:, 2:] = normal(8, B, T - 2, D)
    one, other = (attention(x, x, causal_mask(T)).numpy() for x in (X, changed))
    np.testing.assert_array_equal(one[:, :2], other[:, :2])
    assert np.all(np.any(one[:, 2:] != other[:, 2:], axis=-1))


def test_made_in_parts_as_in_decoding(attention):
    mask = padding_mask(IDS)
    keys, values = attention.project_memory(MEMORY)
    assert keys.shape == (B, H, S, 4) and values.shape == (B, H, S, 5)
    result, probabilities = attention.attend(attention.project_queries(X), keys, values, mask)
    assert probabilities.shape == (B, H, T, S)
    np.testing.assert_allclose(result, attention(X, MEMORY, mask), atol=1e-6)


def test_a_causal_mask_costs_little():
    """TensorFlow's optimizer must not find a product and an addition to fuse: that kernel took 100 times as long."""
    x = tf.random.normal([16, 4, 64, 16])

    def seconds(mask):
        attend = tf.function(lambda x: scaled_dot_product_attention(x, x, x, mask)[0])
        attend(x)
        return min(timeit.repeat(lambda: attend(x).numpy(), number=1, repeat=5))

    assert seconds(causal_mask(64)) < 10 * seconds(tf.ones([16, 1, 1, 64], tf.bool))


def test_dropout_is_on_the_attention_weights():
    layer = MultiHeadAttention(1, d_k=D, d_v=D, dropout=0.5)
    layer.build((None, None, D))
    for part in (layer.value, layer.output_projection):
        part.kernel.assign(np.eye(D))
    memory = np.broadcast_to(
        np.eye(S, D, dtype=np.float32), (B, S, D)
    )  # so the result is the weights
    mask = np.ones((1, 1, 1, S), bool)
    plain = layer(X, memory, mask).numpy()[..., :S]
    dropped = layer(X, memory, mask, seeds=DropoutSeeds(tf.constant([1, 2]))).numpy()[..., :S]
    assert 0 < np.mean(dropped == 0) < 1
    np.testing.assert_allclose(dropped[dropped != 0], 2 * plain[dropped != 0], rtol=1e-5)


def test_configuration():
    layer = MultiHeadAttention(H, 4, 5, dropout=0.1, dtype="mixed_bfloat16", name="attention")
    layer.build((None, None, D))
    other = twin(randomise(layer), None, None, D)
    one, same = (
        each(X, MEMORY, padding_mask(IDS), seeds=DropoutSeeds(tf.constant([1, 2])))
        for each in (layer, other)
    )
    np.testing.assert_array_equal(tf.cast(one, "float32"), tf.cast(same, "float32"))


def test_bfloat16(attention):
    layer = MultiHeadAttention(H, 4, 5, dtype="mixed_bfloat16")
    layer.build((None, None, D))
    layer.set_weights(attention.get_weights())
    mask = padding_mask(IDS)
    assert_bfloat16(layer, layer, X, MEMORY, mask)
    result = layer(X, MEMORY, mask)
    assert result.dtype == "bfloat16"
    np.testing.assert_allclose(tf.cast(result, "float32"), attention(X, MEMORY, mask), atol=0.05)
    queries, keys = layer.project_queries(X), layer.project_memory(MEMORY)
    assert layer.attend(queries, *keys, mask)[1].dtype == "float32"
