"""The attention to the next word: where it is, and what is subtracted from the scores."""

import numpy as np
import pytest

from t2t_lite.layers.next_word import NextWord

BEGINS, NAMES = [symbol in (4, 5) for symbol in range(8)], [symbol == 3 for symbol in range(6)]
INPUTS = np.array([[4, 7, 5, 4, 6, 1], [5, 1, 0, 0, 0, 0]], np.int32)  # words at 0, 2, 3; at 0


@pytest.fixture(scope="module")
def next_word():
    return NextWord(BEGINS, NAMES, num_heads=2)


def test_places(next_word):
    np.testing.assert_array_equal(
        next_word.places(INPUTS), [[0, 2, 3, 5, 5, 5], [0, 1, 1, 1, 1, 1]]
    )


def test_penalty_grows_with_the_distance(next_word):
    named = np.array([[0, 1, 3, 9], [0, 1, 2, 9]], np.int32)  # more than there are: EOS
    penalty = np.array(next_word.penalty(named, next_word.places(INPUTS)))
    assert penalty.shape == (2, 2, 4, 6)
    np.testing.assert_allclose(penalty[0, :, 1], [[4, 2, 0, 2, 4, 6], [1, 0.5, 0, 0.5, 1, 1.5]])
    np.testing.assert_array_equal(penalty[0, 0].argmin(axis=1), [0, 2, 5, 5])
    np.testing.assert_array_equal(penalty[1, 0].argmin(axis=1), [0, 1, 1, 1])


def test_count(next_word):
    np.testing.assert_array_equal(
        next_word.count(np.array([[3, 2, 3], [0, 1, 5]])), [[1, 0, 1], [0, 0, 0]]
    )
