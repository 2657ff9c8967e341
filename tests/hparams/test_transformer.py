"""The sets against the paper's table and the sizes they promise."""

import pytest

from t2t_lite import registry

registry.load_plugins()


@pytest.mark.parametrize(
    "section, fields",
    [
        ("3.1", {"num_encoder_layers": 6, "num_decoder_layers": 6, "d_model": 512, "norm": "post"}),
        ("3.2.2", {"num_heads": 8, "d_k": 64, "d_v": 64}),
        ("3.3", {"d_ff": 2048}),
        ("3.5", {"positions": "sinusoidal"}),
        ("5.1", {"batch_tokens": 25_000}),
        ("5.2", {"train_steps": 100_000}),
        ("5.3", {"adam_beta1": 0.9, "adam_beta2": 0.98, "adam_epsilon": 1e-9, "clip_norm": 0.0}),
        ("5.3, Eq. 3", {"schedule": "rsqrt", "learning_rate": 1.0, "warmup_steps": 4000}),
        ("5.4", {"dropout": 0.1, "label_smoothing": 0.1}),
        ("5.4, no other", {"attention_dropout": 0.0, "relu_dropout": 0.0, "subword_sampling": 0.0}),
        ("6.1", {"average_checkpoints": 5, "checkpoint_minutes": 10.0}),
    ],
)
def test_base_is_the_papers(section, fields):
    base = registry.hparams("base").to_dict()
    assert {name: base[name] for name in fields} == fields, section


def test_big_is_the_papers():
    """Sections 5.2 and 6.1, and the bottom line of Table 3."""
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
