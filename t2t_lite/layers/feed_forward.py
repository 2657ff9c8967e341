"""The position-wise feed-forward network (section 3.3)."""

import keras

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.linear import Linear


class PositionwiseFeedForward(keras.Layer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, the same at every position (Eq. 2).

    Args:
        d_ff: inner width.
        dropout: rate after the ReLU; the paper has none.

    Call arguments:
        x: [..., D].
        seeds: DropoutSeeds in training, else None.

    Returns:
        [..., D].
    """

    def __init__(self, d_ff, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.d_ff = d_ff
        self.dropout_rate = dropout
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Makes both linear maps for inputs [..., D]."""
        d_model = input_shape[-1]
        self.inner = Linear(self.d_ff, activation="relu", dtype=self.dtype_policy, name="inner")
        self.inner.build((None, d_model))
        self.outer = Linear(d_model, dtype=self.dtype_policy, name="outer")
        self.outer.build((None, self.d_ff))

    def call(self, x, seeds=None):
        """Applies both."""
        return self.outer(self.dropout(self.inner(x), seeds=seeds))

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "d_ff": self.d_ff, "dropout": self.dropout_rate}
