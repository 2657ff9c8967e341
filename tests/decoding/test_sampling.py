"""Samples have the model's distribution, and what they promise holds for each."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.tokenizer import EOS, PAD, UNK
from t2t_lite.decoding.sampling import sample

LOGITS = np.array(
    [3.0, 0.5, 3.0, 1.0, 0.0, 2.0, -1.0], np.float32
)  # padding and unknown would be the likeliest
V = len(LOGITS)


def draw(
    samples=4000,
    length=1,
    logits=LOGITS,
    limits=None,
    temperature=1.0,
    top_k=None,
    compile=False,
    **options,
):
    """Samples of two rows from a model that says `logits` after everything."""
    uniforms = np.random.default_rng(1).random([2, samples, length], np.float32)

    @tf.function(jit_compile=compile, autograph=False)
    def run():
        return sample(
            lambda ids, position, memory, cache: (
                tf.broadcast_to(memory[:, None], [2, samples, V]),
                cache,
            ),
            tf.constant(np.stack([logits, logits])),
            {},
            uniforms=tf.constant(uniforms),
            temperature=temperature,
            top_k=top_k,
            alpha=0.6,
            limits=tf.constant(limits or [length, length]),
            **options,
        )

    return [tensor.numpy() for tensor in run()]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("top_k", [None, 3])
def test_symbols_have_the_models_distribution(temperature, top_k):
    expected = LOGITS.copy()
    expected[[PAD, UNK]] = -np.inf
    if top_k:
        expected[expected < np.sort(expected)[-top_k]] = -np.inf
    ids, log_probs, _ = draw(temperature=temperature, top_k=top_k)
    frequencies = np.bincount(ids.ravel(), minlength=V) / ids.size
    np.testing.assert_allclose(frequencies, softmax(expected / temperature), atol=0.02)
    # Log probabilities are those at temperature 1, with all symbols counted.
    np.testing.assert_allclose(log_probs, np.log(softmax(LOGITS))[ids[:, :, 0]], rtol=1e-5)


def test_samples_end_at_eos_or_at_their_rows_limit_and_are_sorted():
    ids, log_probs, scores = draw(samples=200, length=8, limits=[8, 3])
    for row, limit in enumerate([8, 3]):
        for line, log_prob, score in zip(ids[row], log_probs[row], scores[row]):
            length = int(np.sum(line != PAD))
            assert length == limit or line[length - 1] == EOS
            assert (line[length:] == PAD).all() and EOS not in line[: length - 1]
            assert log_prob == pytest.approx(np.log(softmax(LOGITS))[line[:length]].sum(), rel=1e-5)
            assert score == pytest.approx(log_prob / ((5 + length) / 6) ** 0.6, rel=1e-5)
        assert (np.diff(scores[row]) <= 0).all()


def test_each_row_begins_with_its_own_prefix():
    ids, log_probs, _ = draw(samples=50, length=6, prefix=tf.constant([[6, 4], [0, 0]]))
    assert (ids[0, :, :2] == [6, 4]).all()
    assert len(np.unique(ids[1, :, 0])) > 2
    line = ids[0, 0][ids[0, 0] != PAD]
    assert log_probs[0, 0] == pytest.approx(np.log(softmax(LOGITS))[line].sum(), rel=1e-5)


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2.0**-24])
def test_the_ends_of_the_unit_interval_draw_symbols_that_can_be(uniform):
    logits = np.array([0.0, -np.inf, 0.0, 1.0, 2.0, -np.inf, -np.inf], np.float32)
    ids = sample(
        lambda ids, position, memory, cache: (tf.constant(logits[None, None]), cache), (), (),
        uniforms=tf.constant(uniform, shape=[1, 1, 1]), temperature=1.0, top_k=None, alpha=0.0,
        limits=tf.constant([1]),
    ).ids  # fmt: skip
    assert int(ids[0, 0, 0]) == (3 if uniform else 4)


def test_xla_draws_the_same():
    plain, compiled = (
        draw(samples=20, length=5, top_k=3, compile=compile) for compile in (False, True)
    )
    np.testing.assert_array_equal(plain[0], compiled[0])
    np.testing.assert_allclose(plain[2], compiled[2], rtol=1e-5)
