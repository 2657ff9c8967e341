"""Cleaning: what a treebank's tree loses, and what it keeps."""

import json

import pytest

from t2t_lite.trees.cleaning import bare_label, clean
from t2t_lite.trees.reader import format_tree, parse_tree


@pytest.mark.parametrize(
    "text, cleaned",
    [
        ("( (S (NN a)))", "(TOP (S (NN a)))"),
        ("(TOP (S (NN a)))", "(TOP (S (NN a)))"),
        ("(ROOT (S (NN a)))", "(TOP (S (NN a)))"),
        ("(S1 (S (NN a)))", "(TOP (S (NN a)))"),
        ("(S (NN a))", "(TOP (S (NN a)))"),
        ("(NN a)", "(TOP (NN a))"),
        ("(S1 a)", "(TOP (S1 a))"),  # a tag, whatever its name
        ("( (S (NN a)) (. .))", "(TOP (S (NN a)) (. .))"),
        # traces, and what is empty without them
        ("(S (NP-SBJ (-NONE- *)) (VP (VB go)))", "(TOP (S (VP (VB go))))"),
        (
            "(S (VP (VB go)) (SBAR (WHNP-1 (-NONE- 0)) (S (NP (-NONE- *T*-1)))))",
            "(TOP (S (VP (VB go))))",
        ),
        ("(S (NP (NN a) (-NONE- *ICH*-2)))", "(TOP (S (NP (NN a))))"),
        # function tags and indices
        (
            "(S-TPC-1 (NP-SBJ=2 (NN a)) (PP-LOC-PRD-TPC-3 (IN of)))",
            "(TOP (S (NP (NN a)) (PP (IN of))))",
        ),
        (
            "(S (PRT|ADVP (RP up)) (ADVP|PRT-CLR (RB on)) (NN|JJ so))",
            "(TOP (S (PRT (RP up)) (ADVP (RB on)) (NN so)))",
        ),
        (
            "(S (-LRB- -LRB-) (-RRB- -RRB-) (: -) (- =) (PRP$ my))",
            "(TOP (S (-LRB- -LRB-) (-RRB- -RRB-) (: -) (- =) (PRP$ my)))",
        ),
        # unary chains stay, and words that look like labels
        ("(NP-SBJ (NP (NP (NN NP-1))))", "(TOP (NP (NP (NP (NN NP-1)))))"),
        ("(TOP (TOP (NN a)))", "(TOP (NN a))"),
        ("( (ROOT (S1 (S (NN a)))))", "(TOP (S (NN a)))"),
        ("( (X (-NONE- *)) (S1-X (S (NN a))))", "(TOP (S (NN a)))"),
        ("( (S1 (NN a)) (S1 (NN b)))", "(TOP (S1 (NN a)) (S1 (NN b)))"),
        ("(S ( (NN a)))", "(TOP (S ( (NN a))))"),
    ],
)
def test_clean(text, cleaned):
    tree = parse_tree(text)
    assert format_tree(clean(tree)) == cleaned
    assert clean(clean(tree)) == clean(tree)
    assert format_tree(tree) == text  # untouched


@pytest.mark.parametrize(
    "text",
    [
        "( (S (NP-SBJ (-NONE- *)) (VP (-NONE- *?*))))",
        "(-NONE- *)",
        "(TOP)",
        "()",
        "( END_OF_TEXT_UNIT )",
    ],
)
def test_nothing_left(text):
    assert clean(parse_tree(text)) is None


@pytest.mark.parametrize(
    "label", ["-LRB-", "-RSB-", "-NONE-", "-", "--", "=", "|", "-X-1", "NP", "", "``", "PRP$", "#"]
)
def test_labels_that_stay(label):
    assert bare_label(label) == label


def test_deep_trees():
    assert (
        format_tree(clean(parse_tree("(S-1 " * 5000 + "(NN a)" + ")" * 5000)))
        == "(TOP " + "(S " * 5000 + "(NN a)" + ")" * 5001
    )


def test_as_the_trees_given_to_t2t(shared):
    cases = json.loads((shared / "oracle/parsing/parsing.json").read_text())["trees"]
    assert len(cases) == 14
    for case in cases:
        for text in (case["raw"], case["full"]["tree_line"]):
            assert format_tree(clean(parse_tree(text))) == case["clean"]["tree_line"]
