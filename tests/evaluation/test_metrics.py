"""The figures that a problem's metric names."""

import pytest

from t2t_lite.errors import UserError
from t2t_lite.evaluation.bleu import corpus_bleu, corpus_chrf
from t2t_lite.evaluation.metrics import display, evaluate

HYPOTHESES = ["drei Uhr fünfzehn", "halb vier", "ein Euro zwanzig", "zwei Euro zehn"]
REFERENCES = ["drei Uhr fünfzehn", "halb fünf", "ein Euro zwanzig", "zwei Euro zehn"]


def test_bleu():
    figures = evaluate("bleu", HYPOTHESES, REFERENCES)
    assert list(figures) == ["bleu", "chrf"]
    assert figures["bleu"] == corpus_bleu(HYPOTHESES, REFERENCES).value
    assert figures["chrf"] == corpus_chrf(HYPOTHESES, REFERENCES).value


def test_exact_match():
    figures = evaluate("exact_match", HYPOTHESES, REFERENCES)
    assert list(figures) == ["exact_match", "bleu"]
    assert figures["exact_match"] == 75.0


def test_categories_follow_the_first_figure():
    figures = evaluate(
        "exact_match", HYPOTHESES, REFERENCES, ["times", "times", "prices", "prices"]
    )
    assert list(figures) == ["exact_match", "bleu", "exact_match/prices", "exact_match/times"]
    assert (figures["exact_match/prices"], figures["exact_match/times"]) == (100.0, 50.0)


def test_display():
    assert display({"exact_match": 75.0, "bleu": 81.234}) == "exact_match 75.00  bleu 81.23"


def test_errors():
    with pytest.raises(UserError, match="nearest: exact_match"):
        evaluate("exact", HYPOTHESES, REFERENCES)
    with pytest.raises(UserError, match="no lines"):
        evaluate("exact_match", [], [])
