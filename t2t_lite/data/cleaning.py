"""Cleaning: which training pairs of a translation corpus are left out."""

import math
import re

from t2t_lite.data.sources import Distinct, Filtered, Source

# Scripts that put no spaces between words, and how many of their letters make about as much text as
# one word of a language that does: Han; kana; Thai, Lao, Tibetan, Burmese and Khmer. Vowel signs
# and tone marks are no letters.
_LETTERS_A_WORD = {
    re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"): 1,
    re.compile("[\u3040-\u30ff\u31f0-\u31ff]"): 2,
    re.compile(
        "[\u0e01-\u0e30\u0e40-\u0e44\u0e81-\u0eb0\u0f40-\u0f6c\u1000-\u102a\u1780-\u17a2]"
    ): 3,
}
_WITHOUT_SPACES = re.compile("|".join(letters.pattern for letters in _LETTERS_A_WORD))


def cleaned(source: Source, max_length_ratio: float | None, drop_duplicates: bool) -> Source:
    """The source without pairs that have an empty side, and as its flags say without others.

    Args:
        max_length_ratio: pairs are left out whose longer side has more than this times the words of
            the shorter, at least 1; None keeps them.
        drop_duplicates: of equal pairs only the first is kept.
    """
    source = Filtered(source, _both, "with an empty side")
    if max_length_ratio is not None:

        def similar(source: str, target: str) -> bool:
            shorter, longer = sorted((length(source), length(target)))
            return longer <= max_length_ratio * shorter

        source = Filtered(source, similar, f"over max_length_ratio {max_length_ratio:g}")
    return Distinct(source) if drop_duplicates else source


def length(text: str) -> int:
    """The words of a text; of what is written without spaces, about as many as it has."""
    words = 0.0
    if _WITHOUT_SPACES.search(text):
        for letters, a_word in _LETTERS_A_WORD.items():
            text, count = letters.subn(" ", text)
            words += count / a_word
    return math.ceil(words) + len(re.findall(r"\w\S*", text) if words else text.split())


def _both(source: str, target: str) -> bool:
    return not (source.isspace() or target.isspace()) and bool(source and target)
