"""The recurrent layer against its formula and against Keras' own GRU."""

import keras
import numpy as np
import numpy_transformer as oracle
import pytest
import tensorflow as tf
from layer_checks import randomise, weights

from t2t_lite.layers.recurrent import Recurrent, states

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


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_states_and_their_gradients_are_those_of_keras_gru(backwards, xla):
    random = np.random.default_rng(1)
    x, kernel, upstream = (
        tf.constant(random.normal(size=shape), tf.float32)
        for shape in ((5, 2, 12), (4, 12), (5, 2, 4))
    )
    gru = keras.layers.GRU(4, return_sequences=True, go_backwards=backwards)
    gru.build((None, None, 12))
    gru.set_weights([np.eye(12), kernel, np.zeros([2, 12])])  # our inputs are projected

    with tf.GradientTape() as tape:
        tape.watch(x)
        expected = tf.transpose(gru(tf.transpose(x, [1, 0, 2])), [1, 0, 2])
        expected = expected[::-1] if backwards else expected
    variables = [x, gru.trainable_weights[1].value]
    of_theirs = tape.gradient(expected, variables, output_gradients=upstream)

    @tf.function(jit_compile=xla, input_signature=[tf.TensorSpec([None, None, 12])])
    def ours(x):
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            found = states(x, kernel, backwards)
        return found, tape.gradient(found, [x, kernel], output_gradients=upstream)

    found, of_ours = ours(x)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for one, other in zip(of_ours, of_theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_each_output_knows_of_every_input():
    layer, x = built(8)
    changed = x[:1].copy()
    changed[0, 2] += 1
    difference = np.abs(layer(changed, MASK[:1])[0] - layer(x[:1], MASK[:1])[0])
    assert np.all(difference[0].max(axis=-1) > 1e-4)


def test_has_no_variables_but_weights():
    layer, _ = built(8)
    assert len(layer.variables) == len(layer.trainable_variables) == 6
