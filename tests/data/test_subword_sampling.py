"""Sampler: SentencePiece's spelling without chance, its frequencies with, everywhere the same."""

import io
import random
import subprocess
import sys

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from t2t_lite.data.subword_sampling import Sampler
from t2t_lite.data.subword_training import train_model

WORDS = "long lines of small words and smaller ones belong to the longest of all tales".split()
ODD = [
    *("", " ", "  two  spaces ", "tab\tand\u00a0more"),
    *("\u2585 ünïcödé \U0001f600", "a" * 40, "a\0b"),
]


def texts(count: int) -> list[str]:
    chooser = random.Random(4)
    return [" ".join(chooser.choices(WORDS, k=chooser.randrange(1, 14))) for _ in range(count)]


def given_model(**options) -> bytes:
    """A model as others make them: with their normalisation, and without bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(300)),
        model_writer=model,
        **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "minloglevel": 2, **options},
    )
    return model.getvalue()


MODELS = {
    "bpe": lambda: train_model(texts(300), 310),
    "unigram": lambda: train_model(texts(300), 288, model_type="unigram"),
    "symbols": lambda: train_model(texts(300), 310, user_symbols=["(S", "(", "ng"]),
    "given": lambda: given_model(vocab_size=60, model_type="bpe"),
    "given unigram": lambda: given_model(vocab_size=30),
}


def opened(proto: bytes) -> tuple[Sampler, sentencepiece.SentencePieceProcessor]:
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    return Sampler(model), sentencepiece.SentencePieceProcessor(model_proto=proto)


@pytest.mark.parametrize("name", MODELS)
def test_without_chance_it_is_sentencepieces_spelling(name):
    sampler, processor = opened(MODELS[name]())
    alpha = 1000 if "unigram" in name else 0  # only the most probable; no merge left out
    lines = [*texts(200), *ODD, "(S long ((S) x"]
    drawn = [sampler.draw(text, 1, alpha) for text in processor.normalize(lines)]
    if "unigram" not in name:
        assert drawn == processor.encode(lines)
    else:  # of equally probable ones it may take another
        assert sum(a == b for a, b in zip(drawn, processor.encode(lines))) > 0.95 * len(lines)
    assert processor.decode(drawn) == processor.decode(processor.encode(lines))


@pytest.mark.parametrize("name, alpha", [("bpe", 0.3), ("unigram", 0.2), ("unigram", 1.0)])
def test_it_draws_as_often_as_sentencepiece(name, alpha):
    sampler, processor = opened(MODELS[name]())
    text, count = "the longest tales", 4000
    [normalised] = processor.normalize([text])
    options = {"enable_sampling": True, "nbest_size": -1, "alpha": alpha}
    found = [tuple(sampler.draw(normalised, seed, alpha)) for seed in range(count)]
    theirs = [tuple(processor.encode(text, **options)) for _ in range(count)]
    frequent = sorted(set(theirs), key=theirs.count)[-3:]
    for spelling in frequent:
        assert abs(found.count(spelling) - theirs.count(spelling)) < 5 * (count / 2) ** 0.5
    assert sum(map(len, found)) == pytest.approx(sum(map(len, theirs)), rel=0.03)


DRAW = """
import sys
from sentencepiece import sentencepiece_model_pb2
from t2t_lite.data.subword_sampling import Sampler
model = sentencepiece_model_pb2.ModelProto.FromString(open(sys.argv[1], "rb").read())
print([Sampler(model).draw("▁the▁longest▁of▁all▁tales", seed, 0.3) for seed in range(20)])
"""


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_the_same_in_every_process(tmp_path, name):
    (tmp_path / "model").write_bytes(MODELS[name]())
    command = [sys.executable, "-c", DRAW, tmp_path / "model"]
    first, second = (subprocess.check_output(command) for _ in range(2))
    assert first == second and len(set(first.split(b"], ["))) > 5
