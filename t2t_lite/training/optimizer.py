"""Adam with the paper's constants, and the learning rate over time (section 5.3)."""

import math

import tensorflow as tf

from t2t_lite.config import HParams


def learning_rate(hparams: HParams, step):
    """The learning rate of update number `step`, which counts from 1.

    rsqrt: learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (Eq. 3);
    constant: learning_rate after a linear warmup; cosine: the same, then half a cosine down to 0 at
    train_steps. With first_step=0 each update has the rate of the one before, and the first has 0.

    Args:
        hparams: HParams, for schedule, learning_rate, d_model, warmup_steps, first_step and
            train_steps.
        step: float32 scalar tensor or number.

    Returns:
        float32 scalar tensor.
    """
    step = tf.cast(step, tf.float32) - (1 - hparams.first_step)
    warmup = float(max(1, hparams.warmup_steps))
    if hparams.schedule == "rsqrt":
        return (
            hparams.learning_rate
            * hparams.d_model**-0.5
            * tf.minimum(step**-0.5, step * warmup**-1.5)
        )
    rate = hparams.learning_rate * tf.minimum(1.0, step / warmup)
    if hparams.schedule == "cosine":
        done = tf.clip_by_value((step - warmup) / max(1.0, hparams.train_steps - warmup), 0.0, 1.0)
        rate = rate * 0.5 * (1.0 + tf.cos(math.pi * done))
    return rate


class Adam:
    """Adam [20] on reduced gradients: each replica updates its own copy of the variables alike.

    Keras' optimizers reduce gradients themselves and can't leave an update out; this is
    TensorFlow's fused update with the same formula: alpha = lr * sqrt(1 - beta2^t) / (1 - beta1^t),
    w -= alpha * m / (sqrt(v) + epsilon).

    Args:
        hparams: HParams, for schedule and constants.
        variables: tf.Variables to train. Construct it under the strategy's scope.

    Attributes:
        step: int64 scalar variable, updates done, those that were left out included.
        slots: name -> tf.Variable of all the optimizer's state but `step`.
    """

    def __init__(self, hparams: HParams, variables: dict[str, tf.Variable]):
        self._hparams = hparams
        self._variables = variables
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.slots = {
            f"{slot}/{name}": tf.Variable(tf.zeros_like(variable), trainable=False, name=slot)
            for name, variable in variables.items()
            for slot in ("m", "v")
        }

    def apply(self, gradients, finite) -> tf.Tensor:
        """One update, in replica context.

        Args:
            gradients: a tensor for each variable, in their order.
            finite: bool scalar tensor; False leaves every variable as it is, without a branch,
                since collectives do not work inside `tf.cond`: with lr = 0 and both betas = 1 the
                update's formulas change nothing.

        Returns:
            The update's learning rate, float32 scalar, also where it was left out. `step` stays:
            it is for the caller to count.
        """
        h = self._hparams
        t = tf.cast(self.step + 1, tf.float32)
        rate = learning_rate(h, t)
        lr = tf.where(finite, rate, 0.0)
        beta1, beta2 = (tf.where(finite, beta, 1.0) for beta in (h.adam_beta1, h.adam_beta2))
        beta1_power, beta2_power = h.adam_beta1**t, h.adam_beta2**t
        for (name, variable), gradient in zip(self._variables.items(), gradients):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=self.slots[f"m/{name}"].handle,
                v=self.slots[f"v/{name}"].handle,
                beta1_power=beta1_power,
                beta2_power=beta2_power,
                lr=lr,
                beta1=beta1,
                beta2=beta2,
                epsilon=h.adam_epsilon,
                grad=tf.where(finite, gradient, 0.0),
            )
        return rate
