"""t2t-exporter on an untrained run: where it writes, and what it refuses."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from untrained import untrained_run

from t2t_lite.cli import exporter
from t2t_lite.export import saved_model


@pytest.fixture
def command(call, run):
    """Runs t2t-exporter on the run with the given flags: (exit code, stdout, stderr)."""
    return functools.partial(call, exporter, "--output_dir", run.path)


def test_an_export_gets_the_next_number_and_its_search(command, run, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, "_check", lambda *_: None)  # which tests/export does
    for name in ("2", "9.1.partial", "notes"):
        (tmp_path / name).mkdir()
    flags = ["--beam_size", "2", "--alpha", "0.5", "--extra_length", "3", "--n_best", "1"]
    code, out, err = command("--export_dir", tmp_path, *flags)
    assert (code, out) == (0, f"{tmp_path / '3'}\n"), err
    assert f"weights     {run.averaged} (step 0)\n" in err
    about = json.loads((tmp_path / "3" / "assets.extra" / "metadata.json").read_text())
    assert [about[name] for name in ("beam_size", "alpha", "extra_length", "n_best")] == [
        2,
        0.5,
        3,
        1,
    ]
    assert about["weights"] == "averaged.safetensors"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3", "9.1.partial", "notes"]


def test_mistakes_are_one_line_and_write_nothing(command, refusal, tmp_path):
    folder, file = tmp_path / "export", tmp_path / "file"
    (folder / "4").mkdir(parents=True)
    file.touch()
    for flags, message in [
        (["--version", "4"], f"{folder / '4'} exists; the next free version is 5"),
        (
            ["--version", "0"],
            "version 0: expected 1 to 9223372036854775807; the next free one is 5",
        ),
        (["--version", "new"], "--version: invalid int value: 'new'"),
        (["--beam_size", "0"], "beam_size=0: expected at least 1"),
        (["--beam_size", "2", "--n_best", "3"], "n_best=3: expected at most beam_size=2"),
        (["--alpha", "-1"], "alpha=-1.0: expected at least 0"),
        (["--exportdir", folder], "unknown flag --exportdir; nearest: --export_dir"),
        (["--export_dir", file], f"{file}: a file; expected a directory"),
        (["--export_dir", file / "below"], f"{file / 'below'}: "),
        (["--output_dir", tmp_path / "nothing"], "--output_dir given twice; expected once"),
        (["--exportdir", folder], "unknown flag --exportdir; nearest: --export_dir"),
    ]:
        export_dir = [] if flags[0] == "--export_dir" else ["--export_dir", folder]
        code, out, err = command(*export_dir, *flags)
        last = err.rstrip("\n").split("\n")[-1]
        assert (
            (code, out) == (2, "") and message in last and last.startswith("t2t-exporter: error: ")
        ), err
    flags = "--output_dir", tmp_path / "nothing", "--export_dir", folder
    assert "no run there" in refusal(exporter, *flags)
    assert sorted(tmp_path.iterdir()) == [folder, file] and list(folder.iterdir()) == [folder / "4"]


@pytest.mark.thorough
def test_an_ensemble_serves_what_it_decodes(command, run, tmp_path):
    """The export itself compares, in a process of its own."""
    other = untrained_run(
        tmp_path / "other", run.problem, run.vocabularies(), num_decoder_layers=1, d_model=24
    )
    code, out, err = command(other.path, "--export_dir", tmp_path / "export")
    assert code == 0 and "checked against the decoder" in err, err
    about = json.loads((tmp_path / "export/1/assets.extra/metadata.json").read_text())
    assert about["hparams"]["d_model"] == 16 and about["attention_layer"] == 0
    [second] = about["ensemble"]
    assert second["hparams"]["d_model"] == 24 and second["weights"] == "averaged.safetensors"
    attention = tf.saved_model.load(out.strip()).signatures["attention"]
    [weights] = attention(text=tf.constant(["some"]), target=tf.constant(["text"]))["attention"]
    assert weights.shape[0] == 1
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), tf.ones(weights.shape[:2]), atol=1e-5)


def test_an_ensemble_is_nothing_for_ctranslate2(command, run, tmp_path):
    pytest.importorskip("ctranslate2")
    flags = "--format=ctranslate2", "--export_dir", tmp_path / "export"
    code, out, err = command(run.path, *flags)
    assert (code, out) == (2, "") and not (tmp_path / "export").exists()
    assert err.splitlines()[-1] == (
        "t2t-exporter: error: --output_dir: 2 runs, and CTranslate2 has no ensembles; expected "
        "one, or --format=saved_model"
    )
