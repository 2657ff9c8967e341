"""Translation: the base class of every language pair, and the corpora known by name."""

import dataclasses
import math
from pathlib import Path
from typing import ClassVar

from t2t_lite.data.cleaning import cleaned
from t2t_lite.data.sources import (
    SPLITS,
    MissingSplit,
    Mixture,
    Reversed,
    Source,
    TextFiles,
    TsvFile,
    weighted,
)
from t2t_lite.data.tfds import TfdsTranslation
from t2t_lite.errors import UserError, unknown
from t2t_lite.files import nearest_files
from t2t_lite.options import FileGroups, FilePath
from t2t_lite.problem import Problem
from t2t_lite.registry import register_problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationProblem(Problem):
    """Text in one language to text in another.

    A subclass names its languages and gives `corpus`; it is registered both ways, as `<name>` and
    `<name>_rev`.
    """

    reverse: bool = False  # from the target language to the source language
    max_length_ratio: float | None = (
        None  # leave out training pairs if one side has X times the words
    )
    drop_duplicates: bool = False  # of equal training pairs only the first is kept

    source_language: ClassVar[str] = ""
    target_language: ClassVar[str] = ""

    def __post_init__(self):
        super().__post_init__()
        ratio = self.max_length_ratio
        if ratio is not None and not 1 <= ratio < math.inf:
            raise UserError(f"--max_length_ratio={ratio:g}: expected a number of at least 1")

    @classmethod
    def variants(cls):
        """Both directions: `<name>` and `<name>_rev`."""
        return {"": {"reverse": False}, "_rev": {"reverse": True}}

    @classmethod
    def describe(cls, name):
        """The first line of the docstring, and which way round."""
        return super().describe(name) + (" The other way round." if name.endswith("_rev") else "")

    def corpus(self, split: str) -> Source:
        """The examples of `split` as they are, from the source language to the target language."""
        raise NotImplementedError

    def source(self, split: str) -> Source:
        """The examples of `split`, cleaned (train only) and turned round as the options say."""
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        source = self.corpus(split)
        if split == "train":
            source = source.each(
                lambda corpus: cleaned(corpus, self.max_length_ratio, self.drop_duplicates)
            )
        return source.each(Reversed) if self.reverse else source


@dataclasses.dataclass(frozen=True, kw_only=True)
class Multi30k(TranslationProblem):
    """Captions of images, the files of the public repository multi30k/dataset, in `--raw_dir`."""

    _stems: ClassVar = {"train": "train", "dev": "val", "test": "test_2016_flickr"}

    def corpus(self, split):
        """The files or the data set of `split`."""
        origin = "such files lie in github.com/multi30k/dataset under data/task1/raw"
        languages = self.source_language, self.target_language
        if self.raw_dir is None:
            names = " and ".join(f"{stem}.{'|'.join(languages)}" for stem in self._stems.values())
            raise UserError(
                f"{self.name} needs --raw_dir, a folder with {names} (each plain or .gz); {origin}"
            )
        return local_files(self.raw_dir, self._stems[split], languages, origin)


@register_problem
class Multi30kEnde(Multi30k):
    """Multi30k image captions, English to German."""

    source_language, target_language = "en", "de"


@register_problem
class Multi30kEnfr(Multi30k):
    """Multi30k image captions, English to French."""

    source_language, target_language = "en", "fr"


@register_problem
@dataclasses.dataclass(frozen=True, kw_only=True)
class TextPairs(TranslationProblem):
    """Your own text: --train corpus.en corpus.de --dev dev.en dev.de, or tab-separated pairs."""

    train: FileGroups | None = None  # one TSV file or two line-aligned ones; FILE@2: twice an epoch
    dev: tuple[FilePath, ...] | None = None  # likewise, to choose checkpoints by
    test: tuple[FilePath, ...] | None = None  # likewise, for t2t-eval

    def __post_init__(self):
        super().__post_init__()
        for split in SPLITS:
            paths = getattr(self, split)
            if paths is None:
                continue
            for group in (paths or [()]) if split == "train" else [paths]:
                if len(group) not in (1, 2):
                    raise UserError(
                        f"--{split} {' '.join(group)}: expected one TSV file or two line-aligned "
                        "files"
                    )

    def corpus(self, split):
        """The files of `split`."""
        paths = getattr(self, split)
        if not paths:
            raise MissingSplit(
                f"{self.name} has no {split} split; give --{split} with one TSV file or two text "
                "files"
            )
        if split != "train":
            return _files(paths)
        groups = [weighted("train", group) for group in paths]
        sources = [_files(group) for group, _ in groups]
        weights = [weight for _, weight in groups]
        return sources[0] if weights == [1] else Mixture(sources, weights)


def _files(paths: tuple[str, ...]) -> Source:
    return TsvFile(*paths) if len(paths) == 1 else TextFiles(*paths)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wmt14(TranslationProblem):
    """WMT 2014, of TensorFlow Datasets; dev is newstest2013, test newstest2014 (section 5.1).

    With `--raw_dir` it reads local files instead: `train.LANG`, `newstest2013.LANG` and
    `newstest2014.LANG`, or with the pair in the name, as in `newstest2013.de-en.en`; plain or .gz.
    """

    _stems: ClassVar = {"train": "train", "dev": "newstest2013", "test": "newstest2014"}
    _splits: ClassVar = {"train": "train", "dev": "validation", "test": "test"}  # TFDS's names

    def corpus(self, split):
        """The files or the data set of `split`."""
        source, target = self.source_language, self.target_language
        if self.raw_dir is None:
            name = f"wmt14_translate/{target}-{source}"  # TFDS writes every pair with English last
            return TfdsTranslation(name, self._splits[split], source, target, self.data_dir)
        return local_files(
            self.raw_dir, self._stems[split], (source, target), "such files lie at statmt.org/wmt14"
        )


@register_problem
class Wmt14Ende(Wmt14):
    """WMT 2014 news, English to German, 4.5 million pairs."""

    source_language, target_language = "en", "de"
    default_vocab_size = 37_000  # section 5.1


@register_problem
class Wmt14Enfr(Wmt14):
    """WMT 2014 news, English to French, 36 million pairs."""

    source_language, target_language = "en", "fr"
    default_vocab_size = 32_000  # section 5.1
    # Stands for the paper's word-piece model, which like it is chosen by likelihood.
    subword_model = "unigram"


def local_files(folder, stem: str, languages: tuple[str, str], origin: str) -> TextFiles:
    """The line-aligned files of a split in `folder`: `stem.en` or `stem.de-en.en`, plain or .gz.

    Raises UserError naming what is missing, the nearest names there, and `origin`, where such files
    come from.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise UserError(f"--raw_dir {folder}: no such folder; {origin}")
    source, target = languages
    paths = []
    for language in languages:
        stems = (stem, f"{stem}.{source}-{target}", f"{stem}.{target}-{source}")
        names = [f"{s}.{language}{suffix}" for s in stems for suffix in ("", ".gz")]
        found = next((folder / name for name in names if (folder / name).is_file()), None)
        if found is None:
            near = nearest_files(folder, names[0])
            raise MissingSplit(
                f"--raw_dir {folder}: no {names[0]} (or {', '.join(names[1:])}); {near}; {origin}"
            )
        paths.append(found)
    return TextFiles(*paths)
