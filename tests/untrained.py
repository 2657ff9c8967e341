"""Run directories whose models have learnt nothing, for what reads or exports a run."""

import random
from collections.abc import Callable

import keras

from t2t_lite import registry
from t2t_lite.arrays import arrays, model_variables, write_arrays
from t2t_lite.config import HParams
from t2t_lite.data.tokenizer import EOS, Vocabularies, Vocabulary
from t2t_lite.models.transformer import Transformer
from t2t_lite.run import Run

WORDS = (
    "a slow train climbs over two narrow bridges and nobody on board sees the snow on far roofs"
).split()
SIZES = dict(
    num_encoder_layers=1, num_decoder_layers=2, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8
)

SEARCH = dict(beam_size=3, alpha=0.8, extra_length=7)  # of the exports in conftest.py


def sentence(seed: int, length: int) -> str:
    """Words by chance, always the same."""
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def untrained_run(
    path,
    problem,
    vocabularies,
    *,
    ends: bool = False,
    alter: Callable[[Transformer], None] | None = None,
    **fields,
) -> Run:
    """Writes a run with the averaged weights of a tiny model, always the same; its outputs differ.

    They reach their limit of length unless `ends`, with which most of them end in EOS before, some
    at once. `alter` changes the weights. `fields`: other fields of its hparams.
    """
    vocabularies.save(path)
    run = Run(path, problem, "none", HParams(**SIZES | fields), seed=1)
    run.save()
    keras.utils.set_random_seed(3)
    model = run.new_model(vocabularies)
    model.set_weights([weight * 1.7 for weight in model.get_weights()])
    if ends:
        shift = model.decoder.layers[-1].feed_forward_residual.layer_norm.beta
        shift.assign(3.5 * model.target_embedding.embeddings[EOS])
    if alter:
        alter(model)
    write_arrays(run.averaged, arrays(model_variables(model)), {"step": 0})
    return run


def untrained_translator(path) -> Run:
    """A run of spelled_numbers_ende that knows `sentence`'s words."""
    registry.load_plugins()
    vocabulary = Vocabulary.train([sentence(i, 12) for i in range(300)], 340)
    problem = registry.problem("spelled_numbers_ende")
    vocabularies = Vocabularies(vocabulary, vocabulary, shared=True)
    return untrained_run(path, problem, vocabularies, ends=True)


def untrained_parser(path) -> Run:
    """A run of toy_parsing, whose model is given the next word."""
    registry.load_plugins()
    problem = registry.problem("toy_parsing")
    pairs = [problem.example(*pair) for pair, _ in zip(problem.source("train").pairs(), range(200))]
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    vocabularies = Vocabularies(
        Vocabulary.train(source, 420),
        Vocabulary.train(target, None, model_type="word"),
        shared=False,
    )
    return untrained_run(path, problem, vocabularies, ends=True, next_word="given")
