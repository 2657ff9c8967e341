"""Encoding: pairs as ids in chunks, spelled in one way or, reproducibly, in others."""

import itertools

import numpy as np
import pytest

from t2t_lite.data.corpus import Mix
from t2t_lite.data.corpus_writer import write_corpus
from t2t_lite.data.encoding import Spelling, encoded
from t2t_lite.data.sources import TextFiles
from t2t_lite.data.tokenizer import PAD


@pytest.fixture
def mix(corpus, tmp_path):
    return Mix([write_corpus(TextFiles(*corpus), tmp_path, "pairs")], [1.0])


def rows(chunks) -> dict[int, tuple[list[int], list[int]]]:
    """{place: ids of both sides}."""
    found = {}
    for places, ids, lengths in chunks:
        for place, source, target, pair in zip(places.tolist(), *ids, lengths):
            sides = tuple([i for i in side.tolist() if i != PAD] for side in (source, target))
            assert place not in found and [len(side) for side in sides] == pair.tolist()
            found[place] = sides
    return found


def test_in_the_order_that_is_asked_for(mix, sentences, vocabularies):
    order, places = np.arange(500)[::-1], np.array([3, 1, 499, *range(100, 400)])
    spelling = Spelling(vocabularies, alpha=0.0, seed=1, epoch=0)
    found = rows(encoded(mix, order, places, spelling, max_length=1000))
    assert list(found) == places.tolist()
    for place, ids in found.items():
        pair = sentences[499 - place]
        assert ids == tuple(vocabularies.source.encode_lines([text])[0] for text in pair)


def test_cut_to_the_longest(mix, vocabularies):
    spelling = Spelling(vocabularies, alpha=0.0, seed=1, epoch=0)
    [(_, ids, lengths)] = encoded(mix, np.arange(500), np.arange(500), spelling, max_length=7)
    assert ids[0].dtype == np.int32 and ids[0].shape == (500, 7) and lengths.max() > 100


def test_spellings_follow_from_seed_epoch_and_place(mix, sentences, vocabularies):
    def drawn(places, seed=1, epoch=0):
        spelling = Spelling(vocabularies, alpha=0.2, seed=seed, epoch=epoch)
        return rows(encoded(mix, np.arange(500), np.array(places), spelling, max_length=1000))

    whole = drawn(range(500))
    assert all(whole[place] == ids for place, ids in drawn([400, 7, 8]).items())
    for place, (source, target) in whole.items():
        texts = [vocabularies.source.decode_lines([ids])[0] for ids in (source, target)]
        assert tuple(texts) == sentences[place]
    plain = Spelling(vocabularies, alpha=0.0, seed=1, epoch=0)
    others = [
        rows(encoded(mix, np.arange(500), np.arange(500), plain, max_length=1000)),
        drawn(range(500), seed=2),
        drawn(range(500), epoch=1),
        # Equal texts at other places too.
        {n: ids for n, ids in enumerate(itertools.islice(whole.values(), 1, None))},
    ]
    for other in others:
        assert sum(whole[place] == other.get(place) for place in whole) < 50


def test_nothing(mix, vocabularies):
    spelling = Spelling(vocabularies, alpha=0.0, seed=1, epoch=0)
    assert not list(encoded(mix, np.arange(500), np.array([], int), spelling, max_length=9))
