"""A convolution over positions (section 4, Table 1)."""

import keras
from keras import ops


class Convolution(keras.Layer):
    """Each position's output is a linear map of the k positions around it: O(k n d^2).

    Args:
        kernel_size: k; of an even one the further half lies behind.

    Call arguments and returns as `SelfAttention`'s, without weights of attention.
    """

    def __init__(self, kernel_size, **kwargs):
        super().__init__(**kwargs)
        self.kernel_size = kernel_size

    def build(self, input_shape):
        """Makes the kernel, k x D x D, for inputs [..., D]."""
        d_model = input_shape[-1]
        self.convolution = keras.layers.Conv1D(
            d_model, self.kernel_size, padding="same", dtype=self.dtype_policy, name="convolution"
        )
        self.convolution.build((None, None, d_model))

    def call(self, x, mask, seeds=None, return_attention=False):
        """Convolves; what is padding counts as zeros, as what lies outside does."""
        return self.convolution(x * ops.cast(mask[:, 0, 0, :, None], x.dtype)), None

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "kernel_size": self.kernel_size}
