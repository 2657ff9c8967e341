"""A treebank as a source of examples: (sentence, tree), both one line of text."""

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_lite.data.sources import PART, Mixture, Source, digest
from t2t_lite.errors import UserError
from t2t_lite.files import file_identity, is_regular, missing_file

_LARGE = 8 << 20  # bytes of a file that is too much for one part
_ENDINGS = ".mrg", ".trees", ".ptb", ".psd"


class TreebankFiles(Source):
    """Cleaned trees from files in Penn Treebank style, in the order of the files' names.

    Pairs are (the words as people write them, separated by spaces; the tree with root TOP). Files
    in CorpusSearch's form give such trees too. Trees without words are left out.

    Args:
        paths: files, plain or `.gz`, and folders, of which every file of trees below is read once,
            whatever links lead to it, but for hidden ones.
        skip_bad: leave out, and count, trees that are broken; False: they are errors.
    """

    def __init__(self, paths: Sequence[str | Path], skip_bad: bool = False):
        self.paths = [Path(path).expanduser() for path in paths]
        self.skip_bad = skip_bad
        self.once = not all(path.is_dir() or is_regular(path) for path in self.paths)

    def __str__(self):
        files, others = self._found()
        name = (
            str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} ... {self.paths[-1]}"
        )
        notes = [f"{len(files):,} files"] if len(files) > 1 else []
        if others:
            names = [other.name for other in others[:3]] + ["..."] * (len(others) > 3)
            notes.append(f"others left out: {len(others):,}, {', '.join(names)}")
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

    def parts(self):
        """Paths; of large files their pairs in lists, with counts of what is left out."""
        files = self.files()
        for number, path in enumerate(files, 1):
            if path.is_file() and path.stat().st_size < _LARGE:
                yield path
            else:
                left_out = Counter()
                pairs = self._pairs(path, left_out)
                while (part := list(itertools.islice(pairs, PART))) or left_out:
                    yield part, Counter(left_out)
                    left_out.clear()
            self._progress = number / len(files)

    def read(self, part, left_out):
        """(sentence, tree) of each tree that has words."""
        if isinstance(part, Path):
            yield from self._pairs(part, left_out)
        else:
            left_out.update(part[1])
            yield from part[0]

    def _pairs(self, path: Path, left_out: Counter) -> Iterator[tuple[str, str]]:
        # Here, since nltk takes 0.3 s to import, and every command imports the problems.
        from t2t_lite.trees.cleaning import clean
        from t2t_lite.trees.corpussearch import penn_style
        from t2t_lite.trees.reader import format_tree, read_trees, words

        def skip(_):
            left_out["broken trees"] += 1

        psd = path.name.lower().removesuffix(".gz").endswith(".psd")
        trees = read_trees(path, skip_bad=self.skip_bad, on_skip=skip)
        for tree, removed in penn_style(trees, psd):
            if removed:
                left_out["IDs, codes and metadata"] += removed
            if cleaned := clean(tree):
                yield " ".join(words(cleaned)), format_tree(cleaned)
            else:
                left_out["trees without words"] += 1

    def fingerprint(self):
        """Of the files' paths, sizes and times, and of how they are read."""
        return digest("trees 2", *(file_identity(path) for path in self.files()))


class GoldAndSilver(Mixture):
    """Gold and silver trees: `silver_per_gold` silver pairs to each gold one.

    An epoch holds all pairs of both; the side that has fewer than its share is gone through again.
    """

    def __init__(
        self, gold: Sequence[Source], silver: Sequence[Source], weights, silver_per_gold: int
    ):
        super().__init__([*gold, *silver], weights)
        self.silver_per_gold = silver_per_gold
        self._golds = len(gold)

    def passes(self, sizes):
        """How often an epoch holds each pair of the sources, for the numbers of their pairs."""
        weighed = [size * weight for size, weight in zip(sizes, self.weights)]
        gold, silver = sum(weighed[: self._golds]), sum(weighed[self._golds :])
        golds = max(gold, silver / self.silver_per_gold)  # drawn in an epoch
        shares = [golds / gold] * self._golds
        shares += [golds * self.silver_per_gold / silver] * (len(sizes) - self._golds)
        return tuple(weight * share for weight, share in zip(self.weights, shares))

    def fingerprint(self):
        """Of the sources, their weights and their proportion."""
        return digest(super().fingerprint(), str(self.silver_per_gold))


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
