"""Linearization: symbols and back, repairs of what a model may write, and the real treebanks."""

import itertools
import json
import random

import pytest
from nltk.tree import Tree

from t2t_lite.trees.cleaning import clean
from t2t_lite.trees.linearization import MAX_DEPTH, Kind, Linearization
from t2t_lite.trees.reader import format_tree, parse_tree, read_trees, unescape

FORMS = [
    Linearization(tags, closing)
    for tags in ("normalised", "kept")
    for closing in ("labelled", "plain")
]
TREE = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))"
WORDS = ["the", "cat", "sleeps", "."]


def normalised(tree: Tree) -> Tree:
    return (
        Tree("XX", tree) if isinstance(tree[0], str) else Tree(tree.label(), map(normalised, tree))
    )


@pytest.mark.parametrize(
    "form, symbols",
    zip(
        FORMS,
        [
            "(S (NP XX XX )NP (VP XX )VP XX )S",
            "(S (NP XX XX ) (VP XX ) XX )",
            "(S (NP DT NN )NP (VP VBZ )VP . )S",
            "(S (NP DT NN ) (VP VBZ ) . )",
        ],
    ),
)
def test_symbols(form, symbols):
    tree = parse_tree(TREE)
    assert form.symbols(tree) == symbols.split()
    assert form.tree(symbols.split(), WORDS) == (
        tree if form.tags == "kept" else normalised(tree),
        [],
    )


ODD_TREES = [
    "(NN dog)",
    "(TOP (NN dog) (NN cat))",
    "(S (NP (NP (NP (NN a)))))",
    "(TOP (S (NN a)) (S (NN b)))",
    "(S ( (NN a)) (XX b))",
    "(TOP (FRAG (X (SYM *)) (NP (NN x(y)))))",
    "(S (-LRB- -LRB-) (-RRB- -RRB-) (XX XX) (: (NP)x) (CD 1\u00a0000))",
    "(S " * MAX_DEPTH + "(NN a)" + ")" * MAX_DEPTH,
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ODD_TREES)
def test_odd_trees(form, text):
    tree = clean(parse_tree(text))
    symbols = form.symbols(tree)
    words = words_of(tree)
    again, repairs = form.tree(symbols, words)
    assert repairs == []
    assert words_of(again) == words
    assert form.symbols(again) == symbols
    if form.tags == "kept":
        assert format_tree(again) == format_tree(tree)


def words_of(tree: Tree) -> list[str]:
    """The leaves. nltk's `leaves` is recursive."""
    words, rest = [], [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, str):
            words.append(node)
        else:
            rest.extend(reversed(node))
    return words


@pytest.mark.parametrize(
    "symbol, kinds",  # in the four FORMS
    [
        ("(NP", [Kind("open", "NP")] * 4),
        (")NP", [Kind("close", "NP"), None] * 2),
        (")", [Kind("close", "")] * 4),
        ("(", [Kind("open", "")] * 4),
        ("XX", [Kind("word", "XX")] * 4),
        ("-LRB-", [None] * 2 + [Kind("word", "-LRB-")] * 2),
        ("NN", [None] * 2 + [Kind("word", "NN")] * 2),
        *(
            (junk, [None] * 4)
            for junk in ("", " ", "(NP (NP", "NN)", "((", "()", ")NP)", "N N", "NN\n")
        ),
    ],
)
def test_kind(symbol, kinds):
    assert [form.kind(symbol) for form in FORMS] == kinds


@pytest.mark.parametrize(
    "symbols, tree, repairs",
    [
        # 1. and 2.: what is no symbol, and what closes nothing
        (
            "(S (NP XX ⁇ XX )NP (VP XX )VP XX )S",
            "(S (NP the cat) (VP sleeps) .)",
            ["1 unknown symbol dropped"],
        ),
        (
            ")VP (S (NP XX XX )NP )PP )S XX XX",
            "(S (NP the cat)) sleeps .",
            ["2 closing brackets dropped"],
        ),
        (
            "(S (NP XX (QP XX (ADJP )NP (VP XX )VP XX )S",
            "(S (NP the (QP cat)) (VP sleeps) .)",
            ["2 brackets closed", "1 empty constituent dropped"],
        ),
        # 3. and 4.: an output that breaks off, or never stops
        (
            "(S (NP XX XX )NP (VP",
            "(S (NP the cat) (VP sleeps .))",
            ["2 brackets closed", "2 words added"],
        ),
        (
            "(S (NP XX XX )NP (VP XX XX XX (VP XX",
            "(S (NP the cat) (VP sleeps .))",
            ["3 brackets closed", "2 words dropped", "1 empty constituent dropped"],
        ),
        # 4.: one that lost count
        ("(S (NP XX )NP (VP XX )VP XX )S", "(S (NP the) (VP cat sleeps) .)", ["1 word added"]),
        (
            "(S (NP XX XX XX XX )NP (VP XX )VP XX )S",
            "(S (NP the cat) (VP sleeps) .)",
            ["2 words dropped"],
        ),
        # 5.
        (
            "(S (NP )NP (NP XX XX (PP (NP )NP )PP )NP XX XX )S",
            "(S (NP the cat) sleeps .)",
            ["3 empty constituents dropped"],
        ),
        ("", "the cat sleeps .", ["4 words added"]),
        ("(S )S", "the cat sleeps .", ["4 words added", "1 empty constituent dropped"]),
    ],
)
def test_repairs(symbols, tree, repairs):
    found = Linearization().tree(symbols.split(" "), WORDS)
    assert format_tree(normalised(found.tree)).replace("(XX ", "").replace(
        ")", ""
    ) == f"(TOP {tree}".replace(")", "")
    assert found.repairs == (["1 unknown symbol dropped"] if not symbols else []) + repairs


def test_repairs_of_plain_closings():
    found = Linearization("kept", "plain").tree(
        [")", "(S", "(NP", "DT", "NN", ")", ")", ")", "VBZ", "(X", "(Y", "."], WORDS
    )
    assert format_tree(found.tree) == "(TOP (S (NP (DT the) (NN cat))) (VBZ sleeps) (X (Y (. .))))"
    assert found.repairs == ["2 closing brackets dropped", "2 brackets closed"]


def test_no_words():
    for form in FORMS:
        assert form.tree([], []) == (Tree("TOP", []), [])
        assert format_tree(form.tree(["(S", "XX", "("], []).tree) == "(TOP)"


SOUP = [
    *("(S", "(NP", "(VP", ")S", ")NP", ")VP", ")", "(", "XX", "XX", "XX", "NN", "-LRB-"),
    *("⁇", "", " ", "((", "(S )S", "</s>", "\x00", "ü", "\n"),
]
ANY_WORDS = [
    "the",
    "(",
    ")",
    "-LRB-",
    "-RRB-",
    "[",
    "x(y)",
    "XX",
    "(S",
    ")S",
    "",
    "ü",
    "漢字",
    "1\u00a0000",
    "\u2028",
    "\U0001f600",
]


@pytest.mark.parametrize("form", FORMS)
def test_any_symbols_over_any_words(form):
    """Whatever the symbols: TOP over exactly the words, without repairs if and only if its own."""
    chooser = random.Random(1)
    for _ in range(3000):
        symbols = chooser.choices(SOUP, k=chooser.choice([0, 1, 3, 10, 40, 150]))
        words = chooser.choices(ANY_WORDS, k=chooser.choice([0, 1, 2, 10, 60]))
        tree, repairs = form.tree(symbols, words)
        assert tree.label() == "TOP" and tree.leaves() == words
        assert all(
            len(node) and (node.height() == 2) == isinstance(node[0], str)
            for node in tree.subtrees()
            if node is not tree
        )
        assert (repairs == []) == (form.symbols(tree) == symbols)
        assert form.tree(form.symbols(tree), words) == (tree, [])
        if all(word and not set(word) & set("() \n") for word in words):
            assert parse_tree(format_tree(tree)) == tree


def test_very_deep_symbols():
    for form in FORMS:
        tree, repairs = form.tree(["(S"] * 5000 + ["XX"] * len(WORDS), WORDS)
        assert tree.leaves() == WORDS and tree.height() == MAX_DEPTH + 3  # TOP, tag and word
        assert f"{5000 - MAX_DEPTH} constituents too deep" in repairs


def t2t_cases(shared):
    cases = json.loads((shared / "oracle/parsing/parsing.json").read_text())
    trees = [case[key] for case in cases["trees"] for key in ("full", "clean")]
    return trees + cases["hand"], [case["raw"] for case in cases["trees"]]


def t2t_symbols(tree):
    """As tensor2tensor has them: NP ... /NP for a constituent, its tag for a word."""
    symbols = Linearization(tags="kept", closing="labelled").symbols(tree)
    return [f"/{s[1:]}" if s.startswith(")") else s.removeprefix("(") for s in symbols]


def test_t2t_form(shared):
    """What T2T itself gives, where it does (an empty line holds no tree)."""
    answered = [case for case in t2t_cases(shared)[0] if "tags" in case and case["tree_line"]]
    assert len(answered) == 33
    for case in answered:
        tree = parse_tree(case["tree_line"])
        assert " ".join(t2t_symbols(tree)) == case["tags"]
        assert " ".join(tree.leaves()) == case["words"]


def test_what_t2t_breaks_on(shared):
    cases, raw = t2t_cases(shared)
    broken = [case["tree_line"] for case in cases if "error" in case]
    assert broken
    for text in broken + raw:
        tree = clean(parse_tree(text))
        for form in FORMS[2:]:
            assert form.tree(form.symbols(tree), tree.leaves()) == (tree, [])
    assert t2t_symbols(parse_tree("(TOP (FRAG (X (SYM *)) (NP (NN x(y)))))")) == [
        "FRAG",
        "X",
        "SYM",
        "/X",
        "NP",
        "NN",
        "/NP",
        "/FRAG",
    ]


@pytest.mark.parametrize(
    "files, count",
    [("wsj_sample/*.mrg", 3914), ("genia/*.trees.gz", 17047), ("silver/gum.train.trees.gz", 10240)],
)
def test_real_treebanks(shared, files, count):
    """Every tree survives reading, writing, cleaning, linearizing and back."""
    paths = sorted((shared / "data").glob(files))
    found = 0
    for tree in itertools.chain.from_iterable(map(read_trees, paths)):
        found += 1
        cleaned = clean(tree)
        words = [unescape(word) for word, tag in tree.pos() if tag != "-NONE-"]
        assert parse_tree(format_tree(tree)) == tree
        assert cleaned.label() == "TOP" and cleaned.leaves() == words
        without_tags = normalised(cleaned)
        for form in FORMS:
            expected = cleaned if form.tags == "kept" else without_tags
            assert form.tree(form.symbols(cleaned), words) == (expected, [])
    assert found == count
