"""The figures of scored pairs; the scores themselves are tested beside a Translator's."""

import math

import pytest

from t2t_lite.evaluation.perplexity import PairScore, summary


def test_each_sub_word_counts_alike():
    figures = summary([PairScore(0, -6.0, 3, 2), PairScore(1, -2.0, 1, 0)])
    assert figures == {
        "loss": 2.0,
        "perplexity": pytest.approx(math.e**2),
        "accuracy": 0.5,
        "tokens": 4,
    }


def test_pairs_that_were_too_long_do_not_count():
    pair, too_long = PairScore(0, -6.0, 3, 2), PairScore(1, math.nan, 0, 0)
    assert summary([pair, too_long]) == summary([pair])


def test_figures_are_always_finite():
    nothing = summary([])
    assert nothing == {"loss": 0.0, "perplexity": 1.0, "accuracy": 0.0, "tokens": 0}
    assert math.isfinite(summary([PairScore(0, -5000.0, 1, 0)])["perplexity"])
