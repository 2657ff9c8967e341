"""A run that came from elsewhere, with code of its own: no command runs that unasked."""

import json
import shutil

import pytest

from t2t_lite import plugins
from t2t_lite.cli import avg_all, decoder, exporter, trainer
from t2t_lite.cli import eval as eval_command


@pytest.fixture
def brought(run, tmp_path):
    """(a run whose run.json names code in its folder, what that code would write)."""
    folder, trace = tmp_path / "brought", tmp_path / "trace"
    shutil.copytree(run.path, folder)
    code = folder / "tensorboard" / "events.py"
    code.parent.mkdir()
    code.write_text(f"open({str(trace)!r}, 'a').write('x')\n", encoding="utf-8")
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    record |= {"usr_dir": str(code), "usr_dir_digest": plugins.digest(str(code))}
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder, trace


@pytest.mark.parametrize(
    "command, flags",
    [
        (decoder, ["--input", "{input}"]),
        (eval_command, ["--split", "test"]),
        (eval_command, ["--help"]),
        (avg_all, []),
        (exporter, ["--export_dir", "{input}.export"]),
        (trainer, ["--problem", "spelled_numbers_ende", "--hparams", "tiny"]),
    ],
)
def test_no_command_runs_it(call, brought, tmp_path, command, flags):
    folder, trace = brought
    (tmp_path / "input").write_text("many words\n", encoding="utf-8")
    flags = [flag.format(input=tmp_path / "input") for flag in flags]
    code, out, err = call(command, "--output_dir", folder, *flags)
    if "--help" not in flags:
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{folder}/tensorboard/events.py, which lies in it; expected --usr_dir=PATH" in err
    assert not trace.exists()


def test_who_names_it_trusts_it(call, brought, tmp_path):
    folder, trace = brought
    (tmp_path / "input").write_text("many words\n", encoding="utf-8")
    flags = ["--input", tmp_path / "input", "--usr_dir", folder / "tensorboard" / "events.py"]
    code, out, err = call(decoder, "--output_dir", folder, *flags)
    assert (code, out.count("\n")) == (0, 1) and "not as it was" not in err
    assert trace.read_text() == "x"


def test_code_that_is_not_as_it_was_is_told_in_a_line(call, brought, tmp_path):
    folder, _ = brought
    other = tmp_path / "other_code.py"
    other.touch()
    (tmp_path / "input").write_text("many words\n", encoding="utf-8")
    code, _, err = call(
        decoder, "--output_dir", folder, "--input", tmp_path / "input", "--usr_dir", other
    )
    assert code == 0
    assert f"{other} is not as it was when {folder} was made\n" in err
