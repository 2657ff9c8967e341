"""An attention of made-up weights, as a model with two layers and three heads would have it."""

import numpy as np
import pytest

from t2t_lite.attention import Attention

SOURCE = ["\u2581the", "\u2581snow", "\u2581mel", "t", "s", "</s>"]
TARGET = ["\u2581der", "\u2581Schnee", "\u2581schmilzt", "</s>"]


def weights(seed, rows, columns, mask=1.0):
    powers = np.random.default_rng(seed).random((2, 3, rows, columns)).astype(np.float32) ** 6
    powers *= mask
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="session")
def attention():
    source, target = len(SOURCE), len(TARGET)
    return Attention(
        weights(1, target, source),
        SOURCE,
        TARGET,
        weights(2, source, source),
        weights(3, target, target, np.tril(np.ones((target, target), np.float32))),
        ["<pad>", *TARGET[:-1]],
    )
