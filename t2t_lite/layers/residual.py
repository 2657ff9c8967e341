"""The residual connection with its normalisation, around every sub-layer (section 3.1)."""

import keras

from t2t_lite.layers.dropout import Dropout


def layer_normalization(policy, name):
    """Layer normalisation as all of the model uses it; its statistics are float32 under any dtype policy."""
    return keras.layers.LayerNormalization(epsilon=1e-6, dtype=policy, name=name)


class Residual(keras.Layer):
    """post: LayerNorm(x + Dropout(Sublayer(x))), the paper's; pre: x + Dropout(Sublayer(LayerNorm(x))).

    Args:
        norm: "post" or "pre".
        dropout: P_drop (section 5.4).

    Call arguments:
        x: [..., D].
        sublayer: function from [..., D] to [..., D].
        seeds: DropoutSeeds in training, else None.

    Returns:
        [..., D].

    """

    def __init__(self, norm="post", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.norm, self.dropout_rate = norm, dropout
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.layer_norm = layer_normalization(self.dtype_policy, "layer_norm")

    def build(self, input_shape):
        self.layer_norm.build(input_shape)

    def call(self, x, sublayer, seeds=None):
        if self.norm == "post":
            return self.layer_norm(x + self.dropout(sublayer(x), seeds=seeds))
        return x + self.dropout(sublayer(self.layer_norm(x)), seeds=seeds)

    def get_config(self):
        return {**super().get_config(), "norm": self.norm, "dropout": self.dropout_rate}
