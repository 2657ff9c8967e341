"""Prepared corpora: read at random, mixed in epochs whose orders follow from seed and epoch."""

from collections import Counter

import numpy as np
import pytest

from t2t_lite.data.corpus import ABOUT, INDEX, PAIRS, Corpus, Mix
from t2t_lite.data.corpus_writer import write_corpus
from t2t_lite.data.sources import Generated
from t2t_lite.errors import UserError

FIRST = [1329, 2530, 458, 1337, 323]  # of the order of 3,000 pairs, seed 1, epoch 0


def numbers(tmp_path, size: int, name: str = "n") -> Corpus:
    """The pairs ("n 0", "0"), ("n 1", "1"), ..."""
    source = Generated(lambda: ((f"{name} {n}", str(n)) for n in range(size)), f"{name} to {size}")
    return write_corpus(source, tmp_path, name)


def drawn(mix: Mix, seed: int, epoch: int) -> list[str]:
    return [text.decode() for text, _ in mix.texts(mix.order(seed, epoch))]


def test_reads_any_pairs(tmp_path):
    corpus = numbers(tmp_path, 3000)
    assert len(corpus) == 3000
    assert list(corpus.pairs()) == [(f"n {n}", str(n)) for n in range(3000)]
    assert corpus.texts(np.array([2999, 0, 7, 7])) == [
        (b"n 2999", b"2999"),
        (b"n 0", b"0"),
        (b"n 7", b"7"),
        (b"n 7", b"7"),
    ]


def test_an_epoch_is_one_permutation(tmp_path):
    mix = Mix([numbers(tmp_path, 3000)], [1.0])
    orders = [mix.order(seed, epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    assert all(sorted(order) == list(range(3000)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert np.array_equal(mix.order(1, 0), orders[0])
    halves = [order[:1500].mean() for order in orders]
    assert all(abs(half - 1499.5) < 100 for half in halves)  # the standard error is 16
    # Whatever NumPy's version: resumed runs depend on it.
    assert orders[0][:5].tolist() == FIRST


def test_weights_say_how_often_a_pair_comes(tmp_path):
    mix = Mix([numbers(tmp_path, 10, name) for name in "abc"], [1, 2, 0.5])
    assert len(mix) == 10 + 20 + 5
    epochs = [Counter(drawn(mix, 1, epoch)) for epoch in range(4)]
    for epoch in epochs:
        assert all(epoch[f"a {n}"] == 1 and epoch[f"b {n}"] == 2 for n in range(10))
        assert sum(count for text, count in epoch.items() if text.startswith("c")) == 5
    # Two epochs of halves hold the whole, and a half is not the corpus's first.
    assert all((epochs[0] + epochs[1])[f"c {n}"] == 1 for n in range(10))
    assert all((epochs[2] + epochs[3])[f"c {n}"] == 1 for n in range(10))
    assert {f"c {n}" for n in range(5)} != {t for t in epochs[0] if t.startswith("c")}
    assert [text[0] for text in drawn(mix, 1, 0)] != sorted(text[0] for text in drawn(mix, 1, 0))


def test_digest(tmp_path):
    a, b = (numbers(tmp_path, 10, name) for name in "ab")
    again = numbers(tmp_path / "elsewhere", 10, "a")
    assert a.digest == again.digest != b.digest
    digests = [Mix(*mix).digest for mix in (([a], [1]), ([a], [2]), ([a, b], [1, 1]), ([b], [1]))]
    assert len(set(digests)) == 4 and Mix([again], [1]).digest == digests[0]


def test_sample(tmp_path):
    mix = Mix([numbers(tmp_path, 500, name) for name in "ab"], [1, 3])
    whole = [text for text, _ in mix.sample(2000, 1)]
    assert whole == [f"{name} {n}".encode() for name in "ab" for n in range(500)]
    some = [text for text, _ in mix.sample(100, 1)]
    assert len(set(some)) == 100 and some == [text for text in whole if text in set(some)]
    assert some == [text for text, _ in mix.sample(100, 1)]
    assert some != [text for text, _ in mix.sample(100, 2)]
    assert 30 < sum(text.startswith(b"a") for text in some) < 70


def test_what_is_cut_or_missing(tmp_path):
    corpus = numbers(tmp_path, 10)
    for name, size in (PAIRS, 60), (INDEX, 120):
        path = corpus.folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(UserError, match=rf"{name}: {size - 1} bytes; expected {size}.*delete"):
            Corpus(corpus.folder)
        path.write_bytes(whole)
    for change in (lambda path: path.write_text("{}"), lambda path: path.unlink()):
        change(corpus.folder / ABOUT)
        with pytest.raises(UserError, match=rf"not whole .*{ABOUT}: .*; delete it"):
            Corpus(corpus.folder)
