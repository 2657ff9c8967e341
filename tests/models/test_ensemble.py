"""Several Transformers as one: the mean of their probabilities, whole and step by step."""

import keras
import numpy as np
import pytest
from layer_checks import randomise

from t2t_lite.config import HParams
from t2t_lite.models.ensemble import Ensemble, mean_log_probs
from t2t_lite.models.transformer import Transformer

SMALL = HParams(
    num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5
)
LARGE = SMALL.replace(num_decoder_layers=2, d_model=12, num_heads=3, norm="pre")

INPUTS = np.array([[5, 7, 4, 9, 1], [8, 1, 0, 0, 0]], np.int32)
TARGETS = np.array([[3, 9, 9, 1], [6, 1, 0, 0]], np.int32)


@pytest.fixture(scope="module")
def members():
    return [randomise(Transformer(hparams, 11, 11)) for hparams in (SMALL, LARGE)]


def softmax(logits):
    powers = np.exp(np.float64(logits) - np.max(logits, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_log_probabilities_are_those_of_the_mean(members):
    log_probs = Ensemble(members)(INPUTS, TARGETS)
    mean = np.mean([softmax(member(INPUTS, TARGETS)) for member in members], axis=0)
    np.testing.assert_allclose(log_probs, np.log(mean), atol=1e-5)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1, atol=1e-5)


def test_the_mean_of_equal_ones_is_they_themselves():
    logits = np.float32([[0.0, 3.0, -200.0, 5.0]])
    log_probs = keras.ops.log_softmax(logits)
    for number in 1, 2, 3:
        np.testing.assert_array_equal(mean_log_probs([logits] * number), log_probs)


def test_what_one_member_finds_impossible_has_the_others_share():
    sure, unsure = np.float32([[0.0, -1000.0]]), np.float32([[-1000.0, 0.0]])
    np.testing.assert_allclose(mean_log_probs([sure, unsure]), np.log([[0.5, 0.5]]), atol=1e-6)
    np.testing.assert_allclose(mean_log_probs([sure, sure]), [[0.0, -1000.0]], atol=1e-6)


def test_steps_equal_the_whole(members):
    """Of beams that swap places after each step, in caches that grow."""
    ensemble = Ensemble(members)
    memory, cache = ensemble.start(ensemble.search_weights(), INPUTS, beam_size=2, max_length=0)
    beams = np.stack([TARGETS, np.where(TARGETS > 1, TARGETS - 1, TARGETS)], axis=1)  # [B, W, T]
    whole = [np.array(ensemble(INPUTS, beams[:, beam])) for beam in (0, 1)]
    swap = np.array([[1, 0]] * 2, np.int32)
    before = np.zeros([2, 2], np.int32)
    for position in range(TARGETS.shape[1]):
        cache = ensemble.grow_cache(cache, 1)
        logits, cache = ensemble.step(
            ensemble.search_weights(), before, np.int32(position), memory, cache
        )
        for place in 0, 1:
            beam = (place + position) % 2
            np.testing.assert_allclose(logits[:, place], whole[beam][:, position], atol=1e-4)
        cache = ensemble.reorder_cache(cache, swap)
        before = beams[:, :, position]
        before = before[:, ::-1] if position % 2 == 0 else before


def test_attention_has_the_heads_of_all_in_the_last_layers(members):
    found = Ensemble(members).attention(INPUTS, TARGETS)
    first, second = (member.attention(INPUTS, TARGETS) for member in members)
    assert len(first.cross) == 1 and len(second.cross) == 2
    for [last], *each in zip(found, first, second):
        np.testing.assert_array_equal(last, np.concatenate([one[-1] for one in each], axis=1))


def test_a_copy_for_another_device(members):
    ensemble = Ensemble(members)
    copy = Ensemble.from_config(ensemble.get_config())
    copy.set_weights(ensemble.get_weights())
    np.testing.assert_array_equal(copy(INPUTS, TARGETS), ensemble(INPUTS, TARGETS))
    assert len(ensemble.weights) == sum(len(member.weights) for member in members)
    assert ensemble.longest == min(member.longest for member in members)
