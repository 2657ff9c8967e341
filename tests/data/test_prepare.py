"""prepare: what it makes, what it uses again, and that it writes nothing for wrong data."""

import io

import pytest
import sentencepiece
from t2t_lite.problems.translation import TextPairs

from t2t_lite.data.prepare import prepare
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
    return prepare(problem, said.append), said


def test_trains_once(make, tmp_path):
    first, said = run(make())
    assert first.shared and first.source is first.target and first.source.size == 330
    assert said[0].startswith("train: 500 pairs from ")
    assert said[1].startswith("dev: none (text_pairs has no dev split")
    (written,) = (tmp_path / "data").iterdir()
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
    assert len(list((tmp_path / "data").iterdir())) == 2


def test_given_vocabulary(make, vocabularies, tmp_path):
    vocabularies.source.save(tmp_path / "mine.model")
    taken, said = run(make(vocab=str(tmp_path / "mine.model")))
    assert taken.shared and taken.source.proto == vocabularies.source.proto
    assert not (tmp_path / "data").exists()
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


def test_cleaning_is_counted(make):
    problem = make(drop_duplicates=True, max_length_ratio=3.0)
    vocabularies, said = run(problem)
    kept = problem.source("train").check()
    assert 0 < kept < 500
    assert said[0].startswith(f"train: {kept} pairs from ")
    assert f"of 500 pairs {500 - kept} duplicates and 0 of too different lengths dropped" in said[0]
    reverse = make(drop_duplicates=True, max_length_ratio=3.0, reverse=True)
    assert list(reverse.source("train").pairs()) == [
        (b, a) for a, b in problem.source("train").pairs()
    ]


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
    assert not (tmp_path / "data").exists()
