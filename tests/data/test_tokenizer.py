"""Vocabularies: lossless in Python and in the graph, their special symbols, and clear errors."""

import hashlib
import io
import random
import threading

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from t2t_lite.data.tokenizer import EOS, PAD, UNK, Vocabularies, Vocabulary
from t2t_lite.errors import UserError

SPACES = "", " ", "   ", "  a  b ", "\t", "a\u2028b", "\n a\r\n", " \n x"
ODD = "1,234 \U0001f600", "\ufeffBOM", "\ufffe\uffff", "\x00"


def random_unicode(count: int) -> list[str]:
    """Strings with many spaces, of any character but surrogates and U+2581, the mark of a space."""
    chooser = random.Random(1)
    allowed = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != 0x2581]
    ranges = allowed, allowed[:0x80], allowed[:0x3000], [0x20, 0x09, 0x0A, 0x0D, 0x61]
    lengths = [chooser.randrange(20) for _ in range(count)]
    return [
        "".join(chr(chooser.choice(chooser.choice(ranges))) for _ in range(length))
        for length in lengths
    ]


def assert_round_trip(vocabulary: Vocabulary, lines: list[str]):
    ids = vocabulary.encode_lines(lines)
    assert vocabulary.decode_lines(ids) == lines
    in_graph = tf.function(lambda texts: vocabulary.encode(texts))(tf.constant(lines))
    assert in_graph.dtype == tf.int32
    assert in_graph.to_list() == ids
    texts = tf.function(lambda ids: vocabulary.decode(ids))(in_graph.to_tensor())
    assert [text.decode() for text in texts.numpy()] == lines


def test_round_trip_of_random_unicode(vocabularies):
    assert_round_trip(vocabularies.source, [*SPACES, *ODD, *random_unicode(2000)])


def test_round_trip_of_news(vocabularies, shared):
    texts = {
        path.read_bytes().decode() for path in (shared / "data" / "newstest").iterdir()
    }  # some are the same
    assert len(texts) >= 6
    for text in texts:
        lines = text.split("\n")
        assert len(lines) > 3000
        assert_round_trip(vocabularies.source, [line for line in lines if "\u2581" not in line])


def test_special_symbols(vocabularies):
    vocabulary = vocabularies.source
    assert (PAD, EOS, UNK) == (0, 1, 2)
    assert vocabulary.size == 330
    assert vocabulary.pieces([PAD, EOS, UNK]) == ["<pad>", "</s>", "<unk>"]
    assert vocabulary.encode_lines([""]) == [[EOS]]
    for ids in vocabulary.encode_lines(["the dog", "<pad></s><unk>", "漢字"]):
        assert ids[-1] == EOS
        assert not {PAD, EOS, UNK} & set(ids[:-1])


def test_decode_stops_at_eos_and_ignores_pads(vocabularies):
    vocabulary = vocabularies.source
    dog, cat = vocabulary.encode_lines(["the dog", "the cat"])
    rows = [[PAD] + dog + cat, dog[:-1] + [PAD] * 3, [EOS] + dog]
    expected = ["the dog", "the dog", ""]
    assert vocabulary.decode_lines(rows) == expected
    assert vocabulary.decode_lines([]) == []
    width = max(map(len, rows))
    padded = np.array([row + [PAD] * (width - len(row)) for row in rows], np.int32)
    assert vocabulary.decode_lines(padded) == expected
    assert [text.decode() for text in vocabulary.decode(padded).numpy()] == expected


def test_decode_of_bytes_that_make_no_character(vocabularies):
    vocabulary = vocabularies.source
    broken = vocabulary.encode_lines(["漢"])[0][1:-2]  # bytes 1 and 2 of 3
    ids = np.array([broken + vocabulary.encode_lines(["the dog"])[0]], np.int32)
    assert vocabulary.decode_lines(ids) == ["\ufffd the dog"]


def test_any_ids_decode_in_python_as_in_the_graph(vocabularies):
    vocabulary, chooser = vocabularies.source, random.Random(1)
    rows = [
        [chooser.randrange(vocabulary.size) for _ in range(12)] for _ in range(2000)
    ]  # most sub-words are single bytes
    assert vocabulary.decode_lines(rows) == [
        text.decode() for text in vocabulary.decode(np.array(rows, np.int32)).numpy()
    ]


def test_graph_survives_a_new_seed(vocabularies):
    """`tf.random.set_seed` empties the cache of kernels, which owns tensorflow-text's resource."""
    encode = tf.function(lambda texts: vocabularies.source.encode(texts))
    before = encode(["the dog"]).to_list()
    tf.random.set_seed(1)
    assert encode(["the dog"]).to_list() == before
    assert vocabularies.source.decode(encode(["the dog"]).to_tensor()).numpy().tolist() == [
        b"the dog"
    ]


def test_save_and_load(vocabularies, tmp_path):
    vocabularies.save(tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["vocab.model"]
    loaded = Vocabularies.load(tmp_path / "run")
    assert loaded.shared and loaded.source is loaded.target
    assert loaded.source.proto == vocabularies.source.proto

    other = Vocabulary.train(["a b c"] * 10, 265)
    Vocabularies(vocabularies.source, other, shared=False).save(tmp_path / "apart")
    assert sorted(path.name for path in (tmp_path / "apart").iterdir()) == [
        "vocab.source.model",
        "vocab.target.model",
    ]
    loaded = Vocabularies.load(tmp_path / "apart")
    assert not loaded.shared
    assert (loaded.source.size, loaded.target.size) == (330, 265)
    # In a folder with those of a start that was killed.
    vocabularies.save(tmp_path / "apart")
    assert Vocabularies.load(tmp_path / "apart").shared


def test_digest_is_that_of_the_file(vocabularies, tmp_path):
    vocabularies.save(tmp_path)
    expected = hashlib.sha256((tmp_path / "vocab.model").read_bytes()).hexdigest()
    assert vocabularies.source.digest == Vocabulary.load(tmp_path / "vocab.model").digest
    assert vocabularies.source.digest == expected


def test_load_errors(tmp_path):
    (tmp_path / "vocab.8k.model").write_bytes(b"")
    with pytest.raises(
        UserError, match=r"no such file: .*vocab\.model; nearest in .*: vocab\.8k\.model"
    ):
        Vocabulary.load(tmp_path / "vocab.model")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"] * 10),
        model_writer=model,
        vocab_size=9,
        model_type="char",
        minloglevel=2,
    )
    (tmp_path / "other.model").write_bytes(model.getvalue())
    with pytest.raises(
        UserError, match=r"pad, EOS and UNK have the ids -1, 2, 0; expected 0, 1, 2"
    ):
        Vocabulary.load(tmp_path / "other.model")


def altered(vocabulary: Vocabulary, alter) -> bytes:
    """The model file after `alter` has changed its pieces and specifications."""
    model = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.proto)
    alter(model)
    return model.SerializeToString()


def test_broken_models(vocabularies, tmp_path):
    whole = vocabularies.source.proto
    broken = [
        b"",
        b"just text\n",
        whole[: len(whole) // 2],
        b"\x1f\x8b" + whole,
        whole.replace("▁the".encode(), "▁th".encode() + b"\xff", 1),
        altered(vocabularies.source, lambda model: model.ClearField("pieces")),
        altered(vocabularies.source, lambda model: setattr(model.pieces[-1], "piece", "")),
        altered(
            vocabularies.source,
            lambda model: setattr(model.pieces[-1], "piece", model.pieces[-2].piece),
        ),
        altered(vocabularies.source, lambda model: setattr(model.pieces[2], "type", 1)),
        altered(
            vocabularies.source,
            lambda model: setattr(model.normalizer_spec, "precompiled_charsmap", b"\xff" * 10),
        ),
    ]
    path = tmp_path / "vocab.model"
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"vocab\.model: not a SentencePiece model, or broken"):
            Vocabulary.load(path)
    with path.open("wb") as file:
        file.truncate(5 << 30)  # all holes: it is not read
    with pytest.raises(UserError, match="not a SentencePiece model"):
        Vocabulary.load(path)


def given(**options) -> Vocabulary:
    """A model as somebody else may have trained it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ab bc cab", "b ca"] * 10),
        model_writer=model,
        model_type="bpe",
        **{"pad_id": PAD, "eos_id": EOS, "unk_id": UNK, "bos_id": -1, "minloglevel": 2},
        **options,
    )
    return Vocabulary(model.getvalue())


def test_what_a_given_model_does_not_keep(vocabularies):
    assert vocabularies.source.losses() == []
    lossy = given(vocab_size=12)  # SentencePiece's own defaults
    assert lossy.losses() == [
        "replaces characters (nmt_nfkc)",
        "takes out double spaces and those at both ends",
        "takes characters it does not know for UNK, having no byte fallback",
    ]
    assert lossy.decode_lines(lossy.encode_lines(["  ａb  c"])) == ["ab c"]
    options = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    assert given(vocab_size=270, byte_fallback=True, **options).losses() == []


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_sampled_spellings(sentences, model_type):
    vocabulary = Vocabulary.train([a for a, _ in sentences], 285, model_type=model_type)
    texts = [*SPACES, *ODD, *random_unicode(100), *(a for a, _ in sentences[:100])]
    seeds = range(2**40, 2**40 + len(texts))
    drawn = vocabulary.sample(texts, seeds, 0.2)
    assert vocabulary.decode_lines(drawn) == texts
    assert all(ids[-1] == EOS and not {PAD, EOS, UNK} & set(ids[:-1]) for ids in drawn)
    assert drawn != vocabulary.encode_lines(texts)
    assert vocabulary.sample([text.encode() for text in texts], seeds, 0.2) == drawn
    # One text and one seed, one spelling; other seeds, others.
    assert vocabulary.sample(texts[::-1], seeds[::-1], 0.2) == drawn[::-1]
    spellings = vocabulary.sample(["the dog sees the cat"] * 40, range(40), 0.2)
    assert len(set(map(tuple, spellings))) > 5
    assert len(set(map(tuple, vocabulary.sample(["the dog"] * 9, [7] * 9, 0.2)))) == 1
    with pytest.raises(ValueError):
        vocabulary.sample(texts, [1], 0.2)


def test_spellings_are_the_same_in_every_thread(vocabularies, sentences):
    texts = [a for a, _ in sentences] * 4
    found = {}

    def draw(name):
        found[name] = vocabularies.source.sample(texts, range(len(texts)), 0.1)

    draw("here")
    threads = [threading.Thread(target=draw, args=[name]) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(drawn == found["here"] for drawn in found.values()) and len(found) == 5


def test_whole_words_have_one_spelling():
    vocabulary = Vocabulary.train(["(S XX )S"] * 3, None, model_type="word")
    assert vocabulary.sample(["(S XX", ""], [1, 2], 0.5) == vocabulary.encode_lines(["(S XX", ""])
