"""Exports of untrained models, a translator and a parser, and the decoder's outputs of the runs."""

import random

import pytest
from untrained import untrained_export, untrained_run

from t2t_lite import registry
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary
from t2t_lite.serving.model import ServedModel

SEARCH = dict(beam_size=3, alpha=0.8, extra_length=7)
WORDS = "a slow train climbs over two narrow bridges".split()
WORDS += "and nobody on board sees the snow on far roofs".split()


@pytest.fixture(scope="session")
def translator(tmp_path_factory):
    """(its run, its ServedModel)."""
    registry.load_plugins()
    folder = tmp_path_factory.mktemp("translator")
    vocabulary = Vocabulary.train(
        [" ".join(random.Random(i).choices(WORDS, k=12)) for i in range(300)], 340
    )
    problem = registry.problem("spelled_numbers_ende")
    run = untrained_run(
        folder / "run", problem, Vocabularies(vocabulary, vocabulary, shared=True), ends=True
    )
    return run, ServedModel(untrained_export(folder / "numbers", run, **SEARCH))


@pytest.fixture(scope="session")
def parser(tmp_path_factory):
    """(its run, its ServedModel)."""
    registry.load_plugins()
    folder = tmp_path_factory.mktemp("parser")
    problem = registry.problem("toy_parsing")
    pairs = [problem.texts(*pair) for pair, _ in zip(problem.source("train").pairs(), range(200))]
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    vocabularies = Vocabularies(
        Vocabulary.train(source, 420),
        Vocabulary.train(target, None, model_type="word"),
        shared=False,
    )
    run = untrained_run(folder / "run", problem, vocabularies, ends=True, next_word="given")
    return run, ServedModel(untrained_export(folder / "parser", run, **SEARCH))
