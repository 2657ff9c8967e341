"""Label-smoothed cross-entropy as a sum and a token count (section 5.4)."""

from typing import NamedTuple

import tensorflow as tf

# Bytes of the logits that exist at a time. Each chunk adds a [V, D] gradient to the last one's, so
# that small ones cost time with large vocabularies; a GPU wants products with many rows.
CHUNK_BYTES, CHUNK_BYTES_GPU = 32 << 20, 256 << 20


class Loss(NamedTuple):
    """Sums over the target symbols that are not padding; divide by `tokens` after adding all up.

    Attributes:
        smoothed: float32 scalar, what is minimised; the only one with a gradient.
        nll: float32 scalar, negative log-likelihood in nats, whose mean's exponential is the
            perplexity.
        correct: float32 scalar, symbols that the model's most probable choice gets right.
        tokens: float32 scalar, how many.
    """

    smoothed: tf.Tensor
    nll: tf.Tensor
    correct: tf.Tensor
    tokens: tf.Tensor

    def __add__(self, other):
        return Loss(*(a + b for a, b in zip(self, other)))


def label_smoothed_cross_entropy(states, matrix, targets, smoothing, scale=1.0) -> Loss:
    """Cross-entropy against 1 - e on the target and e spread evenly over all V symbols [36].

    The logits are products of `states` with `matrix`, and never exist whole: with V = 37,000 they
    would be the largest tensor of an update by far. They are made for some rows at a time, and the
    gradients of both factors at once.

    Args:
        states: [B, T, D], what the decoder gives.
        matrix: float32 [V, D], the softmax's (section 3.4).
        targets: int32 [B, T], padded with 0.
        smoothing: e, epsilon_ls.
        scale: of the gradients that `smoothed` is going to have, so that they do not vanish in
            float16.
    """
    width = matrix.shape[1]
    rows, targets = tf.reshape(states, [-1, width]), tf.reshape(targets, [-1])
    sums = _cross_entropies(rows, tf.convert_to_tensor(matrix), targets, smoothing, scale)
    smoothed, *reported = sums
    tokens = tf.reduce_sum(tf.cast(targets != 0, tf.float32))
    return Loss(smoothed, *map(tf.stop_gradient, reported), tokens)


def negative_log_likelihood(logits, targets) -> tuple[tf.Tensor, tf.Tensor]:
    """How well the model predicts each target, without smoothing.

    Args:
        logits: float32 [..., V].
        targets: int32 [...].

    Returns:
        -log p of the target in nats, float32 [...], and whether the target is the most probable
        symbol, bool [...].
    """
    _, best, top, log_p = _softmax(logits)
    return top - _at(logits, targets) - log_p, best == targets


def _at(values, symbols):
    """values [..., V], symbols [...] -> each place's value of its symbol."""
    return tf.gather(values, symbols, batch_dims=len(symbols.shape))


def _softmax(logits):
    """logits [..., V] -> p [..., V]; most probable symbol, its logit, its log p, [...] each.

    Any symbol's log p is log p of that one, which can't underflow, less the difference of logits.
    TensorFlow's fused cross-entropy takes six times as long on CPUs.
    """
    p = tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return p, best, _at(logits, best), tf.math.log(_at(p, best))


def _cross_entropies(states, matrix, targets, smoothing, scale):
    """states [N, D], matrix [V, D], targets [N] -> sums: smoothed, nll, correct."""

    @tf.custom_gradient
    def cross_entropies(states, matrix):
        sums, *gradients = _in_chunks(states, matrix, targets, smoothing, scale)

        def gradient(smoothed_gradient, *_):
            factor = smoothed_gradient / scale
            return [each * tf.cast(factor, each.dtype) for each in gradients]

        return sums, gradient

    return cross_entropies(states, matrix)


def _in_chunks(states, matrix, targets, smoothing, scale):
    """-> (sums, gradient of states [N, D], gradient of matrix [V, D]); these times scale."""
    symbols, width = matrix.shape
    total = states.shape[0] or tf.shape(states)[0]
    gpus = tf.config.list_logical_devices("GPU")
    most = max(1, (CHUNK_BYTES_GPU if gpus else CHUNK_BYTES) // (4 * symbols))
    count = -(-total // most)
    size = -(-total // count)  # rows of a chunk; the last is filled up with padding
    states = tf.pad(states, [[0, count * size - total], [0, 0]])
    targets = tf.pad(targets, [[0, count * size - total]])
    factor = tf.cast(matrix, states.dtype)

    def chunk(index, sums, gradients, matrix_gradient):
        rows = tf.reshape(tf.slice(states, [index * size, 0], [size, width]), [size, width])
        more, logits_gradient = _of_logits(
            tf.cast(tf.matmul(rows, factor, transpose_b=True), tf.float32),
            tf.slice(targets, [index * size], [size]),
            smoothing,
        )
        logits_gradient = tf.cast(logits_gradient * scale, states.dtype)
        gradients = gradients.write(index, tf.matmul(logits_gradient, factor))
        more_gradient = tf.matmul(logits_gradient, rows, transpose_a=True)
        return (
            index + 1,
            [a + b for a, b in zip(sums, more)],
            gradients,
            matrix_gradient + tf.cast(more_gradient, tf.float32),
        )

    gradients = tf.TensorArray(states.dtype, size=count)
    _, sums, gradients, matrix_gradient = tf.while_loop(
        lambda index, *_: index < count,
        chunk,
        [0, [0.0, 0.0, 0.0], gradients, tf.zeros([symbols, width])],
        parallel_iterations=1,
    )
    return sums, tf.reshape(gradients.stack(), [-1, width])[:total], matrix_gradient


def _of_logits(logits, targets, smoothing):
    """logits [C, V], targets [C] -> (sums, the gradient of the first [C, V]).

    That is p - q, with nothing at padding.
    """
    real = tf.cast(targets != 0, tf.float32)
    p, best, top, log_p = _softmax(logits)
    nll = top - _at(logits, targets) - log_p
    mean = top - tf.reduce_mean(logits, axis=-1) - log_p  # over all symbols
    smoothed = (1.0 - smoothing) * nll + smoothing * mean
    sums = [
        tf.reduce_sum(values * real)
        for values in (smoothed, nll, tf.cast(best == targets, tf.float32))
    ]
    spread = (p - smoothing / logits.shape[-1]) * real[:, None]
    places = tf.stack([tf.range(tf.size(targets)), targets], axis=1)
    return sums, tf.tensor_scatter_nd_sub(spread, places, (1.0 - smoothing) * real)
