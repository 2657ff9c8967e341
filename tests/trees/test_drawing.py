"""Drawings: every word and label in them, in lines that fit and XML that parses."""

import itertools
import xml.etree.ElementTree as ET

import pytest

from t2t_lite.trees.drawing import pretty, svg
from t2t_lite.trees.reader import parse_tree

TREE = (
    "(TOP (S (NP (NN internationalisation)) "
    '(VP (VBZ is) (ADJP (JJ <hard>) (CC &) (JJ "long"))) (. .)))'
)


def test_pretty():
    drawn = pretty(parse_tree("(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))")).splitlines()
    labels = [line.split() for line in drawn if line.strip(" │┌─┴┬┐")]
    assert labels == [["S"], ["NP", "VP"], ["DT", "NN", "VBZ"], ["the", "cat", "sleeps"]]
    assert len(drawn) == 7 and all("│" in line or "┴" in line for line in drawn[1::2])


def test_pretty_never_cuts_words():
    assert pretty(parse_tree(TREE)).splitlines()[-1].split() == [
        "internationalisation",
        "is",
        "<hard>",
        "&",
        '"long"',
        ".",
    ]


def texts(drawn: str) -> list[tuple[str, float, float]]:
    """(text, x, y) of each text in an SVG."""
    root = ET.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    left, top, width, height = map(float, root.get("viewBox").split())
    found = [
        (text.text or "", float(text.get("x")), float(text.get("y")))
        for text in root.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert all(left < x < left + width and top < y < top + height for _, x, y in found)
    return found


def test_svg():
    found = texts(svg(parse_tree(TREE)))
    assert sorted(text for text, _, _ in found) == sorted(
        TREE.replace("(", " ").replace(")", " ").split()
    )
    places = {text: (x, y) for text, x, y in found}
    words = ["internationalisation", "is", "<hard>", "&", '"long"', "."]
    for word, following in itertools.pairwise(
        words
    ):  # in order, without touching: letters are about 7 pixels wide
        assert places[following][0] - places[word][0] > 3.5 * (len(word) + len(following))
    assert places["TOP"][1] < places["S"][1] < places["NP"][1] == places["VP"][1] < places["NN"][1]


@pytest.mark.parametrize(
    "text", ["(TOP)", "(NN a)", "( (NN a))", "(NN \x01\x0c\ufffe]]>)", "(NN 漢字)", "(NN \u2028)"]
)
def test_odd_trees(text):
    tree = parse_tree(text)
    assert len(texts(svg(tree))) == len(tree.leaves()) + sum(1 for _ in tree.subtrees())
    assert all(word in pretty(tree) for word in tree.leaves())


def test_deep_and_wide_trees():
    for text in ("(S " * 300 + "(NN a)" + ")" * 300, "(S " + "(NP (NN a) (NN b))" * 300 + ")"):
        tree = parse_tree(text)
        assert pretty(tree)
        texts(svg(tree))
