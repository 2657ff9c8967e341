"""Bracketed trees as treebanks hold them, read from files and text, and written on one line.

Every word stands alone under its tag, `(NN cat)`. Brackets inside a word are part of it where they
pair up, `(NN x(y))`. A bracket alone, `(-LRB- ()`, is read as the word -LRB-. What is written other
tools can read too: -LRB- and -RRB- for every round bracket in a word.
"""

import collections
import re
from collections.abc import Callable, Iterator
from pathlib import Path

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
# What lines begin with that are no part of trees: comments, the LDC's headers (`*x*x*`), the markup
# of the Chinese treebank.
_COMMENT_LINES = ";", "%", "#", "//", "*", "<"
_INDENTED_COMMENTS = ";;", "%%"
_COMMENT_AFTER_BRACKET = re.compile(r"(?<=\))[ \t]+(?:[;%#]|//).*")
_MAX_JOINED = 1000  # blocks of lines, see `_blocks`, that may make one tree

_BRACKET_WORD = re.compile(rf"(?<={_TEXT}){_BLANK}+[()](?=\))")  # the word of `(-RRB- ))`
_SURPLUS = "a closing bracket too many; expected trees such as (S (NN cat))"

_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def escape(word: str) -> str:
    """A word as treebanks write it: -LRB- for `(`, -LSB- for `[`, -LCB- for `{`, anywhere in it."""
    return re.sub(r"[][(){}]", lambda match: _ESCAPES[match[0]], word)


def read_trees(
    path, *, skip_bad: bool = False, on_skip: Callable[[UserError], None] | None = None
) -> Iterator[Tree]:
    """The trees of a file, plain or `.gz`: over many lines, one a line, or several a line.

    A line that begins with a bracket, indented no more than the one before that did, begins a tree;
    where that leaves a tree without all its closing brackets, the lines up to the next that begins
    with the same label are read as part of it, if that makes it whole. Comments are left out: lines
    that begin with `;`, `%`, `#`, `//`, `*` or `<`, and what follows one of the first four after a
    bracket and a blank.

    A tree that is broken (brackets that do not pair up, words without a tag of their own,
    constituents without words) raises UserError `path:line: ...` with the line it starts in. With
    `skip_bad` that error goes to `on_skip` instead, and reading goes on at the next line that
    begins a tree. A tree that is nothing but a root, `(TOP)`, is no error: parsers write it where
    they found none.
    """
    waiting = collections.deque()  # blocks that were looked at already
    blocks = _blocks(read_lines(Path(path)))
    while block := waiting.popleft() if waiting else next(blocks, None):
        first_line, text = block
        try:
            yield from _trees(text)
        except _Broken as broken:
            if broken.open and (tree := _joined(text[broken.start :], waiting, blocks)):
                yield tree
                continue
            error = UserError(
                f"{path}:{first_line + text.count(chr(10), 0, broken.start)}: {broken}"
            )
            if not skip_bad:
                raise error from None
            if on_skip:
                on_skip(error)


def _joined(text: str, waiting: collections.deque, blocks: Iterator) -> Tree | None:
    """The one tree that a text and the blocks after it make together; None if none.

    The blocks of a tree are used up; otherwise they wait.
    """
    root = _TOKEN.match(text)[1]
    parts, depth = [text], _depth(text)
    for number in range(_MAX_JOINED):
        if number == len(waiting):
            if (block := next(blocks, None)) is None:
                return None
            waiting.append(block)
        following = waiting[number][1]
        if _TOKEN.match(following.lstrip())[1] == root:
            return None
        parts.append(following)
        depth += _depth(following)
        if depth <= 0:
            try:
                [tree] = _trees("\n".join(parts))
            except (_Broken, ValueError):
                return None
            for _ in range(number + 1):
                waiting.popleft()
            return tree
    return None


def _depth(text: str) -> int:
    text = _BRACKET_WORD.sub("", text)
    return text.count("(") - text.count(")")


def parse_tree(text: str, name: str = "tree") -> Tree:
    """The one tree that `text` holds, on one line or many.

    Raises UserError, beginning with `name`, for anything else.
    """
    try:
        trees = list(_trees(text))
    except _Broken as broken:
        raise UserError(f"{name}: {broken}") from None
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


class _Broken(Exception):
    """What is wrong with a tree."""

    def __init__(self, reason: str, start: int, open: bool = False):
        super().__init__(reason)
        self.start = start  # where in the text the tree starts
        self.open = open  # whether it only lacks closing brackets


def _blocks(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """(first line, text) of each part of a file, cut before the lines that begin a tree."""
    first_line, block, indentation = 1, [], None  # None: no bracket yet
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix("\ufeff")
        text = line.lstrip(" \t")
        if line.startswith(_COMMENT_LINES) or text.startswith(_INDENTED_COMMENTS):
            line = ""
        elif text.startswith("(") and (indentation is None or len(line) - len(text) <= indentation):
            if block:
                yield first_line, "\n".join(block)
            first_line, block, indentation = number, [], len(line) - len(text)
        block.append(_COMMENT_AFTER_BRACKET.sub("", line))
    yield first_line, "\n".join(block)


def _trees(text: str) -> Iterator[Tree]:
    """The trees of a text. Raises _Broken at the first that is not one, and reads no further."""
    finished = None  # the last tree, kept until it is known that no bracket too many follows
    start = 0
    stack = []  # the constituents still open, outermost first
    for token in _TOKEN.finditer(text):
        label, word, bracket, other = token.groups()
        if label is not None:  # an opening bracket
            word = word or _ESCAPES.get(bracket)
            node = Tree(label, (word,) if word else ())
            if stack:
                stack[-1].append(node)
            else:
                if finished is not None:
                    yield finished
                start = token.start()
                finished = node
                if bracket == ")":  # no word: it closes this root, and the next one nothing
                    raise _Broken(_SURPLUS, start)
            if not word:
                stack.append(node)
        elif not stack:
            before = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
            if finished is not None and other != ")" and not before.strip(" \t"):
                # On a line of its own it has nothing to do with the tree before it.
                yield finished
                finished = None
            start = token.start() if finished is None else start
            outside = f"{other[:40]!r} outside of brackets; expected trees such as (S (NN cat))"
            raise _Broken(_SURPLUS if other == ")" else outside, start)
        elif other != ")":  # a word that does not stand on one line with its tag, or has none
            if stack[-1]:
                raise _Broken(_no_tag(other), start)
            stack[-1].append(other)
        else:
            node = stack.pop()
            if not node and stack:
                raise _Broken(
                    f"({node.label()}) is empty; expected a word or constituents in it", start
                )
            if len(node) > 1 and isinstance(node[0], str):
                raise _Broken(_no_tag(node[0]), start)
    if stack:
        raise _Broken(
            f"closing brackets missing: {len(stack)}; expected a whole tree, "
            "its lines after the first indented",
            start,
            open=True,
        )
    if finished is not None:
        yield finished


def _no_tag(word: str) -> str:
    return f"the word {word[:40]!r} is not alone in its brackets; expected each as (TAG word)"
