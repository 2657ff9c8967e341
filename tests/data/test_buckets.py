"""Buckets: the contract of their shapes, the least padding, and which one a pair goes to."""

import itertools

import numpy as np
import pytest

from t2t_lite.data.buckets import Bucket, bucket_numbers, fit_buckets, rounded_length
from t2t_lite.errors import UserError


def lengths_like_text(count=5000):
    generator = np.random.default_rng(1)
    common = generator.normal(2.8, 0.4, [count, 1])
    return np.exp(common + generator.normal(0, 0.15, [count, 2])).astype(int) + 1


def padded_tokens(lengths, buckets) -> int:
    """What the pairs take up when each goes to the first bucket that holds it."""
    total = 0
    for source, target in lengths:
        bucket = next(b for b in buckets if source <= b.source_length and target <= b.target_length)
        total += bucket.source_length + bucket.target_length
    return total


@pytest.mark.parametrize("num_buckets", [1, 2, 16])
def test_contract(num_buckets):
    lengths = lengths_like_text()
    buckets = fit_buckets(lengths, batch_tokens=4096, max_length=100, num_buckets=num_buckets)
    assert 1 <= len(buckets) <= num_buckets
    assert (buckets[-1].source_length, buckets[-1].target_length) == (100, 100)
    for bucket in buckets:
        longest = max(bucket.source_length, bucket.target_length)
        assert bucket.rows * longest <= 4096
        assert (bucket.rows + 1) * longest > 4096  # not a row could be added
    for smaller, larger in itertools.pairwise(buckets):
        assert (
            smaller.source_length <= larger.source_length
            and smaller.target_length <= larger.target_length
        )


def test_little_padding():
    lengths = lengths_like_text().clip(max=100)
    shape = dict(batch_tokens=4096, max_length=100)
    fitted = [fit_buckets(lengths, num_buckets=count, **shape) for count in (1, 4, 16)]
    padding = [1 - lengths.sum() / padded_tokens(lengths, buckets) for buckets in fitted]
    assert padding[0] > padding[1] > padding[2]
    assert padding[2] < 0.13


def test_least_padding_by_brute_force():
    generator = np.random.default_rng(2)
    for _ in range(5):
        lengths = generator.integers(1, 7, [30, 2])
        shapes = list(itertools.product(range(1, 8), repeat=2))
        best = min(
            padded_tokens(lengths, [Bucket(1, *first), Bucket(1, *second), Bucket(1, 7, 7)])
            for first, second in itertools.product(shapes, repeat=2)
            if first[0] <= second[0] and first[1] <= second[1]
        )
        found = fit_buckets(lengths, batch_tokens=100, max_length=7, num_buckets=3)
        assert padded_tokens(lengths, found) == best


def test_long_pairs_do_not_count():
    lengths = lengths_like_text(500)
    options = dict(batch_tokens=4096, max_length=60, num_buckets=4)
    kept = lengths[(lengths <= 60).all(axis=1)]
    long = np.array([[61, 3], [3, 1000]])
    assert fit_buckets(np.concatenate([kept, long]), **options) == fit_buckets(kept, **options)
    assert fit_buckets(long, **options)[-1] == Bucket(68, 60, 60)


def test_however_many_buckets_few_lengths_are_tried():
    lengths = np.stack([np.random.default_rng(1).integers(1, 900, 10_000), np.ones(10_000, int)], 1)
    found = fit_buckets(lengths, batch_tokens=4096, max_length=1000, num_buckets=200)
    ends = [bucket.source_length for bucket in found]
    assert 32 < len(found) <= 65 and ends == sorted(ends) and found[-1] == Bucket(4, 1000, 1000)


def test_batch_too_small():
    with pytest.raises(UserError) as error:
        fit_buckets(lengths_like_text(), batch_tokens=200, max_length=256, num_buckets=4)
    for part in ("batch_tokens=200", "max_length=256", "at least 256", "at most 200"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_bucket_numbers():
    """The first bucket that holds a pair; len(buckets) for a pair that none holds."""
    buckets = [Bucket(9, 10, 12), Bucket(8, 10, 20), Bucket(5, 30, 30)]
    lengths = np.array([[s, t] for s in range(1, 33) for t in range(1, 33)])
    expected = [
        next((n for n, b in enumerate(buckets) if s <= b.source_length and t <= b.target_length), 3)
        for s, t in lengths
    ]
    assert bucket_numbers(buckets, lengths).tolist() == expected


def test_rounded_lengths_are_few():
    rounded = [rounded_length(n) for n in range(1, 2000)]
    assert all(n <= r <= max(16, 1.5 * n) for n, r in enumerate(rounded, 1))
    assert sorted(set(rounded)) == [
        *(16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
    ]
