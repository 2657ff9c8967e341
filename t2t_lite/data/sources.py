"""Sources: the raw examples of one split, as pairs of strings, streamed in a fixed order.

A source reads a little at a time, so memory does not grow with the corpus. TensorFlow is imported
only when a `tf.data.Dataset` is asked for.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import aligned_lines, file_identity, is_gzip, read_lines

SPLITS = ("train", "dev", "test")
# Where downloads, cleaned copies and vocabularies go unless the user says otherwise.
DATA_DIR = "t2t_data"
_CHUNK = 1024  # pairs handed from Python to TensorFlow at once
_KEPT = 200  # chunks at most that are kept in memory, some 60 MB


class MissingSplit(UserError):
    """The problem has no examples for this split: no file was named, or the folder lacks it."""


class Source:
    """Raw (input, target) examples. A subclass defines `pairs` and `fingerprint`."""

    _kept: list | None = None  # all chunks of `dataset`, where they are few

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The examples, in order. Raises UserError for what cannot be read."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """A short hexadecimal text that changes when the data do."""
        raise NotImplementedError

    def check(self) -> int:
        """Reads everything once and returns the number of pairs.

        Raises UserError for what cannot be read, and if there is nothing.
        """
        count = sum(1 for _ in self.pairs())
        if not count:
            raise UserError(f"{self}: the corpus is empty; expected at least one pair")
        return count

    def dataset(self):
        """The examples as a tf.data.Dataset of (input, target), two scalar strings of UTF-8 bytes.

        Up to 204,800 pairs are kept in memory for later epochs: a tree takes a millisecond to read.
        """
        import numpy as np
        import tensorflow as tf

        def read():
            pairs, kept = self.pairs(), []
            while chunk := list(itertools.islice(pairs, _CHUNK)):
                arrays = tuple(
                    np.array([text.encode() for text in side], object) for side in zip(*chunk)
                )
                if len(kept) <= _KEPT:
                    kept.append(arrays)
                yield arrays
            if len(kept) <= _KEPT:
                self._kept = kept

        def chunks():
            yield from read() if self._kept is None else self._kept

        side = tf.TensorSpec([None], tf.string)
        return tf.data.Dataset.from_generator(chunks, output_signature=(side, side)).unbatch()


class TextFiles(Source):
    """Two line-aligned text files, plain or `.gz`. A line ends in LF; CR is never part of it."""

    def __init__(self, input_path, target_path):
        self.paths = Path(input_path), Path(target_path)

    def __str__(self):
        return f"{self.paths[0]} and {self.paths[1]}"

    def pairs(self):
        """The lines side by side. Raises UserError where one file has more than the other."""
        return aligned_lines(*self.paths)

    def dataset(self):
        """The same, read in TensorFlow."""
        import tensorflow as tf

        # TextLineDataset reads without Python's lock; like `read_lines`, it ends lines at LF and
        # leaves CR out.
        return tf.data.Dataset.zip(
            *(
                tf.data.TextLineDataset(str(p), compression_type="GZIP" if is_gzip(p) else "")
                for p in self.paths
            )
        )

    def fingerprint(self):
        """Of the files' paths, sizes and times."""
        return digest(*(file_identity(path) for path in self.paths))


class TsvFile(Source):
    """One text file, plain or `.gz`, of lines `input TAB target`."""

    def __init__(self, path):
        self.path = Path(path)

    def __str__(self):
        return str(self.path)

    def pairs(self):
        """The lines' columns. Raises UserError for a line without exactly one tab."""
        for number, line in enumerate(read_lines(self.path), 1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise UserError(
                    f"{self.path}:{number}: {len(columns) - 1} tabs; "
                    "expected input, one tab, target"
                )
            yield columns[0], columns[1]

    def fingerprint(self):
        """Of the file's path, size and time."""
        return digest(file_identity(self.path))


class Generated(Source):
    """Examples made by a function; `key` names it, and changes when the function's output does."""

    def __init__(self, function: Callable[[], Iterator[tuple[str, str]]], key: str):
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


class TfdsTranslation(Source):
    """One split of a translation set of TensorFlow Datasets, such as `wmt14_translate/de-en`."""

    def __init__(
        self, name: str, split: str, input_language: str, target_language: str, data_dir=None
    ):
        self.name = name
        self.split = split
        self.languages = input_language, target_language
        self.data_dir = data_dir

    def __str__(self):
        return f"TFDS {self.name}, split {self.split}"

    def dataset(self):
        """The examples in TensorFlow. Downloads and prepares them where that has not been done."""
        import tensorflow_datasets as tfds

        try:
            examples = tfds.load(
                self.name, split=self.split, data_dir=self.data_dir, shuffle_files=False
            )
        except Exception as error:  # whatever the network, the disk or TFDS may raise
            reason = next(iter(str(error).strip().splitlines()), "")
            raise UserError(
                f"{self}: cannot be downloaded or prepared ({type(error).__name__}: {reason}); "
                "give --raw_dir with local files instead"
            ) from error
        return untuned(
            _map(examples, lambda example: tuple(example[language] for language in self.languages))
        )

    def pairs(self):
        """The examples of `dataset`, decoded."""
        for source, target in self.dataset().as_numpy_iterator():
            yield source.decode(), target.decode()

    def check(self):
        """The number of pairs, which TFDS mostly knows without reading them."""
        count = int(self.dataset().cardinality())
        return count if count > 0 else super().check()  # negative where unknown

    def fingerprint(self):
        """Of the data set's name, the split and the languages."""
        return digest(self.name, self.split, *self.languages)


class Reversed(Source):
    """Another source with its sides swapped."""

    def __init__(self, source: Source):
        self.source = source

    def __str__(self):
        return f"{self.source}, reversed"

    def pairs(self):
        """(target, input) of each pair."""
        return ((target, source) for source, target in self.source.pairs())

    def check(self):
        """The other source's check."""
        return self.source.check()

    def dataset(self):
        """The other source's dataset, swapped in TensorFlow."""
        return _map(self.source.dataset(), lambda source, target: (target, source))

    def fingerprint(self):
        """Another than the other source's."""
        return digest("reversed", self.source.fingerprint())


class Mapped(Source):
    """Another source whose pairs go through a function; `key` changes when the function does."""

    def __init__(self, source: Source, function: Callable[[str, str], tuple[str, str]], key: str):
        self.source = source
        self.function = function
        self.key = key

    def __str__(self):
        return str(self.source)

    def pairs(self):
        """The function's result for each pair."""
        return (self.function(*pair) for pair in self.source.pairs())

    def fingerprint(self):
        """Of the key and the other source."""
        return digest("mapped", self.key, self.source.fingerprint())


class Filtered(Source):
    """The pairs of another source that `keep` accepts; `key` changes when what it accepts does."""

    def __init__(self, source: Source, keep: Callable[[str, str], bool], key: str):
        self.source = source
        self.keep = keep
        self.key = key

    def __str__(self):
        return f"{self.source}, {self.key}"

    def pairs(self):
        """The pairs that `keep` accepts, in the source's order."""
        return (pair for pair in self.source.pairs() if self.keep(*pair))

    def fingerprint(self):
        """Of the key and the source."""
        return digest("filtered", self.key, self.source.fingerprint())


def _map(examples, function):
    """A dataset after an elementwise `function`, in batches: seven times as fast as one by one."""
    return examples.batch(_CHUNK).map(function).unbatch()


def untuned(examples):
    """A tf.data.Dataset without TensorFlow's tuner.

    The tuner sleeps for up to a minute, and the end of an iterator waits until it wakes: every
    other epoch of a small corpus began 45 seconds late.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return examples.with_options(options)


def digest(*parts: str) -> str:
    """12 hexadecimal digits that change when any of the parts does."""
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()
