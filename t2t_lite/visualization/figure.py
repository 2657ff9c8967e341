"""The figure: attention as in Figures 3 to 5 of the paper, lines between two rows of words."""

import io
import math
from collections.abc import Iterator, Sequence

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from t2t_lite.attention import Kind, labels
from t2t_lite.visualization.colours import head_colours

# In inches: from word to word, between the two rows; in points: letters and lines.
_WORD, _HEIGHT, _LETTERS, _LINE = 0.27, 2.6, 11, 2.0
_BOX = 0.45  # height of the boxes behind words that are shown, of the distance between the rows
_SPREAD = 0.5  # of a word, over which the lines of one pair lie beside each other, one a head
_LEAST = 0.004  # a weight whose line can be seen: 1/256
_FONT = "DejaVu Sans"  # matplotlib's own
_DPI = 150


def figure(
    kind: Kind,
    title: str,
    layer: int,
    heads: Sequence[int],
    rows: Sequence[int] | None = None,
    format: str = "png",
) -> bytes:
    """A picture: above the pieces that look, below those that they look at; a colour for each head.

    Args:
        kind: Kind.
        title: stands beside it.
        layer: from 0.
        heads: from 0.
        rows: places of the pieces whose lines are drawn, with what each head gives the others as
            boxes of its colour; None: those of all pieces.
        format: "png", "svg" or another of matplotlib's.
    """
    weights, colours = kind.weights[layer], head_colours(kind.weights.shape[1])
    width = _WORD * max(len(kind.rows), len(kind.columns))
    picture = Figure(figsize=(width, _HEIGHT))
    axes = picture.add_axes((0, 0, 1, 1), xlim=(-0.5, width / _WORD - 0.5), ylim=(0, 1))
    axes.axis("off")
    for number, head in enumerate(heads):
        beside = _SPREAD * ((number + 0.5) / len(heads) - 0.5)
        strongest = 1 if rows is not None else 1 / math.sqrt(len(heads))  # many cover each other
        axes.add_collection(_lines(weights[head] * strongest, colours[head], rows, beside))
    if rows is not None:
        for box in _boxes(weights, colours, heads, rows):
            axes.add_patch(box)
    rows_shown, columns_shown = (_printable(labels(side)) for side in (kind.rows, kind.columns))
    for texts, y, align in (rows_shown, 1.02, "bottom"), (columns_shown, -0.02, "top"):
        for x, text in enumerate(texts):
            axes.text(
                x, y, text, rotation=90, ha="center", va=align, size=_LETTERS, parse_math=False
            )
    axes.text(
        -0.8, 0.5, title, ha="right", va="center", rotation=90, size=_LETTERS - 2, color="#666"
    )
    return _saved(picture, "".join([*rows_shown, *columns_shown]), format)


def _lines(weights: np.ndarray, colour: str, rows, beside: float) -> LineCollection:
    """One head's lines, from above to below, as strong as their weights [R, C]."""
    wanted = weights >= _LEAST
    if rows is not None:
        wanted &= np.isin(np.arange(len(weights)), rows)[:, None]
    ends = np.argwhere(wanted)
    return LineCollection(
        [[(row + beside, 1), (column + beside, 0)] for row, column in ends],
        colors=[(*to_rgb(colour), min(1, alpha)) for alpha in weights[wanted]],
        linewidths=_LINE,
    )


def _boxes(weights: np.ndarray, colours, heads, rows) -> Iterator[Rectangle]:
    """Behind the rows that look in grey, behind what they look at a strip for each head."""
    for row in rows:
        yield _box(row - 0.5, 1, 1, "#ccc", 1)
    share = 1 / len(heads)
    for number, head in enumerate(heads):
        for column, weight in enumerate(weights[head][rows].max(axis=0)):
            if weight >= _LEAST:
                left = column - 0.5 + number * share
                yield _box(left, -_BOX, share, colours[head], min(1, weight))


def _box(x: float, y: float, width: float, colour: str, alpha: float) -> Rectangle:
    return Rectangle((x, y), width, _BOX, color=colour, alpha=alpha, lw=0, clip_on=False, zorder=0)


def _printable(pieces: Sequence[str]) -> list[str]:
    """Without what is no letter, which XML may not hold and fonts do not have."""
    return ["".join(c if c.isprintable() else "\ufffd" for c in piece) for piece in pieces]


def _saved(picture: Figure, text: str, format: str) -> bytes:
    """The file, the same for the same figure; SVG keeps its text as text."""
    FigureCanvasAgg(picture)
    file = io.BytesIO()
    options = {"font.family": _families(text), "svg.fonttype": "none", "svg.hashsalt": "t2t_lite"}
    with matplotlib.rc_context(options):
        picture.savefig(
            file, format=format, dpi=_DPI, bbox_inches="tight", pad_inches=0.1,
            metadata={"Date": None} if format == "svg" else None,
        )  # fmt: skip
    return file.getvalue()


def _families(text: str) -> list[str]:
    """Installed fonts that have the letters of a text, as far as there are any."""
    families = [_FONT]
    missing = set(map(ord, text)) - _letters(font_manager.findfont(_FONT))
    for font in font_manager.fontManager.ttflist if missing else ():
        found = missing & _letters(font.fname)
        if found:
            families.append(font.name)
            missing -= found
    return families


def _letters(file: str) -> set[int]:
    return set(font_manager.get_font(file).get_charmap())
