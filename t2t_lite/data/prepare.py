"""What happens to a problem's data before training: it is checked, cleaned, and gets its vocabulary."""

import sys
from collections.abc import Callable
from pathlib import Path

from t2t_lite.data.sources import DATA_DIR, MissingSplit, Source
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary
from t2t_lite.problem import Problem


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def prepare(problem: Problem, log: Callable[[str], None] = _to_stderr) -> Vocabularies:
    """Reads every split once and returns the vocabularies: the user's, those of an earlier call, or newly trained ones.

    A trained vocabulary is kept in `problem.data_dir`, under a name that changes with problem, size and data.
    Raises UserError for what is wrong with the data, before anything is written.
    """
    given = Vocabulary.load(problem.vocab) if problem.vocab else None
    train = problem.source("train")
    log(f"train: {train.check():,} pairs from {train}")
    for split in ("dev", "test"):
        try:
            source = problem.source(split)
        except MissingSplit as error:
            log(f"{split}: none ({error})")
        else:
            log(f"{split}: {source.check():,} pairs from {source}")
    if given:
        log(f"vocabulary: {given.size:,} sub-words, given: {problem.vocab}")
        return Vocabularies(given, given, shared=True)
    if problem.shared_vocabulary:
        vocabulary = _vocabulary(problem, train, (0, 1), "", log)
        return Vocabularies(vocabulary, vocabulary, shared=True)
    source = _vocabulary(problem, train, (0,), ".source", log)
    return Vocabularies(source, _vocabulary(problem, train, (1,), ".target", log), shared=False)


def _vocabulary(problem: Problem, train: Source, sides: tuple[int, ...], suffix: str, log) -> Vocabulary:
    size = problem.subwords()
    name = f"{problem.name}.{problem.subword_model}.{size}.{train.fingerprint()}{suffix}.model"
    path = Path(problem.data_dir or DATA_DIR).expanduser() / name
    if path.is_file():
        log(f"vocabulary: {size:,} sub-words, trained earlier: {path}")
        return Vocabulary.load(path)
    log(f"vocabulary: training {size:,} sub-words ({problem.subword_model}) ...")
    sentences = (pair[side] for pair in train.pairs() for side in sides)
    vocabulary = Vocabulary.train(sentences, size, model_type=problem.subword_model)
    vocabulary.save(path)
    log(f"vocabulary: written to {path}")
    return vocabulary
