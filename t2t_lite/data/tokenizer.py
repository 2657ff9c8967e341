"""Sub-word vocabularies: SentencePiece models, trained, stored, and run in the graph or in Python.

Lossless: text decodes to itself, byte for byte, since normalisation is the identity, every space
counts and unknown characters are spelled in bytes. The one exception is a literal U+2581,
SentencePiece's mark of a space.
"""

import dataclasses
import hashlib
import io
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece
import tensorflow as tf
import tensorflow_text
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer

from t2t_lite.errors import UserError
from t2t_lite.files import missing_file
from t2t_lite.output import replacing
from t2t_lite.quiet import native_stderr_silenced

# No BOS: the decoder's shifted input starts with PAD, whose embedding is zero.
PAD, EOS, UNK = 0, 1, 2
_SPACE = "\u2581"  # SentencePiece's mark of a space
_SAMPLE = 1_000_000  # sentences that a vocabulary is trained on at most


class Vocabulary:
    """A SentencePiece model with pad 0, EOS 1 and UNK 2.

    `encode` and `decode` are graph operations on batches of strings, `encode_lines` and
    `decode_lines` the same in Python. Every encoded text ends in EOS.
    """

    def __init__(self, proto: bytes):
        self.proto = proto
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
        with native_stderr_silenced():  # "use identity normalization"
            self.tokenizer = tensorflow_text.SentencepieceTokenizer(
                proto, out_type=tf.int32, add_eos=True
            )
            self.tokenizer._model_resource = _ModelResource(proto)
        self.size = self.processor.get_piece_size()
        self._bytes = [_text(self.processor, piece) for piece in range(self.size)]
        self._texts = tf.constant(self._bytes)
        self._begins_with_space = self.processor.encode("a", out_type=str)[0].startswith(_SPACE)

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        size: int | None,
        *,
        model_type: str = "bpe",
        seed: int = 1,
        sample: int = _SAMPLE,
        user_symbols: Sequence[str] = (),
    ) -> "Vocabulary":
        """Learns `size` sub-words from a seeded sample of at most `sample` sentences.

        Args:
            sentences: lines of text, one or both sides' of a corpus.
            size: sub-words, the special ones included; None for `word`, which keeps all.
            model_type: SentencePiece's: `bpe`, `unigram`, or `word`: what stands between spaces is
                never split.
            seed: of the sample.
            sample: sentences kept in memory.
            user_symbols: texts that always are one sub-word.

        Raises UserError for a size that the sentences do not allow, naming the nearest that they
        do.
        """
        model = io.BytesIO()
        whole_words = model_type == "word"
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(_sample(sentences, sample, seed)),
                model_writer=model,
                vocab_size=size or 1_000_000,  # not read where all are kept
                use_all_vocab=whole_words,
                model_type=model_type,
                pad_id=PAD,
                eos_id=EOS,
                unk_id=UNK,
                bos_id=-1,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                byte_fallback=not whole_words,
                character_coverage=0.9999,  # rarer characters are spelled in bytes
                user_defined_symbols=list(user_symbols),
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _size_error(str(error), size) from None
        return cls(model.getvalue())

    @classmethod
    def load(cls, path) -> "Vocabulary":
        """Reads a SentencePiece model.

        Raises UserError for anything else, and for other ids of pad, EOS and UNK.
        """
        path = Path(path)
        if not path.is_file():
            raise missing_file(path)
        proto = path.read_bytes()
        try:
            if not proto:  # which SentencePiece takes for "no model given"
                raise RuntimeError
            processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
        except RuntimeError:
            raise UserError(
                f"{path}: not a SentencePiece model; expected a file that spm_train wrote"
            ) from None
        ids = processor.pad_id(), processor.eos_id(), processor.unk_id()
        if ids != (PAD, EOS, UNK):
            raise UserError(
                f"{path}: pad, EOS and UNK have the ids {', '.join(map(str, ids))}; "
                f"expected {PAD}, {EOS}, {UNK} "
                f"(spm_train --pad_id={PAD} --eos_id={EOS} --unk_id={UNK} --bos_id=-1)"
            )
        return cls(proto)

    def save(self, path) -> None:
        """Writes the model file: whole, or not at all."""
        with replacing(path, "wb") as file:
            file.write(self.proto)

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string [B] -> int32 [B, None], each row ending in EOS. In the graph."""
        return self.tokenizer.tokenize(texts)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """int32 [B, T] -> string [B]: each row's text to its first EOS, no pads. In the graph."""
        # Not tensorflow-text's operation, which loses a text's leading spaces.
        before_eos = tf.cumsum(tf.cast(ids == EOS, tf.int32), axis=1) == 0
        texts = tf.strings.reduce_join(
            tf.where(before_eos, tf.gather(self._texts, ids), ""), axis=1
        )
        if self._begins_with_space:
            texts = tf.strings.regex_replace(texts, r"\A ", "")
        # Bytes that make no character become U+FFFD.
        return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """What `encode` does, in Python."""
        return self.processor.encode(list(lines), add_eos=True)

    def decode_lines(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """What `decode` does, in Python."""
        # Not SentencePiece's decoding, which replaces bytes that make no character by other rules
        # than the graph can.
        texts = (b"".join(self._bytes[i] for i in _before_eos(row)) for row in ids)
        return [
            (text.removeprefix(b" ") if self._begins_with_space else text).decode(errors="replace")
            for text in texts
        ]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The sub-words' texts, special symbols included."""
        return [self.processor.id_to_piece(int(i)) for i in ids]


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of both sides; one and the same object when shared."""

    source: Vocabulary
    target: Vocabulary
    shared: bool

    def save(self, folder) -> None:
        """Writes `vocab.model`, or `vocab.source.model` and `vocab.target.model`."""
        folder = Path(folder)
        if self.shared:
            self.source.save(folder / "vocab.model")
        else:
            self.source.save(folder / "vocab.source.model")
            self.target.save(folder / "vocab.target.model")

    @classmethod
    def load(cls, folder) -> "Vocabularies":
        """Reads what `save` wrote."""
        folder = Path(folder)
        if (folder / "vocab.source.model").is_file():
            source, target = (
                Vocabulary.load(folder / f"vocab.{side}.model") for side in ("source", "target")
            )
            return cls(source, target, shared=False)
        vocabulary = Vocabulary.load(folder / "vocab.model")
        return cls(vocabulary, vocabulary, shared=True)


class _ModelResource(tf.saved_model.experimental.TrackableResource):
    """The model as a resource of the graph, shared under a name of its own.

    The one that tensorflow-text makes belongs to a cached kernel and is gone after the next
    `tf.random.set_seed`, which empties TensorFlow's cache of kernels.
    """

    def __init__(self, proto: bytes):
        super().__init__()
        self._proto = proto
        self._shared_name = "sentencepiece." + hashlib.sha256(proto).hexdigest()
        _ = self.resource_handle  # creates it

    def _create_resource(self):
        return gen_sentencepiece_tokenizer.sentencepiece_op(
            model=self._proto, shared_name=self._shared_name
        )


def _text(processor: sentencepiece.SentencePieceProcessor, piece: int) -> bytes:
    """What a sub-word adds to a text: nothing for special symbols, any byte for a byte."""
    if processor.is_control(piece) or processor.is_unknown(piece):
        return b""
    text = processor.id_to_piece(piece)
    return (
        bytes.fromhex(text[3:5]) if processor.is_byte(piece) else text.replace(_SPACE, " ").encode()
    )


def _before_eos(row: Sequence[int]) -> list[int]:
    ids = [int(i) for i in row]
    if EOS in ids:
        ids = ids[: ids.index(EOS)]
    return [i for i in ids if i != PAD]


def _sample(sentences: Iterable[str], size: int, seed: int) -> list[str]:
    """`size` of the sentences, each equally likely (reservoir sampling), in bounded memory."""
    chooser = random.Random(seed)
    kept: list[str] = []
    for number, sentence in enumerate(sentences):
        if number < size:
            kept.append(sentence)
        elif (place := int(chooser.random() * (number + 1))) < size:
            kept[place] = sentence
    return kept


def _size_error(message: str, size: int) -> UserError:
    """SentencePiece's own words turned into one line that names the nearest size that works."""
    if found := re.search(r"too high.*<= (\d+)", message):
        return UserError(
            f"vocab_size {size} is too large for this corpus; the largest possible is {found[1]}"
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return UserError(
            f"vocab_size {size} is too small for this corpus; the smallest possible is {found[1]}"
        )
    if "sentences_.empty()" in message:
        return UserError("no vocabulary can be trained: the corpus holds no text")
    return UserError(
        f"no vocabulary with vocab_size {size} can be trained: {' '.join(message.split())}"
    )
