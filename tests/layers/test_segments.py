"""Segments: numbered from 1, told apart by masks, counted anew by positions; padding is 0."""

import numpy as np

from t2t_lite.layers.segments import segment_mask, segment_positions, segmentation

IDS = np.array([[5, 7, 1, 1, 4, 1, 0], [9, 9, 9, 9, 9, 9, 1], [0] * 7], np.int32)
SEGMENTS = [[1, 1, 1, 2, 3, 3, 0], [1] * 7, [0] * 7]


def test_segmentation():
    assert np.array(segmentation(IDS, 1)).tolist() == SEGMENTS


def test_positions_restart():
    positions = np.array(segment_positions(np.array(SEGMENTS, np.int32)))
    assert positions[:2].tolist() == [[0, 1, 2, 0, 0, 1, 0], [0, 1, 2, 3, 4, 5, 6]]


def test_mask_is_true_within_a_segment():
    queries, keys = np.array([[1, 1, 2, 0]], np.int32), np.array([[1, 2, 2]], np.int32)
    mask = np.array(segment_mask(queries, keys))
    assert mask.shape == (1, 1, 4, 3)
    assert mask[0, 0].astype(int).tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 0, 0]]
