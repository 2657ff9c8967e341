"""What tests of several commands share: a run that they can read."""

import pytest
from untrained import untrained_run

from t2t_lite import registry
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An untrained translator."""
    path = tmp_path_factory.mktemp("runs") / "untrained"
    registry.load_plugins()
    vocabulary = Vocabulary.train(["many plain words of text", "some more of the many words"], 290)
    problem = registry.problem("spelled_numbers_ende")
    return untrained_run(path, problem, Vocabularies(vocabulary, vocabulary, shared=True))
