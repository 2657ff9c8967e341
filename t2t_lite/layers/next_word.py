"""Attention to the next word, for outputs that name their input's words in order, as trees do."""

import numpy as np
from keras import ops


class NextWord:
    """Draws the decoder's attention to where in the input the next word stands.

    The paper's decoder counts by itself the words that it has written, which it learns only after
    thousands of updates. Here each head h of its cross-attention has 2 / 4^h subtracted from its
    scores for each sub-word of distance from the next word: the first head sees little else, the
    last one all, as with the linear biases of Press et al. (2022), https://arxiv.org/abs/2108.12409.
    There are no weights.

    Args:
        begins_word: for each source symbol whether a word begins with it.
        names_word: for each target symbol whether it stands for a word.
        num_heads: H.
    """

    def __init__(self, begins_word, names_word, num_heads):
        self.begins_word, self.names_word = (
            np.array(flags, bool) for flags in (begins_word, names_word)
        )
        self.slopes = 2.0 / 4.0 ** np.arange(num_heads, dtype="float32")

    def places(self, inputs):
        """int32 [B, S] -> int32 [B, S]: where the words begin, in order, then where EOS stands."""
        length = ops.shape(inputs)[1]
        end = ops.sum(ops.cast(ops.not_equal(inputs, 0), "int32"), axis=1, keepdims=True) - 1
        return ops.sort(
            ops.where(ops.take(self.begins_word, inputs), ops.arange(length), end), axis=1
        )

    def count(self, ids):
        """int32 [...] target symbols -> int32 [...]: 1 for those that name a word."""
        return ops.cast(ops.take(self.names_word, ids), "int32")

    def penalty(self, named, places):
        """What is subtracted from the scores of the cross-attention.

        Args:
            named: int32 [B, T], how many words the output has named.
            places: int32 [B, S], of `places`.

        Returns:
            float32 [B, H, T, S].
        """
        length = ops.shape(places)[1]
        place = ops.take_along_axis(places, ops.minimum(named, length - 1), axis=1)
        distance = ops.cast(ops.abs(place[:, :, None] - ops.arange(length)), "float32")  # [B, T, S]
        return self.slopes[:, None, None] * distance[:, None]

    def words(self):
        """The first two arguments, as JSON has them."""
        return [self.begins_word.tolist(), self.names_word.tolist()]
