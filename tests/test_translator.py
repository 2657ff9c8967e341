"""The Python interface on an untrained run."""

import math

import numpy as np
import pytest
from t2t_lite.problems.translation import TranslationProblem
from untrained import untrained_run

import t2t_lite
from t2t_lite import registry
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary
from t2t_lite.evaluation.metrics import ExactMatch
from t2t_lite.models.transformer import Transformer
from t2t_lite.translator import Translator


@pytest.fixture(scope="module")
def vocabularies():
    vocabulary = Vocabulary.train(["many plain words of text", "some more of the many words"], 290)
    return Vocabularies(vocabulary, vocabulary, shared=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory, vocabularies):
    registry.load_plugins()
    path = tmp_path_factory.mktemp("runs") / "run"
    return untrained_run(path, registry.problem("spelled_numbers_ende"), vocabularies)


@pytest.fixture(scope="module")
def translator(run):
    return run.translator()


def test_attention_of_each_written_piece(run, translator):
    weights, source, target = translator.attention("many words", "some text")
    assert "".join(source).replace("\u2581", " ").lstrip() == "many words</s>"
    assert "".join(target).replace("\u2581", " ").lstrip() == "some text</s>"
    hparams = run.hparams
    assert (
        weights.shape == (hparams.num_decoder_layers, hparams.num_heads, len(target), len(source))
        and weights.dtype == np.float32
    )
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    # What is written later changes nothing; another source does.
    longer, _, pieces = translator.attention("many words", "some text more")
    assert len(pieces) > len(target)
    np.testing.assert_allclose(longer[:, :, : len(target) - 1], weights[:, :, :-1], atol=1e-6)
    other = translator.attention("words many", "some text").weights
    assert np.abs(other - weights).max() > 1e-4


def test_attention_of_each_kind(run, translator):
    found = translator.attention("many words", "some text")
    source, target = len(found.source_pieces), len(found.target_pieces)
    for weights, layers, length in (
        (found.encoder, run.hparams.num_encoder_layers, source),
        (found.decoder, run.hparams.num_decoder_layers, target),
    ):
        assert weights.shape == (layers, run.hparams.num_heads, length, length)
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert not np.any(np.triu(found.decoder, 1))
    assert found.read_pieces == ["<pad>", *found.target_pieces[:-1]]


@pytest.mark.parametrize(
    "layer, has",
    [("restricted_self_attention", True), ("recurrent", False), ("convolution", False)],
)
def test_attention_where_the_encoder_has_another_layer(tmp_path, vocabularies, layer, has):
    problem = registry.problem("spelled_numbers_ende")
    run = untrained_run(tmp_path / "run", problem, vocabularies, encoder_layer=layer)
    kinds = run.translator().attention("many plain words", "some text").kinds()
    assert list(kinds) == ["encoder"] * has + ["decoder", "cross"]
    for kind in kinds.values():
        assert kind.weights.shape[2:] == (len(kind.rows), len(kind.columns))
        np.testing.assert_allclose(kind.weights.sum(axis=-1), 1, atol=1e-5)


def test_attention_of_its_own_translation(translator):
    [[best]] = translator.translate(["many words"])
    own, given = translator.attention("many words"), translator.attention("many words", best.text)
    assert own.target_pieces == given.target_pieces
    np.testing.assert_array_equal(own.weights, given.weights)


def test_attention_of_nothing_says_nothing(translator, recwarn):
    assert translator.attention("", "").weights.shape[2:] == (1, 1)  # of </s> alone
    assert not recwarn.list


def test_an_attention_that_is_too_large(translator, monkeypatch):
    monkeypatch.setattr("t2t_lite.attention.MOST", 3000)
    assert translator.attention("many", "text").weights.size < 3000
    for pair in ("x" * 40, "text"), ("text", "x" * 40):
        with pytest.raises(t2t_lite.UserError, match="4[12] .* weights; expected at most 3,000"):
            translator.attention(*pair)


def test_precision(run):
    [[exact]], [[halved]] = (
        t2t_lite.load(run.path, precision=precision).translate(["many words"])
        for precision in ("float32", "bfloat16")
    )
    assert exact.score != halved.score == pytest.approx(exact.score, rel=0.05)
    with pytest.raises(
        t2t_lite.UserError, match="precision='int8': expected one of float32, bfloat16, float16"
    ):
        t2t_lite.load(run.path, precision="int8")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda model: model.translate("many words"), "lines='many words': expected a list"),
        (lambda model: model.translate(b"many"), "lines=b'many': expected a list of strings"),
        (lambda model: model.translate(["a", b"b"]), r"lines\[1\]=b'b': expected a string"),
        (lambda model: model.translate(["a"], prefixes="D"), "prefixes='D': expected a list"),
        (lambda model: model.translate(["a"], prefixes=b"D"), "prefixes=b'D': expected a list"),
        (
            lambda model: model.translate(["a"], prefixes=[b"D"]),
            r"prefixes\[0\]=b'D': expected a st",
        ),
        (lambda model: model.translate(None), "lines=None: expected a list of strings"),
        (
            lambda model: model.translate(["a", "b\nc"]),
            r"lines\[1\]='b\\nc': a line ends at char.* 2;",
        ),
        (
            lambda model: model.translate(["a\udc80"]),
            r"lines\[0\]=.*: a lone surrogate at char.* 2;",
        ),
        (
            lambda model: model.score([("a", "b\n\n")]),
            r"pairs\[0\]\[1\]=.*: a line ends at char.* 2;",
        ),
        (lambda model: model.score([(b"a", "b")]), r"pairs\[0\]=\(b'a', 'b'\): expected"),
        (lambda model: model.attention("a", b"b"), "target=b'b': expected a string"),
        (lambda model: model.score(("ab", "cd")), r"pairs\[0\]='ab': expected \(input, output\)"),
        (
            lambda model: model.evaluate([("a", "b", "c")]),
            r"pairs\[0\]=\('a', 'b', 'c'\): expected",
        ),
        (lambda model: model.evaluate([]), "no pairs to evaluate on"),
    ],
)
def test_one_text_is_no_list_of_texts(translator, call, message):
    with pytest.raises(t2t_lite.UserError, match=message):
        call(translator)


def test_line_ends_and_blanks_around_an_input_change_nothing(translator):
    plain = translator.translate(["many words"], n_best=2)
    for line in "many words\n", "many words\r\n", " many words\u00a0", "\tmany words \u3000":
        assert translator.translate([line], n_best=2) == plain
    assert translator.translate(["many  words"], n_best=2) != plain
    assert translator.score([(" many words\n", "text\n")]) == translator.score(
        [("many words", "text")]
    )


def test_scores_are_those_of_the_outputs(translator):
    lines = ["many words", "", "some text of the many plain words"]
    best = [hypotheses[0] for hypotheses in translator.translate(lines)]
    scored = translator.score([(line, h.text) for line, h in zip(lines, best)])
    assert [h.text for h in scored] == [h.text for h in best]
    for line, mine, theirs in zip(lines, scored, best):
        if line and len(theirs.text) < 40:  # longer ones may be cut, and so lack EOS
            assert mine.score == pytest.approx(theirs.score, abs=1e-4)


class Rewriting(TranslationProblem):
    """Changes what goes in, what comes out and what that is compared with."""

    metric = ExactMatch

    def input_text(self, line):
        return line.lower()

    def output_text(self, text, line):
        return f"{len(text) % 2} {line}"

    def reference_text(self, reference):
        return reference.upper()

    def output_details(self, text, line):
        return {"even": len(text) % 2 == 0}

    def category(self, line):
        return line.split()[0].lower()


def test_an_evaluation_applies_every_hook_of_the_problem(run, vocabularies, translator):
    rewriting = Translator(translator.model, vocabularies, Rewriting())
    pairs = [(f"{word} WORDS {i}", f"{i % 2} ref") for i in range(10) for word in ("Many", "Some")]
    result = rewriting.evaluate(pairs)
    assert result.references[:2] == ["0 REF", "0 REF"]
    assert all(output.text[1:] == f" {line}" for output, (line, _) in zip(result.outputs, pairs))
    lower = translator.evaluate([(line.lower(), reference) for line, reference in pairs])
    assert result.figures["loss"] == pytest.approx(lower.figures["loss"], rel=1e-6)
    assert list(result.figures) == [
        *("loss", "perplexity", "accuracy", "tokens", "exact_match", "bleu"),
        *("exact_match/many", "exact_match/some", "even"),
    ]
    assert result.main == "exact_match" and len(result.scores) == len(result.outputs) == 20
    sample = rewriting.evaluate(pairs, sample=5)
    assert sample.inputs == [line for line, _ in pairs[::4]]
    assert sample.figures["loss"] == result.figures["loss"]
    assert rewriting.evaluate(pairs, decode=False).figures == {
        name: result.figures[name] for name in ("loss", "perplexity", "accuracy", "tokens")
    }


def test_a_line_too_long_costs_itself_only(run, translator, monkeypatch):
    monkeypatch.setattr(Transformer, "longest", 12)
    model = run.translator()  # some short sub-words are in the vocabulary, and bytes
    lines, long = ["many words", "some text"], "x" * 40
    with pytest.warns(UserWarning, match="line 2: 4[12] sub-words, .* at most 12; its output is"):
        first, cut, last = model.translate([lines[0], long, lines[1]])
    assert [first, last] == model.translate(lines)
    assert [(best.text, best.log_prob) for best in cut] == [("", 0.0)]
    pairs = [("many words", "text"), (long, "text"), ("some", long), ("some", "words")]
    with pytest.warns(UserWarning, match="pair [23]: 4[12] sub-words, .* left out of the figures"):
        scores = model.score(pairs)
    assert [np.isnan(score.score) for score in scores] == [False, True, True, False]
    with pytest.warns(UserWarning):
        figures = model.evaluate(pairs, decode=False).figures
    assert figures == model.evaluate(pairs[::3], decode=False).figures


def test_the_longest_line(translator):
    assert translator.model.longest == math.isqrt(2**29 // translator.model.hparams.num_heads)


def test_variables_changed_from_outside(run):
    """What is made of them once is made anew by `update`, and not before."""
    translator = run.translator()
    [[old]] = translator.translate(["many words"])
    for variable in translator.model.decoder.weights:
        variable.assign(variable + 0.3)
    whole = Translator(translator.model, translator.vocabularies, translator.problem)
    [[new]] = whole.translate(["many words"])
    assert not math.isclose(new.score, old.score, rel_tol=1e-3)
    [[stale]] = translator.translate(["many words"])
    assert not math.isclose(stale.score, new.score, rel_tol=1e-3)
    translator.update()
    [[fresh]] = translator.translate(["many words"])
    assert fresh.text == new.text and math.isclose(fresh.score, new.score, rel_tol=1e-4)
