"""The choice of symbols at a step."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.symbols import prefix_symbol, top_k


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("symbols", [7, 1000, 8000, 7993])  # few, groups of 50 and of 64, none
def test_top_k_of_many_symbols_is_tensorflows(symbols, xla):
    numbers = np.random.default_rng(5).integers(0, 60, [2, 3, symbols])  # many are equal
    values = numbers.astype(np.float32)
    values[0, 0, ::2] = -np.inf
    ours = tf.function(top_k, jit_compile=xla)
    for found, expected in zip(ours(tf.constant(values), 5), tf.math.top_k(values, 5)):
        np.testing.assert_array_equal(found, expected)


def test_a_prefix_forces_its_symbols_and_then_none():
    prefix = tf.constant([[5, 6], [7, 0]])
    for position, symbols, forced in (0, [5, 7], [1, 1]), (1, [6, 0], [1, 0]), (2, [0, 0], [0, 0]):
        found = prefix_symbol(prefix, tf.constant(position))
        assert [found[0].numpy().tolist(), found[1].numpy().astype(int).tolist()] == [
            symbols,
            forced,
        ]
