"""Translation problems: files, both directions, and what they say about missing ones."""

import pytest
from t2t_lite.problems import translation
from t2t_lite.problems.translation import TranslationProblem

from t2t_lite import registry
from t2t_lite.data.sources import MissingSplit, Mixture, TextFiles, TsvFile
from t2t_lite.data.tfds import TfdsTranslation
from t2t_lite.errors import UserError
from t2t_lite.evaluation.metrics import Bleu
from t2t_lite.problem import Problem

registry.load_plugins()


def write_corpus(folder, names, lines=("one", "two")):
    for name in names:
        (folder / name).write_text("".join(f"{name} {line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["multi30k_ende", "multi30k_enfr", "text_pairs", "wmt14_ende", "wmt14_enfr"]
)
def test_registered_in_both_directions(name):
    forward, backward = registry.problem(name), registry.problem(name + "_rev")
    assert isinstance(forward, TranslationProblem) and type(forward) is type(backward)
    assert (forward.reverse, backward.reverse) == (False, True)
    assert forward.metric is Bleu
    lines = registry.describe().splitlines()
    for shown in (name, name + "_rev"):
        (line,) = [line for line in lines if line.split()[0] == shown]
        assert line.endswith("The other way round.") == shown.endswith("_rev")


def test_decoding_is_the_papers():
    """Section 6.1: beam size 4, alpha 0.6, at most 50 symbols more than the input."""
    for name in "wmt14_ende", "wmt14_enfr":
        assert vars(registry.problem(name).decoding) == {
            "beam_size": 4,
            "alpha": 0.6,
            "extra_length": 50,
        }


def test_sizes_and_kinds_of_vocabulary():
    def spec(name):
        problem = registry.problem(name)
        return problem.subwords(), problem.subword_model, problem.shared_vocabulary

    assert (
        spec("multi30k_ende") == spec("multi30k_enfr") == spec("text_pairs") == (8_000, "bpe", True)
    )
    assert spec("wmt14_ende") == (37_000, "bpe", True)
    assert spec("wmt14_enfr") == (32_000, "unigram", True)
    assert registry.problem("wmt14_ende", vocab_size=500).subwords() == 500


def test_multi30k(tmp_path):
    write_corpus(
        tmp_path,
        ["train.en", "train.fr", "val.en", "val.fr", "test_2016_flickr.en", "test_2016_flickr.fr"],
    )
    problem = registry.problem("multi30k_enfr", raw_dir=str(tmp_path))
    for split, stem in (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr")):
        assert list(problem.source(split).pairs())[1] == (f"{stem}.en two", f"{stem}.fr two")
    reverse = registry.problem("multi30k_enfr_rev", raw_dir=str(tmp_path))
    assert next(reverse.source("dev").pairs()) == ("val.fr one", "val.en one")
    with pytest.raises(UserError, match="unknown split 'valid'; nearest: "):
        problem.source("valid")


def test_multi30k_says_what_is_missing(tmp_path):
    with pytest.raises(
        UserError, match=r"multi30k_ende needs --raw_dir, .*train\.en\|de.*multi30k/dataset"
    ):
        registry.problem("multi30k_ende").source("train")
    with pytest.raises(UserError, match=r"--raw_dir .*nowhere: no such folder; .*multi30k/dataset"):
        registry.problem("multi30k_ende", raw_dir=str(tmp_path / "nowhere")).source("train")
    write_corpus(tmp_path, ["train.en", "train.fr"])
    problem = registry.problem("multi30k_ende", raw_dir=str(tmp_path))
    missing = {
        "train": r"no train\.de \(or train\.de\.gz.*nearest in .*train\.en",
        "dev": r"no val\.en",
    }
    for split, message in missing.items():
        with pytest.raises(MissingSplit, match=message) as error:
            problem.source(split)
        assert "\n" not in str(error.value)


def test_multi30k_on_the_real_files(shared):
    problem = registry.problem("multi30k_ende", raw_dir=str(shared / "data" / "multi30k"))
    assert [problem.source(split).check() for split in ("train", "dev", "test")] == [
        29_000,
        1_014,
        1_000,
    ]


def test_text_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = registry.problem("text_pairs", train=["a.en", "a.de"], dev=["dev.tsv"])
    assert isinstance(problem.corpus("train"), TextFiles)
    assert isinstance(problem.source("dev"), TsvFile)
    # Found from any folder.
    assert problem.train == ((str(tmp_path / "a.en"), str(tmp_path / "a.de")),)
    several = registry.problem("text_pairs", train=[["a.en", "a.de@2"], ["b.tsv"]])
    mixture = several.source("train")
    assert isinstance(mixture, Mixture) and mixture.weights == (2, 1)
    assert str(mixture) == f"{tmp_path / 'a.en'} and {tmp_path / 'a.de'} + {tmp_path / 'b.tsv'}"
    with pytest.raises(MissingSplit, match="text_pairs has no test split; give --test"):
        problem.source("test")
    for paths in (["a", "b", "c"], []):
        with pytest.raises(UserError, match="expected one TSV file or two line-aligned files"):
            registry.problem("text_pairs", train=paths)
        with pytest.raises(UserError, match="expected one TSV file or two line-aligned files"):
            registry.problem("text_pairs", train=[["a"], paths])
    with pytest.raises(UserError, match="--train=a.tsv: expected a list"):
        registry.problem("text_pairs", train="a.tsv")


def test_options_come_back_from_json(tmp_path):
    import json

    problem = registry.problem("text_pairs_rev", train=["a.en", "a.de"], drop_duplicates=True)
    options = json.loads(json.dumps(problem.options()))
    assert "reverse" not in options
    assert registry.problem("text_pairs_rev", **options) == problem


def test_wmt14_comes_from_tfds():
    for name, config in (
        ("wmt14_ende", "wmt14_translate/de-en"),
        ("wmt14_enfr", "wmt14_translate/fr-en"),
    ):
        problem = registry.problem(name, data_dir="/somewhere")
        for split, theirs in (("train", "train"), ("dev", "validation"), ("test", "test")):
            source = problem.corpus(split)
            assert isinstance(source, TfdsTranslation)
            assert (source.name, source.split, source.data_dir) == (config, theirs, "/somewhere")
            assert source.languages == ("en", config[-5:-3])


def test_wmt14_from_local_files(tmp_path, shared):
    write_corpus(
        tmp_path, ["train.en", "train.de", "newstest2013.de-en.en", "newstest2013.en-de.de"]
    )
    problem = registry.problem("wmt14_ende", raw_dir=str(tmp_path))
    assert next(problem.source("train").pairs()) == ("train.en one", "train.de one")
    assert next(problem.source("dev").pairs()) == (
        "newstest2013.de-en.en one",
        "newstest2013.en-de.de one",
    )
    with pytest.raises(MissingSplit, match=r"no newstest2014\.en .*statmt"):
        problem.source("test")
    for name in ("wmt14_ende", "wmt14_enfr"):
        real = registry.problem(name, raw_dir=str(shared / "data" / "newstest"))
        assert [real.source(split).check() for split in ("dev", "test")] == [3_000, 3_003]


def test_cleaning_is_for_training_only(tmp_path):
    write_corpus(tmp_path, ["a.en", "a.de"], lines=("one", "one"))
    files = [str(tmp_path / "a.en"), str(tmp_path / "a.de")]
    options = dict(train=files, dev=files, drop_duplicates=True, data_dir=str(tmp_path / "data"))
    problem = registry.problem("text_pairs_rev", **options)
    assert problem.source("train").distinct and not problem.source("dev").distinct
    assert list(problem.source("train").pairs())[0] == ("a.de one", "a.en one")


@pytest.mark.parametrize("ratio", [float("nan"), float("inf"), 0.0, -1.0, 0.5])
def test_ratios_without_sense(ratio):
    with pytest.raises(UserError, match=f"--max_length_ratio={ratio:g}: expected a number of at l"):
        registry.problem("text_pairs", max_length_ratio=ratio)


def test_ten_lines_of_your_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, ["news.train.en", "news.train.de"])
    monkeypatch.setattr(registry, "_problems", dict(registry._problems))
    monkeypatch.setattr(registry, "_loaded", set(registry._loaded))
    (tmp_path / "mine.py").write_text(
        """import t2t_lite
from t2t_lite.data.sources import TextFiles
from t2t_lite.problems.translation import TranslationProblem

@t2t_lite.register_problem
class NewsEnde(TranslationProblem):
    \"\"\"News, English to German.\"\"\"
    source_language, target_language = "en", "de"
    def corpus(self, split): return TextFiles(f"news.{split}.en", f"news.{split}.de")
"""
    )
    registry.load_plugins("mine.py")
    source = registry.problem("news_ende_rev").source("train")
    assert next(source.pairs()) == ("news.train.de one", "news.train.en one")
    assert "News, English to German." in registry.describe()


def test_base_class_is_not_a_problem_of_its_own():
    assert issubclass(TranslationProblem, Problem)
    for name in "translation_problem", "multi30k", "wmt14":
        assert f" {name} " not in registry.describe()
    with pytest.raises(NotImplementedError):
        translation.TranslationProblem().source("train")
