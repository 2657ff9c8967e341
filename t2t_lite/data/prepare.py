"""What happens to a problem's data before training: it is checked, cleaned, and gets its vocabulary."""

import sys
from collections.abc import Callable
from pathlib import Path

from t2t_lite.data.sources import DATA_DIR, MissingSplit
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
    if problem.shared_vocabulary:
        vocabulary = given or _vocabulary(problem, (0, 1), problem.subword_model, "", log)
        return Vocabularies(vocabulary, vocabulary, shared=True)
    source = given or _vocabulary(problem, (0,), problem.subword_model, ".source", log)
    target = _vocabulary(
        problem, (1,), problem.target_subword_model or problem.subword_model, ".target", log
    )
    return Vocabularies(source, target, shared=False)


def _vocabulary(
    problem: Problem, sides: tuple[int, ...], model_type: str, suffix: str, log
) -> Vocabulary:
    train = problem.examples("train")
    size = problem.subwords() if model_type != "word" else None
    name = f"{problem.name}.{model_type}{f'.{size}' if size else ''}.{train.fingerprint()}{suffix}.model"
    path = Path(problem.data_dir or DATA_DIR).expanduser() / name
    side = suffix.removeprefix(".") + " " * bool(suffix)
    if path.is_file():
        vocabulary = Vocabulary.load(path)
        log(f"{side}vocabulary: {vocabulary.size:,} sub-words, trained earlier: {path}")
        return vocabulary
    log(f"{side}vocabulary: training{f' {size:,} sub-words' if size else ''} ({model_type}) ...")
    sentences = (pair[side] for pair in train.pairs() for side in sides)
    vocabulary = Vocabulary.train(sentences, size, model_type=model_type)
    vocabulary.save(path)
    log(f"vocabulary: written to {path}")
    return vocabulary
