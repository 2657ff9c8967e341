"""What search and sampling ask of a step's symbols. Shapes: B batch, W beam width, V vocabulary."""

import tensorflow as tf

from t2t_lite.data.tokenizer import PAD


def top_k(tensor: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """tf.math.top_k of [B, W, V], several times as fast for a large V.

    Only the k groups of symbols with the largest maxima are searched.
    """
    outer, symbols = [size(tensor, 0), size(tensor, 1)], tensor.shape[2]
    group = next((divisor for divisor in (64, 50, 40, 32, 25) if symbols % divisor == 0), symbols)
    if symbols // group <= 2 * k:
        return tf.math.top_k(tensor, k)
    groups = tf.reshape(tensor, [*outer, symbols // group, group])
    _, chosen = tf.math.top_k(tf.reduce_max(groups, axis=3), k)
    chosen = tf.sort(chosen, axis=2)  # of equal values the first symbol wins, as in tf.math.top_k
    few = tf.reshape(tf.gather(groups, chosen, axis=2, batch_dims=2), [*outer, k * group])
    values, index = tf.math.top_k(few, k)
    return values, tf.gather(chosen, index // group, axis=2, batch_dims=2) * group + index % group


def log_sum_exp(logits: tf.Tensor, maximum: tf.Tensor) -> tf.Tensor:
    """Over V, the maximum being known: [B, W, V], [B, W, 1] -> [B, W, 1]."""
    return maximum + tf.math.log(tf.reduce_sum(tf.exp(logits - maximum), axis=2, keepdims=True))


def prefix_symbol(prefix: tf.Tensor, position: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Each row's prefix at `position`: its symbol, int32 [B], and whether it has one, bool [B]."""
    length = size(prefix, 1)
    symbol = tf.where(position < length, prefix[:, tf.minimum(position, length - 1)], PAD)
    return symbol, symbol != PAD


def size(tensor: tf.Tensor, axis: int) -> int | tf.Tensor:
    """A number where the graph knows it, as XLA must, else a tensor."""
    static = tensor.shape[axis]
    return tf.shape(tensor)[axis] if static is None else static
