"""What a neighbourhood says of its positions and blocks."""

import pytest

from t2t_lite.layers.neighbourhood import Neighbourhood


@pytest.mark.parametrize("size", [1, 2, 5, 8, 64])
def test_it_has_so_many_positions_around_the_own_one(size):
    around = Neighbourhood(size)
    assert around.before + 1 + around.after == size
    assert around.after - around.before in (0, 1)
    assert around.block >= around.after  # what a block sees lies in it and in those beside it


def test_scores_grow_with_the_length_and_no_faster():
    around = Neighbourhood(64)
    assert around.scores(32) == 32 * 96 and around.scores(33) == 2 * 32 * 96
    assert around.scores(8192) == 2 * around.scores(4096)
