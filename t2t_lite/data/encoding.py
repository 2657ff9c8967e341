"""Encoding: pairs of a corpus as sub-word ids, in chunks, ahead of their use.

S is the source length, T the target length, in sub-words with EOS.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.data.corpus import Mix
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.runtime import cores

_CHUNK = 1024  # pairs tokenised by one call
_MAX_CALLS = 16  # of these at once


@dataclasses.dataclass(frozen=True)
class Spelling:
    """How texts become sub-words in an epoch.

    Attributes:
        alpha: of `Vocabulary.sample`, by which each text is spelled at random, following from
            seed, epoch and its place in the epoch's order; 0: as `Vocabulary.encode` does.
    """

    vocabularies: Vocabularies
    alpha: float
    seed: int
    epoch: int

    def in_graph(self, *texts: tf.Tensor) -> list[tf.RaggedTensor]:
        """string [n] of both sides -> int32 [n, None] of both, with alpha 0."""
        sides = self.vocabularies.source, self.vocabularies.target
        return [vocabulary.encode(side) for vocabulary, side in zip(sides, texts)]

    def drawn(self, places: np.ndarray, *texts: Sequence[bytes]) -> list[list[list[int]]]:
        """The ids of both sides' texts, of the pairs at these places of the order."""
        sides = self.vocabularies.source, self.vocabularies.target
        return [
            vocabulary.sample(side, _seeds(places, self.seed, self.epoch, number), self.alpha)
            for number, (vocabulary, side) in enumerate(zip(sides, texts))
        ]


def encoded(
    mix: Mix, order: np.ndarray, places: np.ndarray, spelling: Spelling, max_length: int
) -> Iterator[tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]]:
    """The pairs at `places` of `order`, which is one of `Mix.order`.

    Yields:
        the chunk's places; ids of both sides, int32 [n, any S] and [n, any T], cut to `max_length`;
        their whole lengths, int64 [n, 2].
    """
    chunks = [places[first : first + _CHUNK] for first in range(0, len(places), _CHUNK)]

    def texts():
        for chunk in chunks:
            yield tuple(np.array(side, object) for side in zip(*mix.texts(order[chunk])))

    def in_graph(*texts):
        ragged = spelling.in_graph(*texts)
        ids = tuple(side[:, :max_length].to_tensor() for side in ragged)
        return ids, tf.stack([side.row_lengths() for side in ragged], axis=1)

    def drawn():
        for chunk in chunks:
            sides = spelling.drawn(chunk, *zip(*mix.texts(order[chunk])))
            lengths = np.array([[len(row) for row in side] for side in sides]).T
            yield tuple(_padded(side, max_length) for side in sides), lengths

    if spelling.alpha:
        ids = tf.TensorSpec([None, None], tf.int32)
        signature = (ids, ids), tf.TensorSpec([None, 2], tf.int64)
        dataset = tf.data.Dataset.from_generator(drawn, output_signature=signature)
    else:
        side = tf.TensorSpec([None], tf.string)
        dataset = tf.data.Dataset.from_generator(texts, output_signature=(side, side))
        dataset = dataset.map(in_graph, num_parallel_calls=min(cores(), _MAX_CALLS))
    ahead = _untuned(dataset.prefetch(4)).as_numpy_iterator()
    for chunk, (ids, lengths) in zip(chunks, ahead, strict=True):
        yield chunk, ids, lengths


def _padded(rows: Sequence[Sequence[int]], max_length: int) -> np.ndarray:
    """int32 [n, T]: rows cut to `max_length` and filled with PAD."""
    width = min(max_length, max(map(len, rows)))
    return np.array([(*row[:width], *[0] * (width - len(row))) for row in rows], np.int32)


def _seeds(places: np.ndarray, *key: int) -> list[int]:
    """A number of 32 bits for each place; near places and keys give unlike ones (splitmix64)."""
    bits = np.asarray(places, np.uint64)
    for part in key:
        bits = bits + np.uint64((part + 1) * 0x9E3779B97F4A7C15 % 2**64)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ (bits >> np.uint64(31))
    return (bits >> np.uint64(32)).tolist()


def _untuned(examples: tf.data.Dataset) -> tf.data.Dataset:
    """A Dataset without TensorFlow's tuner.

    The tuner sleeps for up to a minute, and the end of an iterator waits until it wakes: every
    other epoch of a small corpus began 45 seconds late.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return examples.with_options(options)
