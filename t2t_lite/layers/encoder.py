"""The encoder: identical layers of self-attention and feed-forward network (section 3.1)."""

import keras

from t2t_lite.config import HParams
from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.feed_forward import PositionwiseFeedForward
from t2t_lite.layers.fields import model_fields
from t2t_lite.layers.residual import Residual, layer_normalization


class EncoderLayer(keras.Layer):
    """Two sub-layers, each in its residual connection (Figure 1, left).

    Args:
        hparams: HParams; widths, heads, rates and the place of the normalisation.

    Call arguments:
        x: [B, S, D].
        mask: bool [B, 1, 1, S], `padding_mask` of the source.
        seeds: DropoutSeeds in training, else None.

    Returns:
        ([B, S, D], attention weights float32 [B, H, S, S]).
    """

    def __init__(self, hparams, **kwargs):
        super().__init__(**kwargs)
        self.hparams = h = HParams.of(hparams)
        policy = self.dtype_policy
        self.self_attention = MultiHeadAttention(
            h.num_heads, h.d_k, h.d_v, h.attention_dropout, dtype=policy, name="self_attention"
        )
        self.self_attention_residual = Residual(
            h.norm, h.dropout, dtype=policy, name="self_attention_residual"
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
            self.self_attention, self.self_attention_residual,
            self.feed_forward, self.feed_forward_residual,
        ):  # fmt: skip
            part.build(input_shape)

    def call(self, x, mask, seeds=None):
        """Runs both sub-layers."""
        x, weights = self.self_attention_residual(
            x, sublayer=lambda y: self.self_attention(y, y, mask, seeds=seeds), seeds=seeds
        )
        x = self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, seeds=seeds), seeds=seeds
        )
        return x, weights

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "hparams": model_fields(self.hparams)}


class Encoder(keras.Layer):
    """N encoder layers; with pre-norm a final normalisation too.

    Arguments as `EncoderLayer`'s, and return_attention: whether to hand on each layer's weights.

    Returns:
        [B, S, D]; with return_attention a pair of that and a list of float32 [B, H, S, S].
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
            x, weights = layer(x, mask, seeds=seeds)
            if return_attention:  # else none of them outlives its layer
                attention.append(weights)
        x = self.final_norm(x) if self.final_norm else x
        return (x, attention) if return_attention else x

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "hparams": model_fields(self.hparams)}
