"""The encoder against NumPy, post-norm and pre-norm, and what holds whatever its weights."""

import numpy as np
import numpy_transformer as oracle
import pytest
from layer_checks import randomise, weights

from t2t_lite.config import HParams
from t2t_lite.layers.attention import padding_mask
from t2t_lite.layers.encoder import Encoder, EncoderLayer

POST = HParams(num_encoder_layers=2, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5, dropout=0.2)
PRE = POST.replace(norm="pre")
KINDS = {
    "self_attention": POST,
    "restricted_self_attention": POST.replace(neighbourhood=3),
    "recurrent": POST,
    "convolution": POST.replace(kernel_size=3),
}
KINDS = {name: hparams.replace(encoder_layer=name) for name, hparams in KINDS.items()}
EACH = pytest.mark.parametrize("hparams", KINDS.values(), ids=KINDS)
NORMS = pytest.mark.parametrize("hparams", [POST, PRE], ids=["post", "pre"])

IDS = np.array(
    [[5, 7, 4, 1, 0], [8, 1, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32
)  # the last row: padding alone
X = np.random.default_rng(1).normal(size=(3, 5, 8)).astype(np.float32)
MASK = (IDS != 0)[:, None, None]


def built(kind, hparams, **kwargs):
    layer = kind(hparams, **kwargs)
    layer.build((None, None, 8))
    return randomise(layer)


@pytest.mark.parametrize("hparams", [*KINDS.values(), PRE], ids=[*KINDS, "pre"])
def test_layer_equals_numpy(hparams):
    layer = built(EncoderLayer, hparams)
    expected = oracle.encoder_layer(X[:2], MASK[:2, 0], weights(layer), hparams)
    seen = IDS[:2] != 0
    found = layer(X[:2], MASK[:2])[0].numpy()
    np.testing.assert_allclose(found[seen], expected[seen], atol=1e-5)


@NORMS
def test_stack_equals_numpy(hparams):
    encoder = built(Encoder, hparams)
    expected = oracle.encoder(X[:2], MASK[:2, 0], weights(encoder), hparams)
    np.testing.assert_allclose(encoder(X[:2], MASK[:2]), expected, atol=1e-5)


@pytest.mark.parametrize("hparams", [*KINDS.values(), PRE], ids=[*KINDS, "pre"])
def test_padding_neither_counts_nor_makes_nan(hparams):
    encoder = built(Encoder, hparams)
    mask = padding_mask(IDS)
    result = encoder(X, mask).numpy()
    assert np.all(np.isfinite(result))
    changed = np.where((IDS != 0)[..., None], X, 100.0).astype(np.float32)
    np.testing.assert_array_equal(encoder(changed, mask).numpy()[IDS != 0], result[IDS != 0])
    shorter = encoder(X[:, :4], mask[..., :4]).numpy()
    np.testing.assert_allclose(shorter[IDS[:, :4] != 0], result[IDS != 0], atol=1e-5)


def test_every_position_sees_every_other():
    encoder = built(Encoder, POST)
    changed = X.copy()
    changed[0, 3] += 1
    difference = np.abs(encoder(changed, MASK).numpy() - encoder(X, MASK).numpy())
    assert np.all(difference[0].max(axis=-1) > 1e-4) and np.all(difference[1:] == 0)


@NORMS
def test_attention_is_handed_on_where_it_is_asked_for(hparams):
    """Each layer's, as Eq. 1 says; none on padding. The output is the same, without more of it."""
    encoder = built(Encoder, hparams)
    x, layers = encoder(X[:2], MASK[:2], return_attention=True)
    np.testing.assert_array_equal(x, encoder(X[:2], MASK[:2]))
    y = X[:2]
    for layer, found in zip(encoder.layers, layers, strict=True):
        assert found.shape == (2, hparams.num_heads, 5, 5)
        np.testing.assert_allclose(np.sum(found, axis=-1), 1, atol=1e-6)
        assert not np.any(np.where(MASK[:2], 0, found))
        y, expected = layer(y, MASK[:2], return_attention=True)
        np.testing.assert_array_equal(found, expected)


@EACH
def test_every_layer_type_is_named_in_its_variables_and_has_no_others(hparams):
    encoder = built(Encoder, hparams)
    mixing = {path.split("/")[1] for path in weights(encoder) if path.startswith("layer_0/")}
    kind = hparams.encoder_layer
    assert mixing == {kind, f"{kind}_residual", "feed_forward", "feed_forward_residual"}


@EACH
def test_how_far_a_change_reaches_through_two_layers(hparams):
    encoder = built(Encoder, hparams)
    x = np.random.default_rng(2).normal(size=(1, 40, 8)).astype(np.float32)
    changed = x.copy()
    changed[0, 20] += 1
    mask = np.ones((1, 1, 1, 40), bool)
    difference = np.abs(encoder(changed, mask) - encoder(x, mask))[0].max(axis=-1)
    reach = {"restricted_self_attention": 2, "convolution": 2}.get(hparams.encoder_layer, 40)
    distance = np.abs(np.arange(40) - 20)
    assert np.all(difference[distance > reach] == 0)
    assert np.all(difference[distance <= 2] > 1e-5)


@EACH
def test_only_attention_has_weights_to_hand_on(hparams):
    _, attention = built(Encoder, hparams)(X, MASK, return_attention=True)
    shapes = [(3, 2, 5, 5)] * 2 if "attention" in hparams.encoder_layer else []
    assert [tuple(weights.shape) for weights in attention] == shapes
