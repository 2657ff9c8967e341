"""Sub-word vocabularies: SentencePiece models, trained, stored, and run in the graph or in Python.

Lossless: text decodes to itself, byte for byte, since normalisation is the identity, every space
counts and unknown characters are spelled in bytes. The one exception is a literal U+2581,
SentencePiece's mark of a space.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece
import tensorflow as tf
import tensorflow_text
from sentencepiece import sentencepiece_model_pb2
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer

from t2t_lite.data import vocabulary_files
from t2t_lite.data.subword_sampling import Sampler
from t2t_lite.data.subword_training import EOS, PAD, UNK, train_model
from t2t_lite.data.t2t_subwords import SubwordTextEncoder, is_file_of
from t2t_lite.errors import UserError
from t2t_lite.files import missing_file
from t2t_lite.output import replacing
from t2t_lite.quiet import native_stderr_silenced

_SPACE = "\u2581"  # SentencePiece's mark of a space
_LARGEST = 1 << 30  # bytes of a model file: they are read into memory
_MANY = 100  # lines that are worth a call by a thread of its own, as SentencePiece makes it


class Vocabulary:
    """A SentencePiece model with pad 0, EOS 1 and UNK 2.

    `encode` and `decode` are graph operations on batches of strings, `encode_lines` and
    `decode_lines` the same in Python. Every encoded text ends in EOS.
    """

    kind = "sentencepiece"
    forbidden = (PAD, UNK)  # ids that are never generated
    unk = UNK

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
        self._begins_with_space = "".join(self.processor.encode("a", out_type=str))[:1] == _SPACE

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the model file, 64 hexadecimal digits."""
        return hashlib.sha256(self.proto).hexdigest()

    @classmethod
    def train(cls, sentences: Iterable[str], size: int | None, **options) -> "Vocabulary":
        """What `subword_training.train_model` learns, with its options."""
        return cls(train_model(sentences, size, **options))

    @classmethod
    def load(cls, path) -> "Vocabulary":
        """Reads a SentencePiece model.

        Raises UserError for anything else, and for other ids of pad, EOS and UNK.
        """
        path = Path(path)
        if not path.is_file():
            raise missing_file(path)
        try:
            # SentencePiece takes nothing at all for "no model given".
            if not 0 < path.stat().st_size <= _LARGEST:
                raise RuntimeError
            vocabulary = cls(path.read_bytes())
        # Of a sub-word that is not UTF-8 the second, of what the graph's library refuses the third.
        except (RuntimeError, UnicodeDecodeError, tf.errors.OpError):
            raise UserError(
                f"{path}: not a SentencePiece model, or broken; expected a file that spm_train "
                "wrote"
            ) from None
        processor = vocabulary.processor
        ids = processor.pad_id(), processor.eos_id(), processor.unk_id()
        if ids != (PAD, EOS, UNK):
            raise UserError(
                f"{path}: pad, EOS and UNK have the ids {', '.join(map(str, ids))}; "
                f"expected {PAD}, {EOS}, {UNK} "
                f"(spm_train --pad_id={PAD} --eos_id={EOS} --unk_id={UNK} --bos_id=-1)"
            )
        return vocabulary

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

    def encode_lines(self, lines: Iterable[str | bytes]) -> list[list[int]]:
        """What `encode` does, in Python, and twice as fast. Several threads may call it at once."""
        lines = list(lines)
        if len(lines) < _MANY:
            return [self.processor.encode(line, add_eos=True) for line in lines]
        return self.processor.encode(lines, add_eos=True, num_threads=1)

    def sample(
        self, texts: Sequence[str | bytes], seeds: Sequence[int], alpha: float
    ) -> list[list[int]]:
        """Another way to spell each text, drawn at random from its own seed, by a `Sampler`.

        A `word` model has one spelling only. The ids, EOS at the end, follow from text, seed and
        alpha alone, whatever the other texts, the thread and the process.
        """
        if not self._sampler:
            return self.processor.encode(list(texts), add_eos=True)
        normalised = self.processor.normalize(list(texts))
        return [
            [
                *self._sampler.draw(text if isinstance(text, str) else text.decode(), seed, alpha),
                EOS,
            ]
            for text, seed in zip(normalised, seeds, strict=True)
        ]

    @functools.cached_property
    def _spec(self) -> sentencepiece_model_pb2.ModelProto:
        return sentencepiece_model_pb2.ModelProto.FromString(self.proto)

    @functools.cached_property
    def _sampler(self) -> Sampler | None:
        trainer = self._spec.trainer_spec
        return Sampler(self._spec) if trainer.model_type in (trainer.BPE, trainer.UNIGRAM) else None

    def losses(self) -> list[str]:
        """What it does not keep of a text, in words. Of a model trained here: nothing."""
        normalizer = self._spec.normalizer_spec
        found = []
        if normalizer.precompiled_charsmap:
            found.append(f"replaces characters ({normalizer.name or 'by rules of its own'})")
        if normalizer.remove_extra_whitespaces:
            found.append("takes out double spaces and those at both ends")
        if not any(map(self.processor.is_byte, range(self.size))):
            found.append("takes characters it does not know for UNK, having no byte fallback")
        return found

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

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """Those of sub-words' texts."""
        return [self.processor.piece_to_id(piece) for piece in pieces]


def load_vocabulary(path) -> Vocabulary | SubwordTextEncoder:
    """Reads a SentencePiece model, or a file of tensor2tensor's sub-words.

    Raises UserError for anything else.
    """
    if Path(path).is_file():
        with open(path, "rb") as file:
            if is_file_of(file.read(64)):
                return SubwordTextEncoder.load(path)
    return Vocabulary.load(path)


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of both sides; one and the same object when shared."""

    source: Vocabulary | SubwordTextEncoder
    target: Vocabulary | SubwordTextEncoder
    shared: bool

    def save(self, folder) -> None:
        """Writes `vocab.model`, or `vocab.source.model` and `vocab.target.model`, and no other."""
        files = dict(zip(vocabulary_files.names(self.shared), (self.source, self.target)))
        for name, vocabulary in files.items():
            vocabulary.save(Path(folder, name))
        for name in {*vocabulary_files.NAMES} - files.keys():  # of a start that was killed
            Path(folder, name).unlink(missing_ok=True)

    @classmethod
    def load(cls, folder) -> "Vocabularies":
        """Reads what `save` wrote."""
        shared = not Path(folder, vocabulary_files.names(shared=False)[0]).is_file()
        source_name, target_name = vocabulary_files.names(shared)
        source = load_vocabulary(Path(folder, source_name))
        target = source if shared else load_vocabulary(Path(folder, target_name))
        return cls(source, target, shared)


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
