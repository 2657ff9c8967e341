"""Training that is stopped, killed, resumed after something changed, or goes wrong."""

import json
import os
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file

from t2t_lite import checkpoints
from t2t_lite.cli import trainer
from t2t_lite.training.step import TrainStep

FAST = [
    *("--hparams=tiny", "--set=num_encoder_layers=1", "--set=num_decoder_layers=1"),
    *("--set=d_model=16", "--set=d_ff=32", "--set=num_heads=2", "--set=d_k=8", "--set=d_v=8"),
    *("--set=batch_tokens=256", "--set=max_length=16", "--set=dropout=0.2"),
    *("--set=report_steps=3", "--set=eval_steps=4", "--set=checkpoint_steps=2"),
]


@pytest.fixture
def flags(tmp_path):
    """Those of a training of 8 steps on a small corpus."""
    for name, numbers in ("train", range(300)), ("dev", range(300, 304)):
        for language, form in ("en", "item {} of it"), ("de", "Punkt {} davon"):
            lines = "".join(form.format(n) + "\n" for n in numbers)
            (tmp_path / f"{name}.{language}").write_text(lines)
    files = {
        split: [tmp_path / f"{split}.{language}" for language in ("en", "de")]
        for split in ("train", "dev")
    }
    return [
        *("--problem=text_pairs", "--train", *files["train"], "--dev", *files["dev"]),
        *("--vocab_size=300", f"--data_dir={tmp_path}/data", *FAST, "--set=train_steps=8"),
    ]


def weights(run):
    """Of the last checkpoint, and the optimizer's state, by name."""
    [*_, last] = checkpoints.Checkpoints(run / "checkpoints", 5).steps()
    files = load_file(last / checkpoints.MODEL), load_file(last / checkpoints.TRAINING)
    return {**files[0], **files[1]}


def assert_equal(a, b):
    """But for the order in which threads add up; another batch or mask moves weights by 1e-4."""
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_allclose(b[name], value, atol=1e-6, err_msg=name)


def log_of(run, kind):
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["kind"] == kind]


def at_step(monkeypatch, number, act):
    """Calls `act` when update `number` of a start has been computed."""
    update, done = TrainStep.__call__, []

    def counting(step, inputs, targets):
        report = update(step, inputs, targets)
        done.append(report)
        if len(done) == number:
            act()
        return report

    monkeypatch.setattr(TrainStep, "__call__", counting)


class Killed(BaseException):
    """Ends a training as kill -9 does: nothing of it runs after that."""


def kill():
    raise Killed


@pytest.mark.parametrize("packing", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_stopped_killed_and_resumed_it_is_the_same_training(
    call, flags, tmp_path, monkeypatch, packing
):
    flags = [*flags, f"--set=packing={packing}"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    code, _, err = call(trainer, *flags, f"--output_dir={whole}")
    assert code == 0 and "trained 8 steps" in err, err

    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        at_step(patch, 3, lambda: os.kill(os.getpid(), signal.SIGTERM))
        code, _, err = call(trainer, *flags, f"--output_dir={cut}")
    assert code == 128 + signal.SIGTERM and signal.getsignal(signal.SIGTERM) is before
    assert err.endswith("stopped by SIGTERM; saved step 3 of 8, the same command resumes\n")
    with monkeypatch.context() as patch:
        at_step(patch, 4, kill)
        with pytest.raises(Killed):
            call(trainer, *flags, f"--output_dir={cut}")
    code, _, err = call(trainer, *flags, f"--output_dir={cut}")
    assert code == 0 and "resuming at step 6 of 8" in err, err
    assert_equal(weights(whole), weights(cut))
    for name in "averaged.safetensors", "best/step-00000004.safetensors":
        assert_equal(load_file(whole / name), load_file(cut / name))
    assert [entry["step"] for entry in log_of(cut, "resumed")] == [3, 6]
    [cost], [paid] = log_of(whole, "cost"), log_of(cut, "cost")
    assert cost["steps"] == paid["steps"] == 8 and cost["operations"] == paid["operations"] > 0


def test_a_signal_during_an_evaluation_saves_and_the_evaluation_is_made_up_for(
    call, flags, tmp_path, monkeypatch
):
    from t2t_lite.translator import Translator

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "evaluate", lambda *_, **__: os.kill(os.getpid(), signal.SIGHUP))
        code, _, err = call(trainer, *flags, f"--output_dir={run}")
    assert code == 128 + signal.SIGHUP and "saved step 4 of 8" in err, err
    assert log_of(run, "dev") == []
    code, _, err = call(trainer, *flags, f"--output_dir={run}")
    assert code == 0 and "dev at step 4" in err, err
    assert [entry["step"] for entry in log_of(run, "dev")] == [4]


def test_a_signal_while_the_best_weights_are_written_loses_none(call, flags, tmp_path, monkeypatch):
    run, add = tmp_path / "run", checkpoints.BestWeights.add

    def interrupted(*args):
        os.kill(os.getpid(), signal.SIGTERM)
        add(*args)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.BestWeights, "add", interrupted)
        code, _, err = call(trainer, *flags, f"--output_dir={run}", "--set=train_steps=6")
    assert code == 128 + signal.SIGTERM and not list(run.glob("best/*")), err
    code, _, err = call(trainer, *flags, f"--output_dir={run}", "--set=train_steps=6")
    assert code == 0 and (run / "best/step-00000004.safetensors").is_file(), err


@pytest.mark.thorough
def test_minutes_and_patience_end_it_with_exit_code_0(call, flags, tmp_path):
    run = tmp_path / "run"
    flags = [*flags, f"--output_dir={run}", "--set=eval_steps=2", "--set=patience=1"]
    flags += ["--set=best_by=loss", "--set=keep_best=2", "--set=learning_rate=1e-30"]
    code, _, err = call(trainer, *flags, "--train_minutes=0.00001")
    assert code == 0 and "stopped at step 1 of 8, after 1e-05 minutes" in err, err
    assert "averaged 1 checkpoints" in err
    for _ in range(2):  # the second time it knows
        code, _, err = call(trainer, *flags)
        assert code == 0 and "stopped at step 4 of 8: loss has not been better" in err, err
    assert [entry["step"] for entry in log_of(run, "dev")] == [2, 4]
    assert len(list((run / "best").iterdir())) == 2
    code, _, err = call(trainer, *flags, "--set=patience=3")
    assert code == 0 and "trained 8 steps" in err, err
    assert "averaged 4 checkpoints, steps 00000002 to" in err  # whenever it was cut off


def test_patience_without_a_dev_set_is_said(call, flags, tmp_path):
    dev = flags.index("--dev")
    flags = [*flags[:dev], *flags[dev + 3 :], f"--output_dir={tmp_path}/run"]
    code, _, err = call(trainer, *flags, "--set=patience=3", "--set=train_steps=1")
    assert code == 0 and "warning: no dev set, so patience=3 will never end it" in err, err


def test_what_is_not_finite_stops_it_before_anything_is_saved(call, flags, tmp_path):
    run = tmp_path / "run"
    flags = [*flags, f"--output_dir={run}", "--set=warmup_steps=0", "--set=learning_rate=1e30"]
    code, _, err = call(trainer, *flags)
    line = err.splitlines()[-1]
    assert code == 1 and "step 2: loss nan" in line and "lower learning_rate" in line, err
    assert not (run / "checkpoints").exists() and not (run / "averaged.safetensors").exists()
    pairs = [
        json.loads(line)
        for line in (run / "not_finite.step-00000002.jsonl").read_text().splitlines()
    ]
    assert len(pairs) > 5
    numbers = [source.removeprefix("item ").removesuffix(" of it") for source, _ in pairs]
    assert [target for _, target in pairs] == [f"Punkt {number} davon" for number in numbers]


@pytest.mark.thorough
def test_micro_batches_are_kept_and_other_ones_are_refused_unless_told(call, flags, tmp_path):
    run = [*flags, f"--output_dir={tmp_path}/run"]
    code, _, err = call(trainer, *run, "--set=train_steps=2", "--micro_batch_tokens=64")
    assert code == 0 and "in 5 micro-batches on each device" in err, err
    code, _, err = call(trainer, *run, "--set=train_steps=4")
    assert code == 0 and "in 5 micro-batches" in err and "resuming at step 2 of 4" in err, err
    code, _, err = call(trainer, *run, "--set=train_steps=6", "--micro_batch_tokens=128")
    assert code == 2 and "micro_batches 5 -> 2" in err and "--devices_changed=continue" in err
    more = ["--micro_batch_tokens=128", "--devices_changed=continue", "--precision=bfloat16"]
    code, _, err = call(trainer, *run, "--set=train_steps=6", *more)
    assert code == 0 and "micro_batches 5 -> 2, precision float32 -> bfloat16; the batches" in err


def test_a_disk_that_is_full_for_a_while(call, flags, tmp_path, monkeypatch):
    run, write, calls = tmp_path / "run", checkpoints.write_arrays, []

    def full_at_first(path, *rest):
        calls.append(path)
        if len(calls) <= full:
            raise OSError(28, "No space left on device", str(path))
        write(path, *rest)

    monkeypatch.setattr(checkpoints, "write_arrays", full_at_first)
    full = 1
    code, _, err = call(trainer, *flags, f"--output_dir={run}", "--set=train_steps=4")
    warning = "t2t-trainer: warning: "
    assert code == 0 and "checkpoint was not written: " in err and warning not in err, err
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000004"]
    full = 100
    code, _, err = call(trainer, *flags, f"--output_dir={run}", "--set=train_steps=6")
    end = "No space left on device; step 6 is not saved; the same command resumes before"
    assert code == 1 and err.splitlines()[-1].endswith(end), err
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000004"]


def test_a_longer_cosine_says_what_jumps(call, flags, tmp_path):
    run = [*flags, f"--output_dir={tmp_path}/run", "--set=warmup_steps=1"]
    assert call(trainer, *run, "--set=train_steps=4")[0] == 0
    code, _, err = call(trainer, *run)
    [line] = [line for line in err.splitlines() if "learning rate of step 5" in line]
    assert code == 0 and "train_steps 4 -> 8 with schedule=cosine" in line
    assert line.endswith("and was to be 0")


def test_a_run_is_trained_by_one_process(call, flags, tmp_path):
    from t2t_lite.lock import locked

    run = tmp_path / "run"
    with locked(run):
        code, _, err = call(trainer, *flags, f"--output_dir={run}")
    assert code == 2 and f"{run}: another t2t-trainer is at work there (process" in err
    assert not run.exists()


def test_a_figure_that_is_no_number_is_the_worst(call, flags, tmp_path, monkeypatch):
    from t2t_lite.translator import Translator

    evaluate, made = Translator.evaluate, []

    def no_number_at_first(translator, *args, **options):
        dev = evaluate(translator, *args, **options)
        if not made:
            dev.figures["loss"] = float("nan")
        made.append(dev.figures["loss"])
        return dev

    monkeypatch.setattr(Translator, "evaluate", no_number_at_first)
    run, more = tmp_path / "run", ["--set=eval_steps=2", "--set=best_by=loss", "--set=patience=9"]
    code, _, err = call(trainer, *flags, *more, f"--output_dir={run}")
    assert code == 0 and len(made) > 2, err
    [best] = (run / "best").iterdir()
    assert best.name != "step-00000002.safetensors"
