"""Training sub-words: always the same, nothing left out, clear errors for impossible sizes."""

import re

import pytest

from t2t_lite.data import subword_training
from t2t_lite.data.subword_training import cut
from t2t_lite.data.tokenizer import Vocabulary
from t2t_lite.errors import UserError


def pieces(vocabulary: Vocabulary) -> list[str]:
    return vocabulary.pieces(range(vocabulary.size))


def test_the_same_sentences_give_the_same_model(sentences):
    lines = [text for pair in sentences for text in pair]
    assert Vocabulary.train(lines, 320).proto == Vocabulary.train(iter(lines), 320).proto


def test_user_symbols_are_one_piece(sentences):
    vocabulary = Vocabulary.train((a for a, _ in sentences), 330, user_symbols=["(NP", "XX"])
    assert vocabulary.pieces(vocabulary.encode_lines(["the(NPXX"])[0]) == [
        "▁the",
        "(NP",
        "XX",
        "</s>",
    ]
    assert vocabulary.decode_lines(vocabulary.encode_lines(["the(NPXX"])) == ["the(NPXX"]


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("size, word", [(50_000, "largest"), (100, "smallest")])
def test_impossible_size_names_a_possible_one(sentences, model_type, size, word):
    lines = [text for pair in sentences for text in pair]
    with pytest.raises(UserError) as error:
        Vocabulary.train(lines, size, model_type=model_type)
    nearest = int(
        re.fullmatch(
            rf"vocab_size {size} is too .*; the {word} possible is (\d+)", str(error.value)
        )[1]
    )
    assert Vocabulary.train(lines, nearest, model_type=model_type).size == nearest
    with pytest.raises(UserError):
        Vocabulary.train(lines, nearest + (1 if word == "largest" else -1), model_type=model_type)


def test_no_text():
    for lines in ([], ["", ""]):
        with pytest.raises(UserError, match="holds no text"):
            Vocabulary.train(lines, 300)


def test_a_size_below_all_that_are_possible(sentences):
    for size in (1, 2, 3, 258):
        with pytest.raises(UserError, match=rf"vocab_size {size} is too small.*possible is 2\d\d$"):
            Vocabulary.train([a for a, _ in sentences], size)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_long_lines_are_trained_on(model_type):
    long = " ".join(f"zebra{number}" for number in range(2000))
    lines = ["a dog or a cat"] * 50
    known = pieces(Vocabulary.train([*lines, long], 300, model_type=model_type))
    assert any("zeb" in piece for piece in known)
    Vocabulary.train([long], 285, model_type=model_type)  # "holds no text" until it was cut
    Vocabulary.train(["ж" * 9000], 262, model_type="bpe")


def test_a_symbol_of_one_long_line_is_known():
    lines = ["(S XX )S"] * 100 + ["(S " + "(LST XX )LST " * 400 + ")S"]
    vocabulary = Vocabulary.train(lines, None, model_type="word")
    assert set(pieces(vocabulary)[3:]) == {"▁(S", "▁XX", "▁)S", "▁(LST", "▁)LST"}
    with pytest.raises(UserError, match=r"^x{40}\.\.\.: a symbol of 9,000 characters"):
        Vocabulary.train(["a " + "x" * 9000], None, model_type="word")


def test_all_whole_words_are_known():
    lines = [f"(S X{number:03} )S" for number in range(300)] + ["", "a  b"]
    vocabulary = Vocabulary.train(iter(lines), None, model_type="word")
    assert vocabulary.size == 3 + 300 + 4 + 1
    assert vocabulary.pieces([3, 4]) == ["▁(S", "▁)S"]  # the most frequent first
    assert vocabulary.decode_lines(vocabulary.encode_lines(lines)) == lines


@pytest.mark.parametrize("mark", ["\0", "\u2585"])
def test_lines_with_marks_of_sentencepiece_itself_are_trained_on(mark):
    vocabulary = Vocabulary.train([f"apple{mark}pear plum"] * 3, None, model_type="word")
    assert set(pieces(vocabulary)[3:]) >= {"▁apple", "▁pear", "▁plum"}


@pytest.mark.parametrize(
    "line, parts",
    [
        ("", [""]),
        ("abcdefgh", ["abcdefgh"]),
        ("abcd efgh ij", ["abcd", "efgh ij"]),
        ("abcdefgh ij", ["abcdefgh", "ij"]),
        ("abcdefghij", ["abcdefgh", "ij"]),
        ("ab  cdefghij", ["ab ", "cdefghij"]),
        (" abcdefghij", [" abcdefg", "hij"]),
        ("жжжжж", ["жжжж", "ж"]),
        ("aжжжж", ["aжжж", "ж"]),
        ("日本語", ["日本", "語"]),
    ],
)
def test_lines_are_cut_at_spaces_or_between_characters(line, parts):
    assert list(cut(line, 8)) == parts


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError("line 2 is broken"), MemoryError])
def test_what_happens_to_the_sentences_is_told_as_it_is(monkeypatch, error):
    """Not as an impossible size, which SentencePiece would make of Ctrl-C."""

    def interrupted(line):
        raise error

    monkeypatch.setattr(subword_training, "cut", interrupted)
    with pytest.raises(error if isinstance(error, type) else type(error)):
        Vocabulary.train(["a b"], 300)
