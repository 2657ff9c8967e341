"""An independent witness: KerasHub's Transformer layers, given our weights, give our outputs.

They can express what we do with d_k = d_v = d_model / h. Their attention has biases, which are zero
at first and stay so. This is the one file that imports them.
"""

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import randomise

from t2t_lite.config import HParams
from t2t_lite.layers.attention import causal_mask, padding_mask
from t2t_lite.models.transformer import Transformer

keras_hub = pytest.importorskip("keras_nlp", reason="needs keras-nlp, of the extra test")

POST = HParams(
    num_encoder_layers=2, num_decoder_layers=2, d_model=12, d_ff=20, num_heads=3, d_k=4, d_v=4
)
NORMS = {"post": POST, "pre": POST.replace(norm="pre")}
INPUTS = np.array([[5, 7, 4, 9, 1], [8, 1, 0, 0, 0]], np.int32)
TARGETS = np.array([[3, 9, 9, 1], [6, 7, 2, 1]], np.int32)
X, MEMORY = (np.random.default_rng(n).normal(size=(2, n, 12)).astype("float32") for n in (4, 5))
TOLERANCE = 1e-5


@pytest.fixture(scope="module", params=NORMS.values(), ids=NORMS)
def model(request):
    return randomise(Transformer(request.param, 11, 11))


def options(hparams):
    return dict(
        intermediate_dim=hparams.d_ff,
        num_heads=hparams.num_heads,
        layer_norm_epsilon=1e-6,
        normalize_first=hparams.norm == "pre",
    )


def encoder_twin(layer):
    """KerasHub's TransformerEncoder with the weights of an EncoderLayer."""
    twin = keras_hub.layers.TransformerEncoder(**options(layer.hparams))
    twin.build((None, None, layer.hparams.d_model))
    give(twin, layer, {"self_attention_layer": (layer.mixing, layer.mixing_residual)})
    return twin


def decoder_twin(layer):
    """KerasHub's TransformerDecoder with the weights of a DecoderLayer."""
    twin = keras_hub.layers.TransformerDecoder(**options(layer.hparams))
    twin.build(*[(None, None, layer.hparams.d_model)] * 2)
    attentions = {
        "self_attention": (layer.self_attention, layer.self_attention_residual),
        "cross_attention": (layer.cross_attention, layer.cross_attention_residual),
    }
    give(twin, layer, attentions)
    return twin


def give(twin, layer, attentions):
    """Every weight that ours has; what is left over there are the biases of attention."""
    h = layer.hparams
    values = {}
    for name, (attention, residual) in attentions.items():
        for part in "query", "key", "value":
            values[f"{name}/{part}/kernel"] = getattr(attention, part).kernel
        values[f"{name}/attention_output/kernel"] = attention.output_projection.kernel
        norm = f"{name.removesuffix('_layer')}_layer_norm"
        values |= scale_and_shift(norm, residual)
    values |= scale_and_shift("feedforward_layer_norm", layer.feed_forward_residual)
    for name, dense in ("intermediate", "inner"), ("output", "outer"):
        dense = getattr(layer.feed_forward, dense)
        values[f"feedforward_{name}_dense/kernel"] = dense.kernel
        values[f"feedforward_{name}_dense/bias"] = dense.bias
    variables = {variable.path.partition("/")[2]: variable for variable in twin.weights}
    for name, value in values.items():
        variable = variables.pop(name)
        variable.assign(tf.reshape(value, variable.shape))  # [D, H * K] -> [D, H, K]
    assert len(values) == len(layer.weights) and h.d_k * h.num_heads == h.d_model
    for name, variable in variables.items():
        assert "attention" in name and name.endswith("bias") and not np.any(variable)


def scale_and_shift(name, residual):
    norm = residual.layer_norm
    return {f"{name}/gamma": norm.gamma, f"{name}/beta": norm.beta}


def encoded(layers, x):
    for layer in layers:
        x = layer(x, padding_mask=INPUTS != 0)
    return x


def decoded(layers, x, memory):
    for layer in layers:
        x = layer(x, memory, encoder_padding_mask=INPUTS != 0)
    return x


def test_an_encoder_layer_and_its_gradient(model):
    layer, seen = model.encoder.layers[0], (INPUTS != 0)[..., None]
    twin, x = encoder_twin(layer), tf.constant(MEMORY)
    outputs = []
    for call in (
        lambda: layer(x, padding_mask(INPUTS))[0],
        lambda: encoded([twin], x),
    ):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = call() * seen
            loss = tf.reduce_sum(tf.sin(output))
        outputs.append((output, tape.gradient(loss, x)))
    for one, other in zip(*outputs):
        np.testing.assert_allclose(one, other, atol=TOLERANCE)


def test_a_decoder_layer(model):
    layer = model.decoder.layers[0]
    found = layer(X, MEMORY, causal_mask(4), padding_mask(INPUTS))[0]
    expected = decoded([decoder_twin(layer)], X, MEMORY)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)


def test_a_whole_model(model):
    """Theirs between our embeddings and our softmax; with pre-norm our last normalisations too."""
    encoders = [encoder_twin(layer) for layer in model.encoder.layers]
    decoders = [decoder_twin(layer) for layer in model.decoder.layers]
    memory = encoded(encoders, model.source_positions(model.source_embedding(INPUTS)))
    memory = model.encoder.final_norm(memory) if model.encoder.final_norm else memory
    shifted = np.pad(TARGETS[:, :-1], [(0, 0), (1, 0)])
    x = decoded(decoders, model.target_positions(model.target_embedding(shifted)), memory)
    x = model.decoder.final_norm(x) if model.decoder.final_norm else x
    logits = model.softmax.logits(x)
    np.testing.assert_allclose(model(INPUTS, TARGETS), logits, atol=TOLERANCE)
