"""Micro-batches: the fewest that fit, by what is asked for, by estimate, by trial."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.buckets import Bucket
from t2t_lite.decoding.batches import BATCH_TOKENS
from t2t_lite.devices import make_strategy
from t2t_lite.errors import UserError
from t2t_lite.models.transformer import Transformer
from t2t_lite.training import micro_batches
from t2t_lite.training.memory import TrainingMemory, peak_memory, used_memory
from t2t_lite.training.micro_batches import (
    choose_by_estimate,
    choose_by_trial,
    evaluation_bounds,
    fewest,
    micro_batch,
)
from t2t_lite.training.step import TrainStep

BUCKETS = [Bucket(100, 10, 12), Bucket(40, 30, 20), Bucket(12, 100, 100)]


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("tokens", [1, 99, 100, 250, 600, 1200, 5000])
def test_fewest(replicas, tokens):
    def holds(count):
        parts = [micro_batch(bucket, replicas, count) for bucket in BUCKETS]
        return all(
            part.rows == 1 or part.rows * max(part.source_length, part.target_length) <= tokens
            for part in parts
        )

    found = fewest(BUCKETS, replicas, tokens)
    assert holds(found) and not any(map(holds, range(1, found)))


def memory(replicas=1):
    return TrainingMemory(HParams(), [1000], "float32", replicas)


def choose(monkeypatch, available, replicas=1):
    """What it is with so much, and a tenth left."""
    monkeypatch.setattr(micro_batches, "available_memory", lambda: int(available / 0.9) + 1)
    return choose_by_estimate(memory(replicas), BUCKETS, replicas)


def needed(count):
    return memory().total([micro_batch(bucket, 1, count) for bucket in BUCKETS], count)


def test_by_estimate(monkeypatch):
    assert choose(monkeypatch, needed(1)) == 1
    assert choose(monkeypatch, needed(1) - 1) > 1
    assert choose(monkeypatch, needed(4)) == 4
    assert choose(monkeypatch, needed(4) - 1) == 8
    with pytest.raises(UserError, match="training takes about .*, and there are"):
        choose(monkeypatch, needed(1), replicas=4)
    with pytest.raises(
        UserError, match="training takes about .* GiB besides .*, and there are"
    ) as error:
        choose(monkeypatch, 2**20)
    assert "\n" not in str(error.value)


def test_an_evaluation_takes_no_more_than_an_update():
    whole = evaluation_bounds(memory(), BUCKETS, 1, 1, workers=1)
    assert whole["score_tokens"] == max(bucket.rows * bucket.target_length for bucket in BUCKETS)
    part = evaluation_bounds(memory(), BUCKETS, 1, 4, workers=1)
    assert part["score_tokens"] == 25 * 12
    assert 1 <= part["batch_tokens"] < whole["batch_tokens"] <= BATCH_TOKENS
    room = memory().update(micro_batch(BUCKETS[-1], 1, 4), 4)
    assert part["batch_tokens"] * memory().decoded_token() <= room
    shared = evaluation_bounds(memory(), BUCKETS, 1, 4, workers=2)
    assert shared["batch_tokens"] == part["batch_tokens"] // 2


class Step:
    """A TrainStep on a device that holds so many rows at once."""

    def __init__(self, rows):
        self.rows, self.micro_batches, self.tried = rows, 1, []

    def try_out(self, inputs, targets):
        self.tried.append((self.micro_batches, inputs.shape, targets.shape))
        if -(-len(inputs) // self.micro_batches) > self.rows:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


def test_by_trial_of_the_largest_bucket():
    for rows, wanted in (12, 1), (11, 2), (4, 4), (2, 8), (1, 16):
        step, said = Step(rows), []
        assert choose_by_trial(step, BUCKETS, 1, said.append) == wanted == step.micro_batches
        assert {shape for _, *shapes in step.tried for shape in shapes} == {(12, 100)}
        assert len(said) == len(step.tried) - 1
    with pytest.raises(UserError, match="no memory for one pair of 100/100 sub-words"):
        choose_by_trial(Step(0), BUCKETS, 1, print)


def test_micro_batches_take_the_memory_of_one():
    """Not of several at the same time, in which TensorFlow would compute them."""
    rows, length, symbols = 64, 20, 20_000
    one = 4 * rows * length * symbols  # the logits of a micro-batch
    h = HParams(num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=8, num_heads=1, d_k=8)
    strategy = make_strategy(1)
    with strategy.scope():
        step = TrainStep(Transformer(h, symbols, symbols, name="transformer"), h, strategy)

    def run(count):
        step.micro_batches = count
        step(*np.full([2, count * rows, length], 7, np.int32))

    run(1)  # TensorFlow keeps what it frees, for the next one
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is used
    before = used_memory()
    run(5)
    assert peak_memory() < before + one
