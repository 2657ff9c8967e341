"""Beam search against exhaustive search, against tensor2tensor's own results, and its promises."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.tokenizer import EOS, PAD, UNK
from t2t_lite.decoding.beam_search import beam_search, top_k

V, D = 7, 5


class ToyModel:
    """A small recurrent network, whose cache of all symbols so far must follow the beams."""

    def __init__(self, seed, batch):
        random = np.random.default_rng(seed)
        self.embedding, self.recurrent, self.output, self.memory = (
            random.normal(size=size).astype(np.float32)
            for size in [(V, D), (D, D), (D, V), (batch, V)]
        )
        self.batch = batch

    def step(self, ids, position, memory, cache):
        state = tf.tanh(
            tf.gather(self.embedding, ids)
            + tf.einsum("bwd,de->bwe", cache["state"], self.recurrent)
        )
        logits = (
            tf.einsum("bwd,dv->bwv", state, self.output)
            + memory[:, None]
            + 0.1 * tf.cast(position, tf.float32)
        )
        return logits, {"state": state}

    def search(self, beam_size=4, limits=8, rows=None, compile=False, **options):
        """`beam_search` as NumPy arrays, on all rows or some."""
        memory = self.memory if rows is None else self.memory[rows]
        limits = np.broadcast_to(limits, len(memory)).astype(np.int32)
        options = {"alpha": 0.6, "max_length": int(limits.max()), **options}

        @tf.function(jit_compile=compile, autograph=False)
        def run():
            cache = {"state": tf.zeros([len(memory), beam_size, D])}
            return beam_search(
                self.step,
                tf.constant(memory),
                cache,
                beam_size=beam_size,
                limits=tf.constant(limits),
                **options,
            )

        return [tensor.numpy() for tensor in run()]

    def log_probs(self, row, ids):
        """log p(. | symbols before) at each position of `ids`: [T, V], in float64."""
        state, last, rows = np.zeros(D), PAD, []
        for symbol in ids:
            state = np.tanh(self.embedding[last] + state @ self.recurrent)
            logits = state @ self.output + self.memory[row]
            rows.append(logits - np.log(np.exp(logits).sum()))
            last = symbol
        return np.array(rows)

    def log_prob(self, row, ids):
        return sum(line[symbol] for line, symbol in zip(self.log_probs(row, ids), ids))


def symbols(ids):
    """Without the padding."""
    return [int(i) for i in ids if i != PAD]


def up_to_eos(ids):
    """Where 0 is a symbol like any other: up to the first EOS, or all."""
    ids = ids.tolist()
    return ids[: ids.index(EOS) + 1] if EOS in ids else ids


def exhaustive(model, row, limit, alpha, prefix=()):
    """All outputs that end within the limit, best first: (score, ids)."""
    outputs = []
    for length in range(limit):
        for ids in itertools.product(range(3, V), repeat=length):
            if ids[: len(prefix)] == tuple(prefix):
                ids = (*ids, EOS)
                outputs.append(
                    (model.log_prob(row, ids) / ((5 + len(ids)) / 6) ** alpha, list(ids))
                )
    return sorted(outputs, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_what_exhaustive_search_finds(alpha):
    model, limits = ToyModel(1, 3), [5, 2, 4]
    ids, _, scores = model.search(beam_size=300, limits=limits, alpha=alpha, n_best=4)
    for row, limit in enumerate(limits):
        expected = exhaustive(model, row, limit, alpha)[:4]
        assert [symbols(line) for line in ids[row]] == [line for _, line in expected]
        np.testing.assert_allclose(scores[row], [score for score, _ in expected], rtol=1e-5)


def test_each_row_begins_with_its_own_prefix():
    model, prefixes = ToyModel(2, 3), [[5, 4], [], [3]]
    prefix = tf.constant([[5, 4, 0], [0, 0, 0], [3, 0, 0]])
    ids, log_probs, scores = model.search(beam_size=300, limits=5, n_best=3, prefix=prefix)
    for row in range(3):
        expected = exhaustive(model, row, 5, 0.6, prefixes[row])[:3]
        assert [symbols(line) for line in ids[row]] == [line for _, line in expected]
        np.testing.assert_allclose(scores[row], [score for score, _ in expected], rtol=1e-5)
        np.testing.assert_allclose(
            log_probs[row, 0], model.log_prob(row, symbols(ids[row, 0])), rtol=1e-5
        )


def test_beam_of_one_is_greedy():
    model = ToyModel(3, 20)
    ids, log_probs, _ = model.search(beam_size=1, limits=10, max_length=12)
    for row in range(20):
        expected = []
        while len(expected) < 10 and EOS not in expected:
            line = model.log_probs(row, [*expected, PAD])[-1]
            line[[PAD, UNK]] = -np.inf
            expected.append(int(line.argmax()))
        assert symbols(ids[row, 0]) == expected
        np.testing.assert_allclose(log_probs[row, 0], model.log_prob(row, expected), rtol=1e-5)


def test_n_best_begins_with_the_best():
    model = ToyModel(4, 30)
    one, four = model.search(n_best=1), model.search(n_best=4)
    for a, b in zip(one, four):
        np.testing.assert_array_equal(a[:, 0], b[:, 0])
    assert (np.diff(four[2], axis=1) <= 0).all()


def test_rows_do_not_see_each_other():
    model, limits = ToyModel(5, 12), np.arange(1, 13)
    together = model.search(limits=limits, max_length=12, n_best=2)
    for row in range(12):
        alone = model.search(limits=limits[[row]], max_length=12, n_best=2, rows=[row])
        for a, b in zip(together, alone):
            np.testing.assert_allclose(a[row], b[0], rtol=1e-5)


def test_a_row_that_never_ends_is_cut_at_its_limit():
    model = ToyModel(6, 3)
    model.memory[:, EOS] = -np.inf
    ids, log_probs, scores = model.search(limits=[3, 6, 1], n_best=2)
    for row, limit in enumerate([3, 6, 1]):
        assert [len(symbols(line)) for line in ids[row]] == [limit, limit] and EOS not in ids[row]
        np.testing.assert_allclose(
            log_probs[row, 0], model.log_prob(row, symbols(ids[row, 0])), rtol=1e-5
        )
        np.testing.assert_allclose(
            scores[row], log_probs[row] / ((5 + limit) / 6) ** 0.6, rtol=1e-6
        )


def test_finished_ones_come_before_those_cut():
    """Of two symbols: one finished hypothesis of one symbol, four of two, and the rest are cut."""
    ids, _, scores = ToyModel(7, 2).search(beam_size=8, limits=2, n_best=8)
    for row in range(2):
        ended = [EOS in line for line in ids[row]]
        assert ended == sorted(ended, reverse=True) and 0 < sum(ended) < 8
        assert (np.diff(scores[row, ended]) <= 0).all() and (
            np.diff(scores[row, np.invert(ended)]) <= 0
        ).all()


def test_fewer_outputs_than_asked_for():
    ids, log_probs, scores = ToyModel(8, 1).search(beam_size=8, limits=1, n_best=8)
    assert symbols(ids[0, 0]) == [EOS]
    count = int(np.isfinite(scores[0]).sum())  # EOS, and four other symbols, cut
    assert count == 5 and not np.isfinite(log_probs[0, 5:]).any()


def test_padding_and_unknown_are_never_generated():
    model = ToyModel(9, 10)
    model.memory[:, [PAD, UNK]] += 5
    ids, log_probs, _ = model.search(n_best=4)
    for row in range(10):
        for line, log_prob in zip(ids[row], log_probs[row]):
            assert UNK not in line and len(symbols(line)) == (np.argmin(line) or len(line))
            np.testing.assert_allclose(log_prob, model.log_prob(row, symbols(line)), rtol=1e-4)


def test_a_step_may_forbid_symbols():
    model, step = ToyModel(10, 4), ToyModel.step
    banned = tf.one_hot(4, V, on_value=float("-inf"), off_value=0.0)
    model.step = lambda *args: (lambda logits, cache: (logits + banned, cache))(*step(model, *args))
    ids, _, scores = model.search(n_best=4)
    assert 4 not in ids and np.isfinite(scores).all()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_xla_finds_the_same(beam_size):
    model = ToyModel(11, 5)
    prefix = tf.constant([[3, 4], [0, 0], [6, 0], [0, 0], [5, 5]])
    plain, compiled = (
        model.search(
            beam_size, limits=[9, 4, 7, 1, 9], n_best=beam_size, prefix=prefix, compile=compile
        )
        for compile in (False, True)
    )
    np.testing.assert_array_equal(plain[0], compiled[0])
    np.testing.assert_allclose(plain[1], compiled[1], rtol=1e-5)
    np.testing.assert_allclose(plain[2], compiled[2], rtol=1e-5)


def test_the_loop_ends_when_all_rows_are_done():
    """Counts the steps: a model that always says EOS needs one, whatever the limit."""
    steps = []
    model, step = ToyModel(12, 3), ToyModel.step
    model.memory[:, EOS] = 50

    def counted(ids, position, memory, cache):
        tf.py_function(lambda p: steps.append(int(p)), [position], [])
        return step(model, ids, position, memory, cache)

    model.step = counted
    model.search(limits=100)
    assert steps == [0]
    steps.clear()
    model.memory[:, EOS] = -50
    model.search(limits=[4, 9, 2], max_length=20)
    assert steps == list(range(9))


def step_of_tables(ids, position, memory, cache):
    """Logits by the symbol before, [B, V, V], and by the step, [L, V]."""
    by_symbol = tf.gather(memory["table"], ids, axis=1, batch_dims=1)
    return by_symbol + memory["by_step"][position], cache


def test_tensor2tensor_results(shared):
    """All 48 cases of tensor2tensor's beam search, of which compared are:

    - places that T2T filled (it leaves the others at -1e7);
    - of cases with early stopping only the first: T2T stops the batch there, so the others hang on
      the neighbours;
    - of two rows only the first, too: there T2T's search goes on after an EOS, since at the first
      step fewer than W = 21 of the 12 symbols can stay alive;
    - of rows in which nothing finished the ids and log probabilities: T2T does not normalise those.

    A beam of one keeps two candidates here, as T2T's search does (T2T's decoder does not use it for
    a beam of one).
    """
    compared, went_on = 0, 0
    for case in json.loads((shared / "oracle/beam.json").read_text())["cases"]:
        table, by_step = np.array(case["A"], np.float32), np.array(case["S"], np.float32)
        expected_ids, expected_scores = np.array(case["ids"]), np.array(case["scores"])
        batch, size, length = case["batch"], case["beam_size"], case["decode_length"]
        # The symbols of two cases are renumbered so that EOS is 1 and the start is 0.
        order = [case["initial_id"], case["eos_id"]]
        order += [i for i in range(case["vocab_size"]) if i not in order]
        table, by_step, expected_ids = (
            table[:, order][:, :, order],
            by_step[:, order],
            np.argsort(order)[expected_ids],
        )

        n_best = 1 if case["stop_early"] else size
        ids, log_probs, scores = beam_search(
            step_of_tables,
            {"table": tf.constant(table), "by_step": tf.constant(by_step)},
            {},
            beam_size=size,
            alpha=case["alpha"],
            limits=tf.fill([batch], length),
            max_length=length,
            forbidden=(),
            n_best=n_best,
            candidates=2 * size,
        )
        for row in range(batch):
            outputs = [up_to_eos(line) for line in expected_ids[row, :n_best, 1:]]
            rest = [
                line[len(output) + 1 :] for line, output in zip(np.array(case["ids"])[row], outputs)
            ]
            beyond_eos = any(np.any(line) for line in rest)
            went_on += beyond_eos
            for place, expected in enumerate(outputs[:1] if beyond_eos else outputs):
                if expected_scores[row, place] < -1e6:
                    continue
                found, value = (
                    up_to_eos(ids[row, place].numpy()),
                    scores if EOS in expected else log_probs,
                )
                assert found == expected, (case["name"], row, place)
                np.testing.assert_allclose(
                    value[row, place], expected_scores[row, place], atol=2e-5
                )
                compared += 1
    assert compared == 249 and went_on == 2


def test_stages_that_leave_out_finished_rows_change_nothing(monkeypatch):
    """Rows end at different steps, some before the first, and are left out at each second step."""
    monkeypatch.setattr("t2t_lite.decoding.beam_search.STAGE", 2)
    model, limits = ToyModel(7, 9), [3, 0, 9, 12, 1, 5, 2, 12, 7]
    prefix = tf.constant([[0, 0], [0, 0], [3, 4], [0, 0], [5, 0], [0, 0], [0, 0], [6, 6], [0, 0]])
    for options in {}, {"n_best": 3}, {"beam_size": 1}, {"prefix": prefix}:
        static = model.search(limits=limits, **options)
        staged = model.search(limits=limits, grow=lambda cache: cache, **options)
        np.testing.assert_array_equal(staged[0], static[0])
        for a, b in zip(staged[1:], static[1:]):
            np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("symbols", [7, 1000, 8000, 7993])  # few, groups of 50 and of 64, none
def test_top_k_of_many_symbols_is_tensorflows(symbols, xla):
    values = (
        np.random.default_rng(5).integers(0, 60, [2, 3, symbols]).astype(np.float32)
    )  # many are equal
    values[0, 0, ::2] = -np.inf
    ours = tf.function(top_k, jit_compile=xla)
    for found, expected in zip(ours(tf.constant(values), 5), tf.math.top_k(values, 5)):
        np.testing.assert_array_equal(found, expected)
