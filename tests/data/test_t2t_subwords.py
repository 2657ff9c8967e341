r"""tensor2tensor's sub-words: its own encodings, and rules by hand; in Python and in the graph."""

import json

import pytest
import tensorflow as tf

from t2t_lite.data.t2t_spelling import Spelling
from t2t_lite.data.t2t_subwords import EOS, SubwordTextEncoder
from t2t_lite.data.tokenizer import load_vocabulary
from t2t_lite.errors import UserError

LETTERS = "\\_u;0123456789abcdeABC .,"
SUBWORDS = ["<pad>_", "<EOS>_", *LETTERS, "ab", "abc_", "cab_", ", _", "bc"]
TEXTS = [
    "", " ", "  ", "abc", "abc cab", "abc  cab", "abc, cab", " abc ", "a_b", "a\\b", "\\u", "\\\\",
    "é", "a\tb", "日本 abc", "\\9;", "abca", "A1b2", ".", "..a", "a\nb", "x" * 50,
    "x" * 8_000, "東" * 2_000,
]  # fmt: skip


@pytest.fixture(scope="module")
def small():
    return SubwordTextEncoder(Spelling(SUBWORDS))


def in_graph(vocabulary, texts):
    """(encodings, decodings of these)."""
    ids = vocabulary.encode(tf.constant(texts))
    return ids.to_list(), [text.decode() for text in vocabulary.decode(ids.to_tensor(0)).numpy()]


def test_the_longest_from_the_left(small):
    def spelled(text):
        return [SUBWORDS[i] for i in small.encode_lines([text])[0]]

    assert spelled("abc abca") == ["abc_", "ab", "c", "a", "_", "<EOS>_"]
    assert spelled("a, é") == ["a", "_", ", _", *"\\233;", "_", "<EOS>_"]


def test_python_and_graph_agree_and_nothing_is_lost(small):
    ids = small.encode_lines(TEXTS)
    assert all(row[-1] == EOS for row in ids)
    assert in_graph(small, TEXTS) == (ids, TEXTS)
    assert small.decode_lines(ids) == TEXTS


def test_numbers_that_are_no_characters(small):
    rows = [small.encode_lines(["a"])[0][:-1]]
    for number in "9" * 30, "1114112", "0000065", "55296":
        rows.append([SUBWORDS.index(c) for c in f"\\{number};_"])
    longest = max(map(len, rows))
    padded = [row + [0] * (longest - len(row)) for row in rows]
    expected = ["a", "\u3013", "\u3013", "A", "\u3013"]
    assert [text.decode() for text in small.decode(tf.constant(padded)).numpy()] == expected
    assert small.decode_lines(rows) == expected


def test_what_no_subword_spells_is_named(small):
    vocabulary = SubwordTextEncoder(Spelling(["<pad>_", "<EOS>_", "ab_"]))
    assert vocabulary.encode_lines(["ab"]) == [[2, EOS]]
    with pytest.raises(UserError, match="'b': no sub-word spells 'b' in it"):
        vocabulary.encode_lines(["b"])
    assert "cannot spell" in vocabulary.losses()[0] and "'<'" in small.losses()[0]


@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_files_with_quotes_and_without(small, tmp_path, quote):
    file = tmp_path / "vocab"
    file.write_text("".join(f"{quote}{subword}{quote}\n" for subword in SUBWORDS if subword != " "))
    read = load_vocabulary(file)
    assert read.spelling.subwords == [subword for subword in SUBWORDS if subword != " "]
    read.save(tmp_path / "saved")
    assert load_vocabulary(tmp_path / "saved").digest == read.digest


def test_a_file_that_is_not_utf_8_is_refused(tmp_path):
    file = tmp_path / "vocab"
    file.write_bytes(b"'<pad>_'\n'<EOS>_'\n'\xe4_'\n")
    with pytest.raises(UserError, match="vocab: not UTF-8"):
        load_vocabulary(file)


def test_padding_is_no_texts(small):
    padded = SubwordTextEncoder(small.spelling.padded(small.size + 5))
    texts = [*TEXTS, *padded.spelling.subwords[-5:]]
    assert padded.size == small.size + 5 and len(set(padded.spelling.subwords)) == padded.size
    assert padded.encode_lines(texts) == small.encode_lines(texts)
    more = [[small.size, 2, small.size + 4]]
    assert padded.decode_lines(more) == small.decode_lines([[2]])
    assert in_graph(padded, texts) == in_graph(small, texts)


def vocabularies(shared):
    """(file, its stored encodings)."""
    folder = shared / "oracle/subword"
    stored = json.loads((folder / "encodings.json").read_text())["vocabs"]
    yield from ((folder / name, found["encodings"]) for name, found in stored.items())
    folder_of_public = shared / "data/t2t_vocab"
    public = json.loads((folder / "wmt_public_vocab_encodings.json").read_text())["vocabs"]
    yield from ((folder_of_public / name, found["encodings"]) for name, found in public.items())


def test_encodings_are_tensor2tensors(shared):
    """Ids and decodings of 127 strings by six vocabularies. In the graph NUL alone gets lost."""
    seen = 0
    for file, encodings in vocabularies(shared):
        vocabulary = load_vocabulary(file)
        texts, ids = ([example[key] for example in encodings] for key in ("text", "ids"))
        assert [row[:-1] for row in vocabulary.encode_lines(texts)] == ids, file.name
        decoded = [example.get("decoded", example["text"]) for example in encodings]
        assert vocabulary.decode_lines(ids) == decoded
        encoded, back = in_graph(vocabulary, texts)
        wrong = [text for text, row, wanted in zip(texts, encoded, ids) if row[:-1] != wanted]
        assert wrong == ["\0"]
        assert [a for a, b in zip(back, decoded) if a != b] in ([], [""])
        seen += len(texts)
    assert seen == 6 * 127
