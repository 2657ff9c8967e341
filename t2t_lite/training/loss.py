"""Label-smoothed cross-entropy as a sum and a token count (section 5.4)."""

from typing import NamedTuple

import tensorflow as tf


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


def label_smoothed_cross_entropy(logits, targets, smoothing) -> Loss:
    """Cross-entropy against 1 - e on the target and e spread evenly over all V symbols [36].

    Args:
        logits: float32 [B, T, V].
        targets: int32 [B, T], padded with 0.
        smoothing: e, epsilon_ls.
    """
    real = tf.cast(targets != 0, tf.float32)
    smoothed, nll, correct = _cross_entropies(logits, targets, smoothing)
    values = smoothed, tf.stop_gradient(nll), tf.stop_gradient(correct)
    return Loss(*(tf.reduce_sum(value * real) for value in values), tf.reduce_sum(real))


def negative_log_likelihood(logits, targets) -> tuple[tf.Tensor, tf.Tensor]:
    """How well the model predicts each target, without smoothing.

    Args:
        logits: float32 [B, T, V].
        targets: int32 [B, T].

    Returns:
        -log p of the target in nats, float32 [B, T], and whether the target is the most probable
        symbol, bool [B, T].
    """
    _, best, top, log_p = _softmax(logits)
    return top - tf.gather(logits, targets, batch_dims=2) - log_p, best == targets


def _softmax(logits):
    """logits [B, T, V] -> p [B, T, V]; most probable symbol, its logit, its log p, [B, T] each.

    Any symbol's log p is log p of that one, which can't underflow, less the difference of logits.
    TensorFlow's fused cross-entropy takes six times as long on CPUs.
    """
    p = tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    at = {"batch_dims": 2}  # gathers one symbol's value at each position
    return p, best, tf.gather(logits, best, **at), tf.math.log(tf.gather(p, best, **at))


def _cross_entropies(logits, targets, smoothing):
    """logits [B, T, V], targets [B, T] -> smoothed and plain cross-entropy, correct; [B, T] each.

    With its own gradient, p - q, since [B, T, V] is the largest tensor of a training step: one
    softmax serves both passes, and the gradient of picking the targets' logits would be a scatter.
    """

    @tf.custom_gradient
    def cross_entropies(logits):
        p, best, top, log_p = _softmax(logits)
        nll = top - tf.gather(logits, targets, batch_dims=2) - log_p
        mean = top - tf.reduce_mean(logits, axis=-1) - log_p  # over all symbols
        smoothed = (1.0 - smoothing) * nll + smoothing * mean

        def gradient(smoothed_gradient, *_):
            size = logits.shape[-1]
            q = tf.one_hot(targets, size) * (1.0 - smoothing) + smoothing / size
            return (p - q) * smoothed_gradient[..., None]

        return (smoothed, nll, tf.cast(best == targets, tf.float32)), gradient

    return cross_entropies(logits)
