"""Packing: several pairs one after the other in each row, so that little of it is padding.

Rows are [S, T]; a pair's input stands in the row's inputs in the same order as its target in the
targets, so the n-th sequence of one side, each of which ends in EOS, belongs to the other's n-th.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from t2t_lite.data.buckets import Bucket, bucket_numbers

_CHOICE = 256  # waiting pairs among which those of a row are chosen
_EVENED = 8  # the oldest of them, among which the sides' evenness decides
_FULL = 1  # places, of both sides together, that a full row may have left


class PackedBatch:
    """Pairs that wait for rows of one shape, until there are enough for a batch.

    That is when they are more than its rows hold, by some to choose the last ones from.
    """

    def __init__(self, shape: Bucket):
        self._rows = shape.rows
        self._widths = np.array([shape.source_length, shape.target_length])
        self._clear()

    def _clear(self) -> None:
        # All in one order, the oldest pair first.
        self._numbers, self._lengths = np.zeros(0, int), np.zeros([0, 2], int)
        self._sides: list[list[np.ndarray]] = [[], []]  # the ids

    def waiting(self) -> tuple[int, ...]:
        """The numbers of the pairs."""
        return tuple(self._numbers.tolist())

    def add(self, numbers: np.ndarray, *sides: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Adds pairs, int [n], int32 [n, any S] and [n, any T], and yields the batches they make.

        A batch is (the numbers of its pairs; int32 [N, S], [N, T]).
        """
        lengths = np.stack([np.count_nonzero(side, axis=1) for side in sides], axis=1)
        self._numbers = np.concatenate([self._numbers, numbers])
        self._lengths = np.concatenate([self._lengths, lengths])
        for own, side, ends in zip(self._sides, sides, lengths.cumsum(axis=0).T):
            own += np.split(side[side != 0], ends[:-1]) if len(ends) else []
        while (count := self._enough()) is not None:
            yield self._batch(count)

    def _enough(self) -> int | None:
        """How many of the pairs make a batch; None: not even all do."""
        sums = self._lengths[: max(0, len(self._lengths) - _CHOICE)].cumsum(axis=0)
        full = np.flatnonzero((sums >= self._rows * self._widths).any(axis=1))
        return int(full[0]) + 1 + _CHOICE if len(full) else None

    def _batch(self, count: int) -> tuple[np.ndarray, ...]:
        """Takes a batch's rows away from the first `count` pairs."""
        batch = [np.zeros([self._rows, width], np.int32) for width in self._widths]
        left, taken = np.arange(count), []
        for row in range(self._rows):
            seen = left[:_CHOICE]
            chosen = chosen_pairs(self._lengths[seen], self._widths)
            if not chosen:
                break
            places = seen[chosen].tolist()
            for own, ids in zip(batch, self._sides):
                together = np.concatenate([ids[place] for place in places])
                own[row, : len(together)] = together
            left = np.delete(left, chosen)
            taken += places
        numbers = self._numbers[taken]
        left = np.concatenate([left, np.arange(count, len(self._numbers))])
        self._numbers, self._lengths = self._numbers[left], self._lengths[left]
        self._sides = [[ids[place] for place in left.tolist()] for ids in self._sides]
        return numbers, *batch

    def take(self, other: "PackedBatch") -> None:
        """Adds all that waits in another one, which holds shorter pairs."""
        self._numbers = np.concatenate([self._numbers, other._numbers])
        self._lengths = np.concatenate([self._lengths, other._lengths])
        self._sides = [own + more for own, more in zip(self._sides, other._sides)]
        other._clear()

    def rest(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields batches of all that waits; the last may have empty rows."""
        while count := len(self._numbers):
            yield self._batch(count)


def rest(parts: Sequence[PackedBatch]) -> Iterator[tuple[np.ndarray, ...]]:
    """Batches an epoch's rest in the shape of the longest pair; `parts`: the shortest first."""
    waiting = [part for part in parts if part.waiting()]
    for shorter in waiting[:-1]:
        waiting[-1].take(shorter)
    for part in waiting[-1:]:
        yield from part.rest()


def chosen_pairs(lengths: np.ndarray, widths: np.ndarray) -> list[int]:
    """Which pairs a row is made of: the oldest, then such as even out its sides and fill it up.

    Args:
        lengths: int [N, 2], sub-words of the pairs, the oldest first.
        widths: int [2], S and T.
    """
    places, room, chosen = np.arange(len(lengths)), widths - lengths, []  # once each is taken
    while len(places := places[fits := room.min(axis=1) >= 0]):
        room = room[fits]
        fullest = (total := room.sum(axis=1)).argmin()
        if not chosen:
            best = 0  # so that none waits for long
        elif total[fullest] <= _FULL:
            best = fullest
        else:
            best = abs(room[:_EVENED] @ (widths[::-1] * [1, -1])).argmin()
        chosen.append(int(places[best]))
        room = room - lengths[chosen[-1]]
        room[best] = -1
    return chosen


def filled(lengths: np.ndarray, shapes: Sequence[Bucket]) -> float:
    """The share of both sides' places that hold a symbol, once pairs of these lengths are packed.

    Args:
        lengths: int [N, 2], sub-words of source and target.
        shapes: nested, of rows.
    """
    parts, numbers = [PackedBatch(shape) for shape in shapes], bucket_numbers(shapes, lengths)
    symbols = places = 0
    for part, shape, number in zip(parts, shapes, range(len(shapes))):
        own = lengths[numbers == number]
        widths = shape.source_length, shape.target_length
        sides = ((np.arange(w) < n[:, None]).astype(np.int32) for w, n in zip(widths, own.T))
        batches = itertools.chain(part.add(np.arange(len(own)), *sides), part.rest())
        for _, *ids in batches:
            rows = np.count_nonzero(ids[0][:, 0])
            symbols += sum(map(np.count_nonzero, ids))
            places += rows * sum(widths)
    return symbols / places
