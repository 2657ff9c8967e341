"""Sizes in closed form against those of the model that Keras builds."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.models.size import embedding_symbols, multiply_adds, parameters
from t2t_lite.models.transformer import Transformer

SMALL = HParams(
    num_encoder_layers=2, num_decoder_layers=3, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5,
    max_positions=9,
)  # fmt: skip
KINDS = {
    "base": (HParams(), [37_000]),
    "post": (SMALL, [11]),
    "pre": (SMALL.replace(norm="pre"), [13, 11]),
    "learned": (SMALL.replace(positions="learned"), [11]),
    "tensor2tensor": (
        SMALL.replace(tie_softmax=False, share_embeddings=False, target_space=True),
        [11, 11, 11],
    ),
    "restricted": (SMALL.replace(encoder_layer="restricted_self_attention"), [11]),
    "recurrent": (SMALL.replace(encoder_layer="recurrent", d_model=9), [11]),
    "convolution": (SMALL.replace(encoder_layer="convolution", kernel_size=5), [11]),
    "softmax of its own": (SMALL.replace(tie_softmax=False), [11, 11]),
}


def unfilled(hparams, *sizes):
    """A model without its weights, as big's would take 0.9 GB."""
    with keras.StatelessScope(initialize_variables=False):
        model = Transformer(hparams, *sizes)
    keras.utils.clear_session()  # forgets the variables that wait for their values
    return model


@pytest.mark.parametrize("hparams, symbols", KINDS.values(), ids=KINDS)
def test_parameters_are_keras(hparams, symbols):
    sizes = symbols[0], symbols[-1], len(set(symbols)) == 1
    assert embedding_symbols(hparams, *sizes) == symbols
    assert parameters(hparams, symbols) == unfilled(hparams, *sizes).count_params()


def test_parameters_by_hand():
    attention, feed_forward, norm = 4 * 512 * 512, 2 * 512 * 2048 + 2048 + 512, 2 * 512
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    layers = 6 * (encoder + decoder)
    assert parameters(HParams(), [37_000]) == 37_000 * 512 + layers == 63_045_632


@pytest.mark.parametrize("source", [5, 40])
@pytest.mark.parametrize("kind", ["self_attention", "restricted_self_attention"])
def test_multiply_adds_are_the_graphs(kind, source):
    """As TensorFlow counts them in the products of the forward pass."""
    B, T, V = 3, 7, 11
    h = SMALL.replace(encoder_layer=kind, neighbourhood=6)
    model = Transformer(h, 13, V, shared=False)
    shapes = tf.TensorSpec([B, source], tf.int32), tf.TensorSpec([B, T], tf.int32)
    graph = tf.function(model, autograph=False).get_concrete_function(*shapes).graph
    products = [op for op in graph.get_operations() if "MatMul" in op.type]
    found = sum(
        np.prod(op.outputs[0].shape) * op.inputs[0].shape[-2 if op.get_attr(transposed(op)) else -1]
        for op in products
    )
    assert products and multiply_adds(h, V, source, T) * B == found


def test_multiply_adds_of_the_other_layer_types():
    """In place of attention, by Table 1: k n d^2, and twice 3 (n d d/2 + n d/2 d/2)."""
    V, S, T, D = 11, 5, 7, SMALL.d_model
    attention = S * 4 * D * 2 * 4 + S**2 * 2 * 8  # of d_k 3 and d_v 5
    without = multiply_adds(SMALL, V, S, T) - 2 * attention
    convolution = SMALL.replace(encoder_layer="convolution", kernel_size=3)
    assert multiply_adds(convolution, V, S, T) == without + 2 * 3 * S * D * D
    recurrent = SMALL.replace(encoder_layer="recurrent")
    expected = 2 * 2 * 3 * (S * D * D // 2 + S * D // 2 * D // 2)
    assert multiply_adds(recurrent, V, S, T) == without + expected


def transposed(op):
    return "transpose_a" if op.type == "MatMul" else "adj_x"
