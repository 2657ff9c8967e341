"""The pipeline: prepared pairs -> sub-word ids -> buckets by length -> padded batches [N, S].

N rows, S source length, T target length. Ids are int32; after EOS a row is filled with PAD.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np

from t2t_lite.data.buckets import Bucket, bucket_numbers, rounded_length
from t2t_lite.data.corpus import Mix
from t2t_lite.data.encoding import Spelling, encoded
from t2t_lite.data.packing import PackedBatch, rest
from t2t_lite.data.subword_training import EOS, PAD
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.errors import UserError


@dataclasses.dataclass(frozen=True)
class Position:
    """Where a stream of batches stands: a few numbers, from which it goes on in seconds.

    Attributes:
        epoch: from 0.
        place: pairs of the epoch's order that are taken.
        waiting: for each bucket, the places in the order of the pairs that are taken and, before
            the pairs from `place` on, in no batch yet.
        batches: already made with pairs from `place` on.
        dropped: of the pairs that are taken, longer than `max_length`.
    """

    epoch: int = 0
    place: int = 0
    waiting: tuple[tuple[int, ...], ...] = ()
    batches: int = 0
    dropped: int = 0

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """What `to_json` gave. Of a version that stored less: the beginning of its epoch."""
        if "place" not in values:
            return cls(values["epoch"])
        return cls(**values | {"waiting": tuple(map(tuple, values["waiting"]))})


@dataclasses.dataclass
class Batch:
    """One update's pairs, all of one bucket; one in each row, or several where rows are packed."""

    inputs: np.ndarray  # int32 [N, S]
    targets: np.ndarray  # int32 [N, T]
    position: Position  # after this batch

    def pairs(self, vocabularies: Vocabularies) -> Iterator[tuple[str, str]]:
        """Their texts."""
        sides = (vocabularies.source, self.inputs), (vocabularies.target, self.targets)
        return zip(*(vocabulary.decode_lines(_sequences(ids)) for vocabulary, ids in sides))


class TrainingBatches:
    """An endless stream of batches, the same for the same seed, from any position on.

    It knows no devices: which pairs an update takes does not depend on how many share it.

    Each epoch takes the pairs in a new order, which mixes all of the corpus, and holds each as
    often as the Mix says, except those longer than `max_length`, which are dropped and counted.
    Only an epoch's last batch may have empty rows (all PAD).

    Args:
        buckets: nested shapes, smallest first, as `fit_buckets` makes them, or `fit_rows` for
            packed ones; the last holds any pair up to `max_length`.
        subword_sampling: alpha of `Vocabulary.sample`, by which each text is spelled in another way
            each time, following from seed, epoch and its place in the order; 0: always the same.
        packing: whether rows hold several pairs.
        start: where to begin; nothing that comes before it is read.
    """

    def __init__(
        self,
        mix: Mix,
        vocabularies: Vocabularies,
        buckets: list[Bucket],
        *,
        seed: int,
        max_length: int,
        subword_sampling: float = 0.0,
        packing: bool = False,
        start: Position = Position(),
    ):
        self.mix = mix
        self.vocabularies = vocabularies
        self.buckets = buckets
        self.seed = seed
        self.max_length = max_length
        self.subword_sampling = subword_sampling
        self.packing = packing
        self.start = start

    def __iter__(self) -> Iterator[Batch]:
        start = self.start
        while True:
            for inputs, targets, position in self._epoch(start):
                yield Batch(inputs, targets, position)
            start = Position(start.epoch + 1)

    def _epoch(self, start: Position) -> Iterator[tuple[np.ndarray, np.ndarray, Position]]:
        """Yields (int32 [N, S], int32 [N, T], the position after)."""
        order = self.mix.order(self.seed, start.epoch)
        parts = [(PackedBatch if self.packing else _PartBatch)(b) for b in self.buckets]
        for part, waiting in zip(parts, start.waiting):
            for places, ids, _ in self._encoded(order, start.epoch, np.array(waiting, int)):
                # Full ones come only from a version whose buckets followed from the devices.
                for _, *batch in part.add(places, *ids):
                    yield *batch, start
        here = dataclasses.replace(start, batches=0)
        made = start.batches
        ahead = np.arange(start.place, len(order))
        for places, ids, lengths in self._encoded(order, start.epoch, ahead):
            bucket = bucket_numbers(self.buckets, lengths)
            bucket[lengths.max(axis=1) > self.max_length] = len(parts)
            batches = (
                batch
                for part, which in zip(parts, _groups(bucket, len(parts)))
                for batch in part.add(places[which], ids[0][which], ids[1][which])
            )
            yield from _after(here, made, batches)
            made = 0
            here = Position(
                start.epoch,
                int(places[-1]) + 1,
                tuple(part.waiting() for part in parts),
                dropped=here.dropped + int(np.count_nonzero(bucket == len(parts))),
            )
        if here.dropped == len(order):
            raise UserError(
                f"{self.mix}: all {len(order):,} pairs are longer than max_length={self.max_length}"
            )
        yield from _after(here, made, (rest if self.packing else _merge)(parts))

    def _encoded(self, order: np.ndarray, epoch: int, places: np.ndarray):
        """What `encoding.encoded` yields, for the pairs at these places of an epoch's order."""
        spelling = Spelling(self.vocabularies, self.subword_sampling, self.seed, epoch)
        return encoded(self.mix, order, places, spelling, self.max_length)


def _after(
    here: Position, made: int, batches: Iterator[tuple[np.ndarray, ...]]
) -> Iterator[tuple[np.ndarray, np.ndarray, Position]]:
    """The batches after the first `made`, and the position after each, counted from `here`."""
    for number, (_, inputs, targets) in enumerate(batches, 1):
        if number > made:
            yield inputs, targets, dataclasses.replace(here, batches=number)


def _sequences(ids: np.ndarray) -> list[np.ndarray]:
    """[N, T] -> the sequences of all rows, each of which ends in EOS."""
    return np.split(ids[ids != PAD], np.flatnonzero(ids[ids != PAD] == EOS) + 1)[:-1]


class _PartBatch:
    """Rows of one bucket, until there are enough for a batch."""

    def __init__(self, bucket: Bucket):
        self.widths = bucket.source_length, bucket.target_length
        self.capacity = bucket.rows
        self.clear()

    def clear(self):
        self.numbers = np.full(self.capacity, -1)  # of the rows' pairs
        self.sides = [np.zeros([self.capacity, width], np.int32) for width in self.widths]
        self.rows = 0

    def waiting(self) -> tuple[int, ...]:
        """The numbers of the rows' pairs."""
        return tuple(self.numbers[: self.rows].tolist())

    def add(self, numbers: np.ndarray, *sides: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Adds rows, int [n], int32 [n, any S], [n, any T], and yields the batches that get full.

        A batch is (numbers int64 [capacity], -1 for an empty row; int32 [capacity, S], [.., T]).
        """
        start, total = 0, len(numbers)
        while start < total:
            count = min(self.capacity - self.rows, total - start)
            taken = slice(self.rows, self.rows + count)
            self.numbers[taken] = numbers[start : start + count]
            for own, new in zip(self.sides, sides):
                width = min(own.shape[1], new.shape[1])
                own[taken, :width] = new[start : start + count, :width]
            self.rows += count
            start += count
            if self.rows == self.capacity:
                batch = self.numbers, *self.sides
                self.clear()
                yield batch


def _merge(parts: list[_PartBatch]) -> Iterator[tuple[np.ndarray, ...]]:
    """Batches an epoch's rest, the longest first; a shorter pair fits a longer one's bucket."""
    for place in reversed(range(len(parts))):
        part = parts[place]
        for shorter in reversed(parts[:place]):
            if not 0 < part.rows < part.capacity:
                break
            count = min(part.capacity - part.rows, shorter.rows)
            shorter.rows -= count
            taken = slice(shorter.rows, shorter.rows + count)
            moved = [side[taken] for side in shorter.sides]
            full = list(part.add(shorter.numbers[taken], *moved))
            for side in moved:
                side[:] = 0
            yield from full
        if part.rows:
            yield part.numbers, *part.sides


def _groups(bucket: np.ndarray, count: int) -> list[np.ndarray]:
    """The places of 0, 1, ..., count - 1 in `bucket`."""
    order = np.argsort(bucket, kind="stable")
    return np.split(order, np.searchsorted(bucket[order], np.arange(1, count + 1)))[:count]


def sample_lengths(
    mix: Mix,
    vocabularies: Vocabularies,
    seed: int,
    subword_sampling: float = 0.0,
    limit: int = 200_000,
) -> np.ndarray:
    """int64 [N, 2]: sub-words of source and target, EOS included, of a sample of an epoch.

    The first `limit` pairs of the first epoch's order, which is shuffled as a whole.
    """
    order = mix.order(seed, 0)[:limit]
    spelling = Spelling(vocabularies, subword_sampling, seed, epoch=0)
    chunks = encoded(mix, order, np.arange(len(order)), spelling, max_length=1)
    return np.concatenate([lengths for _, _, lengths in chunks])


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

    def cut(numbers, inputs, targets):
        return tuple(
            array.reshape(replicas, 1, -1, *array.shape[1:]) for array in (inputs, targets, numbers)
        )

    for number, pair in enumerate(pairs):
        rows = [
            v.encode_lines([text])[0]
            for v, text in zip((vocabularies.source, vocabularies.target), pair)
        ]
        length = rounded_length(max(map(len, rows)))
        if length not in parts:
            rows_each = max(1, batch_tokens // (replicas * length))
            parts[length] = _PartBatch(Bucket(replicas * rows_each, length, length))
        sides = (np.array([row], np.int32) for row in rows)
        for batch in parts[length].add(np.array([number]), *sides):
            yield cut(*batch)
    for part in parts.values():
        if part.rows:
            yield cut(part.numbers, *part.sides)
