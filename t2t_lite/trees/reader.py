"""Bracketed trees as treebanks hold them, read from files and text, and written on one line.

Every word stands alone under its tag, `(NN cat)`. Brackets inside a word are part of it where they
pair up, `(NN x(y))`. A bracket alone, `(-LRB- ()`, is read as the word -LRB-. What is written other
tools can read too: -LRB- and -RRB- for every round bracket in a word.
"""

import collections
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from nltk.tree import Tree

from t2t_lite.errors import UserError
from t2t_lite.files import read_lines

# Blanks are these only: a no-break space and the separators of Unicode are part of a word.
_BLANK, _TEXT = r"[ \t\r\n]", r"[^ \t\r\n()]"
_GROUP = rf"\({_TEXT}*\)"  # brackets inside a word, to a depth of four
for _ in range(3):
    _GROUP = rf"\((?:{_TEXT}|{_GROUP})*\)"
# Atomic: tried in one way only, so in linear time.
_WORD = rf"(?>(?:{_GROUP})*{_TEXT}+(?:{_GROUP}|{_TEXT}+)*)"
# A tag with its word in one match, since most of a treebank is those; else one bracket with its
# label, or one word.
_TOKEN = re.compile(
    rf"\({_BLANK}*({_TEXT}*)"  # 1: label
    rf"(?:(?<={_TEXT}){_BLANK}+(?:({_WORD}){_BLANK}*|([()]))\))?"  # 2 or 3: word
    rf"|(\)|{_WORD})"  # 4
)
# A tree without words, on one line; `(-RRB- ))` is one of a word.
_EMPTY = re.compile(rf"(?:\([ \t]*+(?!-[LR]RB-){_TEXT}*+[ \t]*+)++\)[) \t]*+")
# What lines begin with that are no part of trees: comments, the LDC's headers (`*x*x*`), the markup
# of the Chinese treebank.
_COMMENT_LINES = ";", "%", "#", "//", "*", "<"
_INDENTED_COMMENTS = ";;", "%%"
_COMMENT_AFTER_BRACKET = re.compile(r"(?<=\))[ \t]+(?:[;%#]|//).*")
_MAX_JOINED = 1000  # blocks of lines, see `_blocks`, that may make one tree

_BRACKET_WORD = re.compile(rf"(?<={_TEXT}){_BLANK}+[()](?=\))")  # the word of `(-RRB- ))`
_SURPLUS = "a closing bracket too many; expected trees such as (S (NN cat))"

_BACKSLASHES = re.compile(r"\\+([/*])")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_SQUARE = str.maketrans(
    {bracket: name for bracket, name in _ESCAPES.items() if bracket not in "()"}
)


def escape(word: str) -> str:
    """A word as treebanks write it: -LRB- for `(`, -LSB- for `[`, -LCB- for `{`, anywhere in it."""
    return re.sub(r"[][(){}]", lambda match: _ESCAPES[match[0]], word)


def unescape(word: str) -> str:
    r"""`1/2` for `1\/2`: treebanks have a backslash before `/` and `*`, which nobody types."""
    return _BACKSLASHES.sub(r"\1", word) if "\\" in word else word


def one_spelling(line: str) -> str:
    """A line of trees with the words as they are compared: `/`, `*`, -LSB-, not `[`."""
    return unescape(line).translate(_SQUARE)


def read_trees(
    path, *, skip_bad: bool = False, on_skip: Callable[[UserError], None] | None = None
) -> Iterator[Tree]:
    """The trees of a file, plain or `.gz`: over many lines, one a line, or several a line.

    A line that begins with a bracket, indented no more than the one before that did, begins a tree;
    where that leaves a tree without all its closing brackets, the lines up to the next that begins
    with the same label are read as part of it, if that makes it whole. Comments are left out where
    no word can stand, before a tree or after a closing bracket: lines that begin with `;`, `%`,
    `#`, `//`, `*` or `<`, and what follows one of the first four after a bracket and a blank.

    A tree that is broken (brackets that do not pair up, words without a tag of their own,
    constituents without words) raises UserError `path:line: ...` with the line it starts in. With
    `skip_bad` that error goes to `on_skip` instead, and nothing of that tree is kept: reading goes
    on after its last bracket, or, where brackets are missing, at a line that begins as this tree or
    an earlier one did, or as several to come. A tree without words, `(TOP)` or `(())`, is no error:
    parsers write it where they found none.
    """
    blocks = _Blocks(read_lines(Path(path)))
    for first_line, text in blocks:
        for tree in _trees(text):
            if isinstance(tree, _Broken) and tree.open:
                tree = _joined(tree, text, blocks)
            if not isinstance(tree, _Broken):
                blocks.roots.add(tree.label())
                yield tree
                continue
            error = UserError(f"{path}:{first_line + text.count(chr(10), 0, tree.start)}: {tree}")
            if not skip_bad:
                raise error
            if on_skip:
                on_skip(error)


class _Blocks:
    """(first line, text) of each part of a file, cut before the lines that begin a tree."""

    def __init__(self, lines: Iterator[str]):
        self._blocks = _blocks(lines)
        self._waiting = collections.deque()  # those that were looked at already
        self.roots: set[str] = set()  # what whole trees began with so far

    def __iter__(self):
        return self

    def __next__(self) -> tuple[int, str]:
        return self._waiting.popleft() if self._waiting else next(self._blocks)

    def ahead(self) -> Iterator[str]:
        """The texts to come, which stay to be read."""
        for number in itertools.count():
            if number == len(self._waiting):
                if (block := next(self._blocks, None)) is None:
                    return
                self._waiting.append(block)
            yield self._waiting[number][1]


def _joined(broken: "_Broken", text: str, blocks: _Blocks) -> "Tree | _Broken":
    """The tree that lacks closing brackets in `text`, together with the blocks after it.

    They are used up, also where they make no whole tree: none of them may be read as another.
    """
    root = _root(text[broken.start :])
    parts = [text[broken.start :]]
    depth = _depth(parts[0])
    for following in itertools.islice(blocks.ahead(), _MAX_JOINED):
        if _root(following) == root:
            break
        parts.append(following)
        depth += _depth(following)
        if depth <= 0:
            for _ in parts[1:]:
                next(blocks)
            tree, *more = _trees("\n".join(parts))
            if isinstance(tree, Tree) and not more:
                return tree
            return _Broken(
                str(next(t for t in (tree, *more) if isinstance(t, _Broken))), broken.start
            )
    labels = [_root(following) for following in itertools.islice(blocks.ahead(), _MAX_JOINED)]
    beginnings = {root, *blocks.roots}
    if beginnings.isdisjoint(labels):  # as where the first tree of all is broken
        beginnings.update(label for label, n in collections.Counter(labels).items() if n > 2)
    for _ in itertools.takewhile(lambda label: label not in beginnings, labels):
        next(blocks)
    return broken


def _root(text: str) -> str:
    """What a block's first bracket is labelled."""
    return _TOKEN.match(text.lstrip())[1]


def _depth(text: str) -> int:
    text = _BRACKET_WORD.sub("", text)
    return text.count("(") - text.count(")")


def parse_tree(text: str, name: str = "tree") -> Tree:
    """The one tree that `text` holds, on one line or many.

    Raises UserError, beginning with `name`, for anything else.
    """
    trees = list(_trees(text))
    for tree in trees:
        if isinstance(tree, _Broken):
            raise UserError(f"{name}: {tree}")
    if len(trees) != 1:
        raise UserError(f"{name}: {len(trees) or 'no'} trees; expected one, such as (S (NN cat))")
    return trees[0]


def format_tree(tree: Tree) -> str:
    """The tree on one line, `(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))`.

    Round brackets in words become -LRB- and -RRB-.
    """
    pieces = []
    rest = [tree]
    while rest:  # not recursive: a wrong output may be nested deeper than Python's stack
        node = rest.pop()
        if node is None:
            pieces.append(")")
        elif isinstance(node, str):
            pieces.append(f" {node.replace('(', '-LRB-').replace(')', '-RRB-')}")
        else:
            pieces.append(f" ({node.label()}")
            rest.append(None)
            rest.extend(reversed(node))
    return "".join(pieces).lstrip()


def words(tree: Tree) -> list[str]:
    """The words, as nltk's `leaves` gives them, of a tree however deep."""
    found, rest = [], [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, str):
            found.append(node)
        else:
            rest.extend(reversed(node))
    return found


class _Broken(NamedTuple):
    """What is wrong with a tree."""

    reason: str
    start: int  # where in the text the tree starts
    open: bool = False  # whether it lacks closing brackets

    def __str__(self):
        return self.reason


def _blocks(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """(first line, text) of each part of a file, cut before the lines that begin a tree."""
    first_line, block, indentation = 1, [], None  # None: no bracket yet
    after_bracket = True  # or before all of them: where no word can stand
    for number, line in enumerate(lines, 1):
        text = line.lstrip(" \t")
        if after_bracket and (
            line.startswith(_COMMENT_LINES) or text.startswith(_INDENTED_COMMENTS)
        ):
            line = ""
        elif text.startswith("(") and (indentation is None or len(line) - len(text) <= indentation):
            if block:
                yield first_line, "\n".join(block)
            first_line, block, indentation = number, [], len(line) - len(text)
        line = _COMMENT_AFTER_BRACKET.sub("", line).rstrip(" \t")
        if line:
            after_bracket = line.endswith(")")
        block.append(line)
    yield first_line, "\n".join(block)


def _trees(text: str) -> Iterator[Tree | _Broken]:
    """The trees of a text, in order, or what is wrong with them.

    After one whose brackets do not pair up nothing more is read.
    """
    finished = None  # the last tree, kept until it is known that no bracket too many follows
    wrong = None  # the first thing that is wrong with the tree being read, but for its brackets
    start = end = 0
    stack = []  # the constituents still open, outermost first
    for token in _TOKEN.finditer(text):
        if token.start() < end:
            continue  # in a tree without words
        label, word, bracket, other = token.groups()
        if label is not None:  # an opening bracket
            word = word or _ESCAPES.get(bracket)
            node = Tree(label, (word,) if word else ())
            if stack:
                stack[-1].append(node)
            else:
                if finished is not None:
                    yield finished
                start, finished, wrong = token.start(), node, None
                if empty := _empty_tree(text, start):
                    finished, end = Tree(label, ()), empty.end()
                    continue
                if bracket == ")":  # no word: it closes this root, and the next one nothing
                    yield _Broken(_SURPLUS, start)
                    return
            if not word:
                stack.append(node)
        elif not stack:
            if isinstance(finished, _Broken):
                break
            before = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
            if finished is not None and other != ")" and not before.strip(" \t"):
                # On a line of its own it has nothing to do with the tree before it.
                yield finished
                finished = None
            start = token.start() if finished is None else start
            outside = f"{other[:40]!r} outside of brackets; expected trees such as (S (NN cat))"
            yield _Broken(_SURPLUS if other == ")" else outside, start)
            return
        elif other != ")":  # a word that does not stand on one line with its tag, or has none
            if stack[-1]:
                wrong = wrong or _no_tag(other)
            stack[-1].append(other)
        else:
            node = stack.pop()
            wrong = wrong or _misuse(node)
            if wrong and not stack:
                finished = _Broken(wrong, start)
    if stack:
        missing = (
            f"closing brackets missing: {len(stack)}; expected a whole tree, "
            "its lines after the first indented"
        )
        yield _Broken(wrong or missing, start, open=True)
    elif finished is not None:
        yield finished


def _empty_tree(text: str, start: int) -> re.Match | None:
    """The tree without words that begins at `start`: nothing but brackets within one another.

    `(ROOT ())` would else be the word `(` under ROOT and a bracket too many.
    """
    match = _EMPTY.match(text, start)
    return match if match and match[0].count("(") == match[0].count(")") else None


def _misuse(node: Tree) -> str | None:
    """What is wrong with a constituent or a tag with its word, now that it ends."""
    if not node:
        return f"({node.label()}) is empty; expected a word or constituents in it"
    return _no_tag(node[0]) if len(node) > 1 and isinstance(node[0], str) else None


def _no_tag(word: str) -> str:
    return f"the word {word[:40]!r} is not alone in its brackets; expected each as (TAG word)"
