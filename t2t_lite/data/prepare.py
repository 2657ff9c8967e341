"""What is done with a problem's data before training: check, clean, count, train a vocabulary."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from t2t_lite.data.corpus import Corpus, Mix
from t2t_lite.data.corpus_writer import write_corpus
from t2t_lite.data.sources import MissingSplit, Mixture, Source
from t2t_lite.files import missing_file
from t2t_lite.problem import Problem

_SAMPLE = 1_000_000  # sentences that a vocabulary is trained on at most


@dataclasses.dataclass(frozen=True)
class Corpora:
    """A problem's data, prepared.

    Attributes:
        train: as the model reads and writes them.
        dev: as users give them, or None.
    """

    train: Mix
    dev: Corpus | None

    def record(self) -> dict[str, Any]:
        """What a run remembers of them, to notice when they change: any JSON values."""
        return {
            "train": [
                _record(corpus) | {"passes": passes}
                for corpus, passes in zip(self.train.corpora, self.train.passes)
            ],
            "dev": [_record(self.dev)] if self.dev else [],
        }


def _record(corpus: Corpus) -> dict[str, Any]:
    return {
        "source": corpus.source,
        "pairs": len(corpus),
        "bytes": corpus.bytes,
        "digest": corpus.digest,
    }


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two of `Corpora.record`, in words. Where the files lie does not."""
    found = []
    for split in "train", "dev":
        if len(old[split]) != len(new[split]):
            found.append(f"{split}: {len(old[split])} corpora -> {len(new[split])}")
            continue
        for before, now in zip(old[split], new[split]):
            for key, unit in ("pairs", " pairs"), ("bytes", " bytes"), ("passes", " passes"):
                if before.get(key) != now.get(key):
                    found.append(f"{split}: {now['source']}: {before[key]:,} -> {now[key]:,}{unit}")
                    break
            else:
                if before["digest"] != now["digest"]:
                    found.append(f"{split}: {now['source']}: other text of the same length")
    return found


def prepare_corpora(problem: Problem, log: Callable[[str], None]) -> Corpora:
    """Prepares train and dev below `problem.data_folder`, and checks test. Says what was left out.

    What was prepared before is taken as it is, unless the files have changed since. TensorFlow is
    not needed for it, and where it runs only one process prepares.

    Raises UserError for what is wrong with the data, before anything is written where it can.
    """
    if problem.vocab and not Path(problem.vocab).is_file():
        raise missing_file(Path(problem.vocab))
    sources, missing = {"train": problem.examples("train")}, {}
    for split in "dev", "test":
        try:
            sources[split] = problem.source(split)
        except MissingSplit as error:
            missing[split] = error
    for source in sources.values():
        source.fingerprint()  # a file that is not there is known before all else
    folder = problem.data_folder
    code = problem.code_digest()

    def write(source: Source, split: str) -> Corpus:
        corpus = write_corpus(source, folder, f"{problem.name}.{split}.{code}")
        log(f"{split}: {corpus}")
        if corpus.left_out:
            log(f"{split}: left out: {corpus.left_out_in_words()}")
        return corpus

    train = sources["train"]
    parts = train.sources if isinstance(train, Mixture) else [train]
    corpora = [write(part, "train") for part in parts]
    passes = train.passes(list(map(len, corpora))) if isinstance(train, Mixture) else [1.0]
    mix = Mix(corpora, passes)
    if len(corpora) > 1:
        times = ", ".join(f"{count:.3g}" for count in passes)
        log(f"train: {len(mix):,} pairs an epoch; of each corpus' pairs so many times: {times}")
    for split, error in missing.items():
        log(f"{split}: none ({error})")
    if "test" in sources:
        log(f"test: {sources['test'].check():,} pairs from {sources['test']}")
    return Corpora(mix, write(sources["dev"], "dev") if "dev" in sources else None)


def prepare_vocabularies(problem: Problem, train: Mix, log: Callable[[str], None]):
    """The `data.tokenizer.Vocabularies`: the user's, those of an earlier call, or newly trained.

    A trained vocabulary is kept in `problem.data_folder`, under a name that changes with problem,
    size and data.
    """
    from t2t_lite.data.tokenizer import Vocabularies, load_vocabulary

    given = load_vocabulary(problem.vocab) if problem.vocab else None
    if given:
        log(f"vocabulary: {given.size:,} sub-words, given: {problem.vocab}")
        if losses := given.losses():
            log(f"vocabulary: the given model {'; it '.join(losses)}")
    if problem.shared_vocabulary:
        vocabulary = given or _vocabulary(problem, train, "", problem.subword_model, log)
        return Vocabularies(vocabulary, vocabulary, shared=True)
    source = given or _vocabulary(problem, train, "source", problem.subword_model, log)
    target = _vocabulary(
        problem, train, "target", problem.target_subword_model or problem.subword_model, log
    )
    return Vocabularies(source, target, shared=False)


def _vocabulary(
    problem: Problem,
    train: Mix,
    side: Literal["source", "target", ""],
    model_type: str,
    log: Callable[[str], None],
):
    """The vocabulary of one side, or of both ("")."""
    from t2t_lite.data.tokenizer import Vocabulary, load_vocabulary

    size = problem.subwords() if model_type != "word" else None
    parts = problem.name, model_type, size and str(size), train.digest[:12], side, "model"
    path = problem.data_folder / ".".join(filter(None, parts))
    title = f"{side} vocabulary".lstrip()
    if path.is_file():
        vocabulary = load_vocabulary(path)
        log(f"{title}: {vocabulary.size:,} sub-words, trained earlier: {path}")
        return vocabulary
    log(f"{title}: training{f' {size:,} sub-words' if size else ''} ({model_type}) ...")
    columns = {"source": (0,), "target": (1,), "": (0, 1)}[side]
    pairs = train.sample(_SAMPLE // len(columns) if size else len(train), seed=1)
    sentences = (pair[column].decode() for pair in pairs for column in columns)
    vocabulary = Vocabulary.train(sentences, size, model_type=model_type)
    vocabulary.save(path)
    log(f"vocabulary: written to {path}")
    return vocabulary
