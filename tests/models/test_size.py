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


def test_multiply_adds_are_the_graphs():
    """As TensorFlow counts them in the products of the forward pass."""
    B, S, T, V = 3, 5, 7, 11
    model = Transformer(SMALL, 13, V, shared=False)
    graph = (
        tf.function(model, autograph=False)
        .get_concrete_function(tf.TensorSpec([B, S], tf.int32), tf.TensorSpec([B, T], tf.int32))
        .graph
    )
    products = [op for op in graph.get_operations() if "MatMul" in op.type]
    found = sum(
        np.prod(op.outputs[0].shape) * op.inputs[0].shape[-2 if op.get_attr(transposed(op)) else -1]
        for op in products
    )
    assert products and multiply_adds(SMALL, V, S, T) * B == found


def transposed(op):
    return "transpose_a" if op.type == "MatMul" else "adj_x"
