"""The cost of a training, by arithmetic and as the paper's Table 2 estimates it."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.training.cost import Cost, papers_estimate, sustained_rate, update_operations

HOUR = 3600


@pytest.mark.parametrize("seconds, stated", [(12 * HOUR, "3.3e+18"), (3.5 * 24 * HOUR, "2.3e+19")])
def test_table_2(seconds, stated):
    """Base and big on eight P100s (sections 5.2 and 6.1, footnote 5)."""
    assert f"{papers_estimate(seconds, 8, 9.5e12):.1e}" == stated


def test_an_update_by_hand():
    """Three times the forward pass, two operations a multiply-add, of two pairs of 3 and 5."""
    h = HParams(num_encoder_layers=1, num_decoder_layers=1, d_model=4, d_ff=8, num_heads=1) \
        .replace(d_k=2, d_v=2)  # fmt: skip
    projection, feed_forward, pair, V = 4 * 2, 2 * 4 * 8, 2 + 2, 10
    encoder = 3 * (4 * projection + 3 * pair + feed_forward)
    self_attention, cross = 5 * (4 * projection + 5 * pair), 5 * (2 * projection + 3 * pair)
    decoder = self_attention + cross + 3 * 2 * projection + 5 * feed_forward
    forward = encoder + decoder + 5 * 4 * V
    assert update_operations(h, V, rows=2, source=3, target=5) == 2 * 3 * 2 * forward


def test_it_goes_on_after_a_resume():
    inputs, targets = np.ones([2, 3], np.int32), np.ones([2, 5], np.int32)
    cost = Cost(HParams(), 100)
    cost.add(inputs, targets, seconds=2.0)
    resumed = Cost(HParams(), 100, **cost.to_json())
    resumed.add(inputs, targets, seconds=6.0)
    figures = resumed.figures(devices=3, rate=1e9)
    operations = 2 * update_operations(HParams(), 100, 2, 3, 5)
    assert (figures["steps"], figures["seconds"]) == (2, 8.0)
    assert figures["operations"] == operations
    assert figures["operations_per_s"] == operations / 8
    assert figures["papers_estimate"] == 8 * 3 * 1e9


def test_the_papers_gpus_have_the_papers_rate(monkeypatch):
    assert 1e9 < sustained_rate() < 1e14  # of this machine
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0"])
    details = {"device_name": "Tesla P100-SXM2-16GB"}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
    assert sustained_rate() == 9.5e12
