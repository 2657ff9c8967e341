"""Packed rows: whole pairs in the same order on both sides, each once, little padding."""

import functools
import gzip
import itertools
import json
from collections import Counter

import numpy as np
import pytest

from t2t_lite.data import encoding
from t2t_lite.data.buckets import Bucket, fit_buckets
from t2t_lite.data.corpus import Mix
from t2t_lite.data.corpus_writer import write_corpus
from t2t_lite.data.packing import PackedBatch, chosen_pairs, filled
from t2t_lite.data.pipeline import Position, TrainingBatches, sample_lengths
from t2t_lite.data.sources import TextFiles
from t2t_lite.data.tokenizer import EOS, PAD, Vocabularies, Vocabulary

MAX_LENGTH = 100  # a few of the corpus's pairs are longer


@pytest.fixture
def mix(corpus, tmp_path):
    return Mix([write_corpus(TextFiles(*corpus), tmp_path, "pairs")], [1.0])


@pytest.fixture
def stream(mix, vocabularies):
    """Makes TrainingBatches."""
    shape = dict(batch_tokens=1800, max_length=MAX_LENGTH, num_buckets=16, packing=True)
    rows = fit_buckets(sample_lengths(mix, vocabularies, seed=1), **shape)
    return lambda seed=1, **options: TrainingBatches(
        mix, vocabularies, rows, seed=seed, max_length=MAX_LENGTH, packing=True, **options
    )


def epoch_of(stream, epoch=0):
    since = itertools.dropwhile(lambda batch: batch.position.epoch < epoch, stream)
    return list(itertools.takewhile(lambda batch: batch.position.epoch == epoch, since))


def sequences(row) -> list[tuple[int, ...]]:
    """What stands in a row, each sequence to its EOS; after the last one there is only padding."""
    ends = np.flatnonzero(row == EOS) + 1
    assert (row[ends[-1] if len(ends) else 0 :] == PAD).all()
    return [tuple(part.tolist()) for part in np.split(row, ends)[:-1]]


def pairs(batch) -> list[tuple]:
    return [
        pair
        for inputs, targets in zip(batch.inputs, batch.targets)
        for pair in zip(sequences(inputs), sequences(targets), strict=True)
    ]


def same(a, b) -> bool:
    return a.position == b.position and all(
        np.array_equal(x, y) for x, y in ((a.inputs, b.inputs), (a.targets, b.targets))
    )


def padding(batches) -> float:
    symbols = sum(np.count_nonzero(b.inputs) + np.count_nonzero(b.targets) for b in batches)
    return 1 - symbols / sum(b.inputs.size + b.targets.size for b in batches)


def test_epoch_holds_each_pair_once(stream, sentences, vocabularies):
    both = (vocabularies.source, vocabularies.target)
    ids = [v.encode_lines(side) for v, side in zip(both, zip(*sentences))]
    expected = [(tuple(a), tuple(b)) for a, b in zip(*ids) if max(len(a), len(b)) <= MAX_LENGTH]
    batches = stream()
    for epoch in (0, 1):
        found = [pair for batch in epoch_of(batches, epoch) for pair in pairs(batch)]
        assert Counter(found) == Counter(expected)
    last = epoch_of(batches)[-1].position
    assert (last.place, last.dropped) == (len(sentences), len(sentences) - len(expected))


def test_batches_are_as_the_shapes_say(stream):
    batches = stream()
    shapes = {(b.rows, b.source_length, b.target_length) for b in batches.buckets}
    epoch = epoch_of(batches)
    found = [(*batch.inputs.shape, batch.targets.shape[1]) for batch in epoch]
    assert set(found) <= shapes
    assert all(rows * max(lengths) <= 1800 for rows, *lengths in shapes)
    assert all(len(batch.targets) == len(batch.inputs) for batch in epoch)
    empty = [not batch.inputs[:, 0].all() for batch in epoch]
    assert not any(empty[:-1])


def test_order_follows_from_seed_and_epoch(stream):
    first, again, other = (epoch_of(stream(seed)) for seed in (1, 1, 2))
    assert len(first) == len(again) and all(map(same, first, again))
    assert not all(map(same, first, other))
    assert not np.array_equal(first[0].inputs, epoch_of(stream(), 1)[0].inputs)


@pytest.mark.parametrize("sampling", [0.0, 0.1])
def test_goes_on_from_any_position(stream, monkeypatch, sampling):
    """The very same batches as without an end between them."""
    monkeypatch.setattr(encoding, "_CHUNK", 64)
    stream = functools.partial(stream, subword_sampling=sampling)
    epoch = len(epoch_of(stream()))
    whole = list(itertools.islice(stream(), 3 * epoch + 4))
    for place in {*range(epoch + 2), 2 * epoch, 3 * epoch - 1}:
        stored = json.loads(json.dumps(whole[place].position.to_json()))
        resumed = itertools.islice(stream(start=Position.from_json(stored)), 4)
        assert all(map(same, whole[place + 1 : place + 5], resumed))
    held = [sum(map(len, batch.position.waiting)) for batch in whole]
    assert any(held)


def test_batches_do_not_follow_from_how_pairs_come():
    """One by one or all at once."""
    lengths = lengths_like_text(1500)
    rows = [np.where(np.arange(80) < n[:, None], 7, 0).astype(np.int32) for n in lengths.T]
    numbers = np.arange(len(lengths))
    whole, single = PackedBatch(Bucket(8, 62, 64)), PackedBatch(Bucket(8, 62, 64))
    at_once = [taken.tolist() for taken, *_ in whole.add(numbers, *rows)]
    one_by_one = [
        taken.tolist()
        for n in numbers
        for taken, *_ in single.add(numbers[n : n + 1], *(side[n : n + 1] for side in rows))
    ]
    assert at_once == one_by_one and len(at_once) > 20 and whole.waiting() == single.waiting()


def test_no_pair_waits_for_long():
    """The next batch has the oldest pair, even of the longest."""
    lengths = lengths_like_text(3000)
    lengths[::50] = 62, 64  # fill a row alone
    rows = [np.where(np.arange(80) < n[:, None], 7, 0).astype(np.int32) for n in lengths.T]
    part, done = PackedBatch(Bucket(16, 62, 64)), set()
    for taken, *_ in part.add(np.arange(len(lengths)), *rows):
        oldest = min(set(range(len(lengths))) - done)
        assert oldest in taken
        done.update(taken.tolist())
    assert len(done) > 2000


def test_chosen_pairs():
    """The oldest, then what evens the sides out, at last what fills the row up."""
    assert chosen_pairs(np.array([[4, 1], [3, 1], [1, 4]]), np.array([9, 9])) == [0, 2, 1]
    assert chosen_pairs(np.array([[3, 3], [2, 2], [6, 6]]), np.array([9, 9])) == [0, 2]
    assert chosen_pairs(np.array([[9, 1], [1, 2]]), np.array([9, 9])) == [0]
    assert chosen_pairs(np.array([[10, 1]]), np.array([9, 9])) == []


def lengths_like_text(count):
    """As of Multi30k: a mean of 15 or so, few of more than 40."""
    generator = np.random.default_rng(1)
    common = generator.normal(2.65, 0.3, [count, 1])
    return np.exp(common + generator.normal(0, 0.15, [count, 2])).astype(int).clip(max=60) + 1


def test_little_padding():
    lengths = lengths_like_text(8000)
    shapes = fit_buckets(lengths, batch_tokens=4096, max_length=256, num_buckets=16, packing=True)
    assert 0.97 < filled(lengths, shapes) < 1
    first, last = shapes
    mean = lengths.mean(axis=0)
    sides = first.source_length, first.target_length
    assert all(3.9 * n < side < 4.2 * n for n, side in zip(mean, sides))
    assert last == Bucket(16, 256, 256)


def test_rows_are_no_longer_than_the_longest_pair_may_be():
    lengths = np.full([100, 2], [10, 30])
    options = dict(batch_tokens=512, num_buckets=16, packing=True)
    assert fit_buckets(lengths, max_length=60, **options) == [Bucket(8, 20, 60), Bucket(8, 60, 60)]
    even = np.full([100, 2], 30)
    assert fit_buckets(even, max_length=60, **options) == [Bucket(8, 60, 60)]
    assert fit_buckets(lengths, max_length=5, **options) == [
        Bucket(128, 4, 4),
        Bucket(102, 5, 5),
    ]


def test_texts_of_a_batch(stream, sentences, vocabularies):
    batch = next(iter(stream()))
    texts = list(batch.pairs(vocabularies))
    assert len(texts) == len(pairs(batch)) > len(batch.inputs) and set(texts) <= set(sentences)


@pytest.mark.thorough
@pytest.mark.parametrize("folder", ["multi30k", "tatoeba_ende"])
def test_little_padding_of_real_text(shared, tmp_path, folder):
    """At most 3% of an epoch of `small`, whose last batch is not full."""
    paths = [tmp_path / f"train.{language}" for language in ("en", "de")]
    for path in paths:
        with gzip.open(shared / "data" / folder / f"{path.name}.gz") as file:
            path.write_bytes(b"".join(itertools.islice(file, 30_000)))
    mix = Mix([write_corpus(TextFiles(*paths), tmp_path, "pairs")], [1.0])
    vocabulary = Vocabulary.train(
        (text.decode() for pair in mix.sample(30_000, 1) for text in pair), 8000
    )
    vocabularies = Vocabularies(vocabulary, vocabulary, shared=True)
    lengths = sample_lengths(mix, vocabularies, seed=1)
    options = dict(batch_tokens=4096, max_length=256, num_buckets=16, packing=True)
    shapes = fit_buckets(lengths, **options)
    stream = TrainingBatches(mix, vocabularies, shapes, seed=1, max_length=256, packing=True)
    assert padding(epoch_of(stream)) < 0.03
    buckets = fit_buckets(lengths, **{**options, "packing": False})
    stream = TrainingBatches(mix, vocabularies, buckets, seed=1, max_length=256)
    assert padding(epoch_of(stream)) > 0.06
