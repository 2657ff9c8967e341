"""The pipeline: every pair once an epoch, few shapes, the same again from the same place."""

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data import pipeline
from t2t_lite.data.buckets import fit_buckets
from t2t_lite.data.pipeline import TrainingBatches, eval_batches, sample_lengths
from t2t_lite.data.sources import Generated, TextFiles
from t2t_lite.data.tokenizer import EOS, PAD
from t2t_lite.errors import UserError

MAX_LENGTH = 100  # a few of the corpus's pairs are longer


@pytest.fixture
def source(corpus):
    return TextFiles(*corpus)


@pytest.fixture
def batches(source, vocabularies):
    """Makes TrainingBatches with 2 replicas and 3 micro-batches."""
    lengths = sample_lengths(source, vocabularies)
    shape = dict(replicas=2, micro_batches=3, max_length=MAX_LENGTH)
    buckets = fit_buckets(lengths, batch_tokens=1800, num_buckets=6, **shape)
    return lambda seed=1, **options: TrainingBatches(
        source, vocabularies, buckets, seed=seed, **shape, **options
    )


def epoch_of(stream, epoch=0):
    return list(
        itertools.takewhile(
            lambda b: b.epoch == epoch, itertools.dropwhile(lambda b: b.epoch < epoch, stream)
        )
    )


def rows(batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The batch's pairs without padding and without empty rows."""
    flat = [array.reshape(-1, array.shape[-1]) for array in (batch.inputs, batch.targets)]
    pairs = [tuple(tuple(int(i) for i in row if i != PAD) for row in pair) for pair in zip(*flat)]
    return [pair for pair in pairs if any(pair)]


def same(a, b) -> bool:
    return (a.epoch, a.index) == (b.epoch, b.index) and all(
        np.array_equal(x, y) for x, y in ((a.inputs, b.inputs), (a.targets, b.targets))
    )


def encoded(pairs, vocabularies) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    sides = zip(*pairs)
    ids = [
        v.encode_lines(side) for v, side in zip((vocabularies.source, vocabularies.target), sides)
    ]
    return [(tuple(a), tuple(b)) for a, b in zip(*ids)]


def test_sample_lengths(source, sentences, vocabularies):
    lengths = sample_lengths(source, vocabularies)
    assert lengths.tolist() == [[len(a), len(b)] for a, b in encoded(sentences, vocabularies)]
    assert sample_lengths(source, vocabularies, limit=7).tolist() == lengths[:7].tolist()
    assert (lengths > MAX_LENGTH).any()


def test_epoch_holds_each_pair_once(batches, sentences, vocabularies):
    everything = encoded(sentences, vocabularies)
    expected = [pair for pair in everything if max(map(len, pair)) <= MAX_LENGTH]
    stream = batches()
    for epoch in (0, 1):
        found = [pair for batch in epoch_of(stream, epoch) for pair in rows(batch)]
        assert Counter(found) == Counter(expected)
    iterator = iter(stream)
    for batch in iterator:
        if len(rows(batch)) < batch.inputs[..., 0].size:  # the last of the epoch
            break
    assert stream.pairs == len(sentences)
    assert stream.dropped == len(everything) - len(expected) > 0


def test_batches_are_as_the_buckets_say(batches):
    stream = batches()
    shapes = {(b.rows, b.source_length, b.target_length) for b in stream.buckets}
    epoch = epoch_of(stream)
    assert [batch.index for batch in epoch] == list(range(len(epoch)))
    partly_filled = 0
    for batch in epoch:
        assert batch.inputs.dtype == batch.targets.dtype == np.int32
        replicas, micro_batches, size, source_length = batch.inputs.shape
        assert (replicas, micro_batches) == (2, 3)
        assert batch.targets.shape[:3] == batch.inputs.shape[:3]
        assert (size, source_length, batch.targets.shape[3]) in shapes
        assert batch.inputs[..., 0].size * max(source_length, batch.targets.shape[3]) <= 1800
        pairs = rows(batch)
        partly_filled += len(pairs) < batch.inputs[..., 0].size
        for array in (batch.inputs, batch.targets):
            assert (np.count_nonzero(array == EOS, axis=-1) == (array[..., 0] != PAD)).all()
            assert (
                np.diff((array == PAD).astype(int), axis=-1) >= 0
            ).all()  # PAD only after the text
        assert all(row[-1] == EOS for pair in pairs for row in pair)
    assert partly_filled <= 1


def test_order_follows_from_seed_and_epoch(batches):
    first, again, other = (epoch_of(batches(seed)) for seed in (1, 1, 2))
    assert len(first) == len(again) and all(map(same, first, again))
    tf.random.set_seed(77)
    assert all(map(same, first, epoch_of(batches())))
    assert not all(map(same, first, other))
    second = epoch_of(batches(), 1)
    assert not np.array_equal(first[0].inputs, second[0].inputs)


def test_starts_anywhere(batches):
    whole = list(itertools.islice(batches(), 2 * len(epoch_of(batches())) + 3))
    for place in (1, len(whole) // 2, len(whole) - 4):
        resumed = batches(start_epoch=whole[place].epoch, start_batch=whole[place].index)
        assert all(map(same, whole[place:], resumed))


def test_blocks_are_shuffled_and_whole(monkeypatch):
    monkeypatch.setattr(pipeline, "_BLOCK", 100)
    monkeypatch.setattr(pipeline, "_CHUNK", 30)
    source = Generated(lambda: ((str(n), str(-n)) for n in range(250)), "numbers")
    chunks = list(pipeline._shuffled(source.dataset(), 1, 0).as_numpy_iterator())
    numbers = np.concatenate([chunk[0] for chunk in chunks]).astype(int)
    assert (np.concatenate([chunk[1] for chunk in chunks]).astype(int) == -numbers).all()
    blocks = [numbers[:100], numbers[100:200], numbers[200:]]
    for number, block in enumerate(blocks):
        assert sorted(block) == list(range(number * 100, number * 100 + len(block)))
    assert not np.array_equal(blocks[0], blocks[1] - 100)


def test_an_epoch_ends_without_waiting_for_the_tuner(source, vocabularies):
    """TensorFlow's tuner sleeps for up to a minute, in which an iterator cannot end."""
    chunks = pipeline._encoded(source.dataset().batch(10), vocabularies, MAX_LENGTH)
    assert chunks.options().autotune.enabled is False


def test_streams(monkeypatch, sentences, vocabularies):
    """A corpus without end: what is held does not grow with it."""
    monkeypatch.setattr(pipeline, "_BLOCK", 200)
    monkeypatch.setattr(pipeline, "_CHUNK", 50)
    read = itertools.count()

    def forever():
        for pair in itertools.cycle(sentences):
            next(read)
            yield pair

    source = Generated(forever, "endless")
    shape = dict(replicas=1, micro_batches=1, max_length=MAX_LENGTH)
    buckets = fit_buckets(
        sample_lengths(source, vocabularies, 500), batch_tokens=1000, num_buckets=4, **shape
    )
    batches = TrainingBatches(source, vocabularies, buckets, seed=1, **shape)
    seen = sum(len(rows(batch)) for batch in itertools.islice(batches, 100))
    assert 500 < seen < next(read) < seen + 10_000


def test_all_pairs_too_long(source, vocabularies):
    shape = dict(replicas=1, micro_batches=1, max_length=3)
    buckets = fit_buckets(
        sample_lengths(source, vocabularies), batch_tokens=30, num_buckets=2, **shape
    )
    with pytest.raises(UserError, match="all 500 pairs are longer than max_length=3"):
        next(iter(TrainingBatches(source, vocabularies, buckets, seed=1, **shape)))


@pytest.mark.parametrize("replicas", [1, 2])
def test_eval_batches_drop_nothing(sentences, vocabularies, replicas):
    pairs = [*sentences[:100], ("", ""), ("dog " * 400, "Hund"), *sentences[100:200]]
    expected = encoded(pairs, vocabularies)
    found, shapes = {}, set()
    for inputs, targets, numbers in eval_batches(
        pairs, vocabularies, batch_tokens=1000, replicas=replicas
    ):
        assert inputs.shape == targets.shape == (*numbers.shape, inputs.shape[-1])
        assert numbers.shape[:2] == (replicas, 1)
        assert inputs[..., 0].size * inputs.shape[-1] <= 1000 or numbers.shape[2] == 1
        shapes.add(inputs.shape)
        flat = (array.reshape(-1, inputs.shape[-1]) for array in (inputs, targets))
        for number, *pair in zip(numbers.ravel().tolist(), *flat):
            if number == -1:
                assert not any(side.any() for side in pair)
            else:
                assert number not in found
                found[number] = tuple(tuple(int(i) for i in side if i != PAD) for side in pair)
    assert [found[number] for number in range(len(pairs))] == expected
    assert len(shapes) <= 9
