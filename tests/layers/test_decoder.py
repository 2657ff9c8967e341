"""The decoder against NumPy; its cached step against the whole; no influence from the right."""

import numpy as np
import numpy_transformer as oracle
import pytest
import tensorflow as tf
from layer_checks import assert_bfloat16, randomise, twin, weights

from t2t_lite.config import HParams
from t2t_lite.layers.attention import causal_mask
from t2t_lite.layers.decoder import Decoder, DecoderLayer
from t2t_lite.layers.dropout import DropoutSeeds

POST = HParams(num_decoder_layers=2, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5, dropout=0.2)
PRE = POST.replace(norm="pre")
NORMS = pytest.mark.parametrize("hparams", [POST, PRE], ids=["post", "pre"])

B, W, T, S = 2, 3, 4, 5
SOURCE = np.array([[5, 7, 4, 1, 0], [8, 1, 0, 0, 0]], np.int32)
MASK = (SOURCE != 0)[:, None, None]
X, MEMORY = (
    np.random.default_rng(n).normal(size=(B, length, 8)).astype(np.float32)
    for n, length in ((1, T), (2, S))
)


def built(kind, hparams, **kwargs):
    layer = kind(hparams, **kwargs)
    layer.build((None, None, 8))
    return randomise(layer)


@NORMS
def test_layer_equals_numpy(hparams):
    layer = built(DecoderLayer, hparams)
    expected = oracle.decoder_layer(
        X, MEMORY, np.tril(np.ones((T, T), bool)), MASK[:, 0], weights(layer), hparams
    )
    np.testing.assert_allclose(layer(X, MEMORY, causal_mask(T), MASK), expected, atol=1e-5)


@NORMS
def test_stack_equals_numpy(hparams):
    decoder = built(Decoder, hparams)
    expected = oracle.decoder(X, MEMORY, MASK[:, 0], weights(decoder), hparams)
    np.testing.assert_allclose(decoder(X, MEMORY, MASK), expected, atol=1e-5)


@NORMS
def test_attention_to_the_memory(hparams):
    """The weights of each layer, on which its output depends as Eq. 1 says: no weight on padding, one on all else."""
    decoder = built(Decoder, hparams)
    layers = decoder.attention(X, MEMORY, MASK)
    assert [tuple(weights.shape) for weights in layers] == [(B, hparams.num_heads, T, S)] * 2
    for layer in layers:
        np.testing.assert_allclose(np.sum(layer, axis=-1), 1, atol=1e-6)
        assert not np.any(np.where(MASK, 0, layer))
    assert np.abs(layers[0] - layers[1]).max() > 0.01
    first = decoder.layers[0]
    x, mine = first.with_attention(X, MEMORY, causal_mask(T), MASK)
    np.testing.assert_array_equal(mine, layers[0])
    np.testing.assert_array_equal(x, first(X, MEMORY, causal_mask(T), MASK))


def test_a_position_depends_on_no_later_one():
    decoder = built(Decoder, POST)
    for position in range(T):
        changed = X.copy()
        changed[:, position] += 1
        difference = np.abs(
            decoder(changed, MEMORY, MASK).numpy() - decoder(X, MEMORY, MASK).numpy()
        ).max(axis=(0, 2))
        assert np.all(difference[:position] == 0) and np.all(difference[position:] > 1e-4)


def test_source_padding_neither_counts_nor_makes_nan():
    decoder = built(Decoder, POST)
    changed = np.where(MASK[:, 0, 0, :, None], MEMORY, 100.0).astype(np.float32)
    np.testing.assert_array_equal(decoder(X, changed, MASK), decoder(X, MEMORY, MASK))
    assert np.all(np.isfinite(decoder(X, MEMORY, np.zeros_like(MASK))))


@NORMS
def test_cached_steps_equal_the_whole(hparams):
    """Of W beams with different symbols each, in a cache longer than needed; the memory is not tiled."""
    decoder = built(Decoder, hparams)
    beams = np.random.default_rng(3).normal(size=(B, W, T, 8)).astype(np.float32)
    whole = [decoder(beams[:, beam], MEMORY, MASK).numpy() for beam in range(W)]
    memories, cache = decoder.project_memory(MEMORY), decoder.start_cache(B, W, T + 3)
    assert [(k.shape, v.shape) for k, v in memories] == [((B, 2, S, 3), (B, 2, S, 5))] * 2
    shapes = {
        "keys": (B, 2, T + 3, W, 3),
        "values": (B, 2, T + 3, W, 5),
        "past_keys": (B, 2, 0, 3),
        "past_values": (B, 2, 0, 5),
    }
    for position in range(T):
        x, cache = decoder.step(beams[:, :, position], tf.constant(position), memories, MASK, cache)
        assert [
            {name: tuple(part.shape) for name, part in layer.items()} for layer in cache["layers"]
        ] == [shapes] * 2
        for beam in range(W):
            np.testing.assert_allclose(x[:, beam], whole[beam][:, position], atol=1e-5)


def test_dropout_only_with_seeds():
    decoder = built(Decoder, POST)
    plain, again = (decoder(X, MEMORY, MASK).numpy() for _ in range(2))
    one, same, other = (
        decoder(X, MEMORY, MASK, seeds=DropoutSeeds(tf.constant([1, n]))).numpy() for n in (2, 2, 3)
    )
    np.testing.assert_array_equal(plain, again)
    np.testing.assert_array_equal(one, same)
    assert np.any(one != plain) and np.any(one != other)


def test_configuration():
    decoder = built(Decoder, PRE, name="decoder")
    np.testing.assert_array_equal(
        twin(decoder, None, None, 8)(X, MEMORY, MASK), decoder(X, MEMORY, MASK)
    )
    layer = built(DecoderLayer, POST, name="layer")
    arguments = X, MEMORY, causal_mask(T), MASK
    np.testing.assert_array_equal(twin(layer, None, None, 8)(*arguments), layer(*arguments))


@NORMS
def test_bfloat16(hparams):
    decoder = built(Decoder, hparams, dtype="mixed_bfloat16")
    assert_bfloat16(decoder, decoder, X, MEMORY, MASK)
    result = decoder(X, MEMORY, MASK)
    assert result.dtype == "bfloat16"
    np.testing.assert_allclose(
        tf.cast(result, "float32"),
        oracle.decoder(X, MEMORY, MASK[:, 0], weights(decoder), hparams),
        atol=0.2,
    )

    cache = decoder.start_cache(B, W, T)
    memories = decoder.project_memory(tf.cast(MEMORY, "bfloat16"))
    assert {part.dtype for layer in cache["layers"] for part in layer.values()} == {tf.bfloat16}
    x = tf.zeros((B, W, 8), "bfloat16")
    assert_bfloat16(decoder, lambda x: decoder.step(x, 0, memories, MASK, cache), x)
    assert decoder.step(x, 0, memories, MASK, cache)[1]["layers"][0]["keys"].dtype == tf.bfloat16
