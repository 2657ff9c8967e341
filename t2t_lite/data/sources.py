"""Sources: the raw examples of one split, as pairs of strings, streamed in a fixed order.

A source reads a little at a time, so memory does not grow with the corpus. It comes in parts that
are quick to fetch, and whose reading (decoding, parsing, filtering) several processes may share.
"""

import copy
import hashlib
import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from t2t_lite.errors import UserError
from t2t_lite.files import check_read_once, decode_lines, file_identity, is_regular, named, reading

SPLITS = ("train", "dev", "test")
PART = 8_192  # pairs in a part

Pair = tuple[str, str]


class MissingSplit(UserError):
    """The problem has no examples for this split: no file was named, or the folder lacks it."""


class Source:
    """Raw (input, target) examples.

    A subclass defines `fingerprint`, and either `pairs` or, where reading is work that processes
    may share, `parts` and `read`.
    """

    distinct = False  # whether of equal pairs only the first is trained on
    once = False  # whether it can be read once only, as a pipe can
    _progress: float | None = None

    def parts(self) -> Iterator[Any]:
        """The examples in parts, in order: anything that can be pickled."""
        pairs = iter(self.pairs())
        while part := list(itertools.islice(pairs, PART)):
            yield part

    def read(self, part: Any, left_out: Counter) -> Iterator[Pair]:
        """The pairs of a part. Counts in `left_out`, by its reason, what is not among them."""
        return iter(part)

    def pairs(self) -> Iterator[Pair]:
        """The examples, in order. Raises UserError for what cannot be read."""
        for part in self.parts():
            yield from self.read(part, Counter())

    def progress(self) -> float | None:
        """The share of the source, 0 to 1, that `parts` has fetched; None where unknown."""
        return self._progress

    def fingerprint(self) -> str:
        """A short hexadecimal text that changes when the data may have changed."""
        raise NotImplementedError

    def each(self, change: Callable[["Source"], "Source"]) -> "Source":
        """The source changed; a mixture of such changes each of its sources."""
        return change(self)

    def check(self) -> int:
        """Reads everything once and returns the number of pairs.

        Raises UserError for what cannot be read, and if there is nothing.
        """
        count = sum(1 for _ in self.pairs())
        if not count:
            raise UserError(f"{self}: the corpus is empty; expected at least one pair")
        return count


class TextFiles(Source):
    """Two line-aligned text files, plain or `.gz`, read by `files.open_bytes`."""

    def __init__(self, input_path, target_path):
        self.paths = Path(input_path), Path(target_path)
        self.once = not all(map(is_regular, self.paths))

    def __str__(self):
        return " and ".join(map(named, self.paths))

    def parts(self):
        """(number of the first line, the lines of either side as bytes).

        Raises UserError where one file has more lines than the other, and for one pipe given twice.
        """
        check_read_once(*self.paths)
        chunks = [_chunks(path) for path in self.paths]
        for first in itertools.count(1, PART):
            sides, files = zip(*(next(side, ([], None)) for side in chunks))
            counts = list(map(len, sides))
            if counts[0] != counts[1]:
                counts = [
                    first - 1 + count + sum(len(lines) for lines, _ in side)
                    for count, side in zip(counts, chunks)
                ]
                raise UserError(
                    f"unequal line counts: {named(self.paths[0])} has {counts[0]:,}, "
                    f"{named(self.paths[1])} has {counts[1]:,}; expected line-aligned files"
                )
            if not counts[0]:
                return
            self._progress = None if self.once else _share_read(files)
            yield first, sides

    def read(self, part, left_out):
        """The lines side by side. Raises UserError for what is not UTF-8."""
        first, sides = part
        return zip(*(decode_lines(side, named(p), first) for side, p in zip(sides, self.paths)))

    def fingerprint(self):
        """Of the files' paths, sizes and times."""
        return digest(*(file_identity(path) for path in self.paths))


class TsvFile(Source):
    """One text file, plain or `.gz`, of lines `input TAB target`."""

    def __init__(self, path):
        self.path = Path(path)
        self.once = not is_regular(path)

    def __str__(self):
        return named(self.path)

    def parts(self):
        """(number of the first line, lines as bytes)."""
        for first, (lines, file) in zip(itertools.count(1, PART), _chunks(self.path)):
            self._progress = None if self.once else _share_read([file])
            yield first, lines

    def read(self, part, left_out):
        """The lines' columns. Raises UserError for a line without exactly one tab."""
        first, lines = part
        for number, line in enumerate(decode_lines(lines, named(self.path), first), first):
            columns = line.split("\t")
            if len(columns) != 2:
                raise UserError(
                    f"{named(self.path)}:{number}: {len(columns) - 1} tabs; "
                    "expected input, one tab, target"
                )
            yield columns[0], columns[1]

    def fingerprint(self):
        """Of the file's path, size and time."""
        return digest(file_identity(self.path))


class Generated(Source):
    """Examples made by a function; `key` names it, and changes when the function's output does."""

    def __init__(self, function: Callable[[], Iterator[Pair]], key: str):
        self.function = function
        self.key = key

    def __str__(self):
        return self.key

    def pairs(self):
        """What the function yields, called anew."""
        return iter(self.function())

    def fingerprint(self):
        """Of the key."""
        return digest(self.key)


class _Changed(Source):
    """Another source, changed in reading."""

    def __init__(self, source: Source):
        self.source = source
        self.distinct, self.once = source.distinct, source.once

    def __str__(self):
        return str(self.source)

    def parts(self):
        """The other source's."""
        return self.source.parts()

    def read(self, part, left_out):
        """The other source's pairs."""
        return self.source.read(part, left_out)

    def progress(self):
        """The other source's."""
        return self.source.progress()


class Reversed(_Changed):
    """Another source with its sides swapped."""

    def __str__(self):
        return f"{self.source}, reversed"

    def read(self, part, left_out):
        """(target, input) of each pair."""
        return ((target, source) for source, target in self.source.read(part, left_out))

    def fingerprint(self):
        """Another than the other source's."""
        return digest("reversed", self.source.fingerprint())


class Mapped(_Changed):
    """Another source whose pairs go through a function; `key` changes when the function does."""

    def __init__(self, source: Source, function: Callable[[str, str], Pair], key: str):
        super().__init__(source)
        self.function = function
        self.key = key

    def read(self, part, left_out):
        """The function's result for each pair."""
        return (self.function(*pair) for pair in self.source.read(part, left_out))

    def fingerprint(self):
        """Of the key and the other source."""
        return digest("mapped", self.key, self.source.fingerprint())


class Filtered(_Changed):
    """The pairs of another source that `keep` accepts; those that it does not are counted.

    Args:
        key: what the count is called; changes when what `keep` accepts does.
    """

    def __init__(self, source: Source, keep: Callable[[str, str], bool], key: str):
        super().__init__(source)
        self.keep = keep
        self.key = key

    def read(self, part, left_out):
        """The pairs that `keep` accepts, in the source's order."""
        for pair in self.source.read(part, left_out):
            if self.keep(*pair):
                yield pair
            else:
                left_out[self.key] += 1

    def fingerprint(self):
        """Of the key and the source."""
        return digest("filtered", self.key, self.source.fingerprint())


class Distinct(_Changed):
    """Another source of whose equal pairs only the first is trained on."""

    def __init__(self, source: Source):
        super().__init__(source)
        self.distinct = True

    def fingerprint(self):
        """Another than the other source's."""
        return digest("distinct", self.source.fingerprint())


class Mixture(Source):
    """Several sources that are trained on together.

    Args:
        sources: each is prepared for itself.
        weights: how often an epoch holds each pair of a source: 1 once, 2 twice, 0.5 every other
            epoch.
    """

    def __init__(self, sources: Sequence[Source], weights: Sequence[float]):
        self.sources = tuple(sources)
        self.weights = tuple(weights)

    def __str__(self):
        return " + ".join(map(str, self.sources))

    def pairs(self):
        """The sources one after the other, each once."""
        return itertools.chain.from_iterable(source.pairs() for source in self.sources)

    def passes(self, sizes: Sequence[int]) -> tuple[float, ...]:
        """How often an epoch holds each pair of the sources, for the numbers of their pairs."""
        return self.weights

    def each(self, change):
        """The same mixture of its sources, each of them changed."""
        mixture = copy.copy(self)
        mixture.sources = tuple(map(change, self.sources))
        return mixture

    def fingerprint(self):
        """Of the sources and their weights."""
        return digest("mixture", str(self.weights), *(s.fingerprint() for s in self.sources))


def weighted(flag: str, paths: Sequence[str]) -> tuple[tuple[str, ...], float]:
    """A group of paths and its weight, which `@2` at the end of the last says; without it, 1.

    A file whose own name ends so is taken as it is. Raises UserError for a weight of 0 or less.
    """
    *others, last = paths
    path, at, text = last.rpartition("@")
    if not at or os.path.exists(last):
        return tuple(paths), 1.0
    try:
        weight = float(text)
    except ValueError:
        return tuple(paths), 1.0
    if not 0 < weight < math.inf:
        raise UserError(f"--{flag} {last}: weight {text}; expected a number above 0")
    return (*others, path), weight


def _chunks(path) -> Iterator[tuple[list[bytes], BinaryIO]]:
    """The lines of a file, PART at a time, and the file behind them."""
    with reading(path) as file:
        while lines := list(itertools.islice(file, PART)):
            yield lines, file


def _share_read(files: Sequence[BinaryIO]) -> float | None:
    """The share of the bytes of open regular files that is read; None where they hold none."""
    files = [getattr(file, "fileobj", file) for file in files]  # a GzipFile's own
    total = sum(os.fstat(file.fileno()).st_size for file in files)
    return sum(file.tell() for file in files) / total if total else None


def digest(*parts: str) -> str:
    """12 hexadecimal digits that change when any of the parts does."""
    # Names of files may hold bytes that are no UTF-8, which stand in strings as surrogates.
    joined = "\n".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(joined, digest_size=6).hexdigest()
