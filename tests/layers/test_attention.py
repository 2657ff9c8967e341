"""Attention against NumPy, and what its masks promise."""

import numpy as np
import numpy_transformer as oracle
import pytest
import tensorflow as tf
from layer_checks import operations, randomise, weights

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
    np.testing.assert_allclose(attention(X, memory, mask)[0], expected, atol=1e-5)


def test_the_projections_have_no_bias(attention):
    shapes = {path: value.shape for path, value in weights(attention).items()}
    assert shapes == {
        "query/kernel": (D, 12),
        "key/kernel": (D, 12),
        "value/kernel": (D, 15),
        "output/kernel": (15, D),
    }


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_row_with_all_masked_is_the_mean_and_not_nan(policy):
    layer = MultiHeadAttention(H, d_k=4, d_v=5, dtype=policy)
    layer.build((None, None, D))
    randomise(layer)
    result = tf.cast(layer(X, MEMORY, np.zeros((B, 1, 1, S), bool))[0], "float32")
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
    one, other = (attention(x, x, causal_mask(T))[0].numpy() for x in (X, changed))
    np.testing.assert_array_equal(one[:, :2], other[:, :2])
    assert np.all(np.any(one[:, 2:] != other[:, 2:], axis=-1))


def test_made_in_parts_as_in_decoding(attention):
    mask = padding_mask(IDS)
    keys, values = attention.project_memory(MEMORY)
    assert keys.shape == (B, H, S, 4) and values.shape == (B, H, S, 5)
    result, probabilities = attention.attend(attention.project_queries(X), keys, values, mask)
    whole, expected = attention(X, MEMORY, mask)
    np.testing.assert_array_equal(result, whole)
    np.testing.assert_array_equal(probabilities, expected)


def test_a_penalty_is_subtracted_from_the_scores(attention):
    queries, keys, values = normal(3, B, H, T, 4), normal(4, B, H, S, 4), normal(5, B, H, S, 5)
    mask, penalty = np.array(padding_mask(IDS)), normal(6, B, H, T, S)
    result, _ = scaled_dot_product_attention(queries, keys, values, mask, penalty)
    expected = oracle.attention(queries, keys, values, mask, -penalty)
    np.testing.assert_allclose(result, expected, atol=1e-5)
    expected = oracle.multi_head_attention(X, MEMORY, mask[:, 0], weights(attention), H, -penalty)
    result, _ = attention(X, MEMORY, mask, penalty=penalty)
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_without_a_mask_everything_is_seen():
    queries, keys, values = normal(3, B, H, T, 4), normal(4, B, H, S, 4), normal(5, B, H, S, 5)
    result, _ = scaled_dot_product_attention(queries, keys, values)
    np.testing.assert_allclose(result, oracle.attention(queries, keys, values, True), atol=1e-5)


@pytest.mark.parametrize("mask", [causal_mask, lambda length: tf.ones([1, 1, 1, length], tf.bool)])
def test_nothing_is_added_to_a_product(mask):
    """On a CPU TensorFlow would fuse the two, and that kernel takes 100 times as long."""
    x = tf.TensorSpec([16, 4, 64, 16])
    found = operations(lambda x: scaled_dot_product_attention(x, x, x, mask(64))[0], x)
    kinds = {kind for kind, _ in found}
    assert "Sub" in kinds and not {"Add", "AddV2", "BiasAdd"} & kinds


def test_weights_are_float32_whatever_the_precision(attention):
    layer = MultiHeadAttention(H, 4, 5, dtype="mixed_bfloat16")
    layer.build((None, None, D))
    layer.set_weights(attention.get_weights())
    result, probabilities = layer(X, MEMORY, padding_mask(IDS))
    assert (result.dtype, probabilities.dtype) == ("bfloat16", "float32")


def test_dropout_is_on_the_attention_weights():
    layer = MultiHeadAttention(1, d_k=D, d_v=D, dropout=0.5)
    layer.build((None, None, D))
    for part in (layer.value, layer.output_projection):
        part.kernel.assign(np.eye(D))
    memory = np.broadcast_to(
        np.eye(S, D, dtype=np.float32), (B, S, D)
    )  # so the result is the weights
    mask = np.ones((1, 1, 1, S), bool)
    plain = layer(X, memory, mask)[0].numpy()[..., :S]
    seeds = DropoutSeeds(tf.constant([1, 2]))
    dropped = layer(X, memory, mask, seeds=seeds)[0].numpy()[..., :S]
    assert 0 < np.mean(dropped == 0) < 1
    np.testing.assert_allclose(dropped[dropped != 0], 2 * plain[dropped != 0], rtol=1e-5)
