"""What holds for every layer: build, configuration, shapes, precisions, masks, dropout, file."""

import numpy as np
import pytest
from layer_checks import assert_same, flat, randomise, run_layer_test

from t2t_lite.config import HParams
from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.decoder import Decoder, DecoderLayer
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import Embedding, PositionalEncoding
from t2t_lite.layers.encoder import Encoder, EncoderLayer
from t2t_lite.layers.feed_forward import PositionwiseFeedForward
from t2t_lite.layers.linear import Linear
from t2t_lite.layers.residual import Residual

POST = HParams(
    num_encoder_layers=2, num_decoder_layers=2, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5,
    dropout=0.2, neighbourhood=3, kernel_size=3,
)  # fmt: skip
PRE = POST.replace(norm="pre", attention_dropout=0.1, relu_dropout=0.1)
B, T, S, D = 3, 4, 5, 8
IDS = np.array([[5, 7, 4, 1, 0], [8, 1, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32)  # the last: padding
TARGETS = np.array([[3, 9, 9, 1], [6, 1, 0, 0], [5, 4, 3, 1]], np.int32)
X, MEMORY = (
    np.random.default_rng(n).normal(size=(B, length, D)).astype(np.float32)
    for n, length in ((1, T), (2, S))
)
# The memory with other vectors where there is padding.
SPOILED = np.where((IDS != 0)[..., None], MEMORY, 100.0).astype(np.float32)
PADDING, CAUSAL = (IDS != 0)[:, None, None], np.tril(np.ones((1, 1, T, T), bool))
PENALTY = np.random.default_rng(3).random((B, 2, T, S)).astype(np.float32)
WHOLE, HEADS = (B, T, D), (B, 2, T, S)


def attention(memory):
    return lambda layer, **seeds: layer(X, memory, PADDING, penalty=PENALTY, **seeds)


def encoder(memory):
    return lambda layer, **seeds: layer(memory, PADDING, **seeds)


def encoder_layer(memory):
    return lambda layer, **seeds: layer(memory, PADDING, return_attention=True, **seeds)


def first_of_encoder_layer(memory):
    return lambda layer, **seeds: layer(memory, PADDING, **seeds)[0]


def decoder_layer(memory):
    return lambda layer, **seeds: layer(X, memory, CAUSAL, PADDING, **seeds)


def decoder(memory):
    return lambda layer, **seeds: layer(X, memory, PADDING, **seeds)


def on_x(layer, **seeds):
    return layer(X, **seeds)


def made(kind, *args):
    return lambda **kwargs: kind(*args, **kwargs)


# How it is made, how called (where there is a memory: a function of it), the outputs' shapes.
WITH_MEMORY = {
    "attention": (made(MultiHeadAttention, 2, 3, 5, 0.2), attention, [WHOLE, HEADS]),
    "encoder layer, post": (made(EncoderLayer, POST), encoder_layer, [(B, S, D), (B, 2, S, S)]),
    "encoder layer, pre": (made(EncoderLayer, PRE), encoder_layer, [(B, S, D), (B, 2, S, S)]),
    "encoder layer, restricted": (
        made(EncoderLayer, POST.replace(encoder_layer="restricted_self_attention")),
        encoder_layer,
        [(B, S, D), (B, 2, S, S)],
    ),
    "encoder layer, recurrent": (
        made(EncoderLayer, POST.replace(encoder_layer="recurrent")),
        first_of_encoder_layer,
        [(B, S, D)],
    ),
    "encoder layer, convolution": (
        made(EncoderLayer, POST.replace(encoder_layer="convolution")),
        first_of_encoder_layer,
        [(B, S, D)],
    ),
    "encoder, post": (made(Encoder, POST), encoder, [(B, S, D)]),
    "encoder, pre": (made(Encoder, PRE), encoder, [(B, S, D)]),
    "decoder layer, post": (made(DecoderLayer, POST), decoder_layer, [WHOLE, (B, 2, T, T), HEADS]),
    "decoder layer, pre": (made(DecoderLayer, PRE), decoder_layer, [WHOLE, (B, 2, T, T), HEADS]),
    "decoder, post": (made(Decoder, POST), decoder, [WHOLE]),
    "decoder, pre": (made(Decoder, PRE), decoder, [WHOLE]),
}
OTHERS = {
    "feed-forward": (made(PositionwiseFeedForward, 12, 0.2), on_x, [WHOLE], {}),
    "linear": (made(Linear, 7), on_x, [(B, T, 7)], {"drops": False}),
    "dropout": (made(Dropout, 0.2), on_x, [WHOLE], {"products": False}),
    "residual, post": (
        made(Residual, "post", 0.2),
        lambda layer, **seeds: layer(X, sublayer=lambda y: y * y, **seeds),
        [WHOLE],
        {"products": False},
    ),
    "residual, pre, of a pair": (
        made(Residual, "pre", 0.2),
        lambda layer, **seeds: layer(X, sublayer=lambda y: (y * y, y), **seeds),
        [WHOLE, WHOLE],
        {"products": False},
    ),
    "embedding": (
        made(Embedding, 11, D),
        lambda layer: layer(IDS),
        [(B, S, D)],
        {"drops": False, "products": False},
    ),
    "logits": (
        made(Embedding, 11, D),
        lambda layer: layer.logits(X.astype(layer.compute_dtype)),
        [(B, T, 11)],
        {"drops": False, "half_type": "float32"},
    ),
    "sinusoids": (
        made(PositionalEncoding),
        on_x,
        [WHOLE],
        {"drops": False, "products": False},
    ),
    "learned positions": (
        made(PositionalEncoding, "learned", 3),
        on_x,
        [WHOLE],
        {"drops": False, "products": False},
    ),
}
CASES = {
    **{
        name: (make, call(MEMORY), shapes, {}) for name, (make, call, shapes) in WITH_MEMORY.items()
    },
    **OTHERS,
}


@pytest.mark.parametrize("name", CASES)
def test_layer(name, tmp_path):
    make, call, shapes, has = CASES[name]
    run_layer_test(make, (None, None, D), call, shapes, tmp_path / "layer.safetensors", **has)


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_padding_has_no_influence(name):
    """Nor, in an encoder, on what is no padding; and the row of padding alone makes no NaN."""
    make, call, _ = WITH_MEMORY[name]
    layer = make()
    layer.build((None, None, D))
    randomise(layer)
    one, other = ([output[:2] for output in flat(call(m)(layer))] for m in (MEMORY, SPOILED))
    if name.startswith("encoder"):
        seen = IDS[:2] != 0
        one, other = ([output[0][seen]] for output in (one, other))
    assert_same(one, other)
