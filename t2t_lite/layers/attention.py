"""Scaled dot-product and multi-head attention (section 3.2)."""

import math

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.linear import Linear, reshape

# What a score loses where attention is not allowed. Finite, so that a row in which everything is masked becomes a uniform
# distribution and not NaN.
MASKED = 1e9


def padding_mask(ids):
    """[B, S] ids -> bool [B, 1, 1, S]: True where a symbol stands, False at padding (id 0)."""
    return ops.not_equal(ids, 0)[:, None, None, :]


def causal_mask(length):
    """-> bool [1, 1, T, T]: position i may attend to positions up to and including i (section 3.2.3)."""
    positions = ops.arange(length)
    return (positions[None, :] <= positions[:, None])[None, None]


def scaled_dot_product_attention(queries, keys, values, mask, dropout=None):
    """softmax(Q K^T / sqrt(d_k)) V (Eq. 1), the softmax in float32.

    Args:
        queries: [..., T, d_k].
        keys: [..., S, d_k], or a list of such, which together are S long; the graph knows the lengths of all but the first.
        values: [..., S, d_v], or likewise.
        mask: broadcast to [..., T, S]; bool, False where attention is not allowed, or float32, what the scores lose.
        dropout: function applied to the attention weights, or None.

    Returns:
        ([..., T, d_v], attention weights float32 [..., T, S]).

    """
    keys, values = (parts if isinstance(parts, list) else [parts] for parts in (keys, values))
    queries = queries * (1.0 / math.sqrt(queries.shape[-1]))
    scores = _concatenated([ops.matmul(queries, ops.swapaxes(part, -1, -2)) for part in keys])
    loss = ops.where(mask, 0.0, MASKED) if mask.dtype == "bool" else ops.cast(mask, "float32")
    # Subtracted, since TensorFlow on a CPU makes of a product and an addition one operation, 180 times as slow for a causal mask.
    weights = ops.softmax(ops.cast(scores, "float32") - loss, axis=-1)
    used = ops.cast(weights, values[0].dtype)
    if dropout is not None:
        used = dropout(used)
    sums = []
    for part in reversed(values[1:]):
        sums.append(ops.matmul(used[..., -part.shape[-2] :], part))
        used = used[..., : -part.shape[-2]]
    return sum(sums, ops.matmul(used, values[0])), weights


def _concatenated(parts):
    return ops.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]


class MultiHeadAttention(keras.Layer):
    """Concat(head_1, ..., head_h) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (section 3.2.2).

    Args:
        num_heads: h.
        d_k: width of each head's queries and keys.
        d_v: width of each head's values.
        dropout: rate on the attention weights; the paper has none.

    Call arguments:
        x: [B, T, D], what asks.
        memory: [B, S, D], what is attended to; x itself in self-attention.
        mask: broadcast to [B, H, T, S]: bool (`padding_mask`, `causal_mask`), or float32, what the scores lose.
        seeds: DropoutSeeds in training, else None.

    Returns:
        [B, T, D].

    In decoding, keys and values are made once with `project_memory` and attended to with `attend`.

    """

    def __init__(self, num_heads, d_k, d_v, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.d_k, self.d_v = num_heads, d_k, d_v
        self.dropout_rate = dropout
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        def projection(units, name, width):
            layer = Linear(units, use_bias=False, dtype=self.dtype_policy, name=name)
            layer.build((None, None, width))
            return layer

        d_model = input_shape[-1]
        self.query = projection(self.num_heads * self.d_k, "query", d_model)
        self.key = projection(self.num_heads * self.d_k, "key", d_model)
        self.value = projection(self.num_heads * self.d_v, "value", d_model)
        self.output_projection = projection(d_model, "output", self.num_heads * self.d_v)

    def call(self, x, memory, mask, seeds=None):
        keys, values = self.project_memory(memory)
        return self.attend(self.project_queries(x), keys, values, mask, seeds)[0]

    def project_queries(self, x):
        """[..., T, D] -> queries [..., H, T, d_k]."""
        return self._split_heads(self.query(x))

    def project_memory(self, memory):
        """[..., S, D] -> keys [..., H, S, d_k], values [..., H, S, d_v]."""
        return self._split_heads(self.key(memory)), self._split_heads(self.value(memory))

    def attend(self, queries, keys, values, mask, seeds=None):
        """Queries [..., H, T, d_k], keys, values (or lists of parts) -> ([..., T, D], attention weights [..., H, T, S])."""
        heads, weights = scaled_dot_product_attention(
            queries, keys, values, mask, lambda weights: self.dropout(weights, seeds=seeds)
        )
        heads = ops.swapaxes(heads, -3, -2)  # [..., H, T, d_v] -> [..., T, H, d_v]
        return self.output_projection(
            reshape(heads, *ops.shape(heads)[:-2], self.num_heads * self.d_v)
        ), weights

    def _split_heads(self, x):
        """[..., T, H * K] -> [..., H, T, K]."""
        return ops.swapaxes(
            reshape(x, *ops.shape(x)[:-1], self.num_heads, x.shape[-1] // self.num_heads), -3, -2
        )

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "dropout": self.dropout_rate,
        }
