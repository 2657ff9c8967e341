"""t2t-avg-all on checkpoints of known weights."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file
from untrained import untrained_run

from t2t_lite.arrays import read_about, write_arrays
from t2t_lite.checkpoints import MODEL
from t2t_lite.cli import avg_all, decoder, exporter
from t2t_lite.cli import eval as eval_command


@pytest.fixture
def saved(run, tmp_path):
    """A run with checkpoints of steps 1 to 4, all of whose weights are their step."""
    saved = untrained_run(
        tmp_path / "run", run.problem, run.vocabularies(), average_checkpoints=3, d_ff=4
    )
    shapes = {name: value.shape for name, value in load_file(saved.averaged).items()}
    for step in range(1, 5):
        values = {name: np.full(shape, step, np.float32) for name, shape in shapes.items()}
        write_arrays(checkpoint(saved, step), values, {"step": step})
    return saved


def checkpoint(run, step):
    return run.path / "checkpoints" / f"step-{step:08}" / MODEL


@pytest.mark.parametrize(("flags", "steps"), [([], [2, 3, 4]), (["--n=2"], [3, 4])])
def test_the_last_ones_are_averaged(call, saved, flags, steps):
    code, out, err = call(avg_all, "--output_dir", saved.path, *flags)
    assert (code, out) == (0, f"{saved.averaged}\n")
    assert err == "".join(
        f"averaged    {checkpoint(saved, step)} (step {step})\n" for step in steps
    )
    for value in load_file(saved.averaged).values():
        np.testing.assert_array_equal(value, np.mean(steps, dtype=np.float32))
    assert read_about(saved.averaged) == {"step": 4, "averaged": steps, "newest": 4}


def test_as_many_as_there_are(refusal, saved, run):
    before = saved.averaged.read_bytes()
    for number in (0, 5):
        message = f"--n={number}: {saved.path} has 4 checkpoints; expected 1 to 4\n"
        assert refusal(avg_all, "--output_dir", saved.path, "--n", number) == message
    assert saved.averaged.read_bytes() == before
    assert "no checkpoint is saved yet" in refusal(avg_all, "--output_dir", run.path)


def test_any_of_the_same_model(call, saved, tmp_path):
    """A folder, a file, and another run."""
    other = shutil.copytree(saved.path, tmp_path / "other")
    shutil.copy(checkpoint(saved, 4), other / "averaged.safetensors")
    shutil.rmtree(other / "checkpoints")
    named = checkpoint(saved, 1).parent, checkpoint(saved, 3), other
    code, _, err = call(avg_all, "--output_dir", saved.path, "--checkpoints", *named)
    assert code == 0 and f"averaged    {other}/averaged.safetensors (step 4)\n" in err
    for value in load_file(saved.averaged).values():
        np.testing.assert_allclose(value, (1 + 3 + 4) / 3, rtol=1e-6)
    code, _, _ = call(avg_all, "--output_dir", other, "--checkpoints", saved.path / "checkpoints")
    assert code == 0 and read_about(other / "averaged.safetensors")["averaged"] == [1, 2, 3, 4]


def test_what_does_not_fit_is_named(refusal, saved, tmp_path):
    before = saved.averaged.read_bytes()
    other = untrained_run(tmp_path / "other", saved.problem, saved.vocabularies(), d_ff=8)
    alike = untrained_run(tmp_path / "alike", saved.problem, saved.vocabularies(), d_ff=4)
    (alike.path / "vocab.model").write_bytes(b"of other texts")
    mine = checkpoint(saved, 1)
    for named, message in (
        ([other.averaged], f"{other.averaged}: decoder/layer_0/feed_forward/"),
        ([mine, alike.path], f"{alike.averaged}: the vocabulary of {alike.path} is not that of"),
        ([mine, mine.parent], f"{mine} is named twice; expected once"),
        ([tmp_path / "no"], f"{tmp_path}/no: no checkpoint there; expected a file of weights"),
        ([mine, "--n=2"], "--n and --checkpoints both say which"),
    ):
        assert message in refusal(avg_all, "--output_dir", saved.path, "--checkpoints", *named)
    assert saved.averaged.read_bytes() == before


def test_no_command_uses_weights_that_are_not_finite(call, refusal, saved, tmp_path):
    values = load_file(saved.averaged)
    next(iter(values.values()))[:] = np.nan
    newest = checkpoint(saved, 5)
    write_arrays(newest, values, {"step": 5})
    flags = "--output_dir", saved.path
    assert f"{newest}: weights are not finite: " in refusal(avg_all, *flags)
    newest.replace(saved.averaged)
    (tmp_path / "in").write_text("some words\n")
    pairs = "--input", tmp_path / "in", "--reference", tmp_path / "in"
    for command, *more in (
        (decoder, *pairs[:2]),
        (eval_command, *pairs),
        (eval_command, *pairs, "--no_decode"),
    ):
        assert f"{saved.averaged}: weights are not finite: " in refusal(command, *flags, *more)
    code, out, err = call(exporter, *flags, "--export_dir", tmp_path / "export")
    assert (code, out) == (2, "") and err.count("weights are not finite") == 1
    assert not (tmp_path / "export").exists()
