"""The sets against the paper's table and the sizes they promise."""

import pytest

from t2t_lite import registry

registry.load_plugins()


def test_base_is_the_papers():
    base = registry.hparams("base")
    assert (base.num_encoder_layers, base.num_decoder_layers, base.d_model, base.d_ff) == (
        6,
        6,
        512,
        2048,
    )
    assert (base.num_heads, base.d_k, base.d_v, base.dropout, base.label_smoothing) == (
        8,
        64,
        64,
        0.1,
        0.1,
    )
    assert (base.norm, base.positions, base.attention_dropout, base.relu_dropout) == (
        "post",
        "sinusoidal",
        0.0,
        0.0,
    )
    assert (base.schedule, base.learning_rate, base.warmup_steps) == ("rsqrt", 1.0, 4000)
    assert (base.adam_beta1, base.adam_beta2, base.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (base.batch_tokens, base.train_steps, base.average_checkpoints) == (25_000, 100_000, 5)
    assert base.checkpoint_minutes == 10.0


def test_big_is_the_papers():
    base, big = registry.hparams("base"), registry.hparams("big")
    assert sorted(base.differences(big)) == [
        "average_checkpoints: 5 -> 20",
        "d_ff: 2048 -> 4096",
        "d_model: 512 -> 1024",
        "dropout: 0.1 -> 0.3",
        "num_heads: 8 -> 16",
        "train_steps: 100000 -> 300000",
    ]
    assert big.differences(registry.hparams("big_enfr")) == ["dropout: 0.3 -> 0.1"]


@pytest.mark.parametrize("name", ["small", "tiny"])
def test_sets_for_cpus(name):
    hparams = registry.hparams(name)
    assert hparams.num_heads * hparams.d_k == hparams.d_model == hparams.d_ff // 4
    assert hparams.warmup_steps < hparams.train_steps
    assert hparams.eval_steps <= hparams.train_steps
    # So many checkpoints exist at the end that the average is of the full number.
    assert hparams.checkpoint_steps * hparams.average_checkpoints <= hparams.train_steps
    assert (hparams.norm, hparams.positions) == ("post", "sinusoidal")


def test_small_has_the_measured_sizes():
    small = registry.hparams("small")
    assert (small.num_encoder_layers, small.num_decoder_layers, small.d_model, small.d_ff) == (
        3,
        3,
        256,
        1024,
    )
    assert (small.num_heads, small.d_k, small.d_v) == (4, 64, 64)
