r"""tensor2tensor's sub-word text encoder: a vocabulary of its own kind, in Python and in the graph.

A text is cut into tokens: runs of letters and digits, and runs of anything else; a single space
between two of the first kind is left out. In a token `\` becomes `\\`, `_` becomes `\u`, a
character outside of the alphabet `\NUMBER;`, and at the end comes `_`. Then it is spelled from the
left, each time by the longest sub-word that fits. The alphabet is the characters of the sub-words.
"""

import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import tensorflow as tf
import tensorflow_text

from t2t_lite.errors import UserError
from t2t_lite.output import replacing

PAD, EOS = 0, 1
_ESCAPES = set("\\_u;0123456789")
_NONE = "\\;"  # no escaped text has it
_NO_CHARACTER = "\u3013"  # what a number stands for that is no character's
_HIGHEST = 0x10FFFF


class SubwordTextEncoder:
    """Sub-words with pad 0 and EOS 1. There is no UNK: id 2 is a sub-word as others are.

    `encode` and `decode` are graph operations on batches of strings, `encode_lines` and
    `decode_lines` the same in Python. Every encoded text ends in EOS. Letters and digits are those
    of this Python's Unicode tables, in the graph too.
    """

    forbidden = (PAD,)  # ids that are never generated
    unk = None

    def __init__(self, subwords: Sequence[str]):
        self.subwords = list(subwords)
        self.size = len(self.subwords)
        ids = {subword: i for i, subword in enumerate(self.subwords) if subword}
        self._ids, self._longest = ids, max(map(len, ids))
        self._alphabet = _ESCAPES.union(*ids)
        self._spelled = functools.lru_cache(1 << 16)(self._spell)
        self._spellings = ["" if text.startswith(_NONE) else text for text in self.subwords]
        self._texts = tf.constant(self._spellings)
        table = tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(ids)), tf.constant(list(ids.values()), tf.int64)
        )
        self.tokenizer = tensorflow_text.WordpieceTokenizer(
            tf.lookup.StaticHashTable(table, -1),
            suffix_indicator="",
            max_bytes_per_word=1 << 30,
            token_out_type=tf.int64,
            unknown_token=None,
        )

    @classmethod
    def load(cls, path) -> Self:
        """Reads a file that its `store_to_file` wrote: a sub-word a line, in quotes or not."""
        text = Path(path).read_bytes().decode("utf-8", errors="replace")
        return cls([_unquoted(line.rstrip()) for line in text.rstrip("\n").split("\n")])

    def padded(self, size: int) -> Self:
        """With entries at the end that no text has, as a vocab_divisor makes them."""
        return type(self)([*self.subwords, *(f"{_NONE}{i}" for i in range(self.size, size))])

    @functools.cached_property
    def _file(self) -> bytes:
        return "".join(f"'{subword}'\n" for subword in self.subwords).encode()

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the file, 64 hexadecimal digits."""
        return hashlib.sha256(self._file).hexdigest()

    def save(self, path) -> None:
        """Writes the file: whole, or not at all."""
        with replacing(path, "wb") as file:
            file.write(self._file)

    def losses(self) -> list[str]:
        """What it does not keep of a text, in words. Of one that tensor2tensor made: nothing."""
        alone = sorted(self._alphabet - self._ids.keys())
        return [f"cannot spell {', '.join(map(repr, alone[:5]))} alone"] if alone else []

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The sub-words' texts; `_` is where a token ends."""
        return [self.subwords[i] for i in ids]

    def encode_lines(self, lines: Iterable[str | bytes]) -> list[list[int]]:
        """What `encode` does, in Python. Several threads may call it at once."""
        return [
            [*(i for token in tokens(_decoded(line)) for i in self._spelled(token)), EOS]
            for line in lines
        ]

    def sample(self, texts: Sequence[str | bytes], seeds: Sequence[int], alpha: float):
        """As `encode_lines`: each text has one spelling only."""
        return self.encode_lines(texts)

    def decode_lines(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """What `decode` does, in Python."""
        return [self._text(row) for row in ids]

    def _spell(self, token: str) -> tuple[int, ...]:
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        escaped = "".join(c if c in self._alphabet and c != "\n" else f"\\{ord(c)};" for c in token)
        escaped += "_"
        found, start = [], 0
        while start < len(escaped):
            end = min(len(escaped), start + self._longest)
            while escaped[start:end] not in self._ids:
                end -= 1
                if end == start:
                    raise UserError(f"{token!r}: no sub-word spells {escaped[start]!r} in it")
            found.append(self._ids[escaped[start:end]])
            start = end
        return tuple(found)

    def _text(self, row: Sequence[int]) -> str:
        row = [int(i) for i in row]
        row = row[: row.index(EOS)] if EOS in row else row
        spelled = "".join(self._spellings[i] for i in row if i != PAD).split("_")
        found = [text for text in map(_unescaped, spelled) if text]
        text = ""
        for before, token in zip(["", *found], found):
            between = before and _is_word(before) and _is_word(token)
            text += f" {token}" if between else token
        return text

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string [B] -> int32 [B, None], each row ending in EOS. In the graph."""
        words = f"[{_word_ranges()}]+"
        cut = tensorflow_text.regex_split(texts, words, words)  # [B, tokens]
        index = tf.ragged.range(cut.row_lengths())
        last = cut.with_flat_values(tf.repeat(cut.row_lengths() - 1, cut.row_lengths()))
        inner = (index.flat_values > 0) & (index.flat_values < last.flat_values)
        cut = tf.ragged.boolean_mask(cut, cut.with_flat_values((cut.flat_values != " ") | ~inner))
        escaped = tf.strings.regex_replace(cut.flat_values, r"\\", r"\\\\")
        escaped = tf.strings.regex_replace(escaped, "_", r"\\u")
        characters = tf.strings.unicode_split(escaped, "UTF-8", errors="replace")
        codes = tf.strings.unicode_decode(escaped, "UTF-8", errors="replace")
        known = tf.strings.regex_full_match(characters.flat_values, self._known)
        numbers = tf.strings.join(["\\", tf.strings.as_string(codes.flat_values), ";"])
        spelled = characters.with_flat_values(tf.where(known, characters.flat_values, numbers))
        spelled = tf.strings.reduce_join(spelled, axis=-1) + "_"
        ids = self.tokenizer.tokenize(spelled)  # [tokens, None]
        ids = cut.with_flat_values(ids).merge_dims(-2, -1)
        ends = tf.fill([cut.nrows(), 1], tf.constant(EOS, tf.int64))
        return tf.cast(tf.concat([ids, ends], axis=1), tf.int32)

    @functools.cached_property
    def _known(self) -> str:
        characters = sorted(self._alphabet - {"\n"})
        return f"[{''.join(map(_escaped_in_class, characters))}]"

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """int32 [B, T] -> string [B]: each row's text to its first EOS, no pads. In the graph."""
        real = (tf.cumsum(tf.cast(ids == EOS, tf.int32), axis=1) == 0) & (ids != PAD)
        spelled = tf.strings.reduce_join(tf.where(real, tf.gather(self._texts, ids), ""), axis=1)
        cut = tf.strings.split(spelled, "_")
        texts = _unescaped_in_graph(cut.flat_values)
        cut = tf.ragged.boolean_mask(cut.with_flat_values(texts), cut.with_flat_values(texts != ""))
        word = tf.strings.regex_full_match(cut.flat_values, rf"(?s)[{_word_ranges()}].*")
        before = tf.concat([[False], word[:-1]], axis=0)
        starts = tf.ragged.range(cut.row_lengths()).flat_values == 0
        between = tf.where(word & before & ~starts, " ", "")
        return tf.strings.reduce_join(
            cut.with_flat_values(tf.strings.join([between, cut.flat_values])), axis=1
        )


def is_file_of(head: bytes) -> bool:
    """Whether a file that begins so is of this kind."""
    return re.match(rb"""['"]?<pad>_?['"]?\s*\n['"]?<EOS>""", head) is not None


def tokens(text: str) -> list[str]:
    """Runs of letters and digits, and runs of what is none, without single spaces between words."""
    found = _runs().findall(text)
    last = len(found) - 1
    return [token for i, token in enumerate(found) if token != " " or i in (0, last)]


def _decoded(line: str | bytes) -> str:
    return line.decode(errors="replace") if isinstance(line, bytes) else line


def _unquoted(line: str) -> str:
    return line[1:-1] if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"" else line


def _is_word(token: str) -> bool:
    return unicodedata.category(token[0])[0] in "LN"


def _unescaped(spelled: str) -> str:
    def character(found: re.Match) -> str:
        if found[1] is None:
            return "_" if found[0] == "\\u" else "\\"
        number = int(found[1])
        return chr(number) if number <= _HIGHEST else _NO_CHARACTER

    return re.sub(r"\\u|\\\\|\\([0-9]+);", character, spelled)


def _unescaped_in_graph(spelled: tf.Tensor) -> tf.Tensor:
    """string [N] -> string [N]."""
    escape = r"\\u|\\\\|\\[0-9]+;"
    parts = tensorflow_text.regex_split(spelled, escape, escape)
    flat = parts.flat_values
    number = tf.strings.regex_full_match(flat, r"\\[0-9]+;")
    digits = tf.strings.regex_replace(flat, r"\\0*([0-9]+);", r"\1")
    digits = tf.where(number & (tf.strings.length(digits) < 8), digits, str(_HIGHEST + 1))
    codes = tf.strings.to_number(digits, tf.int32)
    characters = tf.strings.unicode_encode(
        codes[:, None], "UTF-8", errors="replace", replacement_char=ord(_NO_CHARACTER)
    )
    flat = tf.where(number, characters, flat)
    flat = tf.where(flat == "\\u", "_", tf.where(flat == "\\\\", "\\", flat))
    return tf.strings.reduce_join(parts.with_flat_values(flat), axis=1)


@functools.cache
def _runs() -> re.Pattern:
    words = _word_ranges(r"\U%08x")
    return re.compile(f"[{words}]+|[^{words}]+")


@functools.cache
def _word_ranges(form: str = r"\x{%x}") -> str:
    """All letters and digits as the ranges of a regular expression's class."""
    ranges, start = [], None
    for code in range(_HIGHEST + 2):
        word = code <= _HIGHEST and unicodedata.category(chr(code))[0] in "LN"
        if word and start is None:
            start = code
        elif not word and start is not None:
            ranges.append(f"{form % start}-{form % (code - 1)}")
            start = None
    return "".join(ranges)


def _escaped_in_class(character: str) -> str:
    return rf"\x{{{ord(character):x}}}"
