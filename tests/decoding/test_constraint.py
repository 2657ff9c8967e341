"""The grammar of brackets: what it allows, step by step, and in a search over random logits."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.tokenizer import EOS, PAD
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.constraint import Brackets
from t2t_lite.decoding.sampling import sample

SYMBOLS = ["<pad>", "</s>", "<unk>", "(S", "(NP", ")S", ")NP", "XX"]
LABELLED = dict(
    max_depth=9,
    opens=[0, 0, 0, 1, 2, 0, 0, 0],
    closes=[0, 0, 0, 0, 0, 1, 2, 0],
    words=[False] * 7 + [True],
)
PLAIN = dict(
    max_depth=9,
    opens=[0, 0, 0, 1, 1, 0, 0, 0],
    closes=[0, 0, 0, 0, 0, 1, 0, 0],
    words=[False] * 7 + [True],
)
BEGINS = [False, False, False, True, False]  # source sub-words; number 3 begins a word


def allowed_after(text: str, count: int, limit: int = 50, **brackets) -> set[str]:
    """What may follow the symbols of `text` over `count` words."""
    inputs = tf.constant([[3, 4] * count + [EOS]])
    brackets = {**LABELLED, **brackets, "begins_word": BEGINS}
    allow, grammar = Brackets(**brackets).start(inputs, tf.constant([limit]), 1)
    for position, symbol in enumerate([PAD, *map(SYMBOLS.index, text.split())]):
        allowed, grammar = allow(tf.constant([[symbol]]), tf.constant(position), grammar)
    return {SYMBOLS[i] for i in np.flatnonzero(allowed[0, 0])}


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("", 2, "(S (NP XX"),  # no EOS: words remain
        ("(S", 2, "(S (NP XX"),  # no closing: it is empty
        ("(S XX", 2, "(S (NP XX )S"),
        ("(S (NP XX", 2, "(S (NP XX )NP"),  # the innermost closes first
        ("(S (NP XX )NP", 2, "(S (NP XX )S"),
        ("(S (NP XX XX", 2, ")NP"),  # no word is left
        ("(S (NP XX XX )NP", 2, ")S"),
        ("(S (NP XX XX )NP )S", 2, "</s>"),
        ("XX XX", 2, "</s>"),
    ],
)
def test_allowed(text, words, expected):
    assert allowed_after(text, words) == set(expected.split())


def test_plain_closing_closes_any():
    assert allowed_after("(S (NP XX", 2, **PLAIN) == {"(S", "(NP", "XX", ")S"}


def test_opens_only_where_the_limit_leaves_room_to_close():
    # (S (NP XX XX )NP )S EOS has seven symbols.
    assert "(NP" in allowed_after("(S", 2, limit=7)
    assert "(NP" not in allowed_after("(S", 2, limit=6)


def test_no_more_brackets_than_the_depth():
    assert "(NP" in allowed_after("(S", 2, max_depth=2)
    assert allowed_after("(S (NP", 2, max_depth=2) == {"XX"}


def well_formed(symbols: list[str], words: int) -> bool:
    stack = [0]  # children of each open bracket
    labels = []
    for symbol in symbols:
        if symbol.startswith("("):
            stack[-1] += 1
            stack.append(0)
            labels.append(symbol[1:])
        elif symbol == "XX":
            words -= 1
            stack[-1] += 1
        elif not labels or symbol != ")" + labels.pop() or not stack.pop():
            return False
    return words == 0 and not labels


@pytest.mark.parametrize("xla", [False, True])
def test_searches_give_well_formed_outputs_over_all_words(xla):
    """Random logits: a search without the grammar gives no well-formed output at all."""
    words = [1, 3, 7, 12]
    inputs = np.full([4, 13], PAD, np.int32)
    for row, count in zip(inputs, words):
        row[: count + 1] = [3] * count + [EOS]
    limits, length = tf.constant([5, 12, 40, 30]), 40
    table = tf.constant(
        np.random.default_rng(1)
        .normal(0, 2, [length, len(SYMBOLS), len(SYMBOLS)])
        .astype(np.float32)
    )

    def step(ids, position, memory, cache):
        return tf.gather(table[position], ids), cache

    def search(constrained: bool, sampling: bool):
        options = dict(memory=(), cache=(), alpha=0.6, limits=limits)
        if constrained:
            brackets = Brackets(**LABELLED, begins_word=BEGINS)
            options["allow"], options["grammar"] = brackets.start(tf.constant(inputs), limits, 3)
        if sampling:
            uniforms = np.random.default_rng(2).random([4, 3, length], np.float32)
            return sample(
                step, uniforms=tf.constant(uniforms), temperature=1.0, top_k=None, **options
            )
        return beam_search(step, beam_size=3, max_length=length, n_best=3, **options)

    run = tf.function(search, jit_compile=xla)
    for sampling in False, True:
        ids, log_probs, _ = run(constrained=True, sampling=sampling)
        free = run(constrained=False, sampling=sampling)
        for row, row_log_probs, count, limit in zip(
            ids.numpy(), log_probs.numpy(), words, limits.numpy()
        ):
            for hypothesis, log_prob in zip(row, row_log_probs):
                if np.isfinite(log_prob):
                    symbols = [SYMBOLS[i] for i in hypothesis if i != PAD]
                    assert symbols[-1] == "</s>" and len(symbols) <= limit
                    assert well_formed(symbols[:-1], count), symbols
        assert np.isfinite(log_probs[:, 0]).all()
        outputs = [[SYMBOLS[i] for i in row[0] if i > EOS] for row in free.ids.numpy()]
        assert not all(well_formed(symbols, count) for symbols, count in zip(outputs, words))


def test_log_probabilities_are_the_models_own():
    """What is not allowed keeps its share: the log probability is that of the free model."""
    logits = tf.constant(
        np.random.default_rng(3).normal(size=[1, 1, len(SYMBOLS)]).astype(np.float32)
    )
    limits = tf.constant([10])
    allow, grammar = Brackets(**LABELLED, begins_word=BEGINS).start(
        tf.constant([[3, EOS]]), limits, 1
    )
    found = beam_search(
        lambda ids, position, memory, cache: (logits, cache),
        memory=(), cache=(), beam_size=1, alpha=0.0, limits=limits, max_length=10, allow=allow,
        grammar=grammar,
    )  # fmt: skip
    ids = [i for i in found.ids.numpy()[0, 0] if i != PAD]
    expected = tf.reduce_sum(tf.gather(tf.nn.log_softmax(logits[0, 0]), ids))
    np.testing.assert_allclose(found.log_probs.numpy()[0, 0], expected, rtol=1e-5)
