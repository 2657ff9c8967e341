"""What is known of an attention, and how its pieces are shown."""

import dataclasses

import numpy as np
import pytest

from t2t_lite.attention import TITLES, Attention, check_size, labels, words
from t2t_lite.errors import UserError


@pytest.fixture
def attention():
    cross, encoder, decoder = np.ones([2, 1, 2, 3]), np.ones([1, 1, 3, 3]), np.ones([2, 1, 2, 2])
    return Attention(cross, list("abc"), list("de"), encoder, decoder, ["<pad>", "d"])


def test_it_unpacks_to_its_first_three(attention):
    weights, source, target = attention
    assert weights is attention.weights and (source, target) == (list("abc"), list("de"))


def test_each_kind_has_the_pieces_of_its_rows_and_columns(attention):
    kinds = attention.kinds()
    assert list(kinds) == list(TITLES) == ["encoder", "decoder", "cross"]
    for kind in kinds.values():
        assert kind.weights.shape[2:] == (len(kind.rows), len(kind.columns))
    assert kinds["decoder"].columns == ["<pad>", "d"] and kinds["cross"].rows == ["d", "e"]


def test_an_encoder_without_attention_has_no_kind(attention):
    without = dataclasses.replace(attention, encoder=np.zeros([0, 0, 0, 0]))
    assert list(without.kinds()) == ["decoder", "cross"]


@pytest.mark.parametrize(
    "pieces, shown",
    [
        (["\u2581snow", "flake", ".", "</s>"], ["snow", "\u00b7flake", "\u00b7.", "</s>"]),
        (["<pad>", "\u2581", "\u2581roof"], ["<pad>", "\u2581", "roof"]),
        (["un", "\u2581roof"], ["un", "roof"]),
        (["snow_", "flake_"], ["snow_", "flake_"]),
    ],
)  # fmt: skip
def test_labels(pieces, shown):
    assert labels(pieces) == shown


@pytest.mark.parametrize(
    "pieces, joined",
    [
        (["\u2581snow", "flake", "\u2581on", "</s>"], ["snowflake", "snowflake", "on", "</s>"]),
        (["<pad>", "un", "\u2581_", "_"], ["<pad>", "un", "__", "__"]),
        (["snow", "flake_", "on_", "<EOS>"], ["snowflake", "snowflake", "on", "<EOS>"]),
        (["<pad>_", "snow", "flake_"], ["<pad>", "snowflake", "snowflake"]),
    ],
)
def test_words(pieces, joined):
    assert words(pieces) == joined


def test_an_encoder_without_attention_has_no_weights_that_could_be_too_many(monkeypatch):
    monkeypatch.setattr("t2t_lite.attention.MOST", 3000)
    hparams = dict(num_heads=2, num_encoder_layers=3, num_decoder_layers=1)
    too_many = r"the attention of 30 sub-words of input and 10 of output has 6,200 weights"
    for more in {}, {"encoder_layer": "restricted_self_attention"}:
        with pytest.raises(UserError, match=too_many):
            check_size([hparams | more], 30, 10)
    check_size([hparams | {"encoder_layer": "recurrent"}], 30, 10)
