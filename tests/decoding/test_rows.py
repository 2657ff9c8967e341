"""Batches of rows: bounded, shared out, of few shapes where that is asked for."""

import random

import numpy as np
import pytest

from t2t_lite.data.subword_training import EOS, PAD
from t2t_lite.decoding.rows import Batch, Row, cut
from t2t_lite.decoding.search import Sampling, Search
from t2t_lite.problem import Decoding

DEFAULTS = Decoding(extra_length=6)


def rows(*lengths):
    return [Row(number, "", [7] * (n - 1) + [EOS], []) for number, n in enumerate(lengths)]


@pytest.mark.parametrize("few_shapes", [False, True])
@pytest.mark.parametrize("shares", [1, 3])
def test_batches_are_bounded(few_shapes, shares):
    lengths = random.Random(1).choices(range(1, 200), k=100)
    search, options = Search.of(DEFAULTS), dict(shares=shares, few_shapes=few_shapes)
    seen, shapes = [], set()
    for batch in cut(rows(*lengths), search, batch_tokens=9000, **options):
        assert len(batch.rows) <= batch.size
        assert max(row.length for row in batch.rows) <= batch.source_length
        assert batch.size == 1 or batch.size * 4 * (2 * batch.source_length + 6) <= 9000
        seen += [row.number for row in batch.rows]
        shapes.add((batch.size, batch.source_length))
    assert sorted(seen) == list(range(100))
    assert not few_shapes or len(shapes) < 12
    few = list(cut(rows(3, 3, 2, 5, 4), search, batch_tokens=9000, **options))
    assert len(few) == shares  # few rows: each has its share
    assert len(list(cut(rows(300, 300), search, batch_tokens=1, **options))) == 2


def test_arrays():
    search = Search.of(DEFAULTS, n_best=2, sampling=Sampling())
    forced = Row(4, "", [5, EOS], [8, 9, 6])
    inputs, prefix, limits, uniforms = Batch([forced], 2, 4).arrays(search, seed=3)
    assert inputs.tolist() == [[5, EOS, PAD, PAD], [PAD] * 4]
    assert prefix.tolist() == [[8, 9, 6] + [PAD] * 7, [PAD] * 10]
    assert limits.tolist() == [4 + 6, 0]  # the prefix is longer than the line; the other has no row
    assert uniforms.shape == (2, 2, 10) and len(set(uniforms[0].flat)) == 20
    # They follow from seed and line, not from the batch.
    *_, beside = Batch([*rows(3, 2), forced], 3, 9).arrays(search, seed=3)
    np.testing.assert_array_equal(beside[2, :, :10], uniforms[0])
    *_, other = Batch([forced], 1, 4).arrays(search, seed=4)
    assert not np.isin(other, uniforms[0]).any()
    assert len(Batch([forced], 1, 4).arrays(Search.of(DEFAULTS), seed=3)) == 3
