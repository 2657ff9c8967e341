"""Batches of lines with a small untrained Transformer: promises hold whatever the weights."""

import random
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.tokenizer import EOS, PAD, Vocabularies, Vocabulary
from t2t_lite.decoding import batches, search
from t2t_lite.decoding.batches import BatchedSearch
from t2t_lite.decoding.search import Sampling
from t2t_lite.errors import UserError
from t2t_lite.models.transformer import Transformer
from t2t_lite.problem import Decoding, Problem
from t2t_lite.translator import Translator

WORDS = """the old boat drifts past seven quiet houses while rain falls on green hills and nobody
waves""".split()


def sentence(seed, length):
    return " ".join(random.Random(seed).choices(WORDS, k=length))


class Toy(Problem):
    decoding = Decoding(extra_length=6)


@pytest.fixture(scope="module")
def vocabularies():
    vocabulary = Vocabulary.train([sentence(i, 12) for i in range(300)], 340)
    return Vocabularies(vocabulary, vocabulary, shared=True)


@pytest.fixture(scope="module")
def model(vocabularies):
    keras.utils.set_random_seed(3)
    hparams = HParams(
        num_encoder_layers=1, num_decoder_layers=2, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8
    )
    model = Transformer(hparams, vocabularies.source.size, vocabularies.target.size, shared=True)
    # Untrained weights say the same whatever they read; these do not, and many outputs end.
    model.set_weights([weight * 1.7 for weight in model.get_weights()])
    towards_eos = 3.5 * model.target_embedding.embeddings[EOS]
    model.decoder.layers[-1].feed_forward_residual.layer_norm.beta.assign(towards_eos)
    return model


@pytest.fixture(scope="module")
def decoder(model, vocabularies):
    return Translator(model, vocabularies, Toy())


def assert_same(one, other, tolerance=1e-4):
    """The same texts, the same scores to `tolerance`."""
    assert [[h.text for h in line] for line in one] == [[h.text for h in line] for line in other]
    for a, b in zip(one, other):
        numbers = ([(h.score, h.log_prob) for h in line] for line in (a, b))
        np.testing.assert_allclose(*numbers, atol=tolerance)


@pytest.fixture
def searched(monkeypatch):
    """The models that searches are traced with: one each time that a graph is made."""
    models = []

    def run_search(model, *arguments):
        models.append(model)
        return search.run_search(model, *arguments)

    monkeypatch.setattr(batches, "run_search", run_search)
    return models


def spelled(_, ids):
    """In the place of `Vocabulary.decode_lines`: the ids themselves, PAD and EOS left out."""
    return [" ".join(str(i) for i in row if i not in (PAD, EOS)) for row in ids]


def two_devices():
    """Where TensorFlow has only one logical device, two copies of the model share it."""
    return [device.name for device in tf.config.list_logical_devices("CPU") * 2][:2]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_cached_steps_give_the_logits_of_the_whole_sequence(model, beam_size):
    inputs = np.array([[5, 9, 4, EOS, PAD], [7, 7, EOS, PAD, PAD]], np.int32)
    targets = np.random.default_rng(1).integers(3, 300, [2, beam_size, 7]).astype(np.int32)
    memory, cache = model.start(model.search_weights(), inputs, beam_size, 9)
    for position in range(7):
        last = targets[:, :, position - 1] if position else np.zeros([2, beam_size], np.int32)
        logits, cache = model.step(
            model.search_weights(), tf.constant(last), tf.constant(position), memory, cache
        )
        for beam in range(beam_size):
            whole = model(inputs, targets[:, beam])
            np.testing.assert_allclose(logits[:, beam], whole[:, position], atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 3e-6), ("bfloat16", 0.05), ("float16", 0.01)]
)
def test_scores_are_the_models_own(
    model, vocabularies, searched, monkeypatch, precision, tolerance
):
    rounded = Transformer.from_config(model.get_config() | {"dtype": precision})
    rounded.set_weights(model.get_weights())
    line = sentence(1, 9)
    inputs = np.array(vocabularies.source.encode_lines([line]), np.int32)
    monkeypatch.setattr(Vocabulary, "decode_lines", spelled)
    batched = BatchedSearch(rounded, vocabularies, Toy(), devices=two_devices())
    for hypotheses in batched.stream([line] * 2, n_best=4):
        for found in hypotheses:
            ids = [*map(int, found.text.split()), EOS][: inputs.size + Toy.decoding.extra_length]
            log_probs = tf.nn.log_softmax(model(inputs, np.array([ids], np.int32)))[0].numpy()
            expected = log_probs[range(len(ids)), ids].sum()
            assert found.log_prob == pytest.approx(expected, rel=tolerance)
            penalty = ((5 + len(ids)) / 6) ** 0.6
            assert found.score == pytest.approx(found.log_prob / penalty, rel=1e-5)
    assert [{weight.dtype for weight in traced.weights} for traced in searched] == [{precision}] * 2


def test_one_list_a_line_in_order_whatever_the_lines_hold(decoder):
    lines = [
        "",
        sentence(1, 5),
        "   ",
        "\t",
        "a\tb",
        "\u2028",
        "x\u2028y",
        "\U0001f600",
        sentence(2, 300),
        "\x00",
    ]
    outputs = decoder.translate(lines)
    assert len(outputs) == len(lines)
    for line, [hypothesis] in zip(lines, outputs):
        assert "\n" not in hypothesis.text and "\r" not in hypothesis.text
        if not line.strip():
            assert (hypothesis.text, hypothesis.score, hypothesis.log_prob) == ("", 0.0, 0.0)
        else:
            assert hypothesis.log_prob < 0
    for line, output in zip(lines, outputs):
        assert_same(decoder.translate([line]), [output])


def test_a_line_does_not_see_its_neighbours(decoder):
    lines = [sentence(i, 1 + i % 9) for i in range(10)]
    beside = decoder.translate([*lines, sentence(99, 200)], n_best=2)
    for line, output in zip(lines, beside):
        assert_same(decoder.translate([line], n_best=2), [output])


def test_n_best_begins_with_the_best(decoder):
    lines = [sentence(i, 3 + i) for i in range(8)]
    four = decoder.translate(lines, n_best=4)
    assert_same(decoder.translate(lines), [line[:1] for line in four])
    assert all(len(line) == 4 for line in four)


def test_each_output_begins_with_its_own_prefix(decoder):
    lines = [sentence(i, 4) for i in range(4)] + [""]
    prefixes = ["the boat", "", "seven quiet houses while rain falls on green hills", "rai", "so"]
    outputs = decoder.translate(lines, prefixes=prefixes)
    for prefix, [hypothesis] in zip(prefixes, outputs):
        assert hypothesis.text.startswith(prefix)
    assert outputs[4][0].text == "so"
    assert_same(decoder.translate([lines[1]]), [outputs[1]])
    with pytest.raises(UserError, match="only 2 prefixes"):
        decoder.translate(lines, prefixes=prefixes[:2])
    with pytest.raises(UserError, match="only 5 lines"):
        decoder.translate(lines, prefixes=[*prefixes, "more"])
    with pytest.raises(UserError, match=r"prefix 2: 'a\u2581boat' cannot be spelled .* 'a boat'"):
        decoder.translate(lines[:2], prefixes=["the boat", "a\u2581boat"])


def test_windows_and_progress(decoder, monkeypatch):
    lines = [sentence(i, 1 + i % 5) if i % 7 else "" for i in range(40)]
    whole = decoder.translate(lines)
    monkeypatch.setattr(batches, "_WINDOW", 16)
    read, done, subwords = [], [], []

    def progress(lines, of_them):
        done.append(lines)
        subwords.append(of_them)

    stream = decoder.stream((read.append(line) or line for line in lines), progress=progress)
    first = next(stream)
    assert len(read) == 16 and sum(done) == 16  # no more of the file is in memory
    assert_same([first, *stream], whole)
    assert sum(done) == 40
    assert sum(subwords) == sum(
        map(len, decoder.vocabularies.source.encode_lines(filter(None, lines)))
    )


@pytest.mark.parametrize(
    ("xla", "graphs"), [pytest.param(True, range(2, 5), marks=pytest.mark.thorough), (False, [1])]
)
def test_few_shapes_each_compiled_once(model, vocabularies, searched, xla, graphs):
    batched = BatchedSearch(model, vocabularies, Toy(), batch_tokens=1024, xla=xla)
    lines = [sentence(i, 1 + i % 20) for i in range(60)]
    for _ in range(2):
        list(batched.stream(lines, beam_size=2))
    assert len(searched) in graphs


def test_line_ends_in_outputs_become_spaces(model, vocabularies):
    class Multiline(Toy):
        def output_text(self, text, line):
            return "one\ntwo\r\n" + line

    [[hypothesis]] = Translator(model, vocabularies, Multiline()).translate(["hills"])
    assert hypothesis.text == "one two  hills"


def test_xla_gives_the_same(model, vocabularies, decoder):
    lines = [sentence(i, 3 + i % 3) for i in range(4)]
    assert_same(
        Translator(model, vocabularies, Toy(), xla=True).translate(lines), decoder.translate(lines)
    )


def test_two_devices_share_the_work(model, vocabularies, decoder, searched):
    devices = two_devices()
    lines = [sentence(i, 1 + i % 20) for i in range(50)]
    double = BatchedSearch(model, vocabularies, Toy(), devices=devices, batch_tokens=1024)
    outputs = [*double.stream(lines)]
    assert len(searched) == 2  # each had something to do
    for device in devices:
        assert any(
            all(weight.value.device.endswith(device) for weight in traced.weights)
            for traced in searched
        )
    assert_same(outputs, decoder.translate(lines))


@pytest.mark.parametrize("xla", [False, True])
def test_workers_decode_batches_side_by_side(model, vocabularies, decoder, xla):
    lines = [sentence(i, 4) for i in range(2)]
    both = threading.Barrier(2, timeout=60)

    class Beside(Toy):
        def output_text(self, text, line):
            both.wait()  # breaks where no other batch is decoded meanwhile
            return text

    double = Translator(model, vocabularies, Beside(), workers=2, xla=xla)
    assert_same(double.translate(lines), decoder.translate(lines))


def test_after_an_error_no_further_batch_is_begun(model, vocabularies):
    begun = []

    class Broken(Toy):
        def output_text(self, text, line):
            begun.append(line)
            time.sleep(0.2)
            raise UserError("broken")

    with pytest.raises(UserError, match="broken"):
        Translator(model, vocabularies, Broken(), workers=2, batch_tokens=1).translate(
            [sentence(i, 4) for i in range(50)]
        )
    assert len(begun) < 10  # of 50


def test_samples_follow_from_seed_and_line(decoder):
    lines = [sentence(i % 2, 4) for i in range(6)]
    options = dict(sampling=Sampling(temperature=1.5), n_best=3)
    outputs = decoder.translate(lines, **options)
    assert_same(decoder.translate(lines[:2], **options), outputs[:2])
    assert outputs[0] != outputs[2]  # the same line at another place
    assert decoder.translate(lines[:1], seed=2, **options) != outputs[:1]
    for hypotheses in outputs:
        assert len({h.text for h in hypotheses}) == 3
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
    greedy = decoder.translate(lines, sampling=Sampling(top_k=1))
    assert_same(greedy, decoder.translate(lines, beam_size=1))
