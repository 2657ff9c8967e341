"""The figures that a problem's metric gives."""

import dataclasses

import pytest

from t2t_lite.errors import UserError
from t2t_lite.evaluation.bleu import corpus_bleu, corpus_chrf
from t2t_lite.evaluation.bracketing import bracketing
from t2t_lite.evaluation.metrics import Bleu, Bracketing, ExactMatch, Metric, shares

OUTPUTS = ["drei Uhr fünfzehn", "halb vier", "ein Euro zwanzig", "zwei Euro zehn"]
REFERENCES = ["drei Uhr fünfzehn", "halb fünf", "ein Euro zwanzig", "zwei Euro zehn"]


def test_bleu():
    figures = Bleu()(OUTPUTS, REFERENCES)
    assert list(figures) == ["bleu", "chrf"]
    assert figures["bleu"] == corpus_bleu(OUTPUTS, REFERENCES).value
    assert figures["chrf"] == corpus_chrf(OUTPUTS, REFERENCES).value


def test_exact_match():
    figures = ExactMatch()(OUTPUTS, REFERENCES)
    assert list(figures) == ["exact_match", "bleu"]
    assert figures["exact_match"] == 75.0


def test_bracketing_with_either_tags():
    gold, predicted = ["(TOP (S (NN a) (VB b)))"], ["(TOP (S (XX a) (VB b)))"]
    for tags in "gold", "own":
        metric = Bracketing(tags=tags)
        assert metric(predicted, gold) == bracketing(predicted, gold, gold_tags=tags == "gold")
        assert metric.settings() == {"tags": tags}
    assert Bracketing() == Bracketing(tags="gold") and Bleu().settings() == {}


def test_categories_follow_the_first_figure():
    figures = ExactMatch().by_category(OUTPUTS, REFERENCES, ["times", "times", "prices", None])
    assert list(figures) == ["exact_match", "bleu", "exact_match/prices", "exact_match/times"]
    assert (figures["exact_match/prices"], figures["exact_match/times"]) == (100.0, 50.0)
    assert list(Bleu().by_category(OUTPUTS, REFERENCES, [None] * 4)) == ["bleu", "chrf"]


def test_a_value_of_another_type_is_refused():
    with pytest.raises(UserError, match="unknown value of --tags 'golden'; nearest: gold"):
        Bracketing(tags="golden")

    @dataclasses.dataclass(frozen=True)
    class Top(Metric):
        n: int = 1

    with pytest.raises(UserError, match="--n=x: expected int"):
        Top(n="x")


def test_shares_are_of_yes_or_no_details():
    assert shares([{"valid": True, "repairs": 3}, {"valid": False, "repairs": 0}]) == {"valid": 50}
    assert shares([]) == {}


def test_no_lines():
    for metric in Bleu(), ExactMatch(), Bracketing():
        with pytest.raises(UserError, match="no lines"):
            metric([], [])
