"""Each head's colour."""

import re

import pytest

from t2t_lite.visualization.colours import head_colours


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16, 32])
def test_each_head_has_its_own(heads):
    colours = head_colours(heads)
    assert len(set(colours)) == len(colours) == heads
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)
