"""The pipeline: every pair once an epoch, few shapes, the same again from the same place."""

import dataclasses
import functools
import itertools
import json
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data import encoding
from t2t_lite.data.buckets import fit_buckets
from t2t_lite.data.corpus import Mix
from t2t_lite.data.corpus_writer import write_corpus
from t2t_lite.data.pipeline import Position, TrainingBatches, eval_batches, sample_lengths
from t2t_lite.data.sources import Generated, TextFiles
from t2t_lite.data.tokenizer import EOS, PAD
from t2t_lite.errors import UserError

MAX_LENGTH = 100  # a few of the corpus's pairs are longer


@pytest.fixture
def mix(corpus, tmp_path):
    return Mix([write_corpus(TextFiles(*corpus), tmp_path, "pairs")], [1.0])


@pytest.fixture
def batches(mix, vocabularies):
    """Makes TrainingBatches."""
    lengths = sample_lengths(mix, vocabularies, seed=1)
    buckets = fit_buckets(lengths, batch_tokens=1800, max_length=MAX_LENGTH, num_buckets=6)
    return lambda seed=1, **options: TrainingBatches(
        mix, vocabularies, buckets, seed=seed, max_length=MAX_LENGTH, **options
    )


def epoch_of(stream, epoch=0):
    since = itertools.dropwhile(lambda batch: batch.position.epoch < epoch, stream)
    return list(itertools.takewhile(lambda batch: batch.position.epoch == epoch, since))


def rows(batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The batch's pairs without padding and without empty rows."""
    both = zip(batch.inputs, batch.targets)
    pairs = [tuple(tuple(int(i) for i in row if i != PAD) for row in pair) for pair in both]
    return [pair for pair in pairs if any(pair)]


def same(a, b) -> bool:
    return a.position == b.position and all(
        np.array_equal(x, y) for x, y in ((a.inputs, b.inputs), (a.targets, b.targets))
    )


def encoded(pairs, vocabularies) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    sides = zip(*pairs)
    ids = [
        v.encode_lines(side) for v, side in zip((vocabularies.source, vocabularies.target), sides)
    ]
    return [(tuple(a), tuple(b)) for a, b in zip(*ids)]


def test_sample_lengths(mix, sentences, vocabularies):
    lengths = sample_lengths(mix, vocabularies, seed=1)
    expected = [[len(a), len(b)] for a, b in encoded(sentences, vocabularies)]
    assert sorted(lengths.tolist()) == sorted(expected)
    some = sample_lengths(mix, vocabularies, seed=1, limit=100)
    assert some.tolist() == lengths[:100].tolist() != expected[:100]
    assert (lengths > MAX_LENGTH).any()


def test_epoch_holds_each_pair_once(batches, sentences, vocabularies):
    everything = encoded(sentences, vocabularies)
    expected = [pair for pair in everything if max(map(len, pair)) <= MAX_LENGTH]
    stream = batches()
    for epoch in (0, 1):
        found = [pair for batch in epoch_of(stream, epoch) for pair in rows(batch)]
        assert Counter(found) == Counter(expected)
    last = epoch_of(stream)[-1]
    assert last.position.place == len(sentences)
    assert last.position.dropped == len(everything) - len(expected) > 0


def test_batches_are_as_the_buckets_say(batches):
    stream = batches()
    shapes = {(b.rows, b.source_length, b.target_length) for b in stream.buckets}
    epoch = epoch_of(stream)
    partly_filled = 0
    for batch in epoch:
        assert batch.inputs.dtype == batch.targets.dtype == np.int32
        size, source_length = batch.inputs.shape
        assert len(batch.targets) == size
        assert (size, source_length, batch.targets.shape[1]) in shapes
        assert size * max(source_length, batch.targets.shape[1]) <= 1800
        pairs = rows(batch)
        partly_filled += len(pairs) < size
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


@pytest.mark.parametrize("sampling", [0.0, 0.1])
def test_goes_on_from_any_position(batches, monkeypatch, sampling):
    """The very same batches as without an end between them, from 20 random places."""
    monkeypatch.setattr(encoding, "_CHUNK", 64)
    batches = functools.partial(batches, subword_sampling=sampling)
    whole = list(itertools.islice(batches(), 3 * len(epoch_of(batches())) + 9))
    places = [*np.random.default_rng(1).choice(len(whole) - 9, 17, replace=False)]
    ends = [place for place, batch in enumerate(whole[:-9]) if batch.position.place == 500]
    for place in [0, ends[0], ends[-1], *places]:
        stored = json.loads(json.dumps(whole[place].position.to_json()))
        resumed = itertools.islice(batches(start=Position.from_json(stored)), 8)
        assert all(map(same, whole[place + 1 : place + 9], resumed))


def test_reads_only_what_comes_after(batches, monkeypatch):
    whole = epoch_of(batches())
    read = []
    texts = Mix.texts
    monkeypatch.setattr(
        Mix, "texts", lambda mix, numbers: read.extend(numbers) or texts(mix, numbers)
    )
    middle = whole[len(whole) // 2].position
    monkeypatch.setattr(encoding, "_CHUNK", 50)
    start = dataclasses.replace(middle, place=450, waiting=(), batches=0)
    next(iter(batches(start=start)))
    assert len(read) <= 50


def test_positions_of_before(batches):
    assert Position.from_json({"epoch": 3, "batch": 17}) == Position(3)


def test_a_position_is_small(batches):
    stream = batches()
    held = [sum(map(len, b.position.waiting)) for b in epoch_of(stream)]
    assert 0 < max(held) < sum(bucket.rows for bucket in stream.buckets)


def test_positions_of_larger_buckets(batches, mix, vocabularies, sentences):
    """Of a version whose buckets followed from the devices: none of the epoch's pairs is lost."""
    stream = batches()
    whole = epoch_of(stream)
    place = len(whole) // 2
    smaller = [dataclasses.replace(bucket, rows=1) for bucket in stream.buckets]
    options = dict(max_length=MAX_LENGTH, start=whole[place].position)
    rest = TrainingBatches(mix, vocabularies, smaller, seed=1, **options)
    found = Counter(pair for batch in whole[: place + 1] for pair in rows(batch))
    found += Counter(pair for batch in epoch_of(rest) for pair in rows(batch))
    short = [p for p in encoded(sentences, vocabularies) if max(map(len, p)) <= MAX_LENGTH]
    assert not Counter(short) - found


def test_a_sorted_corpus_is_mixed(tmp_path, vocabularies):
    """Sorted by topic and by length: the first batches have those of the whole."""
    topics, size = 10, 250_000
    pairs = (
        (f"{n * topics // size} the dog" + " the cat" * (n * 8 // size), "Hund")
        for n in range(size)
    )
    mix = Mix([write_corpus(Generated(lambda: pairs, "sorted"), tmp_path, "sorted")], [1.0])
    lengths = sample_lengths(mix, vocabularies, seed=1, limit=5000)
    buckets = fit_buckets(lengths, batch_tokens=1024, max_length=64, num_buckets=6)
    stream = TrainingBatches(mix, vocabularies, buckets, seed=1, max_length=64)
    found = [pair for batch in itertools.islice(stream, 100) for pair in rows(batch)]
    texts = vocabularies.source.decode_lines([source for source, _ in found])
    drawn = Counter(text[0] for text in texts)
    n = len(texts)
    assert n > 2000
    # Six standard errors: of a share of a tenth, and of a length spread evenly over 0 to 7.
    assert all(abs(drawn[str(topic)] / n - 0.1) < 6 * (0.09 / n) ** 0.5 for topic in range(topics))
    cats = np.array([text.count("cat") for text in texts])
    assert abs(cats.mean() - 3.5) < 6 * 2.3 / n**0.5 + 0.3  # which bucket fills first, too
    assert abs(lengths[:, 0].mean() - np.mean([len(a) for a, _ in found])) < 1


def test_all_pairs_too_long(mix, vocabularies):
    lengths = sample_lengths(mix, vocabularies, seed=1)
    buckets = fit_buckets(lengths, batch_tokens=30, max_length=3, num_buckets=2)
    with pytest.raises(UserError, match="all 500 pairs are longer than max_length=3"):
        next(iter(TrainingBatches(mix, vocabularies, buckets, seed=1, max_length=3)))


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
