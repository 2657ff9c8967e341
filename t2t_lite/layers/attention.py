"""Scaled dot-product and multi-head attention (section 3.2)."""

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.linear import Linear, reshape

# Subtracted from a score that is masked; finite, so that a row with all masked is uniform, not NaN.
MASKED = 1e9


class AttentionWeights(NamedTuple):
    """Where a model looked, by the three uses that it makes of attention (section 3.2.3).

    Each has a tensor for each layer, first to last, float32, whose rows sum to 1 but for those of
    padding, which mean nothing.

    Attributes:
        encoder: [B, H, S, S], where each source symbol looked in the source; none of a layer
            without self-attention.
        decoder: [B, H, T, T], where what is read at each place looked among what is read up to it.
        cross: [B, H, T, S], where each target symbol looked in the source as it was predicted.
    """

    encoder: list[Any]
    decoder: list[Any]
    cross: list[Any]


def padding_mask(ids):
    """[B, S] ids -> bool [B, 1, 1, S]: True where a symbol stands, False at padding (id 0)."""
    return ops.not_equal(ids, 0)[:, None, None, :]


def causal_mask(length):
    """-> bool [1, 1, T, T]: position i may attend to positions up to i (section 3.2.3)."""
    positions = ops.arange(length)
    return (positions[None, :] <= positions[:, None])[None, None]


def scaled_dot_product_attention(queries, keys, values, mask=True, penalty=0.0, dropout=None):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (Eq. 1).

    Args:
        queries: [..., T, d_k].
        keys: [..., S, d_k].
        values: [..., S, d_v].
        mask: bool, broadcast to [..., T, S]; True: may be attended to.
        penalty: subtracted from the scores; broadcast to [..., T, S].
        dropout: function applied to the attention weights, or None.

    Returns:
        ([..., T, d_v], attention weights float32 [..., T, S]).
    """
    scores = scaled(queries) @ ops.swapaxes(keys, -1, -2)
    weights = attention_weights(scores, mask, penalty)
    used = ops.cast(weights, values.dtype)
    used = dropout(used) if dropout else used
    return used @ values, weights


def scaled(queries):
    """Q / sqrt(d_k), [..., T, d_k]: fewer products than to divide the scores."""
    return queries * (1.0 / math.sqrt(queries.shape[-1]))


def attention_weights(scores, mask=True, penalty=0.0):
    """softmax(scores) in float32 over what may be attended to; all [..., T, S]."""
    return ops.softmax(ops.cast(scores, "float32") - not_attended(mask, penalty), axis=-1)


def not_attended(mask, penalty=0.0):
    """What is subtracted from scores for the mask and the penalty, float32.

    Subtracted, since TensorFlow on a CPU makes of a product and an addition one operation, which is
    180 times as slow for a causal mask.
    """
    return ops.where(mask, ops.cast(penalty, "float32"), MASKED)


class MultiHeadAttention(keras.Layer):
    """Several attentions beside each other (section 3.2.2).

    Concat(head_1, ..., head_h) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Args:
        num_heads: h.
        d_k: width of each head's queries and keys.
        d_v: width of each head's values.
        dropout: rate on the attention weights; the paper has none.

    Call arguments:
        x: [B, T, D], what asks.
        memory: [B, S, D], what is attended to; x itself in self-attention.
        mask: bool, broadcast to [B, H, T, S], as `padding_mask` and `causal_mask` make it.
        penalty: subtracted from the scores; broadcast to [B, H, T, S].
        seeds: DropoutSeeds in training, else None.

    Returns:
        ([B, T, D], attention weights float32 [B, H, T, S]).
    """

    def __init__(self, num_heads, d_k, d_v, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.d_k, self.d_v = num_heads, d_k, d_v
        self.dropout_rate = dropout
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Makes the projections for inputs [..., D]."""

        def projection(units, name, width):
            layer = Linear(units, use_bias=False, dtype=self.dtype_policy, name=name)
            layer.build((None, None, width))
            return layer

        d_model = input_shape[-1]
        self.query = projection(self.num_heads * self.d_k, "query", d_model)
        self.key = projection(self.num_heads * self.d_k, "key", d_model)
        self.value = projection(self.num_heads * self.d_v, "value", d_model)
        self.output_projection = projection(d_model, "output", self.num_heads * self.d_v)

    def call(self, x, memory, mask, penalty=0.0, seeds=None):
        """Projects, and attends."""
        keys, values = self.project_memory(memory)
        return self.attend(self.project_queries(x), keys, values, mask, penalty, seeds)

    def project_queries(self, x):
        """[..., T, D] -> queries [..., H, T, d_k]."""
        return self._split_heads(self.query(x))

    def project_memory(self, memory):
        """[..., S, D] -> keys [..., H, S, d_k], values [..., H, S, d_v]."""
        return self._split_heads(self.key(memory)), self._split_heads(self.value(memory))

    def attend(self, queries, keys, values, mask, penalty=0.0, seeds=None):
        """As `call`, of what is projected already."""
        heads, weights = scaled_dot_product_attention(
            queries, keys, values, mask, penalty, lambda weights: self.dropout(weights, seeds=seeds)
        )
        return self.join_heads(heads), weights

    def join_heads(self, heads):
        """Concat(head_1, ..., head_h) W^O: [..., H, T, d_v] -> [..., T, D]."""
        heads = ops.swapaxes(heads, -3, -2)  # [..., T, H, d_v]
        sizes = ops.shape(heads)[:-2]
        return self.output_projection(reshape(heads, *sizes, self.num_heads * self.d_v))

    def _split_heads(self, x):
        """[..., T, H * K] -> [..., H, T, K]."""
        sizes = (*ops.shape(x)[:-1], self.num_heads, x.shape[-1] // self.num_heads)
        return ops.swapaxes(reshape(x, *sizes), -3, -2)

    def get_config(self):
        """What the constructor takes."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "dropout": self.dropout_rate,
        }


class SelfAttention(MultiHeadAttention):
    """Every position sees every other one; the first of the layer types of Table 1: O(n^2 d).

    Call arguments:
        x: [B, S, D].
        mask: bool [B, 1, 1, S], `padding_mask`, or [B, 1, S, S], `segments.segment_mask`.
        seeds: DropoutSeeds in training, else None.
        return_attention: whether to hand on the weights.

    Returns:
        ([B, S, D], attention weights float32 [B, H, S, S], or None).
    """

    def call(self, x, mask, seeds=None, return_attention=False):
        """Attends to x itself."""
        x, weights = super().call(x, x, mask, seeds=seeds)
        return x, weights if return_attention else None
