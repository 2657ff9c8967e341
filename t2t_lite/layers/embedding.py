"""Embeddings, which the softmax may share (section 3.4), and positions (section 3.5)."""

import math

import keras
from keras import ops

from t2t_lite.layers.linear import reshape


class Embedding(keras.Layer):
    """A matrix E for embeddings, times sqrt(d_model), for pre-softmax logits, or for both (3.4).

    The embedding of padding (id 0) is the zero vector: the decoder's shifted input starts from it.

    Args:
        vocabulary_size: V.
        d_model: D.

    Call arguments:
        ids: int32 [...].

    Returns:
        [..., D].
    """

    def __init__(self, vocabulary_size, d_model, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size, self.d_model = vocabulary_size, d_model

    def build(self, input_shape=None):
        """Makes E; no shape of an input is needed."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
        )

    def call(self, ids):
        """Embeds."""
        vectors = ops.cast(ops.take(self.embeddings, ids, axis=0), self.compute_dtype)
        scale = ops.where(ops.equal(ids, 0), 0.0, math.sqrt(self.d_model))
        return vectors * ops.cast(scale, self.compute_dtype)[..., None]

    def logits(self, x):
        """[..., D] -> float32 [..., V]."""
        logits = ops.matmul(ops.reshape(x, (-1, self.d_model)), self.transposed())
        return ops.cast(reshape(logits, *ops.shape(x)[:-1], self.vocabulary_size), "float32")

    def transposed(self):
        """What states are multiplied with for their logits, [D, V]."""
        return ops.transpose(ops.cast(self.embeddings, self.compute_dtype))

    def get_config(self):
        """What the constructor takes."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "d_model": self.d_model,
        }


def sinusoids(positions, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos of the same (section 3.5).

    Args:
        positions: int32 [T].
        d_model: D.

    Returns:
        float32 [T, D], sines and cosines interleaved.
    """
    pairs = (d_model + 1) // 2
    wavelengths = ops.power(10000.0, ops.arange(pairs, dtype="float32") * (2.0 / d_model))
    angles = ops.cast(positions, "float32")[:, None] / wavelengths[None, :]
    interleaved = ops.reshape(
        ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1), (-1, 2 * pairs)
    )
    return interleaved[:, :d_model]


def sinusoid_halves(positions, d_model):
    """tensor2tensor's `get_timing_signal_1d`: sin(pos * t_i) for n = d_model // 2 i's, then cos.

    t_i = 10000^(-i / (n - 1)), where the paper has 10000^(-i / n). The last place of an odd
    d_model is 0.

    Args:
        positions: int32 [T].
        d_model: D.

    Returns:
        float32 [T, D].
    """
    count = d_model // 2
    rates = ops.exp(ops.arange(count, dtype="float32") * (-math.log(10000.0) / max(1, count - 1)))
    angles = ops.cast(positions, "float32")[:, None] * rates[None, :]
    halves = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.pad(halves, [[0, 0], [0, d_model % 2]])


class PositionalEncoding(keras.Layer):
    """Adds to each embedding what says where it stands (section 3.5).

    Args:
        kind: "sinusoidal"; "sinusoidal_halves", as in tensor2tensor; or "learned" (Table 3, row E).
        max_positions: rows of the learned table; a position beyond it reads the last row.

    Call arguments:
        x: [..., T, D].
        positions: int32 [T], any; or [B, T], each less than T; default 0 ... T-1.

    Returns:
        [..., T, D].
    """

    def __init__(self, kind="sinusoidal", max_positions=1024, **kwargs):
        super().__init__(**kwargs)
        self.kind, self.max_positions = kind, max_positions

    def build(self, input_shape):
        """Makes the table of learned encodings, if any, for inputs [..., D]."""
        if self.kind == "learned":
            d_model = input_shape[-1]
            self.table = self.add_weight(
                name="table",
                shape=(self.max_positions, d_model),
                initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
            )

    def call(self, x, positions=None):
        """Adds the positions' encodings."""
        if positions is None:
            positions = ops.arange(ops.shape(x)[-2])
        if len(positions.shape) == 1:
            return x + ops.cast(self._encoding(positions, x.shape[-1]), x.dtype)
        # Each is made once, not once for each place.
        encoding = ops.cast(self._encoding(ops.arange(ops.shape(x)[-2]), x.shape[-1]), x.dtype)
        return x + ops.take(encoding, positions, axis=0)

    def _encoding(self, positions, d_model):
        """int32 [T] -> float32 [T, D]."""
        if self.kind == "learned":
            return ops.take(self.table, ops.minimum(positions, self.max_positions - 1), axis=0)
        if self.kind == "sinusoidal":
            return sinusoids(positions, d_model)
        return sinusoid_halves(positions, d_model)

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "kind": self.kind, "max_positions": self.max_positions}


class TargetSpace(keras.Layer):
    """Adds one learned vector to every position: tensor2tensor's embedding of what is to be made.

    It chooses among 32 by the kind of the output, which is the same in all of a training.

    Call arguments:
        x: [..., D].

    Returns:
        [..., D].
    """

    def build(self, input_shape):
        """Makes the vector for inputs [..., D]."""
        d_model = input_shape[-1]
        initializer = keras.initializers.RandomNormal(stddev=d_model**-0.5)
        self.vector = self.add_weight(name="vector", shape=(d_model,), initializer=initializer)

    def call(self, x):
        """Adds it."""
        return x + ops.cast(self.vector, x.dtype)
