"""t2t-eval --all_checkpoints: a row for each, each as if it were alone."""

import json

import pytest
from safetensors.numpy import load_file
from untrained import untrained_run

from t2t_lite.arrays import write_arrays
from t2t_lite.cli import eval as eval_command
from t2t_lite.decoding import batches

STEPS = 5, 10


@pytest.fixture(scope="module")
def kept(run, tmp_path_factory):
    """A run with two checkpoints and an average, and the flags of a measurement."""
    folder = tmp_path_factory.mktemp("kept")
    kept = untrained_run(folder / "run", run.problem, run.vocabularies())
    weights = load_file(kept.averaged)
    for step in STEPS:
        scaled = {name: value * (1 + step / 50) for name, value in weights.items()}
        file = kept.path / f"checkpoints/step-{step:08d}/model.safetensors"
        write_arrays(file, scaled, {"step": step})
    (folder / "in").write_text("some words\nmany more words of text\n")
    (folder / "out").write_text("plain text\nthe words\n")
    pairs = "--input", folder / "in", "--reference", folder / "out", "--extra_length", 4
    return kept, ("--output_dir", kept.path, *pairs)


def names():
    return [
        *(f"checkpoints/step-{step:08d}/model.safetensors" for step in STEPS),
        "averaged.safetensors",
    ]


def test_each_row_is_what_it_gives_alone(call, kept, monkeypatch):
    run, flags = kept
    traced, search = [], batches.run_search
    monkeypatch.setattr(batches, "run_search", lambda *args: traced.append(args) or search(*args))
    code, out, err = call(eval_command, *flags, "--all_checkpoints", "--json")
    assert code == 0 and len(traced) == 1, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row.pop("checkpoint"), row.pop("step")) for row in rows] == [*zip(names(), [5, 10, 0])]
    assert rows[0]["loss"] != rows[1]["loss"] != rows[2]["loss"]
    alone = json.loads(call(eval_command, *flags, "--json")[1])
    assert rows[2] == pytest.approx({name: alone[name] for name in rows[2]}, rel=1e-5)


def test_the_best_is_named_in_the_table(call, kept):
    run, flags = kept
    _, out, _ = call(eval_command, *flags, "--all_checkpoints", "--no_decode")
    head, *rows, best = out.splitlines()
    assert head.split() == ["checkpoint", "loss", "perplexity", "accuracy"]
    assert [row.split()[0] for row in rows] == names()
    loss, name = min((float(row.split()[1]), row.split()[0]) for row in rows)
    assert best == f"best by loss: {name} ({loss:.4f})"


def test_a_broken_one_is_left_out_by_name(call, kept):
    run, flags = kept
    broken = run.path / "checkpoints/step-00000011/model.safetensors"
    broken.parent.mkdir()
    broken.write_bytes(b"half")
    try:
        code, out, err = call(eval_command, *flags, "--all_checkpoints", "--no_decode")
    finally:
        broken.unlink()
        broken.parent.rmdir()
    assert code == 0 and f"warning: {broken}: not a checkpoint" in err and "00011" not in out


def test_it_is_of_one_run(refusal, kept):
    run, flags = kept
    message = refusal(eval_command, "--output_dir", run.path, run.path, "--all_checkpoints")
    assert message == "--all_checkpoints has a row for each of one run's; expected no 2 runs\n"
    message = refusal(eval_command, *flags, "--all_checkpoints", "--per_line", run.path / "lines")
    assert "expected no --per_line" in message
