"""CorpusSearch's form: what of it is a tree, and how its traces and lemmas are told."""

import pytest

from t2t_lite.trees.cleaning import clean
from t2t_lite.trees.corpussearch import penn_style, without_lemma
from t2t_lite.trees.reader import format_tree, parse_tree


def read(*texts: str, psd: bool = False) -> list[tuple[str | None, int]]:
    """(the cleaned tree on a line, what was removed) of each text of one file."""
    cleaned = [(clean(t), count) for t, count in penn_style(map(parse_tree, texts), psd)]
    return [(tree and format_tree(tree), count) for tree, count in cleaned]


@pytest.mark.parametrize(
    "text, tree, removed",
    [
        (
            "( (IP-MAT (CODE <R_4>) (NP-SBJ (PRO we)) (VBD rowed) (. .)) (ID BOAT,2.7))",
            "(TOP (IP (NP (PRO we)) (VBD rowed) (. .)))",
            2,
        ),
        ("( (CODE <P_9>) (ID BOAT,2.8))", None, 2),
        ("(CODE (SYM SpeakerB4) (. .))", None, 1),
        (
            "( (METADATA (AUTHOR Ann) (DATE 1501)) (FRAG (NP (N boat))) (ID BOAT,2.9))",
            "(TOP (FRAG (NP (N boat))))",
            2,
        ),
        ("( (VERSION (FORMAT dash)))", None, 1),
        ("( (IP (CODE (CODE {a}) (CODE <b>)) (NP (CODE {c})) (VB go)))", "(TOP (IP (VB go)))", 2),
        (
            "( (IP (NP-SBJ *pro*) (C 0) (TO *) (VB go) (NUM 0) (WNP-1 *T*-3)) (ID B,1))",
            "(TOP (IP (VB go) (NUM 0)))",
            1,
        ),
        (
            "( (IP (NP;*SBJ* (PRO I)) (ANT;{YOU} (VB go))) (ID 3_x;JP))",
            "(TOP (IP (NP (PRO I)) (ANT (VB go))))",
            1,
        ),
    ],
)
def test_what_is_no_part_of_the_tree(text, tree, removed):
    assert read(text) == [(tree, removed)]


def test_other_trees_stay_as_they_are():
    for text in (
        "(TOP (S (ID x) (CD 0) (SYM *) (NN tip-top)))",
        "(TOP (ID x))",
        "(TOP (X (ID x)))",
    ):
        assert read(text) == [(text, 0)]


def test_the_form_is_that_of_the_file():
    without_id = "( (IP (NP-SBJ *con*) (VB go)))"
    assert read(without_id) == [("(TOP (IP (NP *con*) (VB go)))", 0)]
    assert read(without_id, psd=True) == [("(TOP (IP (VB go)))", 0)]
    assert read(without_id, "( (VB go) (ID B,1))")[0] == ("(TOP (IP (VB go)))", 0)


def test_lemmas_are_left_out_where_all_words_have_them():
    texts = (
        "( (IP (PRO-N Hún-hún) (VBDI söng-syngja) (. .-.)) (ID S,1))",
        "( (FW <dash/>) (N ó-ljós-óljós))",
        *["( (N sól-sól))"] * 6,
    )
    assert [tree for tree, _ in read(*texts)][:2] == [
        "(TOP (IP (PRO Hún) (VBDI söng) (. .)))",
        "(TOP (FW <dash/>) (N ó-ljós))",
    ]
    hyphens = "( (IP (N to-day) (VB by-pass) (N to-morrow)) (ID S,1))"
    assert read(hyphens) == [("(TOP (IP (N to-day) (VB by-pass) (N to-morrow)))", 1)]
    some = "( (IP (N to-day) (. .) (N tut-tut)) (ID S,1))"
    assert read(some) == [("(TOP (IP (N to-day) (. .) (N tut-tut)))", 1)]


@pytest.mark.parametrize(
    "word, form",
    [
        ("söng-syngja", "söng"),
        (".-.", "."),
        ("---", "-"),
        ("-----", "--"),
        ('"-"-"', '"-"'),
        ("a-b-a-b", "a-b"),
        ("-", "-"),
        ("--", "--"),
        ("-x", "-x"),
        ("x-", "x-"),
        ("<dash/>", "<dash/>"),
        ("", ""),
    ],
)
def test_without_lemma(word, form):
    assert without_lemma(word) == form


def test_many_and_deep_trees():
    texts = [f"( (N word{number}-word) (ID S,{number}))" for number in range(200)]
    texts.append("( " + "(X " * 3000 + "(CODE a) (. .-.)" + ")" * 3000 + ")")
    found = read(*texts[-1:], *texts)
    assert len(found) == 202 and found[1] == ("(TOP (N word0))", 1) and found[-1][1] == 1
    assert read() == []
