"""Constituency parsing (section 6.3): sentences to trees, as symbols after Vinyals et al. [37]."""

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal

from t2t_lite.data.sources import SPLITS, MissingSplit, Mixture, Source, weighted
from t2t_lite.errors import UserError, unknown
from t2t_lite.evaluation.metrics import Bracketing
from t2t_lite.options import FileGroups, FilePath
from t2t_lite.problem import Decoding, Problem
from t2t_lite.registry import register_problem
from t2t_lite.trees.treebank import GoldAndSilver, TreebankFiles, holds_trees

# Only the spaces of ASCII separate words: treebanks have U+00A0 inside tokens.
_BLANKS = r"[ \t\r\n\f\v]+"
WSJ_SECTIONS = {"train": range(2, 22), "dev": (22,), "test": (23,)}  # section 6.3


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParsingProblem(Problem):
    """Sentences to constituency trees: Constrained, Tokenizing and Drawing.

    A subclass gives `gold`, whose pairs are those of `trees.treebank.TreebankFiles`.
    """

    tags: Literal["normalised", "kept"] = "normalised"  # a word is XX (Vinyals et al.) or its tag
    closing: Literal["labelled", "plain"] = "labelled"  # `)NP` closes `(NP` (Vinyals), or `)` any
    skip_bad_trees: bool = False  # leave out and count broken trees instead of stopping
    silver: FileGroups | None = None  # trees parsed automatically, to train on too; FILE@2: twice
    silver_per_gold: int = 10  # silver trees to each gold one in an epoch, which holds all of both

    # Separate, since the two sides share no symbol: words are split into sub-words, tree symbols
    # never are, and a softmax over the hundred or so of them costs a hundredth of one over the
    # words' too.
    shared_vocabulary: ClassVar[bool] = False
    target_subword_model: ClassVar[str] = "word"
    default_vocab_size: ClassVar[int] = 16_000  # section 6.3
    decoding: ClassVar[Decoding] = Decoding(21, alpha=0.3, extra_length=300)  # section 6.3
    metric = Bracketing

    def __post_init__(self):
        super().__post_init__()
        if self.silver_per_gold < 1:
            raise UserError(f"--silver_per_gold={self.silver_per_gold}: expected at least 1")

    def gold(self, split: str) -> Source:
        """The hand-annotated trees of `split`."""
        raise NotImplementedError

    def source(self, split):
        """The gold trees of `split`, in training among the silver ones."""
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        gold = self.gold(split)
        if split != "train" or not self.silver:
            return gold
        golds, weights = (
            (gold.sources, gold.weights) if isinstance(gold, Mixture) else ([gold], [1])
        )
        silver, silver_weights = self._trees("silver", self.silver)
        return GoldAndSilver(golds, silver, [*weights, *silver_weights], self.silver_per_gold)

    def _trees(self, flag: str, groups) -> tuple[list[Source], list[float]]:
        """The sources of a flag's groups of paths, and their weights."""
        groups = [weighted(flag, group) for group in groups]
        sources = [TreebankFiles(paths, self.skip_bad_trees) for paths, _ in groups]
        return sources, [weight for _, weight in groups]

    @property
    def linearization(self):
        """How a tree becomes symbols (`trees.linearization.Linearization`)."""
        from t2t_lite.trees.linearization import Linearization

        return Linearization(self.tags, self.closing)

    def input_text(self, line):
        """The words, brackets escaped as in treebanks, `/` and `*` not."""
        from t2t_lite.trees.reader import escape, unescape

        # U+2581 is the vocabulary's mark of a space: a word that holds it would count as two.
        return escape(unescape(" ".join(words(line)))).replace("\u2581", "_")

    def input_text_in_graph(self, lines):
        """What `input_text` does, as graph operations."""
        import tensorflow as tf

        from t2t_lite.trees.reader import escape

        lines = tf.strings.regex_replace(lines, _BLANKS, " ")
        for pattern, text in (
            (r"\A | \z", ""),
            (r"\\+([/*])", r"\1"),
            ("\u2581", "_"),
            *((re.escape(bracket), escape(bracket)) for bracket in "()[]{}"),
        ):
            lines = tf.strings.regex_replace(lines, pattern, text)
        return lines

    def target_text(self, reference):
        """The symbols of a tree."""
        tree = self._cleaned(reference)
        return " ".join(self.linearization.symbols(tree)) if tree else ""

    def reference_text(self, reference):
        """The tree cleaned, on one line."""
        from t2t_lite.trees.reader import format_tree

        tree = self._cleaned(reference)
        return format_tree(tree) if tree else ""

    def _cleaned(self, reference: str):
        """A reference as the trees of a split are: without what parsers are not to find, under TOP.

        None if that is nothing.
        """
        from t2t_lite.trees.cleaning import clean
        from t2t_lite.trees.corpussearch import penn_style
        from t2t_lite.trees.reader import parse_tree

        trees = [parse_tree(reference)] if reference.strip() else []
        return next((clean(tree) for tree, _ in penn_style(trees)), None)

    def output_text(self, text, line):
        """The tree of the model's symbols over exactly the line's words, repaired if need be."""
        from t2t_lite.trees.reader import format_tree

        return format_tree(self._parse(text, line).tree)

    def output_details(self, text, line):
        """`well_formed`, of what the model wrote, `repairs`, and the `words` as they were given."""
        repairs = self._parse(text, line).repairs
        # In the tree `(` is -LRB-, and so is -LRB-.
        return {"well_formed": not repairs, "repairs": repairs, "words": words(line)}

    def _parse(self, text: str, line: str):
        return self.linearization.tree(text.split(), words(line))

    def grammar(self, vocabularies):
        """Brackets well formed over exactly the words of the input."""
        from t2t_lite.decoding.constraint import Brackets
        from t2t_lite.trees.linearization import MAX_DEPTH

        pieces = [
            piece.removeprefix("\u2581")
            for piece in vocabularies.target.pieces(range(vocabularies.target.size))
        ]
        kinds = [self.linearization.kind(piece) for piece in pieces[3:]]  # after pad, EOS and UNK
        labels = {
            label: number
            for number, label in enumerate(sorted({k.label for k in kinds if k.kind == "close"}), 1)
        }

        def numbers(kind):
            # With plain closing brackets there is one label to close, "", whatever was opened.
            return [0, 0, 0] + [
                labels.get(k.label, labels.get("", 0)) if k.kind == kind else 0 for k in kinds
            ]

        return Brackets(
            opens=numbers("open"),
            closes=numbers("close"),
            words=[False] * 3 + [k.kind == "word" for k in kinds],
            begins_word=[
                p.startswith("\u2581")
                for p in vocabularies.source.pieces(range(vocabularies.source.size))
            ],
            max_depth=MAX_DEPTH,
        )

    def tokenize(self, line):
        """The words of raw text by the Penn Treebank's rules (`trees.tokenization`)."""
        from t2t_lite.trees.reader import escape
        from t2t_lite.trees.tokenization import tokenize

        return escape(" ".join(tokenize(line)))

    def pretty(self, text):
        """The tree in lines of Unicode."""
        from t2t_lite.trees.drawing import pretty
        from t2t_lite.trees.reader import parse_tree

        return pretty(parse_tree(text)) if text else ""

    def svg(self, text):
        """The tree as an SVG picture."""
        from t2t_lite.trees.drawing import svg
        from t2t_lite.trees.reader import parse_tree

        return svg(parse_tree(text)) if text else ""


def words(line: str) -> list[str]:
    """The words of a tokenised line."""
    return [word for word in re.split(_BLANKS, line) if word]


@register_problem
class WsjParsing(ParsingProblem):
    """Penn Treebank: WSJ sections 02-21, dev 22, test 23, of the LDC's folder in --raw_dir.

    A section is a folder of .mrg files, or one file.
    """

    def gold(self, split):
        """The trees of `split`."""
        if self.raw_dir is None:
            raise UserError(
                f"{self.name} needs --raw_dir, the LDC's folder that holds wsj/00 to wsj/24 "
                "(parsed, .mrg)"
            )
        return TreebankFiles(
            _wsj_sections(Path(self.raw_dir), WSJ_SECTIONS[split]), self.skip_bad_trees
        )


@register_problem
class WsjParsingSemisup(WsjParsing):
    """wsj_parsing with automatically parsed trees of --silver (section 6.3's second setting)."""

    default_vocab_size = 32_000  # section 6.3

    def source(self, split):
        """The gold trees of `split`, in training among the silver ones."""
        if split == "train" and not self.silver:
            raise UserError(
                f"{self.name} needs --silver with files of automatically parsed trees; without it "
                "is wsj_parsing"
            )
        return super().source(split)


@register_problem
@dataclasses.dataclass(frozen=True, kw_only=True)
class Treebank(ParsingProblem):
    """Your own trees in Penn Treebank style: --train FILE ... --dev FILE ..., files or folders."""

    train: FileGroups | None = None  # files or folders of trees to train on; FILE@2: twice an epoch
    dev: tuple[FilePath, ...] | None = None  # files or folders of trees to choose checkpoints by
    test: tuple[FilePath, ...] | None = None  # files or folders of trees for t2t-eval
    tags: Literal["normalised", "kept"] = "kept"

    default_vocab_size = 8_000
    # Not the paper's 21: five times the work, and of own trees there may be many and no GPU.
    decoding = Decoding(beam_size=4, alpha=0.3, extra_length=300)

    def gold(self, split):
        """The trees of `split`."""
        if not getattr(self, split):
            raise MissingSplit(
                f"{self.name} has no {split} split; give --{split} with files or folders of trees"
            )
        if split != "train":
            return TreebankFiles(getattr(self, split), self.skip_bad_trees)
        sources, weights = self._trees("train", self.train)
        return sources[0] if weights == [1] else Mixture(sources, weights)


def _wsj_sections(raw_dir: Path, sections: Iterable[int]) -> list[Path]:
    """The folders 02, 03, ..., or files 02.mrg, ..., of sections.

    They are in `raw_dir` itself, or where the LDC's disks have them.
    """
    for below in (
        "",
        "wsj",
        "mrg/wsj",
        "parsed/mrg/wsj",
        "combined/wsj",
        "treebank_3/parsed/mrg/wsj",
    ):
        folder = _below(raw_dir, below)
        if folder and _wsj_section(folder, 2):
            return [
                _wsj_section(folder, section) or folder / f"{section:02}" for section in sections
            ]
    raise UserError(
        f"{raw_dir}: holds no folders 02 to 23 of WSJ sections, or files 02.mrg to 23.mrg, nor "
        "does a folder wsj or parsed/mrg/wsj below it"
    )


def _below(folder: Path, path: str) -> Path | None:
    """The folder at `path` below, upper and lower case being the same; None where there is none."""
    for name in Path(path).parts:
        folder = next(
            (entry for entry in _entries(folder) if entry.name.lower() == name and entry.is_dir()),
            None,
        )
        if folder is None:
            return None
    return folder


def _wsj_section(folder: Path, section: int) -> Path | None:
    name = f"{section:02}"
    files = (
        entry
        for entry in _entries(folder)
        if re.fullmatch(rf"{name}\.\w+(\.gz)?", entry.name) and holds_trees(entry)
    )
    return folder / name if (folder / name).is_dir() else next(files, None)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
