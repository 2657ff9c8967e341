"""The decoder against NumPy, no influence from the right, and where it looks."""

import numpy as np
import numpy_transformer as oracle
import pytest
from layer_checks import randomise, weights

from t2t_lite.config import HParams
from t2t_lite.layers.attention import causal_mask
from t2t_lite.layers.decoder import Decoder, DecoderLayer

POST = HParams(num_decoder_layers=2, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5, dropout=0.2)
PRE = POST.replace(norm="pre")
NORMS = pytest.mark.parametrize("hparams", [POST, PRE], ids=["post", "pre"])

B, T, S = 2, 4, 5
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
    np.testing.assert_allclose(layer(X, MEMORY, causal_mask(T), MASK)[0], expected, atol=1e-5)


@NORMS
def test_stack_equals_numpy(hparams):
    decoder = built(Decoder, hparams)
    expected = oracle.decoder(X, MEMORY, MASK[:, 0], weights(decoder), hparams)
    np.testing.assert_allclose(decoder(X, MEMORY, MASK), expected, atol=1e-5)


@NORMS
def test_attention_is_handed_on_where_it_is_asked_for(hparams):
    """Each layer's; none on padding or to the right. The output is the same, without more of it."""
    decoder = built(Decoder, hparams)
    x, of_self, of_cross = decoder(X, MEMORY, MASK, return_attention=True)
    np.testing.assert_array_equal(x, decoder(X, MEMORY, MASK))
    for layers, length, mask in (of_self, T, causal_mask(T)), (of_cross, S, MASK):
        assert [tuple(layer.shape) for layer in layers] == [(B, hparams.num_heads, T, length)] * 2
        for layer in layers:
            np.testing.assert_allclose(np.sum(layer, axis=-1), 1, atol=1e-6)
            assert not np.any(np.where(mask, 0, layer))
        assert np.abs(layers[0] - layers[1]).max() > 0.01
    first = decoder.layers[0](X, MEMORY, causal_mask(T), MASK)
    for alone, layers in zip(first[1:], (of_self, of_cross), strict=True):
        np.testing.assert_array_equal(alone, layers[0])


@NORMS
def test_penalty_of_the_cross_attention(hparams):
    decoder, penalty = built(Decoder, hparams), np.random.default_rng(3).random((B, 2, T, S))
    expected = oracle.decoder(X, MEMORY, MASK[:, 0], weights(decoder), hparams, -penalty)
    result = decoder(X, MEMORY, MASK, cross_penalty=penalty.astype(np.float32))
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_a_memory_of_padding_alone_makes_no_nan():
    decoder = built(Decoder, POST)
    assert np.all(np.isfinite(decoder(X, MEMORY, np.zeros_like(MASK))))


def test_a_position_depends_on_no_later_one():
    decoder = built(Decoder, POST)
    for position in range(T):
        changed = X.copy()
        changed[:, position] += 1
        difference = np.abs(
            decoder(changed, MEMORY, MASK).numpy() - decoder(X, MEMORY, MASK).numpy()
        ).max(axis=(0, 2))
        assert np.all(difference[:position] == 0) and np.all(difference[position:] > 1e-4)
