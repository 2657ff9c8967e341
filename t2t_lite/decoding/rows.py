"""Rows: lines as sub-words on their way through the model, and the batches they are cut into.

B rows, S source length, L target length, W hypotheses that grow side by side.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from t2t_lite.data.buckets import rounded_length
from t2t_lite.data.subword_training import PAD
from t2t_lite.decoding.search import Search


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One output of one line."""

    text: str
    score: float  # log_prob / length penalty
    log_prob: float  # of all its sub-words, EOS included
    details: dict = dataclasses.field(default_factory=dict)  # what else the problem says of it


@dataclasses.dataclass
class Row:
    """One line on its way through the model."""

    number: int  # of the line, from 0; a sample depends on it
    line: str
    inputs: list[int]  # EOS included
    prefix: list[int]
    outputs: list[Hypothesis] = dataclasses.field(default_factory=list)

    @property
    def length(self) -> int:
        """The sub-words, EOS included, that the output's limit is counted from (section 6.1)."""
        return max(len(self.inputs), len(self.prefix) + 1)


class Batch(NamedTuple):
    """Rows that are searched for together.

    Attributes:
        rows: at most `size`.
        size: B.
        source_length: S, at least each row's length.
    """

    rows: list[Row]
    size: int
    source_length: int

    def arrays(self, search: Search, seed: int) -> list[np.ndarray]:
        """The arguments of `run_search`.

        Returns:
            inputs, int32 [B, S]; prefix, int32 [B, L]; limits, int32 [B], 0 for rows that only fill
            the batch, so that they are done before they start; for sampling uniforms, float32
            [B, W, L], which follow from seed, line and its number, not from the batch.
        """
        max_length = self.source_length + search.extra_length
        inputs = np.full([self.size, self.source_length], PAD, np.int32)
        prefix = np.full([self.size, max_length], PAD, np.int32)
        limits = np.zeros([self.size], np.int32)
        uniforms = np.zeros([self.size, search.width, max_length], np.float32)
        for i, row in enumerate(self.rows):
            inputs[i, : len(row.inputs)] = row.inputs
            prefix[i, : len(row.prefix)] = row.prefix
            limits[i] = row.length + search.extra_length
            for number, sample in enumerate(uniforms[i] if search.sampling else ()):
                generator = np.random.default_rng((seed, row.number, number))
                sample[:] = generator.random(max_length, np.float32)
        return [inputs, prefix, limits, *([uniforms] if search.sampling else [])]


def cut(
    rows: Iterable[Row], search: Search, *, batch_tokens: int, shares: int, few_shapes: bool
) -> Iterator[Batch]:
    """Cuts rows, longest first, into batches.

    Args:
        batch_tokens: bounds B * W * (S + L), but for a batch of one row.
        shares: there are at least so many batches, where there are rows enough.
        few_shapes: B and S from a short list, for XLA, which compiles each shape.
    """
    rows = sorted(rows, key=lambda row: row.length, reverse=True)
    share = math.ceil(len(rows) / shares)
    if few_shapes:
        share = 1 << (share - 1).bit_length()  # up, since the count is rounded down below
    while rows:
        source_length = rounded_length(rows[0].length) if few_shapes else rows[0].length
        count = min(max(batch_tokens // search.row_tokens(source_length), 1), share)
        if few_shapes:
            count = 1 << (count.bit_length() - 1)  # the largest power of two that fits
        batch, rows = rows[:count], rows[count:]
        size = min(count, 1 << (len(batch) - 1).bit_length()) if few_shapes else len(batch)
        yield Batch(batch, size, source_length)
