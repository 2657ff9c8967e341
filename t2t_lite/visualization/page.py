"""The page: attention to explore in a browser, one HTML file that asks no network for anything."""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np

from t2t_lite.attention import TITLES, Attention, Kind, labels
from t2t_lite.errors import UserError
from t2t_lite.visualization.colours import head_colours

_PARTS = Path(__file__).with_name("page")
_SCALE = 10_000  # weights are whole numbers of it: three characters each, where JSON's have twenty
MOST = 20_000_000  # weights, of all layers and heads: a page of some 60 MB
# What the two sides are: that which looks, and that which it looks at.
_SIDES = {
    "encoder": ("Input", "Input"),
    "decoder": ("Output, as it is written", "Output, read by then"),
    "cross": ("Output, as it is written", "Input"),
}


def page(
    attention: Attention,
    kind: str,
    layer: int,
    heads: Sequence[int],
    facts: Sequence[tuple[str, str]] = (),
) -> str:
    """The HTML document.

    Args:
        attention: Attention.
        kind: one of attention.kinds(), with which the page opens.
        layer: from 0, likewise.
        heads: from 0, likewise.
        facts: what is said on top, (term, text) each.

    Raises UserError where it is too much for a page.
    """
    kinds = attention.kinds()
    weights = sum(kind.weights.size for kind in kinds.values())
    if weights > MOST:
        sizes = len(attention.source_pieces), len(attention.target_pieces)
        raise UserError(
            f"{sizes[0]:,} sub-words of input and {sizes[1]:,} of output have {weights:,} weights "
            f"in all layers and heads; a page holds at most {MOST:,}"
        )
    data = {
        "scale": _SCALE,
        "kinds": [_described(name, kind) for name, kind in kinds.items()],
        "start": {"kind": list(kinds).index(kind), "layer": layer, "heads": list(heads)},
        "facts": list(facts),
    }
    style, script = (
        (_PARTS / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")
    )
    return Template((_PARTS / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(" ".join(["Attention:", *(text for _, text in facts[:1])])),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=_json(data),
    )


def _described(name: str, kind: Kind) -> dict:
    whole = np.rint(kind.weights * _SCALE).astype(int)
    layers, heads, rows, columns = whole.shape
    return {
        "title": TITLES[name],
        "sides": _SIDES[name],
        "rows": labels(kind.rows),
        "columns": labels(kind.columns),
        "colours": head_colours(heads),
        "weights": whole.reshape(layers, heads, rows * columns).tolist(),
    }


def _json(value) -> str:
    """JSON that may stand in a script element, which `</script` or `<!--` would end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _hash(text: str) -> str:
    """What a content security policy knows an inline style or script by."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
