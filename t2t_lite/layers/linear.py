"""Linear maps of the last axis, and reshaping, with few operations.

In decoding there are hundreds a step, each small.
"""

import keras
from keras import ops


class Linear(keras.layers.Dense):
    """keras.layers.Dense as a product of two matrices, whatever the rank of its input.

    Dense multiplies tensors of higher rank by `tensordot`, which computes sizes that the graph does
    not know with a dozen operations, each time.

    Call arguments:
        x: [..., D].

    Returns:
        [..., units].
    """

    def call(self, x):
        """Multiplies the last axis."""
        rows = super().call(ops.reshape(x, (-1, x.shape[-1])))
        return reshape(rows, *ops.shape(x)[:-1], self.units)


def reshape(x, *sizes):
    """ops.reshape, in which one size that the graph does not know is left to be found."""
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes) - 1 and 0 not in known:  # of nothing, no size can be found
        sizes = [size if isinstance(size, int) else -1 for size in sizes]
    return ops.reshape(x, sizes)
