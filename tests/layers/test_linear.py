"""Linear against Keras's own Dense, and its few operations."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import operations, randomise

from t2t_lite.layers.linear import Linear, reshape

X = np.random.default_rng(1).normal(size=(2, 5, 3, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def layer():
    layer = Linear(4, activation="relu")
    layer.build((None, 8))
    return randomise(layer)


@pytest.mark.parametrize("x", [X[0, 0], X[0], X], ids=["rank 2", "rank 3", "rank 4"])
def test_equals_dense(layer, x):
    dense = keras.layers.Dense(4, activation="relu")
    dense.build((None, 8))
    dense.set_weights(layer.get_weights())
    np.testing.assert_allclose(layer(x), dense(x), atol=1e-6)


def test_one_unknown_size_costs_no_operation(layer):
    kinds = [kind for kind, _ in operations(layer, tf.TensorSpec([None, 3, 8]))]
    assert kinds.count("Reshape") == 2 and not {"Prod", "GatherV2", "Transpose", "ConcatV2"} & set(
        kinds
    )


def test_an_unknown_size_of_nothing():
    function = tf.function(lambda x: reshape(x, tf.shape(x)[0], 0, 6))
    assert function.get_concrete_function(tf.TensorSpec([None, 0, 3]))(
        tf.zeros([4, 0, 3])
    ).shape == (4, 0, 6)


def test_several_unknown_sizes(layer):
    function = tf.function(lambda x: (layer(x), reshape(x, *keras.ops.shape(x)[:-1], 2, 4)))
    y, z = function.get_concrete_function(tf.TensorSpec([None, None, None, 8]))(tf.constant(X))
    np.testing.assert_allclose(y, layer(X), atol=1e-6)
    assert z.shape == (2, 5, 3, 2, 4)
