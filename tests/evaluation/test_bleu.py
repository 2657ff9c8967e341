"""BLEU: published figures, the older BLEU against Moses' own scripts, and small cases by hand."""

import json
import math

import pytest

from t2t_lite.errors import UserError
from t2t_lite.evaluation.bleu import (
    _ascii_punctuation,
    _split_compounds,
    compound_split_bleu,
    corpus_bleu,
    corpus_chrf,
    tensor2tensor_tokens,
)

# What the Perl scripts of Moses as of June 2017 (replace-unicode-punctuation, tokenizer -l de,
# multi-bleu) print for the published outputs, both sides treated alike.
MOSES = {
    "PROMT-Rule-based.4735": 17.02,
    "online-F.0": 15.97,
    "uedin-nmt.4722": 28.46,
    "xmu.4910": 26.79,
}


def read(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def systems(shared):
    """name -> (output lines, reference lines, published BLEU)"""
    folder = shared / "data" / "wmt17_systems"
    reference = read(folder / "reference.de")
    table = [line.split("\t") for line in read(folder / "published_bleu.tsv")]
    return {name: (read(folder / name), reference, published) for name, published in table}


def test_published_figures(systems):
    assert len(systems) == 4
    for hypotheses, reference, published in systems.values():
        assert f"{corpus_bleu(hypotheses, reference).value:.2f}" == published


@pytest.mark.parametrize("name", MOSES)
def test_compound_split_bleu_is_what_moses_prints(systems, name):
    hypotheses, reference, _ = systems[f"newstest2017.{name}.en-de"]
    score = compound_split_bleu(hypotheses, reference)
    assert round(score.value, 2) == MOSES[name]
    assert all(
        part in score.signature for part in ("tok:moses-de", "compounds:split", "smooth:none")
    )


def test_signatures():
    score = corpus_bleu(["ein Haus am See"], ["ein Haus am See"])
    assert (
        round(score.value, 6) == 100
        and "tok:13a" in score.signature
        and "case:mixed" in score.signature
    )
    assert (
        "case:lc" in corpus_bleu(["Ein Haus am See"], ["ein Haus am See"], lowercase=True).signature
    )
    chrf = corpus_chrf(["ein Haus am See"], ["ein Haus am See"])
    assert chrf.value == 100 and "nc:6" in chrf.signature


def test_more_references_than_one():
    hypotheses, first, second = (
        ["das Haus ist sehr alt"],
        ["das Haus ist sehr neu"],
        ["dieses Haus ist sehr alt"],
    )
    for function in (corpus_bleu, corpus_chrf, compound_split_bleu):
        both = function(hypotheses, first, second)
        best = max(function(hypotheses, first).value, function(hypotheses, second).value)
        # chrF takes a line's better reference, BLEU n-grams of all.
        assert both.value == best if function is corpus_chrf else both.value > best
        assert "nrefs:2" in both.signature


def test_split_compounds():
    assert _split_compounds("ein 24-jähriger - kein U-Boot-Kapitän") == (
        "ein 24 ##AT##-##AT## jähriger - kein U ##AT##-##AT## Boot ##AT##-##AT## Kapitän"
    )


def test_ascii_punctuation():
    assert (
        _ascii_punctuation("„Nein“, sagte ‚er‘ … nicht’s ”５％”。  Ja")
        == '„Nein", sagte ‚er‘ ... nicht\'s "5%". Ja'
    )


def test_compound_split_bleu_by_hand():
    # Tokens: Das | U | ##AT##-##AT## | Boot | ist | alt | .  against the same with "neu": 6/7, 4/6,
    # 3/5, 2/4.
    score = compound_split_bleu(["Das U-Boot ist alt."], ["Das U-Boot ist neu."])
    assert score.value == pytest.approx(
        100 * math.exp(sum(map(math.log, (6 / 7, 4 / 6, 3 / 5, 2 / 4))) / 4)
    )
    assert (
        compound_split_bleu(["Haus"], ["Haus"]).value == 0
    )  # multi-bleu.perl smooths nothing: no 4-gram, no score


def test_lowercase_compound_split_bleu():
    score = compound_split_bleu(["DAS U-BOOT IST ALT."], ["Das U-Boot ist alt."], lowercase=True)
    assert score.value == pytest.approx(100)


def test_tensor2tensors_tokens():
    """Punctuation apart but between digits; a backslash is none; only decimal digits are digits."""
    line = "Um 3,5 m², (ja)! C:\\x 1.000,00$ a_b – „c“"
    assert " ".join(tensor2tensor_tokens(line)) == (
        "Um 3,5 m² , ( ja ) ! C : \\x 1.000,00 $ a _ b – „ c “"
    )


def test_tensor2tensors_bleu(shared):
    """Its own figures of 7 pairs of files; of the one without 4-grams its formula makes 1."""
    stored = json.loads((shared / "oracle" / "bleu.json").read_text(encoding="utf-8"))
    for example in stored["bleu_tokenize"]:
        assert tensor2tensor_tokens(example["in"]) == example["out"]
    for case in stored["cases"]:
        for lowercase, figure in (False, case["cased"]), (True, case["uncased"]):
            score = corpus_bleu(case["hyp"], case["ref"], lowercase=lowercase, tokenize="t2t")
            expected = 0 if case["name"] == "no4gram" else 100 * figure
            assert score.value == pytest.approx(expected, abs=2e-5), case["name"]
            assert "|tok:t2t|" in score.signature


def test_errors():
    with pytest.raises(UserError, match="intl"):
        corpus_bleu(["a"], ["a"], tokenize="int")
    for function in (corpus_bleu, corpus_chrf, compound_split_bleu):
        with pytest.raises(UserError, match="no lines"):
            function([], [])
