"""A treebank as a source of examples: (sentence, tree), both one line of text."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_lite.data.sources import Mixture, Source, digest
from t2t_lite.errors import UserError
from t2t_lite.files import file_identity, missing_file


class TreebankFiles(Source):
    """Cleaned trees from files in Penn Treebank style, in the order of the files' names.

    Pairs are (the words as the files have them, separated by spaces; the tree with root TOP).

    Args:
        paths: files, plain or `.gz`, and folders, of which every `.mrg`, `.trees` and `.ptb` file
            below is read.
        skip_bad: leave out, and count, trees that are broken; False: they are errors.
    """

    def __init__(self, paths: Sequence[str | Path], skip_bad: bool = False):
        self.paths = [Path(path).expanduser() for path in paths]
        self.skip_bad = skip_bad
        self.skipped = 0  # of the last whole reading

    def __str__(self):
        files = self.files()
        name = (
            str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} ... {self.paths[-1]}"
        )
        notes = [f"{len(files):,} files"] if len(files) > 1 else []
        notes += [f"{self.skipped:,} broken trees skipped"] if self.skip_bad else []
        return f"{name} ({', '.join(notes)})" if notes else name

    def files(self) -> list[Path]:
        """The files, in order.

        Raises UserError for a path that is not there, and for a folder without trees.
        """
        files = []
        for path in self.paths:
            if not path.exists():
                raise missing_file(path)
            found = (
                sorted(file for file in path.rglob("*") if holds_trees(file))
                if path.is_dir()
                else [path]
            )
            if not found:
                raise UserError(
                    f"{path}: no .mrg, .trees or .ptb files, plain or .gz, in this folder"
                )
            files += found
        return files

    def pairs(self) -> Iterator[tuple[str, str]]:
        """(sentence, tree) of each tree that has words; counts the broken ones it skips."""
        # Here, since nltk takes 0.3 s to import, and every command imports the problems.
        from t2t_lite.trees.cleaning import clean
        from t2t_lite.trees.reader import format_tree, read_trees, words

        skipped = []
        for path in self.files():
            for tree in read_trees(path, skip_bad=self.skip_bad, on_skip=skipped.append):
                if cleaned := clean(tree):
                    yield " ".join(words(cleaned)), format_tree(cleaned)
        self.skipped = len(skipped)

    def fingerprint(self):
        """Of the files' paths, sizes and times."""
        return digest(*(file_identity(path) for path in self.files()))


class GoldAndSilver(Mixture):
    """Gold and silver trees: `silver_per_gold` silver pairs to each gold one.

    An epoch holds all pairs of both; the side that has fewer than its share is gone through again.
    """

    def __init__(self, gold: Sequence[Source], silver: Sequence[Source], weights, silver_per_gold: int):
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
    return path.is_file() and path.name.lower().removesuffix(".gz").endswith(
        (".mrg", ".trees", ".ptb")
    )
