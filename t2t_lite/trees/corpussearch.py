"""Trees in the form of CorpusSearch, made like the Penn Treebank's.

    ( (IP-MAT (CODE <P_7>) (NP-SBJ *pro*) (VBDI kom-koma) (ADVP (ADV heim-heim)) (. .-.))
      (ID 1300.SAGA,.12))

So are Penn's historical corpora, IcePaHC, HeliPaD and Keyaki: a tree has its ID beside it and codes
of the edition in it, a trace is `0` or begins with `*` and has no tag of its own, and in some of
them words come with their lemmas.
"""

import itertools
from collections.abc import Iterable, Iterator

from nltk.tree import Tree

_ANYWHERE = "CODE", "METADATA"  # codes also in the Penn Treebank's Switchboard
_BESIDE_THE_TREE = "ID", "VERSION", *_ANYWHERE
_NUMERALS = "NUM", "CD"
_BEGINNING = 50  # trees that the form of a file is known by


def penn_style(trees: Iterable[Tree], psd: bool = False) -> Iterator[tuple[Tree, int]]:
    """(tree, how many IDs, codes and metadata were removed from it), for each tree of one file.

    Traces get the tag -NONE- if `psd`, which a file's name says, or if the first trees have IDs;
    then too `word-lemma` becomes `word`, if nearly all of their words have lemmas. The trees
    themselves are changed.
    """
    trees = iter(trees)
    beginning = list(itertools.islice(trees, _BEGINNING))
    psd = psd or any(
        child.label() == "ID" for tree in beginning if not tree.label() for child in tree
    )
    changed = ((tree, _simplify(tree, psd)) for tree in itertools.chain(beginning, trees))
    first = list(itertools.islice(changed, len(beginning)))
    lemmas = psd and _have_lemmas([tag[0] for tree in beginning for tag in _tags(tree)])
    for tree, removed in itertools.chain(first, changed):
        if lemmas:
            for tag in _tags(tree):
                tag[0] = without_lemma(tag[0])
        yield tree, removed


def without_lemma(word: str) -> str:
    """`kom` for `kom-koma`, `-` for `---`; the word itself where it has no lemma."""
    half = word[: len(word) // 2]
    if half and word == f"{half}-{half}":
        return half
    form, _, lemma = word.rpartition("-")
    return form if form and lemma else word


def _have_lemmas(words: list[str]) -> bool:
    """Whether nearly all words do, and some are their own lemma as `.-.` is."""
    forms = list(map(without_lemma, words))
    count = sum(form != word for form, word in zip(forms, words))
    return count > 0.9 * len(words) and any(
        word == f"{form}-{form}" for form, word in zip(forms, words)
    )


def _simplify(tree: Tree, psd: bool) -> int:
    """Removes what is no part of the tree, returns how much that was, and tags traces if `psd`."""
    if tree.label() in _ANYWHERE:
        tree.clear()
        return 1
    removed = 0
    rest = [tree]
    while rest:
        node = rest.pop()
        if psd and _is_trace(node):
            node.set_label("-NONE-")
        if not _is_tag(node):
            out = _BESIDE_THE_TREE if node is tree and not tree.label() else _ANYWHERE
            kept = [child for child in node if child.label() not in out]
            removed += len(node) - len(kept)
            node[:] = kept
            rest += kept
    return removed


def _is_trace(node: Tree) -> bool:
    if not _is_tag(node):
        return False
    return node[0].startswith("*") or node[0] == "0" and not node.label().startswith(_NUMERALS)


def _is_tag(node: Tree) -> bool:
    return bool(node) and isinstance(node[0], str)


def _tags(tree: Tree) -> Iterator[Tree]:
    """The tags of a tree's words, traces left out."""
    for node in _subtrees(tree):
        if _is_tag(node) and node.label() != "-NONE-":
            yield node


def _subtrees(tree: Tree) -> Iterator[Tree]:
    """The tree and all below it, each before its children; without recursion, which nltk's has."""
    rest = [tree]
    while rest:
        yield (node := rest.pop())
        rest.extend(child for child in node if isinstance(child, Tree))
