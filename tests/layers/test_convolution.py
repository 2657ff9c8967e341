"""The convolution against NumPy."""

import numpy as np
import numpy_transformer as oracle
import pytest
from layer_checks import randomise, weights

from t2t_lite.layers.convolution import Convolution

D = 6
IDS = np.array([[5, 7, 4, 9, 1], [8, 1, 0, 0, 0]], np.int32)
X = np.random.default_rng(1).normal(size=(2, 5, D)).astype(np.float32)
MASK = (IDS != 0)[:, None, None]


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4, 9])
def test_equals_numpy(kernel_size):
    layer = Convolution(kernel_size)
    layer.build((None, None, D))
    randomise(layer)
    found, attention = layer(X, MASK, return_attention=True)
    expected = oracle.convolution(X, MASK[:, 0], weights(layer))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert attention is None
