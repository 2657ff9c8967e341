"""Label-smoothed cross-entropy as a sum and a token count (section 5.4)."""

from typing import NamedTuple

from keras import ops


class Loss(NamedTuple):
    """Sums over the target symbols that are not padding; divide by `tokens` once everything is added up.

    Attributes:
        smoothed: float32 scalar, what is minimised.
        nll: float32 scalar, negative log-likelihood in nats, whose mean's exponential is the perplexity.
        correct: float32 scalar, symbols that the model's most probable choice gets right.
        tokens: float32 scalar, how many.
    """

    smoothed: object
    nll: object
    correct: object
    tokens: object

    def __add__(self, other):
        return Loss(*(a + b for a, b in zip(self, other)))




def label_smoothed_cross_entropy(logits, targets, smoothing) -> Loss:
    """Cross-entropy with (1 - e) of the probability on the target and e spread evenly over all V symbols [36].

    Args:
        logits: float32 [B, T, V].
        targets: int32 [B, T], padded with 0.
        smoothing: e, epsilon_ls.
    """
    size = logits.shape[-1]
    real = ops.cast(ops.not_equal(targets, 0), "float32")
    # One fused kernel for loss and gradient; picking the targets' logits would have a scatter into [B, T, V] as its
    # gradient, so what is only reported is computed from constants.
    q = ops.one_hot(targets, size, dtype="float32") * (1.0 - smoothing) + smoothing / size
    smoothed = ops.categorical_crossentropy(q, logits, from_logits=True)
    logits, target_logits = ops.stop_gradient(logits), ops.stop_gradient(_pick(logits, targets))
    normaliser = ops.stop_gradient(smoothed) + (1.0 - smoothing) * target_logits
    normaliser = normaliser + smoothing * ops.mean(logits, axis=-1)
    correct = ops.cast(target_logits >= ops.max(logits, axis=-1), "float32")
    values = (smoothed, normaliser - target_logits, correct)
    return Loss(*(ops.sum(value * real) for value in values), ops.sum(real))


def _pick(logits, targets):
    """logits [B, T, V] at targets [B, T]."""
    return ops.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
