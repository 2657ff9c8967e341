"""The recurrent layer against its formula and against Keras' own GRU."""

import keras
import numpy as np
import numpy_transformer as oracle
import pytest
from layer_checks import randomise, weights

from t2t_lite.layers.recurrent import Recurrent

IDS = np.array([[5, 7, 4, 9, 1], [8, 3, 1, 0, 0]], np.int32)
MASK = (IDS != 0)[:, None, None]


def built(d_model):
    layer = Recurrent()
    layer.build((None, None, d_model))
    x = np.random.default_rng(1).normal(size=(2, 5, d_model)).astype(np.float32)
    return randomise(layer), x


@pytest.mark.parametrize("d_model", [6, 7])
def test_equals_numpy(d_model):
    layer, x = built(d_model)
    found, attention = layer(x, MASK, return_attention=True)
    expected = oracle.recurrent(x, MASK[:, 0], weights(layer))
    np.testing.assert_allclose(found.numpy()[IDS != 0], expected[IDS != 0], atol=1e-5)
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
