"""The pipeline: raw strings -> sub-word ids -> buckets by length -> padded batches [R, M, B, S].

R replicas, M micro-batches, B rows, S source length, T target length. Ids are int32; after EOS a
row is filled with PAD.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from t2t_lite.data.buckets import Bucket, bucket_numbers, rounded_length
from t2t_lite.data.sources import Source, untuned
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.errors import UserError

_CHUNK = 1024  # pairs tokenised by one call
_MAX_CALLS = 16  # of these at once
_BLOCK = 100_000  # pairs that are shuffled among themselves, some 30 MB of text


@dataclasses.dataclass
class Batch:
    """One update's pairs, all of one bucket."""

    inputs: np.ndarray  # int32 [R, M, B, S]
    targets: np.ndarray  # int32 [R, M, B, T]
    epoch: int
    index: int  # of this batch in its epoch, from 0


class TrainingBatches:
    """An endless stream of batches, the same for the same (seed, epoch, index).

    Each epoch shuffles the pairs anew and holds each pair once, except those longer than
    `max_length`, which are dropped and counted. Only an epoch's last batch may have empty rows (all
    PAD).

    Args:
        buckets: nested shapes, smallest first, as `fit_buckets` makes them; the last holds any pair
            up to `max_length`.
        start_epoch, start_batch: where to begin. What comes before in that epoch is read, but not
            yielded.
    """

    def __init__(
        self,
        source: Source,
        vocabularies: Vocabularies,
        buckets: list[Bucket],
        *,
        replicas: int,
        micro_batches: int,
        seed: int,
        max_length: int,
        start_epoch: int = 0,
        start_batch: int = 0,
    ):
        self.source = source
        self.vocabularies = vocabularies
        self.buckets = buckets
        self.slices = replicas, micro_batches
        self.seed = seed
        self.max_length = max_length
        self.start_epoch = start_epoch
        self.start_batch = start_batch
        self.pairs = 0  # seen in this epoch so far, the dropped ones included
        self.dropped = 0  # of them, longer than max_length

    def __iter__(self) -> Iterator[Batch]:
        epoch, first = self.start_epoch, self.start_batch
        while True:
            for index, (inputs, targets) in enumerate(self._epoch(epoch)):
                if index >= first:
                    shapes = [(*self.slices, -1, array.shape[1]) for array in (inputs, targets)]
                    yield Batch(inputs.reshape(shapes[0]), targets.reshape(shapes[1]), epoch, index)
            if self.dropped == self.pairs:
                raise UserError(
                    f"{self.source}: all {self.pairs:,} pairs are longer than "
                    f"max_length={self.max_length}"
                )
            epoch, first = epoch + 1, 0

    def _epoch(self, epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields (int32 [R*M*B, S], int32 [R*M*B, T])."""
        self.pairs = self.dropped = 0
        rows = np.prod(self.slices)
        parts = [_PartBatch(rows * bucket.rows, bucket) for bucket in self.buckets]
        chunks = _shuffled(self.source.dataset(), self.seed, epoch)
        for ids, lengths in _encoded(
            chunks, self.vocabularies, self.max_length
        ).as_numpy_iterator():
            bucket = bucket_numbers(self.buckets, np.stack(lengths, axis=1))
            bucket[np.maximum(*lengths) > self.max_length] = len(parts)
            self.pairs += len(bucket)
            self.dropped += np.count_nonzero(bucket == len(parts))
            for part, which in zip(parts, _groups(bucket, len(parts))):
                yield from part.add(ids[0][which], ids[1][which])
        yield from _merge(parts)


class _PartBatch:
    """Rows of one bucket, until there are enough for a batch."""

    def __init__(self, capacity: int, bucket: Bucket):
        self.widths = bucket.source_length, bucket.target_length
        self.capacity = capacity
        self.clear()

    def clear(self):
        self.sides = [np.zeros([self.capacity, width], np.int32) for width in self.widths]
        self.rows = 0

    def add(self, *sides: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Adds rows, int32 [n, any S] and [n, any T], and yields the batches that become full."""
        start, total = 0, len(sides[0])
        while start < total:
            count = min(self.capacity - self.rows, total - start)
            for own, new in zip(self.sides, sides):
                width = min(own.shape[1], new.shape[1])
                own[self.rows : self.rows + count, :width] = new[start : start + count, :width]
            self.rows += count
            start += count
            if self.rows == self.capacity:
                batch = tuple(self.sides)
                self.clear()
                yield batch


def _merge(parts: list[_PartBatch]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches an epoch's rest, the longest first; a shorter pair fits a longer one's bucket."""
    for place in reversed(range(len(parts))):
        part = parts[place]
        for shorter in reversed(parts[:place]):
            if not 0 < part.rows < part.capacity:
                break
            count = min(part.capacity - part.rows, shorter.rows)
            shorter.rows -= count
            moved = [side[shorter.rows : shorter.rows + count] for side in shorter.sides]
            full = list(part.add(*moved))
            for side in moved:
                side[:] = 0
            yield from full
        if part.rows:
            yield tuple(part.sides)


def _groups(bucket: np.ndarray, count: int) -> list[np.ndarray]:
    """The places of 0, 1, ..., count - 1 in `bucket`."""
    order = np.argsort(bucket, kind="stable")
    return np.split(order, np.searchsorted(bucket[order], np.arange(1, count + 1)))[:count]


def _shuffled(pairs: tf.data.Dataset, seed: int, epoch: int) -> tf.data.Dataset:
    """Chunks of (string [n], string [n]), shuffled within blocks of the corpus to bound memory.

    Stateless random numbers, unlike `Dataset.shuffle`, do not depend on TensorFlow's global seed.
    """

    def shuffle(number, texts):
        block_seed = tf.random.experimental.stateless_fold_in(
            tf.constant([seed, epoch], tf.int64), number
        )
        order = tf.argsort(tf.random.stateless_uniform(tf.shape(texts[0]), block_seed))
        return tuple(tf.gather(side, order) for side in texts)

    # Of prefetched blocks one is enough: it is read while its predecessor is tokenised.
    return pairs.batch(_BLOCK).enumerate().map(shuffle).prefetch(1).rebatch(_CHUNK)


def _encoded(
    chunks: tf.data.Dataset, vocabularies: Vocabularies, max_length: int
) -> tf.data.Dataset:
    """Chunks of (ids, lengths) of both sides: int32 [n, S] cut to `max_length`; int64 [n]."""

    def encode(*texts):
        ragged = [
            v.encode(text) for v, text in zip((vocabularies.source, vocabularies.target), texts)
        ]
        return tuple(ids[:, :max_length].to_tensor() for ids in ragged), tuple(
            ids.row_lengths() for ids in ragged
        )

    return untuned(
        chunks.map(encode, num_parallel_calls=min(os.cpu_count(), _MAX_CALLS)).prefetch(4)
    )


def sample_lengths(source: Source, vocabularies: Vocabularies, limit: int = 200_000) -> np.ndarray:
    """int64 [N, 2]: sub-words of source and target, EOS included, of the first `limit` pairs."""
    chunks = _encoded(
        source.dataset().take(limit).batch(_CHUNK), vocabularies, 1
    ).as_numpy_iterator()
    return np.concatenate([np.stack(lengths, axis=1) for _, lengths in chunks])


def eval_batches(
    pairs: Iterable[tuple[str, str]],
    vocabularies: Vocabularies,
    *,
    batch_tokens: int,
    replicas: int,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Batches of every pair, however long, in few shapes.

    Yields:
        inputs int32 [R, 1, B, S], targets int32 [R, 1, B, T = S] and the lines' numbers from 0,
        int64 [R, 1, B], where -1 marks an empty row. R * B * S <= batch_tokens unless single
        lines are longer.
    """
    parts: dict[int, _PartBatch] = {}
    numbers: dict[int, list[int]] = {}

    def cut(length, inputs, targets):
        lines = numbers.pop(length)
        lines += [-1] * (len(inputs) - len(lines))
        return tuple(
            array.reshape(replicas, 1, -1, *array.shape[1:])
            for array in (inputs, targets, np.array(lines))
        )

    for number, pair in enumerate(pairs):
        rows = [
            v.encode_lines([text])[0]
            for v, text in zip((vocabularies.source, vocabularies.target), pair)
        ]
        length = rounded_length(max(map(len, rows)))
        if length not in parts:
            rows_each = max(1, batch_tokens // (replicas * length))
            parts[length] = _PartBatch(replicas * rows_each, Bucket(rows_each, length, length))
        numbers.setdefault(length, []).append(number)
        for batch in parts[length].add(*(np.array([row], np.int32) for row in rows)):
            yield cut(length, *batch)
    for length, part in parts.items():
        if part.rows:
            yield cut(length, *part.sides)
