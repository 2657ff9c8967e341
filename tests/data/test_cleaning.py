"""Cleaned: what it drops, and that it writes a whole copy or none."""

import pytest

from t2t_lite.data.cleaning import Cleaned
from t2t_lite.data.sources import Generated
from t2t_lite.errors import UserError

PAIRS = [
    ("a b", "x"),
    ("a b c", "x"),  # lopsided by a ratio of 2
    ("a b", "x"),  # duplicate
    ("a b", "y"),
    ("", "y"),  # an empty side
    ("line\nend", "x y"),
]


def source():
    return Generated(lambda: iter(PAIRS), "pairs")


def test_drops_and_counts(tmp_path):
    cleaned = Cleaned(source(), 2.0, True, tmp_path)
    assert cleaned.check() == 3
    kept = [("a b", "x"), ("a b", "y"), ("line end", "x y")]
    assert list(cleaned.pairs()) == kept
    assert [(a.decode(), b.decode()) for a, b in cleaned.dataset().as_numpy_iterator()] == kept
    assert (
        str(cleaned)
        == "pairs, cleaned: of 6 pairs 1 duplicates and 2 of too different lengths dropped"
    )


def test_each_rule_alone(tmp_path):
    assert Cleaned(source(), 2.0, False, tmp_path).check() == 4
    assert Cleaned(source(), None, True, tmp_path).check() == 5
    assert len(list(tmp_path.iterdir())) == 2  # a copy for each, under names of their own


def test_copy_is_written_once(tmp_path):
    Cleaned(source(), 2.0, True, tmp_path).check()
    (folder,) = tmp_path.iterdir()
    (folder / "input.txt").write_text("kept\n")
    (folder / "target.txt").write_text("as it is\n")
    assert list(Cleaned(source(), 2.0, True, tmp_path).pairs()) == [("kept", "as it is")]


def test_nothing_half_written(tmp_path):
    class Failing(Generated):
        def check(self):
            return 2

    def pairs():
        yield "a", "b"
        raise UserError("broken")

    for make in (Generated, Failing):
        with pytest.raises(UserError, match="broken"):
            Cleaned(make(pairs, "broken pairs"), 2.0, False, tmp_path / "data").check()
        assert not list(tmp_path.rglob("*.txt"))
        assert not list(tmp_path.rglob("cleaned*"))


def test_nothing_left(tmp_path):
    with pytest.raises(UserError, match="nothing is left"):
        Cleaned(source(), 0.5, False, tmp_path).check()
