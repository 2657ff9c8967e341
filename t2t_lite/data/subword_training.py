"""Training a SentencePiece model: from sentences to the bytes of its file."""

import collections
import io
import re
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece

from t2t_lite.errors import UserError

# No BOS: the decoder's shifted input starts with PAD, whose embedding is zero.
PAD, EOS, UNK = 0, 1, 2
_LONGEST = 4192  # bytes; SentencePiece leaves longer lines out
_LONGEST_WORD = 1000  # characters; it writes longer ones, and does not read them again
# Of a line with U+2585 it leaves out all, of a word with NUL the word: both are its own marks.
_UNREAD = re.compile("[\0\u2585]")
_BETWEEN_WORDS = re.compile("[ \t\0\u2585]")


def train_model(
    sentences: Iterable[str],
    size: int | None,
    *,
    model_type: str = "bpe",
    user_symbols: Sequence[str] = (),
) -> bytes:
    """Learns `size` sub-words, or all words.

    Args:
        sentences: lines of text, one or both sides' of a corpus. Nothing in them is left out,
            however long they are, and all are kept in memory but for `word`.
        size: sub-words, the special ones included; None for `word`, which keeps all.
        model_type: SentencePiece's: `bpe`, `unigram`, or `word`: what stands between spaces is
            never split, and all of it is known.
        user_symbols: texts that always are one sub-word.

    Raises UserError for a size that the sentences do not allow, naming the nearest that they do,
    and for a word of a `word` model that is too long for one.
    """
    model, raised = io.BytesIO(), []
    if model_type == "word":
        options = dict(
            sentence_iterator=_counted_words(sentences),
            input_format="tsv",
            vocab_size=1_000_000,  # not read, since all are kept
            use_all_vocab=True,
        )
    else:
        lines = (_UNREAD.sub(" ", line) for line in sentences)
        options = dict(
            sentence_iterator=_noting(raised, (piece for line in lines for piece in cut(line))),
            vocab_size=max(size, 3),  # below, SentencePiece names no size that is possible
            byte_fallback=True,
            character_coverage=0.9999,  # rarer characters are spelled in bytes
        )
    try:
        sentencepiece.SentencePieceTrainer.train(
            model_writer=model,
            model_type=model_type,
            max_sentence_length=_LONGEST,
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            user_defined_symbols=list(user_symbols),
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        raise (raised or [_size_error(str(error), size)])[0] from None
    return model.getvalue()


def _noting(raised: list, items: Iterable[str]) -> Iterator[str]:
    """The items; what is raised between them, as by Ctrl-C, is kept: SentencePiece renames it."""
    try:
        yield from items
    except (Exception, KeyboardInterrupt) as error:
        raised.append(error)
        raise


def cut(line: str, longest: int = _LONGEST) -> Iterator[str]:
    """The line in pieces of at most `longest` bytes, cut at spaces, or else between characters.

    A space that it is cut at is in neither piece: SentencePiece puts one before each.
    """
    text = line.encode()
    start = 0
    while len(text) - start > longest:
        end = text.rfind(b" ", start + 1, start + longest + 1)
        following = end + 1
        if end < 0:
            end = start + longest
            while text[end] & 0xC0 == 0x80:  # in the middle of a character
                end -= 1
            following = end
        yield text[start:end].decode()
        start = following
    yield text[start:].decode()


def _counted_words(sentences: Iterable[str]) -> Iterator[str]:
    """`word TAB count` of each word of all sentences. Raises UserError for one that is too long."""
    words = collections.Counter(
        word for sentence in sentences if sentence for word in _BETWEEN_WORDS.split(sentence)
    )
    for word in words:
        if len(word) > _LONGEST_WORD:
            raise UserError(
                f"{word[:40]}...: a symbol of {len(word):,} characters; "
                f"expected at most {_LONGEST_WORD:,}"
            )
    # Nothing, between two spaces, is a word too.
    return iter([f"{word or ' '}\t{count}" for word, count in words.items()])


def _size_error(message: str, size: int | None) -> UserError:
    """SentencePiece's own words turned into one line that names the nearest size that works."""
    if found := re.search(r"too high.*<= (\d+)", message):
        return UserError(
            f"vocab_size {size} is too large for this corpus; the largest possible is {found[1]}"
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return UserError(
            f"vocab_size {size} is too small for this corpus; the smallest possible is {found[1]}"
        )
    if "sentences_.empty()" in message:
        return UserError("no vocabulary can be trained: the corpus holds no text")
    return UserError(
        f"no vocabulary with vocab_size {size} can be trained: {' '.join(message.split())}"
    )
