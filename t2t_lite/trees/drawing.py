"""Trees drawn for people: as text for a terminal, and as SVG."""

import re
import unicodedata
from xml.sax.saxutils import escape

from nltk.tree import Tree, TreePrettyPrinter

# In pixels: size of the text, mean width of its letters, space beside each text, from level to
# level, around the tree.
_SIZE, _LETTER, _SPACE, _LEVEL, _MARGIN = 14, 8, 12, 44, 16
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def pretty(tree: Tree) -> str:
    """The tree in lines of Unicode, its words in the last one or above; no newline at the end."""
    text = TreePrettyPrinter(tree).text(unicodelines=True, maxwidth=None)
    lines = text.split("\n")  # not splitlines: words may hold U+2028
    return "\n".join(line.rstrip(" ") for line in lines).rstrip("\n")


def svg(tree: Tree) -> str:
    """The tree as one SVG document, a newline at its end.

    Columns are as wide as their words; nltk's are all 40 pixels.
    """
    lines, texts = [], []
    depth = 0
    rest = [(tree, 0.0, 0, None)]  # node, left edge, depth, centre of the parent
    while rest:
        node, left, level, parent = rest.pop()
        x, y = left + _width(node) / 2, level * _LEVEL
        depth = max(depth, level)
        if parent is not None:
            lines.append(
                f'<line x1="{parent:.1f}" y1="{y - _LEVEL + _SIZE / 2:.1f}" '
                f'x2="{x:.1f}" y2="{y - _SIZE:.1f}"/>'
            )
        text = escape(_NOT_XML.sub("\ufffd", _text(node)))
        colour = "#a31" if isinstance(node, str) else "#000"
        texts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{text}</text>')
        if not isinstance(node, str):
            left = x - sum(map(_width, node)) / 2
            for child in node:
                rest.append((child, left, level + 1, x))
                left += _width(child)
    width, height = _width(tree) + 2 * _MARGIN, depth * _LEVEL + 2 * (_SIZE + _MARGIN)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.1f}" height="{height:.1f}" '
        f'viewBox="{-_MARGIN} {-_MARGIN - _SIZE} {width:.1f} {height:.1f}">'
    )
    style = f"text {{ font: {_SIZE}px sans-serif; text-anchor: middle }} line {{ stroke: #888 }}"
    return "\n".join([head, f"<style>{style}</style>", *lines, *texts, "</svg>\n"])


def _text(node: Tree | str) -> str:
    return node if isinstance(node, str) else node.label()


def _width(node: Tree | str) -> float:
    """Pixels that a node and what is below it need, side by side."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in _text(node))
    own = (len(_text(node)) + wide) * _LETTER + _SPACE
    return own if isinstance(node, str) else max(own, sum(map(_width, node)))
