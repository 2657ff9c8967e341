"""Several sequences in one row, one after the other: segments 1, 2, ..., and 0 where padding is.

What keeps them apart: masks within segments, and positions that restart with each.
"""

from keras import ops

from t2t_lite.layers.attention import causal_mask


def segmentation(ids, end):
    """int32 [B, T] ids -> int32 [B, T]: which segment each symbol is of; its last one is `end`."""
    ends = ops.cast(ops.equal(ids, end), "int32")
    return ops.where(ops.equal(ids, 0), 0, ops.cumsum(ends, axis=1) - ends + 1)


def segment_mask(queries, keys):
    """Segmentations [B, T] and [B, S] -> bool [B, 1, T, S]: True within the same segment."""
    return ops.equal(queries[:, None, :, None], keys[:, None, None, :])


def segment_positions(segments):
    """Segmentation [B, T] -> int32 [B, T]: 0, 1, ... from each segment's first symbol on."""
    seen = ops.logical_and(segment_mask(segments, segments), causal_mask(ops.shape(segments)[1]))
    return ops.sum(ops.cast(seen[:, 0], "int32"), axis=-1) - 1
