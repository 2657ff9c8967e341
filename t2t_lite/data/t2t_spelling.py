r"""How tensor2tensor's sub-words spell a text, with Python's own library alone.

A text is cut into tokens: runs of letters and digits, and runs of anything else; a single space
between two of the first kind is left out. In a token `\` becomes `\\`, `_` becomes `\u`, a
character outside of the alphabet `\NUMBER;`, and at the end comes `_`. Then it is spelled from the
left, each time by the longest sub-word that fits. The alphabet is the characters of the sub-words.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

PAD = 0
_ESCAPES = set("\\_u;0123456789")
_NONE = "\\;"  # no escaped text has it
NO_CHARACTER = "\u3013"  # what a number stands for that is no character's
HIGHEST = 0x10FFFF


class Spelling:
    """Sub-words, and the texts that they spell. Letters are those of this Python's Unicode tables.

    Attributes:
        subwords: by their ids.
        ids: of the sub-words; of equal ones the last.
        alphabet: characters that stand for themselves.
        spellings: what each id adds to a text before it is unescaped.
    """

    def __init__(self, subwords: Sequence[str]):
        self.subwords = list(subwords)
        self.ids = {subword: i for i, subword in enumerate(self.subwords) if subword}
        self.alphabet = _ESCAPES.union(*self.ids)
        self.spellings = ["" if text.startswith(_NONE) else text for text in self.subwords]
        self._longest = max(map(len, self.ids))
        self._spelled = functools.lru_cache(1 << 16)(self._spell)

    @classmethod
    def read(cls, path) -> Self:
        """Of a file that its `store_to_file` wrote: a sub-word a line, in quotes or not.

        Raises ValueError for one that is not UTF-8.
        """
        lines = Path(path).read_bytes().decode("utf-8").removesuffix("\n").split("\n")
        return cls([_unquoted(line.rstrip()) for line in lines])

    def padded(self, size: int) -> Self:
        """With entries at the end that no text has, as a vocab_divisor makes them."""
        added = range(len(self.subwords), size)
        return type(self)([*self.subwords, *(f"{_NONE}{i}" for i in added)])

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without EOS. Raises ValueError for what no sub-word spells."""
        return [i for token in tokens(text) for i in self._spelled(token)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, PAD left out."""
        spelled = "".join(self.spellings[i] for i in ids if i != PAD).split("_")
        found = [text for text in map(_unescaped, spelled) if text]
        text = ""
        for before, token in zip(["", *found], found):
            between = before and _is_word(before) and _is_word(token)
            text += f" {token}" if between else token
        return text

    def _spell(self, token: str) -> tuple[int, ...]:
        escaped = token.replace("\\", "\\\\").replace("_", "\\u")
        characters = (c if c in self.alphabet and c != "\n" else f"\\{ord(c)};" for c in escaped)
        escaped = "".join(characters) + "_"
        found, start = [], 0
        while start < len(escaped):
            end = min(len(escaped), start + self._longest)
            while escaped[start:end] not in self.ids:
                end -= 1
                if end == start:
                    raise ValueError(f"{token!r}: no sub-word spells {escaped[start]!r} in it")
            found.append(self.ids[escaped[start:end]])
            start = end
        return tuple(found)


def tokens(text: str) -> list[str]:
    """Runs of letters and digits, and runs of what is none, without single spaces between words."""
    found = _runs().findall(text)
    last = len(found) - 1
    return [token for i, token in enumerate(found) if token != " " or i in (0, last)]


@functools.cache
def word_ranges(form: str) -> str:
    r"""All letters and digits as the ranges of a regular expression's class.

    `form` writes a character's number, such as `\U%08x`.
    """
    ranges, start = [], None
    for code in range(HIGHEST + 2):
        word = code <= HIGHEST and unicodedata.category(chr(code))[0] in "LN"
        if word and start is None:
            start = code
        elif not word and start is not None:
            ranges.append(f"{form % start}-{form % (code - 1)}")
            start = None
    return "".join(ranges)


@functools.cache
def _runs() -> re.Pattern:
    words = word_ranges(r"\U%08x")
    return re.compile(f"[{words}]+|[^{words}]+")


def _unquoted(line: str) -> str:
    return line[1:-1] if line and line[0] == line[-1] and line[0] in "'\"" else line


def _is_word(token: str) -> bool:
    return unicodedata.category(token[0])[0] in "LN"


def _unescaped(spelled: str) -> str:
    def character(found: re.Match) -> str:
        if found[1] is None:
            return "_" if found[0] == "\\u" else "\\"
        number = int(found[1])
        real = number <= HIGHEST and not 0xD800 <= number < 0xE000  # those are surrogates
        return chr(number) if real else NO_CHARACTER

    return re.sub(r"\\u|\\\\|\\([0-9]+);", character, spelled)
