"""A grammar that the search obeys: well-formed brackets over exactly the input's words.

It is a mask in the graph. An output is a sequence of opening brackets, word symbols and closing
brackets. What may come next follows from the brackets that are open, the words that remain and the
symbols that remain up to the limit:

    opening   while words remain, and while the limit leaves room to place them and to close every
              bracket
    word      while words remain
    closing   the innermost open bracket's, unless that is still empty
    EOS       when no word remains and no bracket is open

Shapes: B batch, S source length, W beam width, V target symbols, D depth.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.data.tokenizer import EOS, PAD
from t2t_lite.decoding.hypotheses import size


@dataclasses.dataclass(frozen=True)
class Brackets:
    """Which target symbols are brackets and words, and how many words an input has.

    Args:
        opens: V numbers: 0, or for an opening bracket the number, from 1, of its label.
        closes: V numbers: 0, or for a closing bracket the number of the label that it closes.
        words: V booleans: the symbol stands for a word.
        begins_word: for each source sub-word, whether it begins a word.
        max_depth: D, brackets that may be open at once.
    """

    opens: Sequence[int]
    closes: Sequence[int]
    words: Sequence[bool]
    begins_word: Sequence[bool]
    max_depth: int

    def start(
        self, inputs: tf.Tensor, limits: tf.Tensor, beam_size: int
    ) -> tuple[Callable, dict[str, Any]]:
        """Inputs int32 [B, S], limits int32 [B] -> `allow` and `grammar` of `beam_search`."""
        shape = [size(inputs, 0), beam_size]
        words = tf.reduce_sum(
            tf.cast(tf.gather(np.array(self.begins_word), inputs), tf.int32), axis=1
        )
        return self._allow, {
            "open": tf.zeros([*shape, self.max_depth], tf.int32),  # labels, outermost first
            "depth": tf.zeros(shape, tf.int32),  # brackets that are open
            "empty": tf.zeros(shape, tf.bool),  # whether the innermost holds nothing yet
            "words": tf.broadcast_to(words[:, None], shape),  # that remain
            "limit": tf.broadcast_to(limits[:, None], shape),
        }

    def _allow(
        self, ids: tf.Tensor, position: tf.Tensor, grammar: dict[str, Any]
    ) -> tuple[tf.Tensor, dict[str, Any]]:
        opens, closes = (np.array(numbers, np.int32) for numbers in (self.opens, self.closes))
        is_word = np.array(self.words)

        # What the last symbol did.
        label, depth = tf.gather(opens, ids), grammar["depth"]  # [B, W]
        opened, closed = label > 0, tf.gather(closes, ids) > 0
        here = opened[:, :, None] & (tf.range(self.max_depth) == depth[:, :, None])
        stack = tf.where(here, label[:, :, None], grammar["open"])
        depth = tf.maximum(depth + tf.cast(opened, tf.int32) - tf.cast(closed, tf.int32), 0)
        words = grammar["words"] - tf.cast(tf.gather(is_word, ids), tf.int32)
        empty = tf.where(ids == PAD, grammar["empty"], opened)

        # What may follow.
        room = grammar["limit"] - position - 1  # symbols after the next one
        may_open = (
            (words > 0) & (depth < self.max_depth) & (room >= words + depth + 2)
        )  # the words, all closings, EOS
        innermost = tf.gather(stack, tf.maximum(depth - 1, 0), axis=2, batch_dims=2)  # [B, W]
        innermost = tf.where((depth > 0) & ~empty, innermost, -1)
        allowed = (
            ((opens > 0) & may_open[:, :, None])
            | (is_word & (words > 0)[:, :, None])
            | (closes == innermost[:, :, None])
            | ((np.arange(len(opens)) == EOS) & ((words == 0) & (depth == 0))[:, :, None])
        )
        return allowed, {**grammar, "open": stack, "depth": depth, "words": words, "empty": empty}
