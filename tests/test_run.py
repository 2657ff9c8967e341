"""A run directory: what run.json says, and what it takes to open or resume one."""

import dataclasses
import json
import os
import shutil

import pytest
from untrained import sentence, untrained_translator

import t2t_lite
from t2t_lite import plugins, registry
from t2t_lite.data.tokenizer import Vocabulary
from t2t_lite.run import Run


@pytest.fixture
def run(tmp_path):
    return untrained_translator(tmp_path / "run")


def trained_further(run):
    """As if it had a checkpoint."""
    (run.path / "checkpoints" / "step-00000001").mkdir(parents=True)


def rewrite(run, **fields):
    """Changes fields of run.json; None takes one out."""
    file = run.path / "run.json"
    record = json.loads(file.read_text(encoding="utf-8")) | fields
    for name in [name for name, value in fields.items() if value is None]:
        del record[name]
    file.write_text(json.dumps(record), encoding="utf-8")


def test_what_is_saved_opens_as_it_was(run):
    assert Run.open(run.path) == run
    assert json.loads((run.path / "run.json").read_text(encoding="utf-8"))["format"] == 1


def test_a_folder_whose_name_is_not_utf_8(run, tmp_path):
    folder = tmp_path / os.fsdecode(b"M\xfcller")
    problem = registry.problem("multi30k_ende", raw_dir=str(folder))
    moved = dataclasses.replace(run, problem=problem)
    moved.save()
    assert Run.open(run.path).problem.raw_dir == str(folder)


def test_one_from_before_the_format_had_a_number_opens(run):
    rewrite(run, format=None)
    assert Run.open(run.path) == run


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"format": 2}, "format 2, written by t2t_lite .*; this version reads up to format 1"),
        ({"format": "x"}, "format is 'x'; expected int"),
        ({"problem": "spelled_number_ende"}, "unknown problem .*; nearest: spelled_numbers_ende"),
        ({"options": {"nothing": 1}}, "problem spelled_numbers_ende takes no --nothing"),
        ({"hparams": {"d_model": "wide"}}, "hparams field d_model='wide': expected int"),
        ({"hparams": {"dropout": float("nan")}}, "hparams field dropout=nan: expected at least 0"),
        ({"hparams": {"d_ff": 1e300}}, "hparams field d_ff=1e.300: expected int"),
        ({"hparams": [1]}, r"hparams is \[1\]; expected dict"),
        ({"options": {"name": "x"}}, "problem spelled_numbers_ende takes no --name"),
        ({"options": {"vocab_size": [1]}}, r"--vocab_size=\[1\]: expected int"),
        ({"options": "x"}, "options is 'x'; expected dict"),
        (
            {"problem": ["x"]},
            r"problem is \['x'\]; expected str",
        ),
        ({"usr_dir": 3}, r"usr_dir is 3; expected str | None"),
        (
            {"vocabularies": []},
            r"vocabularies is \[\]; expected dict | None",
        ),
        ({"seed": None}, "seed is missing; expected int"),
    ],
)
def test_what_cannot_be_opened_is_told_in_one_line(run, fields, message):
    rewrite(run, **fields)
    with pytest.raises(t2t_lite.UserError, match=message) as error:
        Run.open(run.path)
    assert "\n" not in str(error.value) and str(error.value).startswith(f"{run.path}/run.json: ")


def test_no_run_names_the_nearest(run):
    with pytest.raises(t2t_lite.UserError, match=f"no run there .*nearest: {run.path}"):
        Run.open(run.path.parent / "rum")


def test_what_may_lie_where_a_run_begins(run, tmp_path):
    new = dataclasses.replace(run, path=tmp_path / "new")
    (new.path / "lost+found").mkdir(parents=True)
    for name in ".nfs01", "train.log", "slurm-7.out", "vocab.model", "run.json.partial":
        (new.path / name).touch()
    new.check_resumable()
    for name in "checkpoints", "notes.txt", "averaged.safetensors":
        (new.path / name).touch()
        with pytest.raises(t2t_lite.UserError, match=rf"not empty and no run \({name}\)"):
            new.check_resumable()
        (new.path / name).unlink()
    for data in new.path / "data" / "here", new.path:
        problem = dataclasses.replace(run.problem, data_dir=str(data))
        (data / f"{problem.name}.train.0.partial").mkdir(parents=True)
        dataclasses.replace(new, problem=problem).check_resumable()
        with pytest.raises(t2t_lite.UserError, match="not empty and no run"):
            new.check_resumable()
        shutil.rmtree(new.path)


def test_a_run_whose_checkpoints_are_gone_is_not_begun_anew(run):
    with pytest.raises(t2t_lite.UserError) as error:
        run.check_resumable()
    assert "no checkpoint to go on from, only averaged" in str(error.value)
    assert f"--init_from={run.path} begins with these" in str(error.value)
    run.averaged.unlink()  # killed before its first checkpoint
    run.check_resumable()


def test_another_run_is_not_resumed(run):
    trained_further(run)
    run.check_resumable()
    longer = run.hparams.replace(train_steps=7, eval_steps=3)
    Run(run.path, run.problem, run.hparams_set, longer, run.seed).check_resumable()
    other = run.hparams.replace(d_ff=64)
    with pytest.raises(t2t_lite.UserError, match="holds another run: seed: 1 -> 2; d_ff: 32 -> 64"):
        Run(run.path, run.problem, run.hparams_set, other, 2).check_resumable()


def test_a_runs_own_code_is_not_run_unasked(run, tmp_path):
    """Neither by what lies in it, nor by a name of what was changed; what is named is."""
    mine, trace = tmp_path / "mine.py", tmp_path / "trace"
    mine.write_text(f"open({str(trace)!r}, 'a').write('x')\n")
    brought = run.path / "brought.py"
    brought.write_text(mine.read_text())
    for file in mine, brought:
        rewrite(run, usr_dir=str(file), usr_dir_digest="0" * 64)
        with pytest.raises(t2t_lite.UserError, match="expected --usr_dir=PATH") as error:
            Run.open(run.path)
        assert str(file) in str(error.value) and not trace.exists()
    rewrite(run, usr_dir=str(brought), usr_dir_digest=plugins.digest(str(brought)))
    with pytest.raises(t2t_lite.UserError, match="lies in it"):
        Run.open(run.path)
    said = []
    assert Run.open(run.path, str(brought), said.append).usr_dir == str(brought)
    assert trace.read_text() == "x" and said == []


def test_resuming_with_code_that_was_edited_makes_it_that_of_the_run(run, tmp_path):
    mine = tmp_path / "edited.py"
    mine.write_text("value = 1\n")
    fields = (run.path, run.problem, run.hparams_set, run.hparams, run.seed, str(mine))
    Run(*fields).save()
    assert Run.open(run.path).usr_dir == str(mine)
    mine.write_text("value = 2\n")
    with pytest.raises(t2t_lite.UserError, match="is not as it was then"):
        Run.open(run.path)
    said = []
    resumed = Run(*fields)
    trained_further(run)
    resumed.check_resumable(said.append)
    assert said == [f"{mine} is not as it was when {run.path} was made"]
    resumed.save()
    assert Run.open(run.path) == resumed
    with pytest.warns(UserWarning, match="is not as it was"):  # from Python
        other = tmp_path / "other.py"
        other.touch()
        Run.open(run.path, str(other))


def test_the_code_of_a_run_is_that_of_its_start(run, tmp_path):
    mine = tmp_path / "started.py"
    mine.write_text("value = 1\n")
    started = Run(run.path, run.problem, run.hparams_set, run.hparams, run.seed, str(mine))
    mine.write_text("value = 2\n")  # while the data is prepared
    started.save()
    with pytest.raises(t2t_lite.UserError, match="is not as it was then"):
        Run.open(run.path)


def test_sizes_that_no_memory_holds_are_one_line(run):
    for fields in (
        {"d_model": 10**15},
        {"num_decoder_layers": 10**12},
        {"positions": "learned", "max_positions": 10**18},
    ):
        rewrite(run, hparams=run.hparams.to_dict() | fields)
        with pytest.raises(t2t_lite.UserError, match="averaged.*: not this model's checkpoint"):
            Run.open(run.path).translator()


def test_a_vocabulary_that_was_replaced_is_noticed(run):
    """By one of equal size too; a run from before that was stored opens."""
    file = run.path / "vocab.model"
    before = file.read_bytes()
    sentences = [sentence(i, 12).replace("train", "brain") for i in range(300)]
    other = Vocabulary.train(sentences, run.vocabularies().source.size)
    other.save(file)
    with pytest.raises(t2t_lite.UserError, match=f"{file}: had other contents when"):
        Run.open(run.path).translator()
    rewrite(run, vocabularies=None)
    assert Run.open(run.path).vocabularies().source.proto != before
    file.write_bytes(before)
    run.save()
    other.save(run.path / "vocab.source.model")  # would be read instead
    with pytest.raises(t2t_lite.UserError, match="vocab.source.model: was not there when"):
        run.vocabularies()


def test_data_that_no_trainer_wrote(run):
    record = json.loads((run.path / "run.json").read_text())
    mine = {"train": [], "dev": []}
    for data in ({"train": 3}, {"train": []}, [1], {"train": [{}], "dev": []}):
        (run.path / "run.json").write_text(json.dumps(record | {"data": data}))
        again = dataclasses.replace(run, data=mine | {"train": [{"pairs": 1, "source": "x"}]})
        with pytest.raises(t2t_lite.UserError, match=r"run\.json: .*data"):
            again.check_data("refuse")
