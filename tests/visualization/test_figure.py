"""Figures as in the paper."""

import io
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from t2t_lite.attention import Kind
from t2t_lite.visualization.colours import head_colours

pytest.importorskip("matplotlib", reason="no matplotlib")
from matplotlib import image  # noqa: E402

from t2t_lite.visualization.figure import figure  # noqa: E402

TITLE = "Encoder self-attention\nlayer 1 of 2"


def texts(svg: bytes) -> list[str]:
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(text.itertext()) for text in found]


def test_a_png_has_its_heads_colours(attention):
    kind = attention.kinds()["cross"]
    for heads in [0], [1, 2]:
        picture = image.imread(io.BytesIO(figure(kind, TITLE, 0, heads, rows=[0])))
        assert min(picture.shape[:2]) > 200
        hues = set()
        for pixel in np.unique(picture[..., :3].reshape(-1, 3), axis=0):
            if pixel.max() - pixel.min() > 0.3:
                hues.add(int(np.argmax(pixel)))
        assert hues  # there is colour, not grey alone
    [grey] = {tuple(figure(kind, TITLE, 0, [0])[:4])}
    assert grey == (0x89, *b"PNG")


def test_an_svg_has_the_words_and_the_colours_of_its_heads(attention):
    kind = attention.kinds()["encoder"]
    svg = figure(kind, TITLE, 1, [0, 2], format="svg")
    words = ["the", "snow", "mel", "\u00b7t", "\u00b7s", "</s>"]
    assert texts(svg)[:12] == words * 2 and "".join(texts(svg)).endswith("layer 1 of 2")
    first, second, third = (colour.encode() for colour in head_colours(3))
    assert first in svg and third in svg and second not in svg
    assert svg == figure(kind, TITLE, 1, [0, 2], format="svg")


def test_only_some_rows(attention):
    kind = attention.kinds()["encoder"]
    everything, some = (figure(kind, TITLE, 0, [1], rows, "svg") for rows in (None, [2]))
    least = 0.004
    colour = head_colours(3)[1].encode()
    assert everything.count(b"stroke: " + colour) == np.sum(kind.weights[0, 1] >= least)
    assert some.count(b"stroke: " + colour) == np.sum(kind.weights[0, 1, 2] >= least)
    assert b"fill: #cccccc" in some and b"fill: #cccccc" not in everything


@pytest.mark.parametrize("format", ["svg", "png"])
def test_any_text(format):
    pieces = ["$5", "$x_1^2", "<b>&", "\x07bell", "\u202eback", "it's"]
    kind = Kind(np.full([1, 1, 6, 6], 1 / 6, np.float32), pieces, pieces)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = figure(kind, TITLE, 0, [0], format=format)
    if format == "svg":
        assert texts(drawn)[:6] == ["$5", "$x_1^2", "<b>&", "\ufffdbell", "\ufffdback", "it's"]
