"""What beam search and sampling share: the step that they drive, and the hypotheses they return.

Shapes: B batch, W hypotheses of a row, N returned, L maximal output length, P prefix length,
V vocabulary.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.data.tokenizer import PAD

# (ids int32 [B, W], position int32 [], memory, cache) -> (logits float32 [B, W, V], cache)
# `ids`: the symbols at `position - 1`, PAD at position 0. Tensors of `memory` and `cache` begin
# with [B].
Step = Callable[[tf.Tensor, tf.Tensor, Any, Any], tuple[tf.Tensor, Any]]

# (ids int32 [B, W], position int32 [], grammar) -> (bool [B, W, V], grammar)
# The symbols that may come at `position`; `ids` as for Step; tensors of `grammar` begin with
# [B, W]. `decoding.constraint` makes one.
Allow = Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]


class Hypotheses(NamedTuple):
    """What a search returns: N hypotheses of each row, best first."""

    ids: tf.Tensor  # int32 [B, N, L], EOS kept, PAD after it
    log_probs: tf.Tensor  # float32 [B, N], -inf: fewer than N hypotheses exist
    scores: tf.Tensor  # float32 [B, N], log_probs / length_penalty


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """((5 + length) / 6)^alpha of Wu et al. (2016), [38] in section 6.1; length counts EOS."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def log_sum_exp(logits: tf.Tensor, maximum: tf.Tensor) -> tf.Tensor:
    """Over V, the maximum being known: [B, W, V], [B, W, 1] -> [B, W, 1].

    By the largest probability, since a softmax is one operation, and a fast one.
    """
    largest = tf.reduce_max(tf.nn.softmax(logits), axis=2, keepdims=True)
    return maximum - tf.math.log(largest)


def prefix_symbol(prefix: tf.Tensor, position: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Each row's prefix at `position`: its symbol, int32 [B], and whether it has one, bool [B]."""
    length = size(prefix, 1)
    symbol = tf.where(position < length, prefix[:, tf.minimum(position, length - 1)], PAD)
    return symbol, symbol != PAD


def size(tensor: tf.Tensor, axis: int) -> int | tf.Tensor:
    """A number where the graph knows it, as XLA must, else a tensor."""
    static = tensor.shape[axis]
    return tf.shape(tensor)[axis] if static is None else static
