"""The decoder: self-attention, cross-attention and feed-forward network (section 3.1)."""

import keras
from keras import ops

from t2t_lite.config import HParams
from t2t_lite.layers.attention import MultiHeadAttention, causal_mask
from t2t_lite.layers.feed_forward import PositionwiseFeedForward
from t2t_lite.layers.fields import model_fields
from t2t_lite.layers.residual import Residual, layer_normalization


class DecoderLayer(keras.Layer):
    """Three sub-layers, each in its residual connection (Figure 1, right).

    Args:
        hparams: HParams.

    Call arguments:
        x: [B, T, D].
        memory: [B, S, D], the encoder's output.
        self_mask: bool, broadcast to [B, 1, T, T], `causal_mask`.
        cross_mask: bool [B, 1, 1, S], `padding_mask` of the source, or [B, 1, T, S].
        cross_penalty: subtracted from the scores of the cross-attention, broadcast to [B, H, T, S].
        seeds: DropoutSeeds in training, else None.

    Returns:
        ([B, T, D], the weights of the self-attention, float32 [B, H, T, T], and of the
        cross-attention, float32 [B, H, T, S]).
    """

    def __init__(self, hparams, **kwargs):
        super().__init__(**kwargs)
        self.hparams = h = HParams.of(hparams)
        policy = self.dtype_policy

        def attention(name):
            return MultiHeadAttention(
                h.num_heads, h.d_k, h.d_v, h.attention_dropout, dtype=policy, name=name
            )

        def residual(name):
            return Residual(h.norm, h.dropout, dtype=policy, name=name)

        self.self_attention = attention("self_attention")
        self.self_attention_residual = residual("self_attention_residual")
        self.cross_attention = attention("cross_attention")
        self.cross_attention_residual = residual("cross_attention_residual")
        self.feed_forward = PositionwiseFeedForward(
            h.d_ff, h.relu_dropout, dtype=policy, name="feed_forward"
        )
        self.feed_forward_residual = residual("feed_forward_residual")

    def build(self, input_shape):
        """Builds the sub-layers for inputs [..., D]."""
        for part in (
            self.self_attention, self.self_attention_residual,
            self.cross_attention, self.cross_attention_residual,
            self.feed_forward, self.feed_forward_residual,
        ):  # fmt: skip
            part.build(input_shape)

    def call(self, x, memory, self_mask, cross_mask, cross_penalty=0.0, seeds=None):
        """Attends to x itself and to the memory."""

        def self_attention(y):
            return self.self_attention(y, y, self_mask, seeds=seeds)

        def cross_attention(y):
            return self.cross_attention(y, memory, cross_mask, penalty=cross_penalty, seeds=seeds)

        return self.sublayers(x, self_attention, cross_attention, seeds)

    def sublayers(self, x, self_attention, cross_attention, seeds=None):
        """The order of Figure 1, whatever the attentions read from: a whole output, or a cache.

        Args:
            x: [..., D].
            self_attention: function from [..., D] to a pair of [..., D] and what is handed on.
            cross_attention: likewise.
            seeds: DropoutSeeds in training, else None.

        Returns:
            ([..., D], what `self_attention` handed on, what `cross_attention` did).
        """
        x, of_self = self.self_attention_residual(x, sublayer=self_attention, seeds=seeds)
        x, of_cross = self.cross_attention_residual(x, sublayer=cross_attention, seeds=seeds)
        x = self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, seeds=seeds), seeds=seeds
        )
        return x, of_self, of_cross

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "hparams": model_fields(self.hparams)}


class Decoder(keras.Layer):
    """N decoder layers; with pre-norm a final normalisation too.

    Args:
        hparams: HParams.

    Call arguments:
        x: [B, T, D].
        memory: [B, S, D].
        cross_mask: bool [B, 1, 1, S], or [B, 1, T, S].
        cross_penalty: subtracted from the scores of the cross-attention, broadcast to [B, H, T, S].
        self_mask: bool, broadcast to [B, 1, T, T]: what of the positions up to it each one sees.
        seeds: DropoutSeeds in training, else None.
        return_attention: whether to hand on each layer's weights.

    Returns:
        [B, T, D]; with return_attention a triple of that and of two lists: each layer's weights of
        the self-attention, float32 [B, H, T, T], and of the cross-attention, float32 [B, H, T, S].
    """

    def __init__(self, hparams, **kwargs):
        super().__init__(**kwargs)
        self.hparams = h = HParams.of(hparams)
        policy = self.dtype_policy
        self.layers = [
            DecoderLayer(h, dtype=policy, name=f"layer_{i}") for i in range(h.num_decoder_layers)
        ]
        self.final_norm = layer_normalization(policy, "final_norm") if h.norm == "pre" else None

    def build(self, input_shape):
        """Builds the layers for inputs [..., D]."""
        for layer in self.layers:
            layer.build(input_shape)
        if self.final_norm:
            self.final_norm.build(input_shape)

    def call(
        self, x, memory, cross_mask, cross_penalty=0.0, self_mask=None, seeds=None,
        return_attention=False,
    ):  # fmt: skip
        """Runs the layers one after the other."""
        causal, of_self, of_cross = causal_mask(ops.shape(x)[1]), [], []
        self_mask = causal if self_mask is None else ops.logical_and(causal, self_mask)
        for layer in self.layers:
            x, self_weights, cross_weights = layer(
                x, memory, self_mask, cross_mask, cross_penalty=cross_penalty, seeds=seeds
            )
            if return_attention:  # else none of them outlives its layer
                of_self.append(self_weights)
                of_cross.append(cross_weights)
        x = self.final_norm(x) if self.final_norm else x
        return (x, of_self, of_cross) if return_attention else x

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "hparams": model_fields(self.hparams)}
