"""The functions of a SavedModel: they do what the decoder does."""

import random

import numpy as np
import pytest
import tensorflow as tf
from untrained import SEARCH, WORDS, sentence, untrained_run

import t2t_lite
from t2t_lite import registry
from t2t_lite.data.tokenizer import EOS, PAD
from t2t_lite.decoding.search import Search
from t2t_lite.errors import UserError
from t2t_lite.export import metadata
from t2t_lite.export.signatures import Signatures

ODD = [
    "", "   ", "\u3000\u2028", "\t", "a\tb", " two  spaces ", "\U0001f600 \u6f22", "\x00",
    "x\ry\r", "\ufeffBOM", "\ufffd", "\x1c", "\x85\xa0", sentence(7, 60),
]  # fmt: skip
LINES = [*ODD, *(sentence(i, 1 + i % 9) for i in range(12))]


def texts(tensor):
    return np.vectorize(bytes.decode, otypes=[object])(tensor.numpy()).tolist()


@pytest.fixture(scope="module")
def wanted(model):
    """The decoder's hypotheses of LINES, at most 3 each."""
    return model.translate(LINES, n_best=3, **SEARCH)


@pytest.mark.parametrize("size", [1, 7, len(LINES)])
def test_the_decoders_texts_and_scores_at_any_batch_size(loaded, wanted, size):
    function = loaded.signatures["serving_default"]
    outputs = []
    for start in range(0, len(LINES), size):
        result = function(text=tf.constant(LINES[start : start + size]))
        outputs += zip(
            texts(result["text"]), result["score"].numpy(), result["log_prob"].numpy(), strict=True
        )
    best = [hypotheses[0] for hypotheses in wanted]
    assert [text for text, _, _ in outputs] == [h.text for h in best]
    numbers = [(score, log_prob) for _, score, log_prob in outputs]
    np.testing.assert_allclose(numbers, [(h.score, h.log_prob) for h in best], atol=1e-4)
    assert len({h.text for h in best}) > 8
    assert [outputs[i] for i in range(4)] == [("", 0.0, 0.0)] * 4


def test_n_best(loaded, wanted):
    result = loaded.signatures["n_best"](text=tf.constant(LINES))
    assert (
        result["text"].shape == result["score"].shape == result["log_prob"].shape == [len(LINES), 3]
    )
    for line, scores, hypotheses in zip(
        texts(result["text"]), result["score"].numpy(), wanted, strict=True
    ):
        missing = 3 - len(hypotheses)
        assert line == [h.text for h in hypotheses] + [""] * missing
        np.testing.assert_allclose(
            scores, [h.score for h in hypotheses] + [metadata.NO_SCORE] * missing, atol=1e-4
        )
    assert [len(hypotheses) for hypotheses in wanted[:2]] == [1, 1] and len(wanted[-1]) == 3


def test_ids(loaded, run):
    vocabulary = run.vocabularies().source
    rows = vocabulary.encode_lines(["", *LINES[14:]])
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor(PAD)
    result = loaded.signatures["ids"](ids=ids)
    as_text = loaded.signatures["serving_default"](text=tf.constant(["", *LINES[14:]]))
    assert result["ids"].shape == [len(rows), ids.shape[1] + SEARCH["extra_length"]]
    assert vocabulary.decode_lines(result["ids"].numpy()) == texts(as_text["text"])
    np.testing.assert_allclose(result["score"], as_text["score"], atol=1e-4)
    assert not result["ids"].numpy()[0].any() and result["score"][0] == 0
    for row, output in zip(rows, result["ids"].numpy()):
        length = np.count_nonzero(output)
        assert (
            length <= len(row) + SEARCH["extra_length"]
            and not output[length:].any()
            and EOS not in output[: length - 1]
        )


def test_score(loaded, model):
    pairs = [(line, sentence(i, i % 6)) for i, line in enumerate(LINES[:13])]
    text, target = map(tf.constant, zip(*pairs))
    result = loaded.signatures["score"](text=text, target=target)
    wanted = [(h.log_prob, h.score) for h in model.score(pairs, alpha=SEARCH["alpha"])]
    np.testing.assert_allclose(
        np.stack([result["log_prob"], result["score"]], 1), wanted, rtol=1e-5, atol=1e-4
    )


def test_attention_says_where_each_piece_looked(loaded, run):
    vocabularies = run.vocabularies()
    text, target = ["the old boat", "rain"], ["green hills", "seven quiet houses past the hills"]
    result = loaded.signatures["attention"](text=tf.constant(text), target=tf.constant(target))
    weights, shape = result["attention"].numpy(), result["attention"].shape
    model = run.translator().model
    for i in range(2):
        [inputs], [outputs] = (
            vocabularies.source.encode_lines(text[i : i + 1]),
            vocabularies.target.encode_lines([target[i]]),
        )
        for side, ids, length in (
            ("source_pieces", inputs, shape[3]),
            ("target_pieces", outputs, shape[2]),
        ):
            assert texts(result[side])[i] == vocabularies.source.pieces(ids) + [""] * (
                length - len(ids)
            )
        ids = (np.array([row], np.int32) for row in (inputs, outputs))
        alone = model.attention(*ids).cross
        assert len(alone) == shape[1] == 2
        mine = weights[i, :, : len(outputs), : len(inputs)]
        np.testing.assert_allclose(mine, [np.mean(layer[0], axis=0) for layer in alone], atol=1e-5)
        np.testing.assert_allclose(mine.sum(-1), 1, atol=1e-5)
        assert weights[i].sum() == pytest.approx(mine.sum(), abs=1e-4)


def test_attention_of_each_kind_and_head(loaded, model):
    pairs = [("the old boat", "green hills"), ("rain", "seven quiet houses past the hills")]
    text, target = map(tf.constant, zip(*pairs))
    result = loaded.signatures["attention_heads"](text=text, target=target)
    for i, pair in enumerate(pairs):
        for name, kind in model.attention(*pair).kinds().items():
            rows, columns = kind.weights.shape[2:]
            found = result[name][i].numpy()
            np.testing.assert_allclose(found[..., :rows, :columns], kind.weights, atol=1e-5)
            assert not found[..., rows:, :].any() and not found[..., columns:].any()
        for name, pieces in ("source_pieces", kind.columns), ("target_pieces", kind.rows):
            assert [piece for piece in texts(result[name])[i] if piece] == pieces


def test_attention_of_an_encoder_that_has_none(run, tmp_path):
    recurrent = untrained_run(
        tmp_path / "run", run.problem, run.vocabularies(), encoder_layer="recurrent"
    )
    search = Search.of(run.problem.decoding)
    functions = Signatures(recurrent.translator(), search).functions()
    line = tf.constant(["the old boat"])
    assert functions["attention_heads"](line, line).keys() == {
        *("decoder", "cross", "source_pieces", "target_pieces")
    }


def test_what_is_not_utf8_is_named(loaded):
    bad = tf.constant([b"good", b"a\xff", b"\xed\xa0\x80"])
    good = tf.constant(["a", "b", "c"])
    for name, arguments, message in [
        ("serving_default", dict(text=bad), r"text: expected UTF-8.*\[1 2\]"),
        ("n_best", dict(text=bad), r"text: expected UTF-8.*\[1 2\]"),
        ("score", dict(text=good, target=bad), r"target: expected UTF-8.*\[1 2\]"),
        ("attention", dict(text=bad, target=good), r"text: expected UTF-8.*\[1 2\]"),
        ("score", dict(text=good, target=good[:2]), "expected as many targets as texts"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            loaded.signatures[name](**arguments)


def test_an_empty_batch(loaded):
    none = tf.zeros([0], tf.string)
    assert loaded.signatures["serving_default"](text=none)["text"].shape == [0]
    assert loaded.signatures["score"](text=none, target=none)["score"].shape == [0]


@pytest.mark.thorough
def test_ten_thousand_lines_and_two_thousand_words(loaded, model):
    few = [sentence(i, 1 + i % 3) for i in range(7)] + [" ".join(WORDS * 120)[:12_000]]
    wanted = [best.text for [best] in model.translate(few, **SEARCH)]
    assert len(few[-1].split()) > 2000
    result = loaded.signatures["serving_default"](
        text=tf.constant((few[:7] * 1429)[:9_999] + few[7:])
    )
    assert texts(result["text"]) == (wanted[:7] * 1429)[:9_999] + wanted[7:]


def test_large_batches_are_cut(run, wanted, monkeypatch):
    """With room for few rows at a time, and so in many batches, the results are the same."""
    monkeypatch.setattr("t2t_lite.export.signatures.BATCH_TOKENS", 200)
    monkeypatch.setattr("t2t_lite.export.signatures.SCORE_TOKENS", 30)
    search = Search(**SEARCH, n_best=1, sampling=None, constrained=False)
    signatures = Signatures(run.translator(), search)
    functions = signatures.functions()
    result = functions["serving_default"](tf.constant(LINES))
    assert texts(result["text"]) == [hypotheses[0].text for hypotheses in wanted]
    lines = tf.constant(LINES)
    cut = functions["score"](lines, lines)
    monkeypatch.undo()
    whole = signatures.functions()["score"](lines, lines)
    np.testing.assert_allclose(cut["log_prob"], whole["log_prob"], rtol=1e-5)


def test_a_parsers_symbols_are_its_targets(parser_export):
    signatures = tf.saved_model.load(parser_export.folder / "1").signatures
    lines = tf.constant(["she slept .", " the  (old)\tdog\u00a0x {saw} [a] map ", "the map"])
    found = signatures["serving_default"](text=lines)
    pairs = {"text": lines, "target": found["text"]}
    assert all(texts(found["text"]))
    score = signatures["score"](**pairs)["score"]
    np.testing.assert_allclose(score, found["score"], atol=1e-4)
    attention = signatures["attention"](**pairs)
    pieces = attention["target_pieces"].numpy()[:, None].repeat(2, 1)
    rows = attention["attention"].numpy().sum(-1)[pieces != b""]
    np.testing.assert_allclose(rows, 1, atol=1e-5)
    assert texts(signatures["n_best"](text=lines)["text"][:, 0]) == texts(found["text"])


def test_input_text_in_graph_is_input_text():
    registry.load_plugins()
    problem = registry.problem("toy_parsing")
    chooser = random.Random(1)
    lines = [
        "".join(
            chooser.choices("ab ()[]{}-\\$\t\r\n\f\v\u00a0\u2581\u3000", k=chooser.randrange(12))
        )
        for _ in range(500)
    ]
    assert texts(problem.input_text_in_graph(tf.constant(lines))) == [
        problem.input_text(line) for line in lines
    ]


def test_a_problem_whose_input_is_python_only_cannot_be_exported():
    class Shouting(t2t_lite.Problem):
        def input_text(self, line):
            return line.upper()

    with pytest.raises(
        UserError,
        match="problem shouting has input_text in Python only; "
        "an export needs its input_text_in_graph too",
    ):
        Shouting(name="shouting").input_text_in_graph(tf.constant(["a"]))
