"""What is done with a problem's data before training: check, clean, train a vocabulary."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from t2t_lite.data.sources import DATA_DIR, MissingSplit
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary
from t2t_lite.problem import Problem


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def prepare(problem: Problem, log: Callable[[str], None] = _to_stderr) -> Vocabularies:
    """Reads every split once and returns the vocabularies.

    They are the user's, those of an earlier call, or newly trained. A trained vocabulary is kept in
    `problem.data_dir`, under a name that changes with problem, size and data. Raises UserError for
    what is wrong with the data, before anything is written.
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
        if losses := given.losses():
            log(f"vocabulary: the given model {'; it '.join(losses)}")
    if problem.shared_vocabulary:
        vocabulary = given or _vocabulary(problem, "", problem.subword_model, log)
        return Vocabularies(vocabulary, vocabulary, shared=True)
    source = given or _vocabulary(problem, "source", problem.subword_model, log)
    target = _vocabulary(
        problem, "target", problem.target_subword_model or problem.subword_model, log
    )
    return Vocabularies(source, target, shared=False)


def _vocabulary(
    problem: Problem,
    side: Literal["source", "target", ""],
    model_type: str,
    log: Callable[[str], None],
) -> Vocabulary:
    """The vocabulary of one side, or of both ("")."""
    train = problem.examples("train")
    size = problem.subwords() if model_type != "word" else None
    parts = problem.name, model_type, size and str(size), train.fingerprint(), side, "model"
    path = Path(problem.data_dir or DATA_DIR).expanduser() / ".".join(filter(None, parts))
    title = f"{side} vocabulary".lstrip()
    if path.is_file():
        vocabulary = Vocabulary.load(path)
        log(f"{title}: {vocabulary.size:,} sub-words, trained earlier: {path}")
        return vocabulary
    log(f"{title}: training{f' {size:,} sub-words' if size else ''} ({model_type}) ...")
    columns = {"source": (0,), "target": (1,), "": (0, 1)}[side]
    sentences = (pair[column] for pair in train.pairs() for column in columns)
    vocabulary = Vocabulary.train(sentences, size, model_type=model_type)
    vocabulary.save(path)
    log(f"vocabulary: written to {path}")
    return vocabulary
