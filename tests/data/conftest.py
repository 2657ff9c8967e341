"""A small corpus of our own making, and a vocabulary of it."""

import random

import pytest

NOUNS = {
    "dog": "Hund",
    "cat": "Katze",
    "boat": "Boot",
    "tower": "Turm",
    "garden": "Garten",
    "letter": "Brief",
}
VERBS = {"sees": "sieht", "finds": "findet", "paints": "malt", "carries": "trägt"}


@pytest.fixture(scope="session")
def sentences() -> list[tuple[str, str]]:
    """500 pairs of 1 to 30 clauses a sentence, most of them short; many are equal."""
    chooser = random.Random(1)
    pairs = []
    for _ in range(500):
        clauses = [
            (*chooser.sample(list(NOUNS), 2), chooser.choice(list(VERBS)))
            for _ in range(_clauses(chooser))
        ]
        english = "; ".join(f"the {a} {verb} the {b}" for a, b, verb in clauses)
        german = "; ".join(f"{NOUNS[a]} {VERBS[verb]} {NOUNS[b]}" for a, b, verb in clauses)
        pairs.append((english, german))
    return pairs


def _clauses(chooser):
    return 30 if chooser.random() < 0.01 else 1 + int(chooser.expovariate(0.7))


@pytest.fixture(scope="session")
def corpus(sentences, tmp_path_factory):
    """The paths of the pairs as two text files."""
    folder = tmp_path_factory.mktemp("corpus")
    paths = folder / "train.en", folder / "train.de"
    for path, side in zip(paths, zip(*sentences)):
        path.write_text("".join(line + "\n" for line in side), encoding="utf-8")
    return paths


@pytest.fixture(scope="session")
def vocabularies(sentences):
    """A shared vocabulary of 330 sub-words."""
    from t2t_lite.data.tokenizer import Vocabularies, Vocabulary

    vocabulary = Vocabulary.train((text for pair in sentences for text in pair), 330)
    return Vocabularies(vocabulary, vocabulary, shared=True)
