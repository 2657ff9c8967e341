"""Attention: where a model looked while it read a source and wrote a target, in three kinds."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.errors import UserError

# The three uses of attention (section 3.2.3), as they are called on the command line and shown.
TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Decoder-encoder attention",
}

MOST = 1 << 28  # weights of an attention: 1 GiB
_WORD = "\u2581"  # SentencePiece's mark of a word's beginning
_SPECIAL = "<pad>", "</s>", "<EOS>"


class Kind(NamedTuple):
    """One use of attention.

    Attributes:
        weights: float32 [layers, heads, rows, columns]; each row sums to 1.
        rows: the pieces that looked.
        columns: the pieces that they looked at.
    """

    weights: np.ndarray
    rows: list[str]
    columns: list[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Attention:
    """Where a model looked.

    Weights are float32, layers first to last; each row sums to 1. As a tuple it is the first three:
    `weights, source_pieces, target_pieces = attention`.

    Attributes:
        weights: [layers, heads, T, S], where each piece of the target looked in the source as it
            was written.
        source_pieces: S pieces of the source's vocabulary, U+2581 where a word begins, the last one
            </s>.
        target_pieces: T pieces, likewise.
        encoder: [layers, heads, S, S], where each piece of the source looked in the source; no
            layers where the encoder has no self-attention.
        decoder: [layers, heads, T, T], where the decoder looked, as it wrote a piece, among the
            pieces that it had read, `read_pieces`.
        read_pieces: T pieces: padding's, for nothing was written yet, then the target's but the
            last.
    """

    weights: np.ndarray
    source_pieces: list[str]
    target_pieces: list[str]
    encoder: np.ndarray
    decoder: np.ndarray
    read_pieces: list[str]

    def __iter__(self) -> Iterator:
        return iter((self.weights, self.source_pieces, self.target_pieces))

    def kinds(self) -> dict[str, Kind]:
        """Those of `TITLES` that the model has, by name."""
        kinds = {
            "encoder": Kind(self.encoder, self.source_pieces, self.source_pieces),
            "decoder": Kind(self.decoder, self.target_pieces, self.read_pieces),
            "cross": Kind(self.weights, self.target_pieces, self.source_pieces),
        }
        return {name: kind for name, kind in kinds.items() if len(kind.weights)}


def check_size(models: Iterable[dict], source: int, target: int) -> None:
    """Raises UserError where a source and a target of so many sub-words are too long together.

    models: hparams of each member, as dicts.
    """
    weights = sum(
        hparams["num_heads"]
        * (
            (hparams["num_encoder_layers"] * source**2 if _encoder_attends(hparams) else 0)
            + hparams["num_decoder_layers"] * (target**2 + source * target)
        )
        for hparams in models
    )
    if weights > MOST:
        raise UserError(
            f"the attention of {source:,} sub-words of input and {target:,} of output has "
            f"{weights:,} weights; expected at most {MOST:,}"
        )


def _encoder_attends(hparams: dict) -> bool:
    """Exports of before do not say of which type their encoder's layers are."""
    return "attention" in hparams.get("encoder_layer", "self_attention")


def labels(pieces: Sequence[str]) -> list[str]:
    """The pieces as people read them: words as they are, what goes on with one after a raised dot.

    Pieces of a vocabulary that does not mark where words begin stay as they are.
    """
    if not any(piece.startswith(_WORD) for piece in pieces):
        return list(pieces)
    return [
        piece.removeprefix(_WORD) or piece
        if number == 0 or piece.startswith(_WORD) or piece in _SPECIAL
        else f"\u00b7{piece}"
        for number, piece in enumerate(pieces)
    ]


def words(pieces: Sequence[str]) -> list[str]:
    """The word that each piece is part of.

    SentencePiece marks where words begin, tensor2tensor's sub-words where they end, by `_`.
    """
    marked = any(piece.startswith(_WORD) for piece in pieces)
    found, numbers, ended = [], [], True
    for piece in pieces:
        text = piece.removeprefix(_WORD) if marked else piece.removesuffix("_")
        if ended or text in _SPECIAL or (marked and piece.startswith(_WORD)):
            found.append("")
        found[-1] += text
        ended = text in _SPECIAL or (not marked and piece.endswith("_"))
        numbers.append(len(found) - 1)
    return [found[number] for number in numbers]
