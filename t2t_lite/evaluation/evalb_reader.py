"""Lines of bracketed trees as EVALB reads them.

Any line is read as a Sentence with its errors, unless a word stands outside brackets.

In two cases EVALB goes on with memory that is not the line's, and what it prints depends on earlier
lines. Where a line ends in a label, `(S (NN a) (NP`, that is read here as a bracket never closed;
where more brackets close than are open, the first bracket of the line ends there, as usual builds
of EVALB have it.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.evaluation.evalb_parameters import Parameters

_BLANK, _TEXT = r"[ \t\n\v\f\r]", r"[^ \t\n\v\f\r()]"
# Brackets that pair up inside a word, x(y), are part of it, though not one in the other; EVALB
# gives up there.
_WORD = rf"(?>(?:\({_TEXT}*\))*{_TEXT}+(?:\({_TEXT}*\)|{_TEXT}+)*)?"
_TOKEN = re.compile(
    rf"\(({_TEXT}*)(?:{_BLANK}+({_WORD})(\)))?"  # 1: label; 2, 3: its word and `)`
    rf"|(\)|{_TEXT}+)"  # 4: a constituent closes, or a word is not where it should be
)
_QUOTATION_MARKS = "'", '"', "/"


class Unreadable(UserError):
    """A word outside brackets or not alone with its tag. EVALB ends here, whatever MAX_ERROR is."""


class Token(NamedTuple):
    """A tag with its word, or one bracket."""

    label: str  # of the word or of the constituent that begins
    word: str  # "" where there is none: `(NN )` is an empty word
    is_word: str  # its closing bracket, or ""
    other: str  # `)`, or a word where none should be, or ""


def tokens(line: str) -> list[Token]:
    """What a line holds, in order, as tuples like Token."""
    return _TOKEN.findall(line)


def with_gold_tags(
    predicted: list[Token], gold: list[Token], parameters: Parameters
) -> list[Token]:
    """The predicted tokens with the gold tags, in order; unchanged if the numbers of words differ.

    Traces, the words whose tags are in delete_labels_for_length, are not counted and keep their
    tags.
    """

    def places(side):
        return [
            i
            for i, (tag, _, is_word, _) in enumerate(side)
            if is_word and tag not in parameters.delete_labels_for_length
        ]

    theirs, ours = places(predicted), places(gold)
    if len(theirs) == len(ours):
        predicted = [*predicted]
        for i, j in zip(theirs, ours):
            predicted[i] = (gold[j][0], *predicted[i][1:])
    return predicted


@dataclass(slots=True)
class Quote:
    """A quotation mark as it was read: it may have been deleted here and not on the other side."""

    tag: str
    word: str
    index: int  # words left before it
    bracket: int  # constituents that begin before it
    around: list[int]  # those of them that are still open


@dataclass(slots=True)
class Sentence:
    """A tree, or several in a line, without the deleted words."""

    length: int = 0  # in words, but for those of delete_labels_for_length
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    # [first word, last word + 1 or -1 if it is not closed, label]
    brackets: list[list] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def put_back(self, number: int) -> None:
        """Inserts the quotation mark `number` where it was read."""
        quote = self.quotes[number]
        self.words.insert(quote.index, quote.word)
        self.tags.insert(quote.index, quote.tag)
        for bracket in self.brackets[quote.bracket :]:
            bracket[0] += 1
            bracket[1] += 1
        for outer in quote.around:
            self.brackets[outer][1] += 1
        for later in self.quotes[number:]:
            later.index += 1


def read(line: list[Token], parameters: Parameters, name: str) -> Sentence:
    """The tokens of a line -> Sentence. Raises Unreadable, beginning with `name`."""
    sentence = Sentence()
    words, brackets = sentence.words, sentence.brackets
    open_ = []  # numbers of the brackets
    surplus = 0  # closing brackets that found none open
    for label, word, is_word, other in line:
        if is_word:
            if label not in parameters.delete_labels_for_length:
                sentence.length += 1
            if word in _QUOTATION_MARKS and label in parameters.quote_labels:
                sentence.quotes.append(
                    Quote(label, word, len(words), len(brackets), open_[surplus:])
                )
            if label not in parameters.delete_labels:
                words.append(word)
                sentence.tags.append(label)
        elif not other:
            open_.append(len(brackets))
            brackets.append([len(words), -1, label])
        elif other == ")":
            if len(open_) < surplus:
                sentence.errors.append(f"{name}: a closing bracket too many")
            if open_:
                brackets[open_.pop()][1] = len(words)
            else:  # what lies below the bottom of EVALB's stack is 0: the first bracket
                surplus += 1
                if brackets:
                    brackets[0][1] = len(words)
        else:
            raise Unreadable(
                f"{name}: {other[:40]!r} is not alone in brackets with its tag; EVALB ends here"
            )
    if len(open_) != surplus:
        sentence.errors.append(f"{name}: opening and closing brackets do not pair up")
    return sentence


def put_back_quotes(gold: Sentence, predicted: Sentence, parameters: Parameters) -> None:
    """Where a quotation mark is deleted by its tag on one side only, it is put back there."""
    for i, theirs in enumerate(predicted.quotes):
        index = theirs.index
        for j, ours in enumerate(gold.quotes):
            if ours.index == index and ours.tag != theirs.tag:
                deleted = (
                    ours.tag in parameters.delete_labels,
                    theirs.tag in parameters.delete_labels,
                )
                if deleted == (True, False):
                    gold.put_back(j)
                elif deleted == (False, True):
                    predicted.put_back(i)
