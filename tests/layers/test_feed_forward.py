"""The feed-forward network against NumPy."""

import numpy as np
import numpy_transformer as oracle
import tensorflow as tf
from layer_checks import randomise, weights

from t2t_lite.layers.dropout import DropoutSeeds
from t2t_lite.layers.feed_forward import PositionwiseFeedForward

X = np.random.default_rng(1).normal(size=(2, 3, 8)).astype(np.float32)


def built(**kwargs):
    layer = PositionwiseFeedForward(20, **kwargs)
    layer.build((None, None, 8))
    return randomise(layer)


def test_equals_numpy():
    layer = built()
    np.testing.assert_allclose(layer(X), oracle.feed_forward(X, weights(layer)), atol=1e-5)


def test_each_position_is_on_its_own():
    layer = built()
    np.testing.assert_allclose(layer(X)[:, ::-1], layer(X[:, ::-1]), atol=1e-6)
    np.testing.assert_allclose(layer(X)[:, 0], layer(X[:, 0]), atol=1e-6)


def test_dropout_is_after_the_relu():
    layer = PositionwiseFeedForward(8, dropout=0.5)
    layer.build((None, None, 8))
    for part in (layer.inner, layer.outer):
        part.kernel.assign(np.eye(8))
    layer.outer.bias.assign(np.full(8, 5.0))  # beyond the dropout
    dropped = layer(np.abs(X), seeds=DropoutSeeds(tf.constant([1, 2]))).numpy() - 5
    zero = np.abs(dropped) < 1e-6
    assert 0 < zero.mean() < 1
    np.testing.assert_allclose(dropped[~zero], 2 * np.abs(X)[~zero], atol=1e-5)
