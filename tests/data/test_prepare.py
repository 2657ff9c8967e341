"""prepare: what it makes, what it uses again, and that it writes nothing for wrong data."""

import importlib
import io
import sys

import pytest
import sentencepiece
from t2t_lite.problems.translation import TextPairs

from t2t_lite.data.prepare import changes, prepare_corpora, prepare_vocabularies
from t2t_lite.errors import UserError


@pytest.fixture
def make(corpus, tmp_path):
    """Makes a problem on the small corpus."""

    def problem(cls=TextPairs, **options):
        given = {"train": corpus, "data_dir": str(tmp_path / "data"), "vocab_size": 330, **options}
        return cls(name="text_pairs", **given)

    return problem


def run(problem):
    said = []
    train = prepare_corpora(problem, said.append).train
    return prepare_vocabularies(problem, train, said.append), said


def test_trains_once(make, tmp_path):
    first, said = run(make())
    assert first.shared and first.source is first.target and first.source.size == 330
    assert said[0].startswith("train: 500 pairs from ")
    assert said[1].startswith("dev: none (text_pairs has no dev split")
    (written,) = (tmp_path / "data").glob("*.model")
    changed = written.stat().st_mtime_ns
    again, said = run(make())
    assert again.source.proto == first.source.proto
    assert "trained earlier" in said[-1]
    assert written.stat().st_mtime_ns == changed
    assert run(make(vocab_size=320))[0].source.size == 320


def test_other_data_get_another_vocabulary(make, sentences, tmp_path):
    first, _ = run(make())
    path = tmp_path / "other.tsv"
    path.write_text("".join(f"{a}!\t{b}?\n" for a, b in sentences), encoding="utf-8")
    second, _ = run(make(train=[str(path)], vocab_size=330))
    assert first.source.proto != second.source.proto


def test_separate_vocabularies(make, tmp_path):
    class Apart(TextPairs):
        shared_vocabulary = False

    vocabularies, _ = run(make(Apart, vocab_size=300))
    assert not vocabularies.shared
    assert vocabularies.source.proto != vocabularies.target.proto
    english, german = (
        set(v.pieces(range(v.size))) for v in (vocabularies.source, vocabularies.target)
    )
    assert "▁the" in english - german
    assert len(list((tmp_path / "data").glob("*.model"))) == 2


def test_given_vocabulary(make, vocabularies, tmp_path):
    vocabularies.source.save(tmp_path / "mine.model")
    taken, said = run(make(vocab=str(tmp_path / "mine.model")))
    assert taken.shared and taken.source.proto == vocabularies.source.proto
    assert not list((tmp_path / "data").glob("*.model"))
    assert "given" in said[-1]


def test_what_a_given_vocabulary_does_not_keep_is_said_once(make, tmp_path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the dog and the cat"] * 10),
        model_writer=model,
        vocab_size=14,
        **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "minloglevel": 2},
    )
    (tmp_path / "mine.model").write_bytes(model.getvalue())
    _, said = run(make(vocab=str(tmp_path / "mine.model")))
    [line] = [line for line in said if "the given model" in line]
    assert "nmt_nfkc" in line and "UNK" in line and "spaces" in line


def test_cleaning_is_counted(make, tmp_path):
    path = tmp_path / "pairs.tsv"
    lines = ["one\teins", "two\tzwei", "one\teins", "\tleer", "three\tdrei und mehr", "one\teins"]
    path.write_text("".join(line + "\n" for line in lines))
    options = {"train": [path], "drop_duplicates": True, "max_length_ratio": 2.0}
    said = []
    corpora = prepare_corpora(make(**options), said.append)
    kept = [("one", "eins"), ("two", "zwei")]
    assert list(corpora.train.corpora[0].pairs()) == kept
    assert said[:2] == [
        f"train: 2 pairs from {path}",
        "train: left out: with an empty side: 1; over max_length_ratio 2: 1; duplicates: 2",
    ]
    turned = prepare_corpora(make(reverse=True, **options), said.append).train.corpora[0]
    assert list(turned.pairs()) == [(b, a) for a, b in kept]


def test_several_corpora(make, corpus, tmp_path):
    path = tmp_path / "more.tsv"
    path.write_text("more\tmehr\n" * 30)
    said = []
    problem = make(train=[corpus, [f"{path}@2.5"]], max_length_ratio=3.0)
    train = prepare_corpora(problem, said.append).train
    assert len(train) == 500 + 75
    assert [part.split(" from ")[0] for part in said[:3]] == [
        "train: 500 pairs",
        "train: 30 pairs",
        "train: 575 pairs an epoch; of each corpus' pairs so many times: 1, 2.5",
    ]
    assert make(**problem.options()).options() == problem.options()


def test_one_corpus_serves_every_vocabulary(make, tmp_path):
    def corpora():
        return {path.name for path in (tmp_path / "data").iterdir() if path.is_dir()}

    run(make())
    first = corpora()
    run(make(vocab_size=340))
    assert len(first) == 1 and corpora() == first
    run(make(drop_duplicates=True))
    assert len(corpora()) == 2


def test_code_of_a_problem_that_changes_is_noticed(make, corpus, tmp_path, monkeypatch):
    """Its corpora are prepared anew."""
    monkeypatch.syspath_prepend(tmp_path)
    found = set()
    for word in "one", "two":
        (tmp_path / "own.py").write_text(
            "from t2t_lite.problems.translation import TextPairs\n"
            "class Own(TextPairs):\n"
            f"    def input_text(self, line): return '{word} ' + line\n"
        )
        monkeypatch.delitem(sys.modules, "own", raising=False)
        importlib.invalidate_caches()
        problem = make(importlib.import_module("own").Own)
        found |= {a.split()[0] for a, _ in prepare_corpora(problem, print).train.corpora[0].pairs()}
    assert found == {"one", "two"}


def test_changes(make, corpus, tmp_path):
    def record(*train):
        dev = tmp_path / "dev.tsv"
        dev.write_text("a\tb\n")
        return prepare_corpora(make(train=train, dev=[dev]), print).record()

    def write(name, text):
        (tmp_path / name).write_text(text)
        return [tmp_path / name]

    old = record(write("a.tsv", "a\tb\nc\td\n"))
    assert changes(old, old) == []
    moved = record(write("moved.tsv", "a\tb\nc\td\n"))
    assert changes(old, moved) == []
    path = tmp_path / "b.tsv"
    assert changes(old, record(write("b.tsv", "a\tb\n"))) == [f"train: {path}: 2 -> 1 pairs"]
    assert changes(old, record(write("b.tsv", "a\tb\nc\tdd\n"))) == [f"train: {path}: 8 -> 9 bytes"]
    other = record(write("b.tsv", "a\tb\nc\te\n"))
    assert changes(old, other) == [f"train: {path}: other text of the same length"]
    weighed = record([f"{tmp_path / 'moved.tsv'}@2"])
    assert changes(old, weighed) == [f"train: {tmp_path / 'moved.tsv'}: 1.0 -> 2.0 passes"]
    assert changes(old, record(*[[tmp_path / "a.tsv"]] * 2)) == ["train: 1 corpora -> 2"]
    assert changes(old, old | {"dev": other["train"]}) == [f"dev: {path}: 1 -> 2 pairs"]


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"vocab_size": 50_000},
            r"vocab_size 50000 is too large for this corpus; the largest possible is \d+",
        ),
        (
            {"vocab_size": 20},
            r"vocab_size 20 is too small for this corpus; the smallest possible is \d+",
        ),
        ({"vocab_size": -5}, "--vocab_size=-5: expected more than 0"),
        ({"vocab": "nowhere.model"}, "no such file: .*nowhere.model"),
        ({"train": None}, "text_pairs has no train split; give --train"),
        ({"dev": ["nowhere/dev.tsv"]}, "no such file: .*nowhere/dev.tsv"),
        (
            {"drop_duplicates": True, "train": ["nowhere/train.tsv"]},
            "no such file: .*nowhere/train.tsv",
        ),
    ],
)
def test_wrong_data_leave_nothing(make, tmp_path, options, message):
    with pytest.raises(UserError, match=message) as error:
        run(make(**options))
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "data").glob("*.model")) + list(tmp_path.rglob("*.partial"))
