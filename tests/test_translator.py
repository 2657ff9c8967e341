"""The Python interface on an untrained run."""

import numpy as np
import pytest
from untrained import untrained_run

import t2t_lite
from t2t_lite import registry
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    registry.load_plugins()
    vocabulary = Vocabulary.train(["many plain words of text", "some more of the many words"], 290)
    vocabularies = Vocabularies(vocabulary, vocabulary, shared=True)
    run = untrained_run(
        tmp_path_factory.mktemp("runs") / "run",
        registry.problem("spelled_numbers_ende"),
        vocabularies,
    )
    return t2t_lite.load(run.path)


def test_attention_of_each_written_piece(translator):
    weights, source, target = translator.attention("many words", "some text")
    assert "".join(source).replace("\u2581", " ").lstrip() == "many words</s>"
    assert "".join(target).replace("\u2581", " ").lstrip() == "some text</s>"
    hparams = translator.run.hparams
    assert (
        weights.shape == (hparams.num_decoder_layers, hparams.num_heads, len(target), len(source))
        and weights.dtype == np.float32
    )
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    # What is written later changes nothing; another source does.
    longer, _, pieces = translator.attention("many words", "some text more")
    assert len(pieces) > len(target)
    np.testing.assert_allclose(longer[:, :, : len(target) - 1], weights[:, :, :-1], atol=1e-6)
    other = translator.attention("words many", "some text").weights
    assert np.abs(other - weights).max() > 1e-4


def test_precision(translator):
    [[exact]], [[halved]] = (
        t2t_lite.load(translator.run.path, precision=precision).translate(["many words"])
        for precision in ("float32", "bfloat16")
    )
    assert exact.score != halved.score == pytest.approx(exact.score, rel=0.05)
    with pytest.raises(
        t2t_lite.UserError, match="precision='int8': expected one of float32, bfloat16, float16"
    ):
        t2t_lite.load(translator.run.path, precision="int8")
