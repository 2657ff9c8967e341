"""The residual connection, post-norm and pre-norm, against NumPy."""

import numpy as np
import numpy_transformer as oracle
import pytest
import tensorflow as tf
from layer_checks import randomise, weights

from t2t_lite.layers.dropout import DropoutSeeds
from t2t_lite.layers.residual import Residual

X = np.random.default_rng(1).normal(loc=3, size=(2, 5, 8)).astype(np.float32)


def built(norm, *args, **kwargs):
    layer = Residual(norm, *args, **kwargs)
    layer.build((None, None, 8))
    return randomise(layer)


def squared(x):
    return x * x


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equals_numpy(norm):
    layer = built(norm)
    np.testing.assert_allclose(
        layer(X, sublayer=squared),
        oracle.residual(X.astype(np.float64), squared, weights(layer), norm),
        atol=1e-4,
    )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_what_else_the_sublayer_returns_is_handed_on(norm):
    layer = built(norm)
    x, first, second = layer(X, sublayer=lambda y: (y * y, y, "weights"))
    np.testing.assert_array_equal(x, layer(X, sublayer=squared))
    assert second == "weights"
    if norm == "post":
        np.testing.assert_array_equal(first, X)


def test_dropout_is_on_the_sublayers_output_alone():
    """Before the addition and, with post-norm, before the normalisation (section 5.4)."""

    def constant(y):
        return tf.ones_like(y)

    pre, post = built("pre", 0.5), built("post", 0.5)
    seed = tf.constant([1, 2])
    sums = pre(X, sublayer=constant, seeds=DropoutSeeds(seed)).numpy()
    zero = np.abs(sums - X) < 1e-5
    assert 0 < zero.mean() < 1
    np.testing.assert_allclose((sums - X)[~zero], 2, atol=1e-5)
    expected = oracle.layer_norm(sums, oracle.below(weights(post), "layer_norm"))
    np.testing.assert_allclose(
        post(X, sublayer=constant, seeds=DropoutSeeds(seed)), expected, atol=1e-5
    )
