"""What beam search and sampling share."""

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.hypotheses import length_penalty, log_sum_exp, prefix_symbol, size


def test_length_penalty():
    found = length_penalty(tf.constant([1, 7, 13]), 0.6)
    np.testing.assert_allclose(found, [1, 2**0.6, 3**0.6], rtol=1e-6)
    np.testing.assert_array_equal(length_penalty(tf.constant([4, 9]), 0.0), [1, 1])


def test_log_sum_exp_of_large_logits():
    logits = tf.constant([[[1000.0, 999.0, -1000.0]]])
    found = log_sum_exp(logits, tf.constant([[[1000.0]]]))
    np.testing.assert_allclose(found, [[[1000 + np.log(1 + np.exp(-1))]]], rtol=1e-6)


def test_prefix_symbol():
    """Of rows with two symbols, one and none; at a position beyond all of them there is none."""
    prefix = tf.constant([[5, 4], [3, 0], [0, 0]])
    for position, symbols in enumerate([[5, 3, 0], [4, 0, 0], [0, 0, 0]]):
        found, forced = prefix_symbol(prefix, tf.constant(position))
        np.testing.assert_array_equal(found, symbols)
        np.testing.assert_array_equal(forced, np.array(symbols) > 0)


def test_size_is_a_number_where_the_graph_knows_it():
    sizes = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])], autograph=False)
    def run(x):
        sizes.extend([size(x, 0), size(x, 1)])
        return size(x, 0)

    assert int(run(tf.zeros([7, 3]))) == 7
    assert isinstance(sizes[0], tf.Tensor) and sizes[1] == 3
