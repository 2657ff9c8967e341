"""t2t-trainer --init_from: another run's weights tuned to other data, from flags to figures."""

import json
import os
import signal

import pytest
from untrained import SIZES, sentence, untrained_translator

from t2t_lite.cli import eval as eval_command
from t2t_lite.cli import trainer
from t2t_lite.translator import Translator


@pytest.fixture
def trained(tmp_path):
    return untrained_translator(tmp_path / "trained")


@pytest.fixture
def flags(tmp_path):
    """Of a short training on other data than the run's."""
    for name, numbers in ("train", range(40)), ("dev", range(40, 46)):
        for side, least in ("en", 3), ("de", 4):
            lines = "".join(f"{sentence(number, least + number % 3)}\n" for number in numbers)
            (tmp_path / f"{name}.{side}").write_text(lines)
    return [
        "--problem=text_pairs", "--hparams=tiny", f"--data_dir={tmp_path}/data",
        *(f"--set={name}={value}" for name, value in SIZES.items()),
        "--set=batch_tokens=128", "--set=checkpoint_steps=2", "--set=eval_steps=2",
        "--train", tmp_path / "train.en", tmp_path / "train.de",
        "--dev", tmp_path / "dev.en", tmp_path / "dev.de",
        f"--output_dir={tmp_path}/tuned",
    ]  # fmt: skip


@pytest.mark.thorough
def test_begins_where_the_other_ended_and_resumes(call, refusal, trained, flags, tmp_path):
    begin = f"--init_from={trained.path}", "--set=train_steps=4"
    code, out, err = call(trainer, *flags, *begin)
    assert code == 0 and out == "", err
    assert f"init_from   {trained.averaged} (step 0)\n" in err
    assert "problem: spelled_numbers_ende -> text_pairs" in err
    assert "vocabulary: training" not in err
    log = (tmp_path / "tuned/log.jsonl").read_text().splitlines()
    first, *later = (entry for entry in map(json.loads, log) if entry["kind"] == "dev")
    pairs = ["--input", tmp_path / "dev.en", "--reference", tmp_path / "dev.de", "--json"]
    _, out, _ = call(eval_command, "--output_dir", trained.path, *pairs, "--no_decode")
    assert first["step"] == 0 and first["loss"] == pytest.approx(json.loads(out)["loss"], abs=1e-5)
    assert [entry["step"] for entry in later] == [2] and later[0]["loss"] != first["loss"]

    trained.averaged.unlink()  # it is no longer needed
    code, _, err = call(trainer, *flags, begin[0], "--set=train_steps=6")
    assert code == 0 and "resuming at step 4 of 6" in err and "init_from" not in err, err

    for other, value in ([], "None"), ([f"--init_from={tmp_path}"], tmp_path):
        message = refusal(trainer, *flags, "--set=train_steps=8", *other)
        assert f"holds another run: init_from: {trained.path} -> {value};" in message


def test_it_is_measured_before_the_first_update_whatever_comes_between(
    call, trained, flags, tmp_path, monkeypatch
):
    flags = [*flags, f"--init_from={trained.path}", "--train_minutes=0.00001"]
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "evaluate", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM))
        code, _, err = call(trainer, *flags)
    assert code == 128 + signal.SIGTERM and "saved step 0 of" in err, err
    code, _, err = call(trainer, *flags)  # one update at least
    assert code == 0 and "dev at step 0" in err and "stopped at step 1 of" in err, err
    assert (tmp_path / "tuned/best/step-00000000.safetensors").is_file()


def test_what_does_not_fit_is_one_line_and_writes_nothing(call, refusal, trained, flags, tmp_path):
    begin = f"--init_from={trained.path}"
    message = refusal(trainer, *flags, begin, "--set=num_heads=4")
    assert "num_heads: 2 -> 4; expected its sizes" in message
    message = refusal(trainer, *flags, begin, "--set=encoder_layer=convolution")
    assert 'encoder_layer: "self_attention" -> "convolution"; expected its sizes' in message
    assert "no run there" in refusal(trainer, *flags, f"--init_from={tmp_path}/no")
    code, out, _ = call(trainer, *flags, begin, "--dry_run")
    assert code == 0 and f"with {trained.vocabularies().source.size} sub-words shared" in out
    assert not (tmp_path / "tuned").exists()
