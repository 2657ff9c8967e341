"""The limits of a server: such as can be kept."""

import pytest

from t2t_lite.errors import UserError
from t2t_lite.serving.limits import Limits


def test_limits_that_contradict_each_other():
    with pytest.raises(UserError, match="--max_waiting_lines=5: expected at least --max_lines=10,"):
        Limits(max_lines=10, max_waiting_lines=5)
    assert Limits(max_lines=10, max_waiting_lines=10).max_lines == 10


@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limits_that_nothing_keeps(value):
    with pytest.raises(UserError, match=f"--timeout={value}: expected more than 0"):
        Limits(timeout=value)
