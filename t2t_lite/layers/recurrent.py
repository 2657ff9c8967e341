"""A recurrent layer (section 4, Table 1): gated recurrent units that read in both directions."""

import keras
from keras import ops

from t2t_lite.layers.linear import Linear

_SURE = 1e4  # its sigmoid is 1 in any precision


class Recurrent(keras.Layer):
    """Half of the units read from the first position on, the others from the last: O(n d^2).

    So each output knows of every input, n steps away at most. There are nearly as many weights as
    in self-attention. The units are gated ones, which section 1 names beside LSTMs ([7] of the
    paper), see `states`.

    Call arguments and returns as `SelfAttention`'s, without weights of attention.
    """

    def build(self, input_shape):
        """Makes both directions for inputs [..., D]."""
        d_model = input_shape[-1]
        self.forward_input, self.forward = self._direction("forward", d_model, (d_model + 1) // 2)
        self.backward_input, self.backward = self._direction("backward", d_model, d_model // 2)

    def _direction(self, name, d_model, units):
        inputs = Linear(3 * units, dtype=self.dtype_policy, name=f"{name}_input")
        inputs.build((None, d_model))
        kernel = self.add_weight(
            name=f"{name}_state", shape=(units, 3 * units), initializer="orthogonal"
        )
        return inputs, kernel

    def call(self, x, mask, seeds=None, return_attention=False):
        """Reads in both directions."""
        x, mask = ops.swapaxes(x, 0, 1), ops.swapaxes(mask[:, 0, 0], 0, 1)  # [S, B, D], [S, B]

        def read(inputs, kernel, backwards):
            projected = _kept_at_padding(inputs(x), mask[..., None])
            return states(projected, ops.cast(kernel, self.compute_dtype), backwards)

        forward = read(self.forward_input, self.forward, False)
        backward = read(self.backward_input, self.backward, True)
        return ops.swapaxes(ops.concatenate([forward, backward], axis=-1), 0, 1), None


def _kept_at_padding(x, mask):
    """[S, B, 3 U], bool [S, B, 1] -> [S, B, 3 U] whose z is 1 at padding, so that states stay."""
    x_z, *others = ops.split(x, 3, axis=-1)
    return ops.concatenate([ops.where(mask, x_z, _SURE), *others], axis=-1)


def states(x, kernel, backwards):
    """The states of gated recurrent units, from inputs that are projected already.

    z, r = sigmoid(x_z + h U_z), sigmoid(x_r + h U_r); c = tanh(x_c + r (h U_c)); the state after h
    is z h + (1 - z) c, as in keras.layers.GRU. That one keeps a state of random numbers among its
    variables and projects its inputs step by step, and on TensorFlow its gradient takes O(n^2), as
    that of any loop whose inputs have one. Here the gradient is written out: all at once, but for
    a loop of what must wait for the step behind.

    Args:
        x: [S, B, 3 U]; x_z, x_r and x_c.
        kernel: [U, 3 U]; U_z, U_r and U_c.
        backwards: whether reading begins at the last position.

    Returns:
        [S, B, U].
    """
    none = ops.zeros_like(x[0, :, : kernel.shape[0]])

    @ops.custom_gradient
    def run(x, kernel):
        def step(state, x):
            keep, _, candidate, _ = _gates(x, state, kernel)
            state = keep * state + (1.0 - keep) * candidate
            return state, state

        _, result = ops.scan(step, none, x, reverse=backwards)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            if backwards:
                before = ops.concatenate([result[1:], none[None]], axis=0)
            else:
                before = ops.concatenate([none[None], result[:-1]], axis=0)
            return _gradient(x, kernel, before, upstream, backwards)

        return result, gradient

    return run(x, kernel)


def _gates(x, state, kernel):
    """[..., 3 U], [..., U], [U, 3 U] -> z, r, c and h U_c, each [..., U]."""
    x_z, x_r, x_c = ops.split(x, 3, axis=-1)
    h_z, h_r, h_c = ops.split(state @ kernel, 3, axis=-1)
    reset = ops.sigmoid(x_r + h_r)
    return ops.sigmoid(x_z + h_z), reset, ops.tanh(x_c + reset * h_c), h_c


def _gradient(x, kernel, before, upstream, backwards):
    """The gradients of x and kernel, from those of the states; `before`: the state before each."""

    def of_inputs(of_state, keep, reset, candidate, h_c, before):
        """Those of x, and of h times the kernel."""
        of_c = of_state * (1.0 - keep) * (1.0 - candidate**2)
        of_z = of_state * (before - candidate) * keep * (1.0 - keep)
        of_r = of_c * h_c * reset * (1.0 - reset)
        return (
            ops.concatenate([of_z, of_r, of_c], axis=-1),
            ops.concatenate([of_z, of_r, of_c * reset], axis=-1),
        )

    def step(of_state, here):
        of_result, *known = ops.split(here, 6, axis=-1)
        of_state = of_state + of_result
        _, of_product = of_inputs(of_state, *known)
        return of_state * known[0] + of_product @ ops.transpose(kernel), of_state

    known = (*_gates(x, before, kernel), before)
    # One tensor: of several, TensorFlow's scan must know the length in the graph.
    here = ops.concatenate([upstream, *known], axis=-1)
    _, of_states = ops.scan(step, ops.zeros_like(upstream[0]), here, reverse=not backwards)
    of_x, of_product = of_inputs(of_states, *known)
    rows = [ops.reshape(rows, (-1, rows.shape[-1])) for rows in (before, of_product)]
    return of_x, ops.transpose(rows[0]) @ rows[1]
