"""Raw text as the words of a treebank: nltk's rules (`nltk.word_tokenize`), and typography beside.

nltk has the Penn Treebank's rules and knows “ ” „ « » and dashes. Not these: a typographic
apostrophe in a word (it cuts don’t into three), …, and the quotation marks ‚ ‹ ›.
"""

import re

from nltk.tokenize import NLTKWordTokenizer

_APOSTROPHE = re.compile(r"(?<=\w)[’‘ʼ](?=\w)")
_APART = re.compile("([…‚‹›])")
_NOT_BLANK, _QUOTATION = re.compile(r"\S"), re.compile("\"|''")
_WORDS = NLTKWordTokenizer()


def tokenize(text: str) -> list[str]:
    """The words of a sentence, their characters as they stand there.

    Only `"` becomes ` `` ` or `''`, which tell a quotation's beginning from its end, and brackets
    become -LRB-, -LSB- and so on.
    """
    typed = _APART.sub(r" \1 ", text)
    plain = _APOSTROPHE.sub("'", typed)  # of the same length: don't is cut before n't
    found, end = [], 0
    for word in _WORDS.tokenize(plain):
        start = _NOT_BLANK.search(plain, end).start()
        mark = _QUOTATION.match(plain, start) if word in ("``", "''") else None
        end = mark.end() if mark else start + len(word)
        found.append(word if mark else typed[start:end])
    return found
