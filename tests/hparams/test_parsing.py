"""The parsers' sets against section 6.3 and the sizes they promise."""

import pytest

from t2t_lite import registry

registry.load_plugins()


def test_parsing_is_the_papers():
    parsing = registry.hparams("parsing")
    assert sorted(registry.hparams("base").differences(parsing)) == [
        "attention_dropout: 0.0 -> 0.2",
        "d_k: 64 -> 128",
        "d_model: 512 -> 1024",
        "d_v: 64 -> 128",
        "dropout: 0.1 -> 0.2",
        "max_length: 256 -> 512",
        "num_decoder_layers: 6 -> 4",
        "num_encoder_layers: 6 -> 4",
        "warmup_steps: 4000 -> 16000",
    ]
    assert (parsing.d_ff, parsing.num_heads, parsing.next_word) == (2048, 8, "counted")


@pytest.mark.parametrize("name", ["parsing_small", "parsing_tiny"])
def test_small_sets_are_told_the_next_word(name):
    hparams = registry.hparams(name)
    assert hparams.next_word == "given" and hparams.norm == "post"
    assert hparams.num_heads * hparams.d_k == hparams.d_model
    assert hparams.warmup_steps < hparams.train_steps and hparams.eval_steps <= hparams.train_steps
    assert hparams.checkpoint_steps * hparams.average_checkpoints <= hparams.train_steps
