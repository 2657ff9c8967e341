"""tensor2tensor's sub-word text encoder: a kind of vocabulary, in Python and in the graph."""

import functools
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Self

import tensorflow as tf
import tensorflow_text

from t2t_lite.data.t2t_spelling import HIGHEST, NO_CHARACTER, PAD, Spelling, word_ranges
from t2t_lite.errors import UserError
from t2t_lite.output import replacing

EOS = 1
_FORM = r"\x{%x}"  # of a character in regular expressions of the graph


class SubwordTextEncoder:
    """A `Spelling` with pad 0 and EOS 1. There is no UNK: id 2 is a sub-word as others are.

    `encode` and `decode` are graph operations on batches of strings, `encode_lines` and
    `decode_lines` the same in Python. Every encoded text ends in EOS.
    """

    kind = "tensor2tensor"
    forbidden = (PAD,)  # ids that are never generated
    unk = None

    def __init__(self, spelling: Spelling):
        self.spelling, self.size = spelling, len(spelling.subwords)
        self._texts = tf.constant(spelling.spellings)
        ids = tf.constant(list(spelling.ids)), tf.constant([*spelling.ids.values()], tf.int64)
        self.tokenizer = tensorflow_text.WordpieceTokenizer(
            tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(*ids), -1),
            suffix_indicator="",
            max_bytes_per_word=1 << 30,
            # Without it the time grows with the square of a token's length.
            max_chars_per_token=max(len(subword.encode()) for subword in spelling.ids),
            token_out_type=tf.int64,
            unknown_token=None,
        )

    @classmethod
    def load(cls, path) -> Self:
        """Reads a file that tensor2tensor wrote. Raises UserError for one that is not UTF-8."""
        try:
            return cls(Spelling.read(path))
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: not UTF-8: {error}") from None

    @functools.cached_property
    def _file(self) -> bytes:
        return "".join(f"'{subword}'\n" for subword in self.spelling.subwords).encode()

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
        alone = sorted(self.spelling.alphabet - self.spelling.ids.keys())
        return [f"cannot spell {', '.join(map(repr, alone[:5]))} alone"] if alone else []

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The sub-words' texts; `_` is where a token ends."""
        return [self.spelling.subwords[i] for i in ids]

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """Those of sub-words' texts."""
        return [self.spelling.ids[piece] for piece in pieces]

    def encode_lines(self, lines: Iterable[str | bytes]) -> list[list[int]]:
        """What `encode` does, in Python. Several threads may call it at once."""
        texts = (
            line.decode(errors="replace") if isinstance(line, bytes) else line for line in lines
        )
        try:
            return [[*self.spelling.encode(text), EOS] for text in texts]
        except ValueError as error:
            raise UserError(str(error)) from None

    def sample(self, texts: Sequence[str | bytes], seeds: Sequence[int], alpha: float):
        """As `encode_lines`: each text has one spelling only."""
        return self.encode_lines(texts)

    def decode_lines(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """What `decode` does, in Python."""
        return [self.spelling.decode(_before_eos([int(i) for i in row])) for row in ids]

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string [B] -> int32 [B, None], each row ending in EOS. In the graph."""
        words = f"[{word_ranges(_FORM)}]+"
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
        return f"[{''.join(_FORM % ord(c) for c in sorted(self.spelling.alphabet - {chr(10)}))}]"

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """int32 [B, T] -> string [B]: each row's text to its first EOS, no pads. In the graph."""
        real = (tf.cumsum(tf.cast(ids == EOS, tf.int32), axis=1) == 0) & (ids != PAD)
        spelled = tf.strings.reduce_join(tf.where(real, tf.gather(self._texts, ids), ""), axis=1)
        cut = tf.strings.split(spelled, "_")
        texts = _unescaped_in_graph(cut.flat_values)
        cut = tf.ragged.boolean_mask(cut.with_flat_values(texts), cut.with_flat_values(texts != ""))
        word = tf.strings.regex_full_match(cut.flat_values, rf"(?s)[{word_ranges(_FORM)}].*")
        before = tf.concat([[False], word[:-1]], axis=0)
        starts = tf.ragged.range(cut.row_lengths()).flat_values == 0
        between = tf.where(word & before & ~starts, " ", "")
        return tf.strings.reduce_join(
            cut.with_flat_values(tf.strings.join([between, cut.flat_values])), axis=1
        )


def is_file_of(head: bytes) -> bool:
    """Whether a file that begins so is of this kind."""
    return re.match(rb"""['"]?<pad>_?['"]?\s*\n['"]?<EOS>""", head) is not None


def _before_eos(row: list[int]) -> list[int]:
    return row[: row.index(EOS)] if EOS in row else row


def _unescaped_in_graph(spelled: tf.Tensor) -> tf.Tensor:
    """string [N] -> string [N]."""
    escape = r"\\u|\\\\|\\[0-9]+;"
    parts = tensorflow_text.regex_split(spelled, escape, escape)
    flat = parts.flat_values
    number = tf.strings.regex_full_match(flat, r"\\[0-9]+;")
    digits = tf.strings.regex_replace(flat, r"\\0*([0-9]+);", r"\1")
    digits = tf.where(number & (tf.strings.length(digits) < 8), digits, str(HIGHEST + 1))
    codes = tf.strings.to_number(digits, tf.int32)
    characters = tf.strings.unicode_encode(
        codes[:, None], "UTF-8", errors="replace", replacement_char=ord(NO_CHARACTER)
    )
    flat = tf.where(number, characters, flat)
    flat = tf.where(flat == "\\u", "_", tf.where(flat == "\\\\", "\\", flat))
    return tf.strings.reduce_join(parts.with_flat_values(flat), axis=1)
