"""The encoder: identical layers of self-attention and feed-forward network (section 3.1).

In place of self-attention there can be another layer type of Table 1.
"""

import keras

from t2t_lite.config import HParams
from t2t_lite.layers.attention import SelfAttention
from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.feed_forward import PositionwiseFeedForward
from t2t_lite.layers.fields import model_fields
from t2t_lite.layers.recurrent import Recurrent
from t2t_lite.layers.residual import Residual, layer_normalization
from t2t_lite.layers.restricted_attention import RestrictedSelfAttention


def mixing_layer(hparams, **kwargs):
    """The layer in which positions learn of each other, of the type that hparams name.

    All types have one interface, that of `SelfAttention`.
    """
    h, kind = hparams, hparams.encoder_layer
    heads = h.num_heads, h.d_k, h.d_v, h.attention_dropout
    if kind == "self_attention":
        return SelfAttention(*heads, **kwargs)
    if kind == "restricted_self_attention":
        return RestrictedSelfAttention(h.neighbourhood, *heads, **kwargs)
    if kind == "convolution":
        return Convolution(h.kernel_size, **kwargs)
    return Recurrent(**kwargs)


class EncoderLayer(keras.Layer):
    """Two sub-layers, each in its residual connection (Figure 1, left).

    Args:
        hparams: HParams; the type, widths, heads, rates and the place of the normalisation.

    Call arguments:
        x: [B, S, D].
        mask: bool [B, 1, 1, S], `padding_mask` of the source; of self-attention [B, 1, S, S], too.
        seeds: DropoutSeeds in training, else None.
        return_attention: whether to hand on the weights.

    Returns:
        ([B, S, D], attention weights float32 [B, H, S, S], or None).
    """

    def __init__(self, hparams, **kwargs):
        super().__init__(**kwargs)
        self.hparams = h = HParams.of(hparams)
        policy = self.dtype_policy
        self.mixing = mixing_layer(h, dtype=policy, name=h.encoder_layer)
        self.mixing_residual = Residual(
            h.norm, h.dropout, dtype=policy, name=f"{h.encoder_layer}_residual"
        )
        self.feed_forward = PositionwiseFeedForward(
            h.d_ff, h.relu_dropout, dtype=policy, name="feed_forward"
        )
        self.feed_forward_residual = Residual(
            h.norm, h.dropout, dtype=policy, name="feed_forward_residual"
        )

    def build(self, input_shape):
        """Builds the sub-layers for inputs [..., D]."""
        for part in (
            self.mixing, self.mixing_residual,
            self.feed_forward, self.feed_forward_residual,
        ):  # fmt: skip
            part.build(input_shape)

    def call(self, x, mask, seeds=None, return_attention=False):
        """Runs both sub-layers."""

        def mixing(y):
            return self.mixing(y, mask, seeds=seeds, return_attention=return_attention)

        x, weights = self.mixing_residual(x, sublayer=mixing, seeds=seeds)
        x = self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, seeds=seeds), seeds=seeds
        )
        return x, weights

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "hparams": model_fields(self.hparams)}


class Encoder(keras.Layer):
    """N encoder layers; with pre-norm a final normalisation too.

    Arguments as `EncoderLayer`'s.

    Returns:
        [B, S, D]; with return_attention a pair of that and a list of float32 [B, H, S, S], one for
        each layer, or none where they have no attention.
    """

    def __init__(self, hparams, **kwargs):
        super().__init__(**kwargs)
        self.hparams = h = HParams.of(hparams)
        policy = self.dtype_policy
        self.layers = [
            EncoderLayer(h, dtype=policy, name=f"layer_{i}") for i in range(h.num_encoder_layers)
        ]
        self.final_norm = layer_normalization(policy, "final_norm") if h.norm == "pre" else None

    def build(self, input_shape):
        """Builds the layers for inputs [..., D]."""
        for layer in self.layers:
            layer.build(input_shape)
        if self.final_norm:
            self.final_norm.build(input_shape)

    def call(self, x, mask, seeds=None, return_attention=False):
        """Runs the layers one after the other."""
        attention = []
        for layer in self.layers:
            x, weights = layer(x, mask, seeds=seeds, return_attention=return_attention)
            if weights is not None:
                attention.append(weights)
        x = self.final_norm(x) if self.final_norm else x
        return (x, attention) if return_attention else x

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "hparams": model_fields(self.hparams)}
