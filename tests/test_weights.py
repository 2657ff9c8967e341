"""Which of a run's weights are used, and what is said of them."""

import warnings

import numpy as np
import pytest

from t2t_lite.arrays import write_arrays
from t2t_lite.errors import UserError
from t2t_lite.weights import chosen, described, every, files, with_steps


def write(path, **about):
    write_arrays(path, {"kernel": np.zeros(2, np.float32)}, about)
    return path


def checkpoint(run, step):
    return write(run / "checkpoints" / f"step-{step:08d}" / "model.safetensors", step=step)


def test_averaged_else_best_else_latest(tmp_path):
    with pytest.raises(UserError, match="no checkpoint is saved yet"):
        chosen(tmp_path)
    checkpoint(tmp_path, 10)
    latest = checkpoint(tmp_path, 1200)
    assert chosen(tmp_path) == latest
    assert with_steps(latest) == f"{latest} (step 1,200)"
    of_before = write(tmp_path / "best.safetensors", step=10)
    assert chosen(tmp_path) == of_before
    best = write(tmp_path / "best/step-00000600.safetensors", step=600, figure="bleu", value=31.5)
    assert chosen(tmp_path) == best
    assert with_steps(best) == f"{best} (step 600, bleu 31.5000)"
    averaged = write(tmp_path / "averaged.safetensors", step=1200, averaged=[10, 1200])
    assert chosen(tmp_path) == averaged
    assert with_steps(averaged) == f"{averaged} (steps 10 to 1,200)"
    assert described([averaged, latest]) == (
        f"weights     {averaged} (steps 10 to 1,200)\nweights     {latest} (step 1,200)"
    )


def test_an_average_that_training_has_left_behind_is_named_with_both_steps(tmp_path):
    checkpoint(tmp_path, 20)
    averaged = write(tmp_path / "averaged.safetensors", step=20, averaged=[10, 20])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen(tmp_path) == averaged
        checkpoint(tmp_path, 30)
        with pytest.raises(UserWarning, match=r"\(steps 10 to 20\): .* gone on to step 30 since"):
            chosen(tmp_path)
        # Made of earlier ones on purpose, when there was no newer one than this.
        write(averaged, step=20, averaged=[10, 20], newest=30)
        assert chosen(tmp_path) == averaged


@pytest.mark.parametrize("about", [{}, {"step": "x"}, {"step": 1, "averaged": ["x"]}])
def test_what_no_trainer_wrote_has_no_steps(tmp_path, about):
    checkpoint(tmp_path, 30)
    averaged = write(tmp_path / "averaged.safetensors", **about)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert with_steps(chosen(tmp_path)) == str(averaged)


def test_what_a_path_stands_for(tmp_path):
    first, second = checkpoint(tmp_path, 9), checkpoint(tmp_path, 10)
    best = write(tmp_path / "best/step-00000009.safetensors", step=9, figure="loss", value=2.0)
    assert files(first) == files(first.parent) == [first]
    assert files(tmp_path / "checkpoints") == [first, second]
    assert files(tmp_path / "best") == [best]
    (tmp_path / "run.json").touch()
    assert files(tmp_path) == [best]
    with pytest.raises(UserError, match="none: no checkpoint there; expected a file of weights"):
        files(tmp_path / "none")


def test_all_that_a_run_keeps(tmp_path):
    with pytest.raises(UserError, match="no checkpoint is saved yet"):
        every(tmp_path)
    second, first = checkpoint(tmp_path, 100), checkpoint(tmp_path, 20)
    best = write(tmp_path / "best/step-00000100.safetensors", step=100, figure="f1", value=9.0)
    averaged = write(tmp_path / "averaged.safetensors", step=100, averaged=[20, 100])
    assert every(tmp_path) == [first, second, best, averaged]
