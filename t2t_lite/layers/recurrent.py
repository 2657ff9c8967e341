"""A recurrent layer (section 4, Table 1): gated recurrent units that read in both directions."""

import keras
from keras import ops

from t2t_lite.layers.linear import Linear


class GatedRecurrentUnit(keras.Layer):
    """One step of gated recurrent units, which section 1 names beside LSTMs ([7] of the paper).

    z, r = sigmoid(x_z + h U_z), sigmoid(x_r + h U_r); c = tanh(x_c + r (h U_c)).
    The next state is z h + (1 - z) c.

    Unlike keras.layers.GRUCell it takes inputs that have been multiplied by their matrices, for all
    positions at once, so that one product alone waits for the step before; and it has no state of
    random numbers among its variables, which a checkpoint would have to keep.

    Args:
        units: U.

    Call arguments:
        x: [B, 3 U]; x_z, x_r and x_c.
        states: the one state [B, U], in a list as keras.layers.RNN wants it.

    Returns:
        (the next state, it again in a list).
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, input_shape):
        """Makes U_z, U_r and U_c."""
        self.state = Linear(
            3 * self.units, use_bias=False, kernel_initializer="orthogonal",
            dtype=self.dtype_policy, name="state",
        )  # fmt: skip
        self.state.build((None, self.units))

    def call(self, x, states):
        """One step."""
        x_z, x_r, x_c = ops.split(x, 3, axis=-1)
        h_z, h_r, h_c = ops.split(self.state(states[0]), 3, axis=-1)
        keep, reset = ops.sigmoid(x_z + h_z), ops.sigmoid(x_r + h_r)
        state = keep * states[0] + (1.0 - keep) * ops.tanh(x_c + reset * h_c)
        return state, [state]

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "units": self.units}


class Recurrent(keras.Layer):
    """Half of the units read from the first position on, the others from the last: O(n d^2).

    So each output knows of every input, as those of the other layers do in a stack, n steps away at
    most. There are as many weights as in self-attention, nearly.

    Call arguments and returns as `SelfAttention`'s, without weights of attention.
    """

    def build(self, input_shape):
        """Makes both directions for inputs [..., D]."""
        d_model = input_shape[-1]
        self.forward_input, self.forward = self._direction(d_model, d_model - d_model // 2, False)
        self.backward_input, self.backward = self._direction(d_model, d_model // 2, True)

    def _direction(self, d_model, units, backward):
        name = "backward" if backward else "forward"
        inputs = Linear(3 * units, dtype=self.dtype_policy, name=f"{name}_input")
        inputs.build((None, d_model))
        steps = keras.layers.RNN(
            GatedRecurrentUnit(units, dtype=self.dtype_policy, name="unit"),
            return_sequences=True, go_backwards=backward, dtype=self.dtype_policy, name=name,
        )  # fmt: skip
        steps.build((None, None, 3 * units))
        return inputs, steps

    def call(self, x, mask, seeds=None, return_attention=False):
        """Reads in both directions; at padding a state stays as it is."""
        mask = mask[:, 0, 0]
        forward = self.forward(self.forward_input(x), mask=mask)
        backward = ops.flip(self.backward(self.backward_input(x), mask=mask), axis=1)
        return ops.concatenate([forward, backward], axis=-1), None
