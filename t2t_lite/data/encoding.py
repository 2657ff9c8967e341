"""Encoding: pairs of a corpus as sub-word ids, in chunks, ahead of their use.

S is the source length, T the target length, in sub-words with EOS.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from t2t_lite.data.corpus import Mix
from t2t_lite.data.subword_training import PAD
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.runtime import cores

_CHUNK = 1024  # pairs tokenised by one call
_MAX_CALLS = 16  # of these at once
_AHEAD = 8  # chunks that are tokenised before they are asked for, at most


@dataclasses.dataclass(frozen=True)
class Spelling:
    """How texts become sub-words in an epoch.

    Attributes:
        alpha: of `Vocabulary.sample`, by which each text is spelled at random, following from
            seed, epoch and its place in the epoch's order; 0: as `encode_lines` does.
    """

    vocabularies: Vocabularies
    alpha: float
    seed: int
    epoch: int

    def ids(self, places: np.ndarray, *texts: Sequence[bytes]) -> list[list[list[int]]]:
        """The ids of both sides' texts, of the pairs at these places of the order."""
        sides = self.vocabularies.source, self.vocabularies.target
        if not self.alpha:
            return [vocabulary.encode_lines(side) for vocabulary, side in zip(sides, texts)]
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
    chunks = (places[first : first + _CHUNK] for first in range(0, len(places), _CHUNK))

    def encode(chunk: np.ndarray):
        sides = spelling.ids(chunk, *zip(*mix.texts(order[chunk])))
        ids, lengths = zip(*(_padded(side, max_length) for side in sides))
        return chunk, ids, np.stack(lengths, axis=1)

    # Not by tf.data: its from_generator sets malloc's thresholds back (see `t2t_lite.malloc`), and
    # its tuner lets the end of an epoch wait for up to a minute.
    with ThreadPoolExecutor(min(cores(), _MAX_CALLS)) as pool:
        ahead = collections.deque(pool.submit(encode, c) for c in itertools.islice(chunks, _AHEAD))
        while ahead:
            yield ahead.popleft().result()
            ahead.extend(pool.submit(encode, chunk) for chunk in itertools.islice(chunks, 1))


def _padded(rows: Sequence[Sequence[int]], max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """int32 [n, T], rows cut to `max_length`, filled with PAD; int64 [n], their whole lengths."""
    lengths = np.array(list(map(len, rows)))
    width = min(max_length, lengths.max())
    flat = itertools.chain.from_iterable(row[:width] for row in rows)
    ids = np.full([len(rows), width], PAD, np.int32)
    ids[np.arange(width) < lengths[:, None]] = np.fromiter(flat, np.int32)
    return ids, lengths


def _seeds(places: np.ndarray, *key: int) -> list[int]:
    """A number of 32 bits for each place; near places and keys give unlike ones (splitmix64)."""
    bits = np.asarray(places, np.uint64)
    for part in key:
        bits = bits + np.uint64((part + 1) * 0x9E3779B97F4A7C15 % 2**64)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ (bits >> np.uint64(31))
    return (bits >> np.uint64(32)).tolist()
