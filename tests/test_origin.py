"""A run that begins with another's weights and vocabularies."""

import dataclasses
import json
import shutil

import pytest
from untrained import untrained_parser, untrained_translator

from t2t_lite import registry
from t2t_lite.data.tokenizer import Vocabulary
from t2t_lite.errors import UserError
from t2t_lite.origin import Origin
from t2t_lite.run import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return untrained_translator(tmp_path_factory.mktemp("runs") / "trained")


def new_run(trained, problem="text_pairs", sizes=None, **options):
    if problem == "text_pairs":
        options.setdefault("train", ["any.en", "any.de"])
    return Run(
        trained.path.parent / "new",
        registry.problem(problem, **options),
        "tiny",
        trained.hparams.replace(**sizes or {}),
        seed=1,
        init_from=str(trained.path),
    )


def test_all_that_is_not_as_it_was_is_said(trained):
    origin = Origin.open(trained.path)
    new = new_run(trained, drop_duplicates=True, sizes={"dropout": 0.25, "train_steps": 7})
    origin.check(new)
    assert origin.described(new).splitlines() == [
        f"init_from   {trained.averaged} (step 0)",
        "            problem: spelled_numbers_ende -> text_pairs",
        "            drop_duplicates: False -> True",
        "            dropout: 0.1 -> 0.25",
        "            train_steps: 100000 -> 7",
    ]


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"d_model": 32, "d_ff": 64}, "d_model: 16 -> 32; d_ff: 32 -> 64; expected its sizes"),
        ({"num_heads": 4}, "num_heads: 2 -> 4; .*, as of --hparams=none, or --set for each"),
        ({"norm": "pre"}, 'norm: "post" -> "pre"; expected'),
    ],
)
def test_another_model_is_refused(trained, sizes, message):
    with pytest.raises(UserError, match=f"--init_from {trained.path}: its model .*: {message}"):
        Origin.open(trained.path).check(new_run(trained, sizes=sizes))


def test_another_vocabulary_is_refused(trained, tmp_path):
    origin, given = Origin.open(trained.path), tmp_path / "given.model"
    shutil.copy(trained.path / "vocab.model", given)
    origin.check(new_run(trained, vocab=str(given)))
    Vocabulary.train(["some other words"], 280).save(given)
    for new, message in (
        (
            new_run(trained, vocab=str(given)),
            f"--vocab {given}: not the .*; expected {trained.path}/",
        ),
        (new_run(trained, vocab=str(tmp_path / "no")), f"no such file: {tmp_path}/no"),
        (new_run(trained, vocab_size=8000), "--vocab_size=8000: the vocabulary is that of"),
        (new_run(trained, "toy_parsing"), "it has one vocabulary for both .* separate vocabular"),
    ):
        with pytest.raises(UserError, match=message):
            origin.check(new)


def test_no_code_of_it_is_run(trained, tmp_path):
    """A run from elsewhere, of a problem that is not known here."""
    copy = shutil.copytree(trained.path, tmp_path / "copy")
    (copy / "brought.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')")
    record = json.loads((copy / "run.json").read_text())
    record |= {"problem": "unheard_of", "usr_dir": str(copy / "brought.py")}
    (copy / "run.json").write_text(json.dumps(record))
    origin = Origin.open(copy)
    origin.check(new_run(trained))
    assert "problem: unheard_of -> text_pairs" in origin.described(new_run(trained))
    assert not (tmp_path / "trace").exists()


def test_what_is_no_run_to_begin_with(trained, tmp_path):
    with pytest.raises(UserError, match=f"--init_from {tmp_path}: no run there"):
        Origin.open(tmp_path)
    copy = shutil.copytree(trained.path, tmp_path / "copy")
    (copy / "averaged.safetensors").unlink()
    with pytest.raises(UserError, match=f"{copy}: no checkpoint is saved yet"):
        Origin.open(copy)
    (copy / "vocab.model").write_bytes(b"another")
    with pytest.raises(UserError, match="vocab.model: had other contents when"):
        Origin.open(copy)


def test_symbols_that_the_vocabulary_lacks_are_said(tmp_path):
    parser, said = untrained_parser(tmp_path / "parser"), []
    known = next(parser.problem.examples("train").pairs())

    class Trees:
        def sample(self, size, seed):
            yield tuple(text.encode() for text in known)
            yield b"a cat", b"(S (UNHEARD XX )UNHEARD )S"

    Origin.open(parser.path).vocabularies(Trees(), said.append)
    assert "symbols" in said[0] and len(said) == 2
    assert "warning: 1 of 2 target texts have symbols that this vocabulary lacks" in said[1]


def test_another_origin_is_another_run(trained):
    new = dataclasses.replace(trained, init_from="/runs/first")
    with pytest.raises(UserError, match="holds another run: init_from: None -> /runs/first"):
        new.check_resumable()
