"""Several runs as an ensemble, as Python and commands open them."""

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file
from untrained import sentence, untrained_parser, untrained_run, untrained_translator

import t2t_lite
from t2t_lite import registry
from t2t_lite.arrays import write_arrays
from t2t_lite.decoding.search import Sampling
from t2t_lite.runs import Runs

LINES = [sentence(seed, length) for seed, length in enumerate((1, 4, 9, 2))] + ["", "far  roofs"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return untrained_translator(tmp_path_factory.mktemp("runs") / "first")


@pytest.fixture(scope="module")
def second(first):
    """One of another size, whose model thinks otherwise."""
    return untrained_run(
        first.path.parent / "second",
        first.problem,
        first.vocabularies(),
        num_decoder_layers=1,
        d_model=24,
    )


@pytest.fixture(scope="module")
def ensemble(first, second):
    return t2t_lite.load([first.path, second.path])


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 1},
        {"beam_size": 3, "n_best": 3},
        {"n_best": 2, "sampling": Sampling(0.7, 20)},
        {"prefixes": ["on board", *LINES[1:4], "", "a"], "beam_size": 2},
    ],
    ids=["greedy", "beam", "sampling", "prefixes"],
)
def test_a_run_with_itself_is_that_run(first, options):
    alone, twice = (
        t2t_lite.load(paths).translate(LINES, **options)
        for paths in (str(first.path), [first.path, first.path])
    )
    assert_equal(twice, alone)


def test_scores_are_those_of_the_mean_probability(first, second, ensemble):
    """Symbol by symbol, from what each model gives alone."""
    pair = "a slow train", "two narrow bridges"
    vocabulary = first.vocabularies().source
    inputs, targets = (np.array(vocabulary.encode_lines([text]), np.int32) for text in pair)
    probabilities = []
    for run in first, second:
        logits = np.float64(run.translator().model(inputs, targets)[0])
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        every = powers / powers.sum(axis=1, keepdims=True)
        probabilities.append(every[np.arange(targets.shape[1]), targets[0]])
    expected = np.log(np.mean(probabilities, axis=0)).sum()
    [scored] = ensemble.score([pair])
    assert scored.log_prob == pytest.approx(expected, abs=1e-4)
    loss = ensemble.evaluate([pair], decode=False).figures["loss"]
    assert loss == pytest.approx(-expected / targets.shape[1], abs=1e-5)


def test_what_is_written_is_neither_ones(first, second, ensemble):
    alone = [run.translator().translate(LINES) for run in (first, second)]
    ours, *others = (
        [[best.text for best in outputs] for outputs in every]
        for every in (ensemble.translate(LINES), *alone)
    )
    assert len(ours) == len(LINES) and ours not in others and others[0] != others[1]


def test_precision(ensemble, first, second):
    halved = t2t_lite.load([first.path, second.path], precision="bfloat16")
    [[exact]], [[rounded]] = (model.translate(["far roofs"]) for model in (ensemble, halved))
    assert exact.score != rounded.score == pytest.approx(exact.score, rel=0.05)


def test_copies_on_further_devices(first, second, ensemble):
    """They are made, and take other weights, as the first."""
    devices = [device.name for device in tf.config.list_logical_devices("CPU") * 2][:2]
    spread = Runs.open([first.path, second.path]).translator(devices=devices)
    assert_equal(spread.translate(LINES), ensemble.translate(LINES))
    alone = first.translator(devices=devices)
    other = first.path.parent / "other.safetensors"
    values = {name: value * 0.9 for name, value in load_file(first.averaged).items()}
    write_arrays(other, values, {"step": 1})
    before = alone.translate(LINES)
    alone.take(other)
    assert alone.weights == [other]
    assert_equal(alone.translate(LINES), first.translator(weights=other).translate(LINES))
    assert [best.score for [best] in before] != [best.score for [best] in alone.translate(LINES)]


def assert_equal(found, wanted):
    """Outputs of lines, but for rounding."""
    for mine, ours in zip(wanted, found, strict=True):
        assert [hypothesis.text for hypothesis in ours] == [hypothesis.text for hypothesis in mine]
        np.testing.assert_allclose(
            [hypothesis.score for hypothesis in ours], [h.score for h in mine], atol=1e-5
        )


def test_parsers_obey_their_grammar_together(tmp_path):
    run = untrained_parser(tmp_path / "first")
    smaller = untrained_run(
        tmp_path / "second", run.problem, run.vocabularies(), num_decoder_layers=1, d_ff=48
    )
    parser = Runs.open([run.path, smaller.path]).translator()
    lines = ["the dog sees a cat", "she sleeps"]
    for line, [tree] in zip(lines, parser.translate(lines), strict=True):
        assert tree.details["well_formed"]
        assert [word for word in line.split() if word not in tree.text] == []


def test_which_runs_fit_together(first, second, tmp_path):
    other = untrained_run(
        tmp_path / "other", registry.problem("text_pairs", train=["a"]), first.vocabularies()
    )
    said = []
    runs = Runs.open([first.path, other.path], log=said.append)
    assert said == [
        f"{other.path} was trained on text_pairs, {first.path} on spelled_numbers_ende, "
        "by which texts are read and measured"
    ]
    assert runs.problem == first.problem and runs.weights == [first.averaged, other.averaged]
    (other.path / "vocab.model").write_bytes(b"of another corpus")
    with pytest.raises(t2t_lite.UserError, match=f"{first.path} {other.path}: .* differ; expected"):
        Runs.open([first.path, second.path, other.path], log=said.append)
    with pytest.raises(t2t_lite.UserError, match="no run to load"):
        t2t_lite.load([])
