"""Trees as sequences of symbols, the targets of a sequence-to-sequence parser, and back.

Reference: Vinyals et al. 2015, Grammar as a Foreign Language (https://arxiv.org/abs/1412.7449),
section 2.2.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from nltk.tree import Tree

from t2t_lite.trees.cleaning import TOP

WORD = "XX"  # the symbol of every word where tags are normalised
# Constituents within one another; treebanks have some 40, and programs that read trees recur.
MAX_DEPTH = 128
_SYMBOL = re.compile(r"([()]?)([^ \t\r\n()]*)")


class Kind(NamedTuple):
    """What a symbol does."""

    kind: Literal["open", "close", "word"]
    label: str  # of the constituent it opens or closes ("" for a plain `)`), or its word's tag


class Repaired(NamedTuple):
    """A tree TOP over exactly the words, and what had to be done to the symbols."""

    tree: Tree
    repairs: list[str]  # such as "3 words added"; [] for nothing


@dataclass(frozen=True)
class Linearization:
    """The form of the symbols.

    A constituent is `(NP` ... `)NP` (closing labelled) or `(NP` ... `)` (closing plain). A word is
    its tag (tags kept) or XX (tags normalised, with which Vinyals et al. gained 1 F1). The root,
    always TOP, has no symbols of its own.
    """

    tags: Literal["normalised", "kept"] = "normalised"
    closing: Literal["labelled", "plain"] = "labelled"

    def symbols(self, tree: Tree) -> list[str]:
        """The symbols of a tree from `clean`: one for each word, two for each constituent."""
        kept, labelled = self.tags == "kept", self.closing == "labelled"
        symbols = []
        rest = [*reversed(tree)]
        while rest:
            node = rest.pop()
            if isinstance(node, str):
                symbols.append(node)
            elif isinstance(node[0], str):
                symbols.append(node.label() if kept else WORD)
            else:
                label = node.label()
                symbols.append(f"({label}")
                rest.append(f"){label}" if labelled else ")")
                rest.extend(reversed(node))
        return symbols

    def kind(self, symbol: str) -> Kind | None:
        """What a symbol does; None if it is none of this form."""
        match = _SYMBOL.fullmatch(symbol)
        if not match:
            return None
        bracket, label = match.groups()
        if bracket == "(":
            return Kind("open", label)
        if bracket == ")":
            return Kind("close", label) if self.closing == "labelled" or not label else None
        return Kind("word", label) if label and (self.tags == "kept" or label == WORD) else None

    def tree(self, symbols: Sequence[str], words: Sequence[str]) -> Repaired:
        """The tree of the symbols over exactly `words`, in order, whatever the symbols.

        What does not fit is repaired:

        1. A symbol of no known form is dropped.
        2. A closing label closes up to the nearest open constituent of that label; if there is
           none, it is dropped.
        3. Constituents open at the end are closed there.
        4. Words without a symbol are added as XX, symbols without a word are dropped: at the end if
           3 applied, since then the output broke off or never stopped, else in the middle of the
           words, since then it lost count at a place unknown, and half of the words on either side
           keep theirs. (One to three words lost at random places of GENIA and GUM: F1 55 with
           additions in the middle, 30 at the end.)
        5. A constituent without words is dropped, and so is one in more than MAX_DEPTH others, its
           words kept.
        """
        known = [kind for kind in map(self.kind, symbols) if kind]
        repairs = []
        _note(repairs, len(symbols) - len(known), "unknown symbol# dropped")
        paired, end = _pair_brackets(known, self.closing == "plain", repairs)
        tree = _build(_count_words(paired, end, len(words), repairs), words, repairs)
        return Repaired(tree, repairs)


def _note(repairs: list[str], count: int, phrase: str):
    """Adds the phrase after its count, `#` being the s of the plural, unless the count is 0."""
    if count:
        repairs.append(f"{count} {phrase.replace('#', 's' * (count > 1))}")


def _pair_brackets(
    kinds: list[Kind], plain: bool, repairs: list[str]
) -> tuple[list[Kind], int | None]:
    """Rules 2 and 3: kinds with paired brackets, and the index of those added at the end."""
    paired, open_ = [], []  # open_: labels, outermost first
    closed = dropped = 0
    for kind in kinds:
        if kind.kind == "close":
            if not open_ or not plain and kind.label not in open_:
                dropped += 1
                continue
            while not plain and open_[-1] != kind.label:
                paired.append(Kind("close", open_.pop()))
                closed += 1
            open_.pop()
        elif kind.kind == "open":
            open_.append(kind.label)
        paired.append(kind)
    _note(repairs, dropped, "closing bracket# dropped")
    _note(repairs, closed + len(open_), "bracket# closed")
    end = len(paired) if open_ else None
    paired.extend(Kind("close", label) for label in reversed(open_))
    return paired, end


def _count_words(kinds: list[Kind], end: int | None, words: int, repairs: list[str]) -> list[Kind]:
    """Rule 4: kinds with as many words. `end`: where the output broke off, None if it did not."""
    places = [place for place, kind in enumerate(kinds) if kind.kind == "word"]
    missing = words - len(places)
    _note(repairs, max(missing, 0), "word# added")
    _note(repairs, max(-missing, 0), "word# dropped")
    if missing >= 0:
        if end is None:
            end = places[len(places) // 2] if places else len(kinds)
        return kinds[:end] + [Kind("word", WORD)] * missing + kinds[end:]
    first = words if end is not None else (words + 1) // 2
    surplus = set(places[first : first - missing])
    return [kind for place, kind in enumerate(kinds) if place not in surplus]


def _build(kinds: list[Kind], words: Sequence[str], repairs: list[str]) -> Tree:
    """Rule 5 and the tree of kinds that pair up over exactly the words."""
    top = Tree(TOP, ())
    open_ = [top]
    rest = iter(words)
    empty = deep = 0
    for kind, label in kinds:
        if kind == "word":
            open_[-1].append(Tree(label, (next(rest),)))
        elif kind == "open":
            too_deep = len(open_) > MAX_DEPTH
            deep += too_deep
            open_.append(open_[-1] if too_deep else Tree(label, ()))
        else:
            node = open_.pop()
            if node and node is not open_[-1]:
                open_[-1].append(node)
            empty += not node
    _note(repairs, empty, "empty constituent# dropped")
    _note(repairs, deep, "constituent# too deep")
    return top
