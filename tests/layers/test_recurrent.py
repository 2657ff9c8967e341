"""The recurrent layer against its formula and against Keras' own GRU."""

import keras
import numpy as np
import pytest
from layer_checks import randomise, weights

from t2t_lite.layers.recurrent import Recurrent

IDS = np.array([[5, 7, 4, 9, 1], [8, 3, 1, 0, 0]], np.int32)
MASK, LENGTHS = (IDS != 0)[:, None, None], [5, 3]


def built(d_model):
    layer = Recurrent()
    layer.build((None, None, d_model))
    x = np.random.default_rng(1).normal(size=(2, 5, d_model)).astype(np.float32)
    return randomise(layer), x


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def read(x, w, name):
    """[S, D] -> [S, U], from the first row to the last."""
    projected = x @ w[f"{name}_input/kernel"] + w[f"{name}_input/bias"]
    u_z, u_r, u_c = np.split(w[f"{name}/unit/state/kernel"], 3, axis=1)
    state, states = np.zeros(len(u_z)), []
    for x_z, x_r, x_c in (np.split(row, 3) for row in projected):
        z, r = sigmoid(x_z + state @ u_z), sigmoid(x_r + state @ u_r)
        state = z * state + (1 - z) * np.tanh(x_c + r * (state @ u_c))
        states.append(state)
    return np.array(states)


@pytest.mark.parametrize("d_model", [6, 7])
def test_equals_numpy(d_model):
    layer, x = built(d_model)
    w = weights(layer)
    found, attention = layer(x, MASK, return_attention=True)
    for row, length in enumerate(LENGTHS):
        line = x[row, :length]
        backward = read(line[::-1], w, "backward")[::-1]
        expected = np.concatenate([read(line, w, "forward"), backward], axis=1)
        np.testing.assert_allclose(found[row, :length], expected, atol=1e-5)
    assert attention is None


def test_equals_keras_gru():
    layer, x = built(8)
    w = weights(layer)
    gru = keras.layers.GRU(4, return_sequences=True)
    gru.build((None, None, 8))
    bias = w["forward_input/bias"]
    gru.set_weights(
        [w["forward_input/kernel"], w["forward/unit/state/kernel"], np.stack([bias, 0 * bias])]
    )
    np.testing.assert_allclose(layer(x[:1], MASK[:1])[0][..., :4], gru(x[:1]), atol=1e-6)


def test_each_output_knows_of_every_input():
    layer, x = built(8)
    changed = x[:1].copy()
    changed[0, 2] += 1
    difference = np.abs(layer(changed, MASK[:1])[0] - layer(x[:1], MASK[:1])[0])
    assert np.all(difference[0].max(axis=-1) > 1e-4)


def test_has_no_variables_but_weights():
    layer, _ = built(8)
    assert len(layer.variables) == len(layer.trainable_variables) == 6
