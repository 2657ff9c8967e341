"""tensor2tensor's hparams; tests/hparams/test_tensor2tensor.py compares whole sets."""

import math

import pytest

from t2t_lite.errors import UserError
from t2t_lite.tensor2tensor.settings import over_all_symbols, read, smoothing_constant


@pytest.mark.parametrize(
    "name, value",
    [
        ("self_attention_type", "dot_product_relative"),
        ("max_relative_position", 20),
        ("ffn_layer", "local_moe"),
        ("pack_dataset", True),
        ("pos", "emb"),
        ("optimizer", "Adafactor"),
        ("optimizer", "TrueAdam"),
        ("optimizer_multistep_accumulate_steps", 8),
        ("hidden_size", "16"),
        ("num_heads", 0),
        ("layer_preprocess_sequence", "na"),
        ("learning_rate_schedule", "cosdecay"),
        ("weight_decay", 0.1),
    ],
)
def test_what_is_not_here_is_refused_by_name(name, value):
    with pytest.raises(UserError, match=f"tensor2tensor's {name}.*{value}.*expected"):
        read({name: value})


@pytest.mark.parametrize(
    "tied, shared, fields",
    [(True, False, (True, True)), (False, True, (True, False)), (False, False, (False, False))],
)
def test_matrices_of_symbols(tied, shared, fields):
    values = {"shared_embedding_and_softmax_weights": tied, "shared_embedding": shared}
    hparams = read(values)
    assert (hparams.share_embeddings, hparams.tie_softmax) == fields


def test_numbers():
    values = {"attention_key_channels": 64, "num_hidden_layers": 3, "num_decoder_layers": 2}
    hparams = read(values | {"batch_size": 1000, "max_length": 0})
    assert (hparams.num_encoder_layers, hparams.num_decoder_layers) == (3, 2)
    assert (hparams.d_k, hparams.d_v, hparams.batch_tokens, hparams.max_length) == (
        8,
        64,
        8000,
        1000,
    )
    assert over_all_symbols(hparams, 11).label_smoothing == pytest.approx(0.11)


def test_the_constant_is_the_loss_of_a_perfect_model():
    """0.9 on the target and 0.1 / 10 on each other symbol: the entropy of that."""
    expected = -0.9 * math.log(0.9) - 10 * 0.01 * math.log(0.01)
    assert smoothing_constant(0.1, 11) == pytest.approx(expected)
    assert smoothing_constant(0.0, 11) == 0
