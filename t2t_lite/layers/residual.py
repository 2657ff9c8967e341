"""The residual connection with its normalisation, around every sub-layer (section 3.1)."""

import keras

from t2t_lite.layers.dropout import Dropout


def layer_normalization(policy, name):
    """Layer normalisation as all of the model has it; statistics are float32 under any policy."""
    return keras.layers.LayerNormalization(epsilon=1e-6, dtype=policy, name=name)


class Residual(keras.Layer):
    """What surrounds every sub-layer.

    post, the paper's: LayerNorm(x + Dropout(Sublayer(x))).
    pre: x + Dropout(Sublayer(LayerNorm(x))).

    Args:
        norm: "post" or "pre".
        dropout: P_drop (section 5.4).

    Call arguments:
        x: [..., D].
        sublayer: function from [..., D] to [..., D], or to a tuple that begins with it.
        seeds: DropoutSeeds in training, else None.

    Returns:
        [..., D], or a tuple of that and of what else the sub-layer returned.
    """

    def __init__(self, norm="post", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.norm, self.dropout_rate = norm, dropout
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.layer_norm = layer_normalization(self.dtype_policy, "layer_norm")

    def build(self, input_shape):
        """Builds the normalisation for inputs [..., D]."""
        self.layer_norm.build(input_shape)

    def call(self, x, sublayer, seeds=None):
        """Adds the sub-layer's output to its input."""
        output = sublayer(self.layer_norm(x) if self.norm == "pre" else x)
        y, *others = output if isinstance(output, tuple) else (output,)
        x = x + self.dropout(y, seeds=seeds)
        x = self.layer_norm(x) if self.norm == "post" else x
        return (x, *others) if others else x

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "norm": self.norm, "dropout": self.dropout_rate}
