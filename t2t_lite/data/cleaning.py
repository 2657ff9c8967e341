"""Cleaned: a corpus without lopsided pairs and duplicates."""

import hashlib
import json
import os
import shutil
from pathlib import Path

from t2t_lite.data.sources import Source, TextFiles, digest
from t2t_lite.errors import UserError


class Cleaned(Source):
    """A filtered copy of another source, written once to a folder of its own below `folder`.

    Args:
        max_length_ratio: pairs are dropped whose longer side has more than this times the words of
            the shorter, and pairs with an empty side. None keeps them.
        drop_duplicates: of equal pairs only the first is kept.
    """

    def __init__(
        self, source: Source, max_length_ratio: float | None, drop_duplicates: bool, folder
    ):
        self.source = source
        self.max_length_ratio = max_length_ratio
        self.drop_duplicates = drop_duplicates
        self.folder = Path(folder) / f"cleaned.{self.fingerprint()}"

    def __str__(self):
        if not self.folder.is_dir():
            return f"{self.source}, cleaned"
        counts = self._counts()
        return (
            f"{self.source}, cleaned: of {counts['read']:,} pairs {counts['duplicates']:,} "
            f"duplicates and {counts['lopsided']:,} of too different lengths dropped"
        )

    def fingerprint(self):
        """Of the other source and what is dropped."""
        return digest(
            self.source.fingerprint(), str(self.max_length_ratio), str(self.drop_duplicates)
        )

    def pairs(self):
        """The pairs that are left."""
        return self._copy().pairs()

    def dataset(self):
        """The pairs that are left, read in TensorFlow."""
        return self._copy().dataset()

    def check(self):
        """Writes the copy if need be, and returns its number of pairs."""
        if not self.folder.is_dir():
            self.source.check()  # so that nothing is written for a corpus that cannot be read
        self._copy()
        counts = self._counts()
        kept = counts["read"] - counts["duplicates"] - counts["lopsided"]
        if not kept:
            raise UserError(f"{self}: nothing is left; expected at least one pair")
        return kept

    def _counts(self) -> dict[str, int]:
        return json.loads((self.folder / "counts.json").read_text())

    def _copy(self) -> TextFiles:
        """The filtered files. Writes them if need be: whole, or not at all."""
        if not self.folder.is_dir():
            partial = self.folder.with_name(f"{self.folder.name}.{os.getpid()}.partial")
            partial.mkdir(parents=True)
            try:
                (partial / "counts.json").write_text(json.dumps(self._write(_files(partial))))
                partial.rename(self.folder)
            except OSError:
                if not self.folder.is_dir():  # unless another process was faster
                    raise
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        return TextFiles(*_files(self.folder))

    def _write(self, paths: tuple[Path, Path]) -> dict[str, int]:
        first = self._first_of_equals() if self.drop_duplicates else None
        counts = {"read": 0, "duplicates": 0, "lopsided": 0}
        with open(paths[0], "wb") as inputs, open(paths[1], "wb") as targets:
            for number, pair in enumerate(self.source.pairs()):
                counts["read"] += 1
                if first is not None and not first[number]:
                    counts["duplicates"] += 1
                elif self._lopsided(*pair):
                    counts["lopsided"] += 1
                else:
                    for file, text in zip((inputs, targets), pair):
                        # A data set's text may hold line ends.
                        file.write(text.replace("\n", " ").encode() + b"\n")
        return counts

    def _lopsided(self, source: str, target: str) -> bool:
        if self.max_length_ratio is None:
            return False
        shorter, longer = sorted((len(source.split()), len(target.split())))
        return shorter == 0 or longer > self.max_length_ratio * shorter

    def _first_of_equals(self):
        """bool [N]: whether no equal pair comes earlier. Keeps 8 bytes a pair, and no text."""
        import numpy as np  # here, so that `--help` need not wait for it

        digests = (
            int.from_bytes(hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest())
            for pair in self.source.pairs()
        )
        digests = np.fromiter(digests, np.uint64)
        first = np.zeros(len(digests), bool)
        first[np.unique(digests, return_index=True)[1]] = True
        return first


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "input.txt", folder / "target.txt"
