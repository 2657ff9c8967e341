"""Dropout whose randomness is an argument, so that a training step is a function of its inputs."""

import math

import keras
from keras import ops

_SEED_TYPE = "uint32" if keras.backend.backend() == "jax" else "int32"  # as XLA and JAX want them


class DropoutSeeds(keras.random.SeedGenerator):
    """Hands each dropout of one forward pass its own seed, all of them derived from one given seed.

    It holds no variable: the seed follows from (run seed, step, micro-batch, replica), hence no
    generator state to save, and two replicas never share a mask.

    Args:
        seed: int32 or uint32 tensor [2], as stateless random functions take it.
    """

    def __init__(self, seed):  # the parent's constructor would make the state variable
        self._seed = ops.cast(seed, _SEED_TYPE)
        self._count = 0

    def next(self, ordered=True):
        """The next dropout's seed, [2]."""
        self._count += 1
        return self._seed + ops.convert_to_tensor([0, self._count], dtype=self._seed.dtype)


class Dropout(keras.Layer):
    """Zeroes a share of its input and scales up the rest (section 5.4).

    Args:
        rate: share of the elements set to zero.

    Call arguments:
        x: float tensor of any shape.
        seeds: DropoutSeeds in training; None: the input is returned as it is.
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def build(self, input_shape):
        """Nothing: there are no weights."""

    def call(self, x, seeds=None):
        """Draws from the next seed."""
        if seeds is None or self.rate == 0.0:
            return x
        kept = ops.cast(
            _random_int16(ops.shape(x), seeds) >= round(self.rate * 2**16) - 2**15, x.dtype
        )
        return x * (kept * (1.0 / (1.0 - self.rate)))

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "rate": self.rate}


def _random_int16(shape, seeds):
    """Uniform int16 of a shape: 16 bits decide well enough, at half the price of a float."""
    size = (
        math.prod(shape) if all(isinstance(n, int) for n in shape) else ops.prod(ops.stack(shape))
    )
    pairs = keras.random.randint(
        ((size + 1) // 2, 1), -(2**31), 2**31 - 1, dtype="int32", seed=seeds
    )
    return ops.reshape(ops.reshape(ops.view(pairs, "int16"), (-1,))[:size], shape)
