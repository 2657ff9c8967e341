"""A treebank as a source of examples: (sentence, tree), both one line of text."""

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_lite.data.sources import Source, digest
from t2t_lite.errors import UserError
from t2t_lite.files import file_identity, missing_file

_ENDINGS = ".mrg", ".trees", ".ptb", ".psd"


class TreebankFiles(Source):
    """Cleaned trees from files in Penn Treebank style, in the order of the files' names.

    Pairs are (the words as people write them, separated by spaces; the tree with root TOP). Files
    in CorpusSearch's form give such trees too. Trees without words are left out; they and what
    else is left out are counted, and `str` tells.

    Args:
        paths: files, plain or `.gz`, and folders, of which every file of trees below is read once,
            whatever links lead to it, but for hidden ones.
        skip_bad: leave out, and count, trees that are broken; False: they are errors.
    """

    def __init__(self, paths: Sequence[str | Path], skip_bad: bool = False):
        self.paths = [Path(path).expanduser() for path in paths]
        self.skip_bad = skip_bad
        # Of the last whole reading:
        self.skipped = 0  # broken trees
        self.empty = 0  # trees without words
        self.removed = 0  # IDs, codes and metadata

    def __str__(self):
        files, others = self._found()
        name = (
            str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} ... {self.paths[-1]}"
        )
        notes = [f"{len(files):,} files"] if len(files) > 1 else []
        if others:
            names = [other.name for other in others[:3]] + ["..."] * (len(others) > 3)
            notes.append(f"others left out: {len(others):,}, {', '.join(names)}")
        notes += [f"{self.skipped:,} broken trees skipped"] if self.skip_bad else []
        notes += [f"{self.empty:,} without words left out"] if self.empty else []
        notes += [f"{self.removed:,} IDs, codes and metadata left out"] if self.removed else []
        return f"{name} ({'; '.join(notes)})" if notes else name

    def files(self) -> list[Path]:
        """The files, in order.

        Raises UserError for a path that is not there, and for a folder without trees.
        """
        return self._found()[0]

    def _found(self) -> tuple[list[Path], list[Path]]:
        """The files, and what else is in the folders."""
        files, others, real = [], [], set()
        for path in self.paths:
            if not path.exists():
                raise missing_file(path)
            if not path.is_dir():
                files.append(path)
                real.add(os.path.realpath(path))
                continue
            found, rest = _below(path)
            if not found:
                raise UserError(
                    f"{path}: no {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]} files, plain or .gz, "
                    "in this folder"
                )
            for file in found:
                if (name := os.path.realpath(file)) not in real:
                    files.append(file)
                    real.add(name)
            others += rest
        return files, others

    def pairs(self) -> Iterator[tuple[str, str]]:
        """(sentence, tree) of each tree that has words; counts what it leaves out."""
        # Here, since nltk takes 0.3 s to import, and every command imports the problems.
        from t2t_lite.trees.cleaning import clean
        from t2t_lite.trees.corpussearch import penn_style
        from t2t_lite.trees.reader import format_tree, read_trees, words

        skipped = []
        empty = removed = 0
        for path in self.files():
            trees = read_trees(path, skip_bad=self.skip_bad, on_skip=skipped.append)
            psd = path.name.lower().removesuffix(".gz").endswith(".psd")
            for tree, count in penn_style(trees, psd):
                removed += count
                if cleaned := clean(tree):
                    yield " ".join(words(cleaned)), format_tree(cleaned)
                else:
                    empty += 1
        self.skipped, self.empty, self.removed = len(skipped), empty, removed

    def fingerprint(self):
        """Of the files' paths, sizes and times, and of how they are read."""
        return digest("trees 2", *(file_identity(path) for path in self.files()))


class Mixed(Source):
    """Gold and silver trees in one stream: a gold pair after every `silver_per_gold` silver ones.

    An epoch ends when both have been through; the one that ends first starts anew.
    """

    def __init__(self, gold: Source, silver: Source, silver_per_gold: int):
        self.gold, self.silver, self.silver_per_gold = gold, silver, silver_per_gold

    def __str__(self):
        return f"{self.silver}, after every {self.silver_per_gold} trees one from {self.gold}"

    def pairs(self):
        """The stream of one epoch. Raises UserError where one of the two has no trees."""
        through = set()

        def endless(source):
            while True:
                last = None  # is known as such only when no other follows
                for pair in source.pairs():
                    if last:
                        yield last
                    last = pair
                if not last:
                    raise UserError(f"{source}: no trees; expected at least one")
                through.add(source)
                yield last

        for side in itertools.cycle(
            [endless(self.silver)] * self.silver_per_gold + [endless(self.gold)]
        ):
            yield next(side)
            if len(through) == 2:
                return

    def fingerprint(self):
        """Of both and their proportion."""
        return digest(
            "mixed", str(self.silver_per_gold), self.gold.fingerprint(), self.silver.fingerprint()
        )


def holds_trees(path: Path) -> bool:
    """Whether a file is one of trees by its name; in upper case too, as older disks have it."""
    return path.is_file() and path.name.lower().removesuffix(".gz").endswith(_ENDINGS)


def _below(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files of trees below a folder, linked folders included, in order; and what else is there.

    What is hidden is not looked into; what a link leads back to is looked into once. Raises
    UserError for a folder that cannot be read.
    """

    def refuse(error: OSError):
        raise UserError(f"{error.filename}: cannot be read ({error.strerror}); expected a folder")

    files, others, real = [], [], {os.path.realpath(folder)}
    for here, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        shown = sorted(name for name in folders if not name.startswith("."))
        others += [Path(here, name) for name in folders if name.startswith(".")]
        folders.clear()
        for name in shown:
            if (path := os.path.realpath(os.path.join(here, name))) not in real:
                real.add(path)
                folders.append(name)
        for file in (Path(here, name) for name in names):
            shown = not file.name.startswith(".") and holds_trees(file)
            (files if shown else others).append(file)
    return sorted(files), sorted(others)
