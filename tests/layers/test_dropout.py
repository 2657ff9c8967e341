"""Dropout as a function of its seeds."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.dropout import Dropout, DropoutSeeds

ONES = np.ones((100, 200), np.float32)


def seeds(*seed):
    return DropoutSeeds(tf.constant(seed or (7, 0)))


def test_without_seeds_or_rate_nothing_happens():
    np.testing.assert_array_equal(Dropout(0.5)(ONES), ONES)
    np.testing.assert_array_equal(Dropout(0.0)(ONES, seeds=seeds()), ONES)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_a_share_is_zero_and_the_rest_scaled_up(rate):
    dropped = Dropout(rate)(ONES, seeds=seeds()).numpy()
    assert np.mean(dropped == 0) == pytest.approx(rate, abs=0.01)
    np.testing.assert_allclose(dropped[dropped != 0], 1 / (1 - rate), rtol=1e-6)


def test_the_mask_follows_from_seed_and_place_alone():
    layer, one, same, other = Dropout(0.5), seeds(7, 1), seeds(7, 1), seeds(7, 2)
    first, second = (layer(ONES, seeds=one).numpy() for _ in range(2))
    assert np.mean(first == second) == pytest.approx(
        0.5, abs=0.02
    )  # each dropout of a pass has its own mask
    np.testing.assert_array_equal(layer(ONES, seeds=same), first)
    np.testing.assert_array_equal(layer(ONES, seeds=same), second)
    assert np.mean(layer(ONES, seeds=other).numpy() == first) == pytest.approx(0.5, abs=0.02)


def test_the_seed_is_an_input_of_a_graph():
    dropped = tf.function(lambda seed: Dropout(0.5)(ONES, seeds=DropoutSeeds(seed)))
    one, same, other = (dropped(tf.constant(seed)).numpy() for seed in ([1, 2], [1, 2], [1, 3]))
    np.testing.assert_array_equal(one, same)
    assert np.any(one != other)


def test_no_state():
    layer = Dropout(0.5)
    layer(ONES, seeds=seeds())
    assert layer.variables == []
    assert not [value for value in vars(seeds()).values() if isinstance(value, tf.Variable)]
