"""Colours: each head has its own, the same in pages and figures."""

import colorsys

_HUES = 12  # that are told apart; further heads have them again, lighter


def head_colours(heads: int) -> list[str]:
    """`#rrggbb` of each head, 1 to H."""
    return [_colour(head, min(heads, _HUES)) for head in range(heads)]


def _colour(head: int, hues: int) -> str:
    ring, place = divmod(head, hues)
    lightness = 0.42 + 0.18 * (ring % 3)
    parts = colorsys.hls_to_rgb(0.6 + place / hues, lightness, 0.8)  # the first is blue
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
