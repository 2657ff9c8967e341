"""What is shown of a training; tests/cli/test_trainer.py reads the log of a whole run."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.training.cost import Cost, update_operations
from t2t_lite.training.loss import Loss
from t2t_lite.training.progress import Meter, RunLog, dev_report, picture
from t2t_lite.training.step import Report
from t2t_lite.translator import Evaluation


def test_a_huge_line_is_shown_in_part():
    line = "wide " * 2_000_000
    dev = Evaluation(
        {"loss": 1.0, "tokens": 9},
        [],
        ["short", line],
        ["kurz", line],
        [SimpleNamespace(text="")] * 2,
    )
    report = dev_report("dev", dev)
    assert report.startswith("dev: loss 1\n  in : short\n  out: \n  ref: kurz\n  in : wide wide ")
    assert report.count("... (10,000,000 characters)") == 2 and len(report) < 3_000


def report(loss, tokens, applied=True):
    return Report(
        Loss(smoothed=loss * tokens, nll=tokens, correct=tokens / 2, tokens=tokens),
        learning_rate=0.1,
        gradient_norm=loss / 2,
        applied=applied,
        loss_scale=1.0,
    )


def test_the_figures_of_some_updates():
    meter = Meter(10, cost := Cost(HParams(), 8))
    inputs, targets = np.array([[5, 6, 1, 0], [5, 1, 0, 0]]), np.array([[7, 1, 0], [0, 0, 0]])
    assert meter.is_first
    meter.add(report(4.0, 2), inputs, targets)
    meter.add(report(1.0, 4, applied=False), inputs, targets)
    meter.waited(1.5)
    meter.waited(0.25)
    figures = meter.report()
    assert cost.steps == 2 and cost.operations == 2 * update_operations(HParams(), 8, 2, 4, 3)
    assert figures["loss"] == pytest.approx((4 * 2 + 1 * 4) / 6) and figures["accuracy"] == 0.5
    assert figures["padding"] == pytest.approx(7 / 14) and figures["target_tokens"] == 4
    assert figures["gradient_norm"] == 0.5 and figures["data_wait_s"] == 1.75
    assert figures["skipped"] == 1 and figures["memory_mib"] > 100
    assert not meter.is_first and "1 skipped (float16 overflow)" in meter.line(2, 1, figures)
    meter.add(report(4.0, 2), inputs, targets)
    assert meter.report()["data_wait_s"] == 0


WEIGHTS = np.linspace(0, 1, 2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
DEV = Evaluation({"loss": 1.0}, [], ["a | b"], ["c"], [SimpleNamespace(text="d")])


def test_a_picture_has_a_place_for_each_weight():
    image = picture(WEIGHTS)
    assert image.shape == (1, 2 * 5 * 8, 3 * 6 * 8, 1) and 0 <= image.min() <= image.max() <= 1
    for layer, head, row, column in np.ndindex(WEIGHTS.shape):
        y, x = (layer * 5 + row) * 8 + 4, (head * 6 + column) * 8 + 4
        assert image[0, y, x, 0] == 1 - WEIGHTS[layer, head, row, column]


def test_the_log_and_tensorboard(tmp_path):
    with RunLog(tmp_path, print) as log:
        log.write("train", 3, loss=np.float32(1.5), padding=0.25)
        log.show(3, DEV, WEIGHTS)
    [entry] = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert (entry["kind"], entry["step"], entry["loss"]) == ("train", 3, 1.5)
    [events] = (tmp_path / "tensorboard").iterdir()
    tags = {
        value.tag: event.step
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
    }
    assert tags == dict.fromkeys(["train/loss", "train/padding", "dev/samples", "dev/attention"], 3)


def test_half_a_line_of_before_goes(tmp_path):
    file = tmp_path / "log.jsonl"
    for before, lines in ('{"step": 3}\n{"st', 2), ('{"step": 3}\n', 2), ('{"st', 1), ("", 1):
        file.write_text(before)
        with RunLog(tmp_path, print) as log:
            log.write("train", 4, loss=2.0)
        steps = [json.loads(line)["step"] for line in file.read_text().splitlines()]
        assert steps == [3, 4][-lines:]


def test_a_log_that_cannot_be_written_ends_no_training(tmp_path):
    said = []
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    with RunLog(tmp_path, said.append) as log:
        for step in range(3):
            log.write("train", step, loss=1.0)
    assert len(said) == 1 and "No space left on device" in said[0]
