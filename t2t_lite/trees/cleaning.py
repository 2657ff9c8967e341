"""Trees as parsers are trained and scored on: without traces, function tags and indices."""

import functools
import re

from nltk.tree import Tree

from t2t_lite.trees.reader import unescape

TOP = "TOP"
_ROOTS = "", TOP, "ROOT", "S1"
_CATEGORY = re.compile("[^-=|;{]+")


def clean(tree: Tree) -> Tree | None:
    """The tree over its words alone, under one root TOP; None if it has no words.

    - Traces (`-NONE-`) go, and every constituent that is empty without them.
    - A root without a label, TOP, ROOT or S1 becomes TOP, and so do several, one over the other;
      above any other a TOP is added.
    - Labels lose function tags and indices (see `bare_label`). Unary chains stay, X over X too.
    - Words lose the backslashes that treebanks put before `/` and `*`.
    """
    top = Tree(TOP, ())
    open_ = [(top, iter((tree,)))]
    while open_:
        copy, children = open_[-1]
        for node in children:
            label = node.label()
            if _is_word(node):
                if label != "-NONE-":
                    copy.append(Tree(bare_label(label), (unescape(node[0]),)))
            else:
                inner = Tree(bare_label(label), ())
                copy.append(inner)
                open_.append((inner, iter(node)))
                break
        else:
            open_.pop()
            if not copy and open_:
                open_[-1][0].pop()
    while len(top) == 1 and top[0].label() in _ROOTS and not _is_word(top[0]):
        top = Tree(TOP, top[0])
    return top if top else None


def _is_word(node: Tree) -> bool:
    """Whether it is a word under its tag, not a constituent."""
    return bool(node) and isinstance(node[0], str)


@functools.lru_cache(4096)
def bare_label(label: str) -> str:
    """The category alone: NP for NP-SBJ-1 and NP=2, PRT for PRT|ADVP; -LRB-, `-` and `=` stay.

    Parsers are scored without function tags and indices: EVALB too compares labels up to the first
    `-` or `=`; Keyaki has `;` and `{` too. Of labels that the annotators left open the first is
    taken; EVALB's COLLINS.prm holds ADVP and PRT equal.
    """
    category = _CATEGORY.match(label)
    return category[0] if category else label
