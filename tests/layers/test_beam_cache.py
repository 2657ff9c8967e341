"""One position of each beam over a cache, against the decoder on whole outputs."""

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_bfloat16, randomise

from t2t_lite.config import HParams
from t2t_lite.layers import beam_cache
from t2t_lite.layers.decoder import Decoder

POST = HParams(num_decoder_layers=2, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5, dropout=0.2)
PRE = POST.replace(norm="pre")
NORMS = pytest.mark.parametrize("hparams", [POST, PRE], ids=["post", "pre"])

B, W, T, S = 2, 3, 7, 5
MASK = (np.array([[5, 7, 4, 1, 0], [8, 1, 0, 0, 0]]) != 0)[:, None, None]
RANDOM = np.random.default_rng(1)
MEMORY = RANDOM.normal(size=(B, S, 8)).astype(np.float32)
BEAMS = RANDOM.normal(size=(B, W, T, 8)).astype(np.float32)
PENALTY = RANDOM.random((B, 2, T, S)).astype(np.float32)


def built(hparams, **kwargs):
    decoder = Decoder(hparams, **kwargs)
    decoder.build((None, None, 8))
    return randomise(decoder)


def whole(decoder, x, penalty=0.0):
    """The decoder's output for the last of some positions: [B, T, D] -> [B, D]."""
    return decoder(x, MEMORY, MASK, cross_penalty=penalty)[:, -1]


def stepper(decoder):
    """`step` of this decoder and memory: (x, position, cache, penalty) -> (x, cache)."""
    weights = beam_cache.decoder_weights(decoder)
    memories = beam_cache.project_memory(decoder, weights, tf.cast(MEMORY, decoder.compute_dtype))

    def step(x, position, cache, penalty=0.0):
        rows, cache = beam_cache.step(decoder, weights, x, position, memories, MASK, penalty, cache)
        return tf.reshape(rows, [-1, *x.shape[1:]]), cache

    return step


def shapes(cache):
    return [tuple(part.shape for part in layer) for layer in cache.layers]


@NORMS
def test_steps_equal_the_whole(hparams):
    """Of W beams with different symbols each, in a cache longer than needed; nothing is tiled."""
    decoder = built(hparams)
    step, cache = stepper(decoder), beam_cache.start(decoder, B, W, T + 3)
    for position in range(T):
        x, cache = step(BEAMS[:, :, position], tf.constant(position), cache)
        room = [(B, 2, 0, 5)] * 2 + [(B, 2, T + 3, W, 5)] * 2
        assert shapes(cache) == [tuple(room)] * 2
        for beam in range(W):
            expected = whole(decoder, BEAMS[:, beam, : position + 1])
            np.testing.assert_allclose(x[:, beam], expected, atol=1e-5)


@NORMS
def test_growing_and_reordering_follow_the_beams(hparams):
    """Beams in another order, more than once, in a cache that grows: each goes on from its past."""
    decoder = built(hparams)
    step, cache = stepper(decoder), beam_cache.start(decoder, B, W, 0)
    history = np.zeros([B, W, 0, 8], np.float32)  # what each beam has written
    for position in range(T):
        if position in (0, 3, 5):
            cache = beam_cache.grow(cache, 3 if position == 0 else 2)
        x = BEAMS[:, :, position]
        history = np.concatenate([history, x[:, :, None]], axis=2)
        result, cache = step(x, tf.constant(position), cache)
        for beam in range(W):
            np.testing.assert_allclose(result[:, beam], whole(decoder, history[:, beam]), atol=1e-5)
        parents = RANDOM.integers(0, W, [B, W]).astype(np.int32)
        cache = beam_cache.reorder(cache, parents)
        history = np.take_along_axis(history, parents[:, :, None, None], axis=1)
    assert (
        shapes(cache)
        == [((B, 2, 5 * W, 5), (B, 2, 5 * W, 5), (B, 2, 2, W, 5), (B, 2, 2, W, 5))] * 2
    )


def test_growing_makes_what_is_written_the_past():
    decoder = built(POST)
    step, cache = stepper(decoder), beam_cache.start(decoder, B, W, 2)
    for position in range(2):
        _, cache = step(BEAMS[:, :, position], position, cache)
    grown = beam_cache.grow(cache, 4)
    for before, after in zip(cache.layers, grown.layers, strict=True):
        np.testing.assert_array_equal(after.past_keys, tf.reshape(before.keys, [B, 2, 2 * W, 5]))
        np.testing.assert_array_equal(
            after.past_values, tf.reshape(before.values, [B, 2, 2 * W, 5])
        )
        assert not np.any(after.keys) and not np.any(after.values)
    np.testing.assert_array_equal(grown.written_by[:, :, :2], [[[0, 0], [1, 1], [2, 2]]] * B)
    assert np.all(grown.written_by[:, :, 2:] == -1)


def test_a_penalty_is_by_beam():
    decoder = built(POST)
    step, cache = stepper(decoder), beam_cache.start(decoder, B, W, 1)
    x, _ = step(BEAMS[:, :, 0], 0, cache, PENALTY[:, :, :W])
    for beam in range(W):
        expected = whole(decoder, BEAMS[:, beam, :1], PENALTY[:, :, beam : beam + 1])
        np.testing.assert_allclose(x[:, beam], expected, atol=1e-5)


def test_the_same_in_a_graph_that_knows_no_sizes():
    decoder = built(PRE)
    step = stepper(decoder)

    @tf.function(input_signature=[tf.TensorSpec([None, W, None, 8])], autograph=False)
    def run(beams):
        cache, results = beam_cache.start(decoder, tf.shape(beams)[0], W, 0), []
        for position in range(T):
            if position % 3 == 0:
                cache = beam_cache.grow(cache, 3)
            x, cache = step(beams[:, :, position], tf.constant(position), cache)
            results.append(x)
        return results[-1]

    result = run(BEAMS)
    for beam in range(W):
        np.testing.assert_allclose(result[:, beam], whole(decoder, BEAMS[:, beam]), atol=1e-5)


@NORMS
def test_bfloat16(hparams):
    decoder = built(hparams, dtype="mixed_bfloat16")
    step, cache = stepper(decoder), beam_cache.grow(beam_cache.start(decoder, B, W, 1), 2)
    assert {part.dtype for layer in cache.layers for part in layer} == {tf.bfloat16}
    x = tf.cast(BEAMS[:, :, 0], "bfloat16")
    assert_bfloat16(decoder, lambda x: step(x, 1, cache), x)
    x, cache = step(x, 1, cache)
    assert {x.dtype, *(part.dtype for layer in cache.layers for part in layer)} == {tf.bfloat16}
