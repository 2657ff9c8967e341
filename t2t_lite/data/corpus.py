"""Prepared corpora: pairs on disk that are read at random, and their order in an epoch.

    pairs.txt    UTF-8, two lines a pair: what the model reads, and what it is to write
    index.bin    for each pair of the corpus its place in pairs.txt: 8 bytes, and its size: 4
    about.json   what it was made of, how many pairs were left out and why, a digest

Text, not sub-words: so it serves every vocabulary, and tokenising is faster than training is.
`corpus_writer` makes them.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite import records
from t2t_lite.errors import UserError, reason

PAIRS, INDEX, ABOUT = "pairs.txt", "index.bin", "about.json"
ENTRY = np.dtype([("start", "<u8"), ("size", "<u4")])  # of index.bin; bytes


class Corpus:
    """A prepared corpus.

    Args:
        folder: as `corpus_writer.write_corpus` made it.

    Attributes:
        source: what it was made of, in words.
        left_out: the reasons why pairs of the source are not in it, and their counts.
        digest: 32 hexadecimal digits of the pairs, wherever they came from.

    Raises UserError where something of it is missing or was cut.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        try:
            about = self._about()
        except (UserError, FileNotFoundError) as error:
            raise UserError(
                f"{folder}: not whole ({reason(error)}); delete it, and it is prepared anew"
            ) from None
        self.source: str = about["source"]
        self.left_out: dict[str, int] = about["left_out"]
        self.digest: str = about["digest"]
        self.bytes: int = about["bytes"]
        self._index = np.memmap(self.folder / INDEX, ENTRY, "r")
        # Not mapped: pages that were read would count as this process's memory.
        self._file = open(self.folder / PAIRS, "rb", buffering=0)

    def _about(self) -> dict[str, Any]:
        """ABOUT, if it and what it says of the other files is right."""
        file = self.folder / ABOUT
        about = records.read(file)
        kinds = {"source": str, "left_out": dict, "digest": str, "pairs": int, "bytes": int}
        records.check(about, kinds, file)
        for name, size in (PAIRS, about["bytes"]), (INDEX, about["pairs"] * ENTRY.itemsize):
            if (found := (self.folder / name).stat().st_size) != size:
                raise UserError(f"{name}: {found:,} bytes; expected {size:,}")
        return about

    def __len__(self) -> int:
        return len(self._index)

    def __str__(self) -> str:
        return f"{len(self):,} pairs from {self.source}"

    def left_out_in_words(self) -> str:
        """Such as `duplicates: 1,204; with an empty side: 3`."""
        return "; ".join(f"{reason}: {count:,}" for reason, count in self.left_out.items())

    def texts(self, numbers: np.ndarray) -> list[tuple[bytes, bytes]]:
        """The pairs of these numbers, UTF-8."""
        file = self._file.fileno()
        places = self._index[numbers]
        return [
            tuple(os.pread(file, size, start).split(b"\n", 2)[:2])
            for start, size in zip(places["start"].tolist(), places["size"].tolist())
        ]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All pairs, in the order of the source."""
        for start in range(0, len(self), 1024):
            numbers = np.arange(start, min(start + 1024, len(self)))
            for pair in self.texts(numbers):
                yield pair[0].decode(), pair[1].decode()


class Mix:
    """Corpora that are trained on together, in epochs that mix all of them.

    An epoch holds each pair of a corpus as often as `passes` says: with 2 twice, with 0.5 every
    other epoch, so that over the epochs each is taken equally often.
    """

    def __init__(self, corpora: Sequence[Corpus], passes: Sequence[float]):
        self.corpora = tuple(corpora)
        self.passes = tuple(passes)
        self._ends = np.cumsum([len(corpus) for corpus in corpora])
        self._draws = [max(1, round(count * len(corpus))) for corpus, count in zip(corpora, passes)]

    def __len__(self) -> int:
        """Pairs in an epoch."""
        return sum(self._draws)

    def __str__(self) -> str:
        return " + ".join(corpus.source for corpus in self.corpora)

    @property
    def digest(self) -> str:
        """32 hexadecimal digits of the corpora and how often each is passed through."""
        parts = [(corpus.digest, passes) for corpus, passes in zip(self.corpora, self.passes)]
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """int64 [len(self)]: the numbers of an epoch's pairs, one permutation of all of them."""
        numbers, first = [], 0
        for place, (corpus, draws) in enumerate(zip(self.corpora, self._draws)):
            numbers.append(first + self._drawn(place, len(corpus), draws, seed, epoch))
            first += len(corpus)
        numbers = numbers[0] if len(numbers) == 1 else np.concatenate(numbers)
        return numbers[_permutation(len(numbers), seed, epoch)]

    @staticmethod
    def _drawn(place: int, size: int, draws: int, seed: int, epoch: int) -> np.ndarray:
        """int64 [draws]: which pairs of one corpus an epoch holds."""
        turns = np.arange(epoch * draws, (epoch + 1) * draws) % size
        # Where epochs hold parts of a corpus, they are parts of it shuffled.
        return turns if draws % size == 0 else _permutation(size, seed, place, 0x636F72)[turns]

    def texts(self, numbers: np.ndarray) -> list[tuple[bytes, bytes]]:
        """The pairs of these numbers, as `order` gives them, UTF-8."""
        if len(self.corpora) == 1:
            return self.corpora[0].texts(numbers)
        which = np.searchsorted(self._ends, numbers, side="right")
        pairs = [None] * len(numbers)
        for place, corpus in enumerate(self.corpora):
            mine = np.flatnonzero(which == place)
            first = self._ends[place] - len(corpus)
            for slot, pair in zip(mine.tolist(), corpus.texts(numbers[mine] - first)):
                pairs[slot] = pair
        return pairs

    def sample(self, size: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
        """At most `size` pairs of the corpora, each pair equally likely, in their order."""
        total = int(self._ends[-1])
        numbers = np.arange(total)
        if size < total:
            numbers = np.sort(_permutation(total, seed)[:size])
        for start in range(0, len(numbers), 1024):
            yield from self.texts(numbers[start : start + 1024])


def _permutation(size: int, *key: int) -> np.ndarray:
    """int64 [size]: a permutation that follows from `key`.

    By the numbers of a bit generator, which NumPy keeps as they are, unlike its `permutation`.
    """
    bits = np.random.PCG64(np.random.SeedSequence(key))
    return np.argsort(bits.random_raw(size), kind="stable")
