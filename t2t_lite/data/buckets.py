"""Buckets: the few shapes that training batches have, fitted to a corpus's lengths."""

import dataclasses
import math

import numpy as np

from t2t_lite.errors import UserError

_CANDIDATES = 64  # lengths a side that a bucket may end at
_PACKED = 4  # pairs of mean length that a row holds, with packing


@dataclasses.dataclass(frozen=True)
class Bucket:
    """The shape of one update's batch: inputs [N, S], targets [N, T]."""

    rows: int  # N
    source_length: int  # S
    target_length: int  # T


def fit_buckets(
    lengths: np.ndarray,
    *,
    batch_tokens: int,
    max_length: int,
    num_buckets: int,
    packing: bool = False,
) -> list[Bucket]:
    """Chooses at most `num_buckets` shapes that leave the least padding, or those of packed rows.

    The shapes are nested: each has at least the lengths of the one before on both sides, and a pair
    goes to the first that holds it. The last holds every pair of at most `max_length` a side.

    Args:
        lengths: int [N, 2], sub-words of source and target of each pair, EOS included.
        batch_tokens: bound on rows * max(S, T).
        max_length: sub-words; longer pairs are not trained on.
        num_buckets: shapes at most.
        packing: whether rows hold several pairs; then there are two shapes at most.

    Raises UserError where `batch_tokens` is too small for one row of `max_length`.
    """
    if max_length > batch_tokens:
        raise UserError(
            f"batch_tokens={batch_tokens}: too small for one pair of max_length={max_length}; "
            f"expected batch_tokens of at least {max_length}, or max_length of at most "
            f"{batch_tokens}"
        )
    lengths = lengths[(lengths <= max_length).all(axis=1)]
    if packing:
        shapes = _packed(lengths, max_length)
    else:
        shapes = _least_padding(lengths, max_length, num_buckets)
    return [Bucket(batch_tokens // max(s, t), s, t) for s, t in shapes]


def bucket_numbers(buckets: list[Bucket], lengths: np.ndarray) -> np.ndarray:
    """int [N]: the first of nested buckets that each pair fits, len(buckets) where none.

    Args:
        buckets: smallest first, as `fit_buckets` returns them.
        lengths: int [N, 2], sub-words of source and target.
    """
    source, target = ([b.source_length for b in buckets], [b.target_length for b in buckets])
    # The buckets are nested, so a pair's is the larger of the two that its sides need.
    return np.maximum(
        np.searchsorted(source, lengths[:, 0]), np.searchsorted(target, lengths[:, 1])
    )


def rounded_length(length: int) -> int:
    """`length` rounded up to 16, 24, 32, 48, 64, 96, ...: two to each doubling.

    So batches of any lengths have few shapes, and from 17 on at most a third of a row is padding.
    """
    power = 1 << max(length - 1, 15).bit_length()
    between = power * 3 // 4
    return between if 16 < length <= between else power


def _packed(lengths: np.ndarray, max_length: int) -> list[tuple[int, int]]:
    """The shapes of packed rows: one for nearly all pairs, and one that holds any.

    The first has its sides in the proportion of the corpus, since both are to get full at once. It
    is as short as packs well: a row's attention takes time by its length, whatever is in it.
    """
    mean = lengths.mean(axis=0) if len(lengths) else np.ones(2)
    count = min(_PACKED, max_length / mean.max())
    first = tuple(math.ceil(round(length * count, 6)) for length in mean)
    return sorted({first, (max_length, max_length)})


def _least_padding(lengths: np.ndarray, max_length: int, num_buckets: int) -> list[tuple[int, int]]:
    """The chain of shapes (S, T), the last (max_length, max_length), that leaves the least padding.

    A dynamic programme over a grid of candidate shapes. With n(q) the number of pairs that fit
    shape q and w(q) = S + T its width, the k shapes that end in q pad to f_k(q) = min over p inside
    q of f_{k-1}(p) + (n(q) - n(p)) w(q) tokens.
    """
    sides = [_candidates(lengths[:, side], max_length) for side in (0, 1)]
    places = [np.searchsorted(ends, lengths[:, side]) for side, ends in enumerate(sides)]
    grid = np.zeros([len(ends) for ends in sides])
    np.add.at(grid, tuple(places), 1)
    fitting = grid.cumsum(0).cumsum(1)
    useful = _tight(fitting)
    useful[-1, -1] = True
    source, target = (axis[useful] for axis in np.meshgrid(*sides, indexing="ij"))
    fitting = fitting[useful]  # n
    width = (source + target).astype(float)  # w
    inside = (source[:, None] <= source) & (target[:, None] <= target)  # [p, q]
    removed = np.where(inside, fitting[:, None] * width, -np.inf)  # n(p) w(q)

    best = fitting * width  # f_1
    steps = []
    for _ in range(num_buckets - 1):
        cost = best[:, None] - removed
        steps.append(cost.argmin(axis=0))
        best = cost.min(axis=0) + fitting * width

    shape = len(width) - 1
    chain = [shape]
    for previous in reversed(steps):
        shape = previous[shape]
        chain.append(shape)
    return sorted({(int(source[q]), int(target[q])) for q in chain})


def _tight(fitting: np.ndarray) -> np.ndarray:
    """bool, as `fitting`: whether fewer pairs fit any smaller shape. Others only add padding."""
    tight = fitting > 0
    tight[1:] &= fitting[1:] > fitting[:-1]
    tight[:, 1:] &= fitting[:, 1:] > fitting[:, :-1]
    return tight


def _candidates(lengths: np.ndarray, max_length: int) -> np.ndarray:
    """Lengths that cut the corpus into parts of about as many tokens; the last is `max_length`."""
    counts = np.bincount(lengths, minlength=max_length + 1)
    tokens = np.cumsum(counts * np.arange(max_length + 1))
    ends = np.searchsorted(tokens, tokens[-1] * np.arange(1, _CANDIDATES) / (_CANDIDATES - 1))
    return np.unique(np.append(ends, max_length))
