"""Parsing sentences of a small grammar of English: a task that needs no data.

    (TOP (S (NP (DT the) (NN teacher))
            (VP (VBD saw) (NP (NP (DT a) (NN map)) (PP (IN of) (NP (DT the) (NN park)))))
            (. .)))

The attachment of a prepositional phrase, hard in real text, follows from the preposition here: `of`
and `with` belong to the noun before, the others to the verb. So there is one right tree for each
sentence, and 100 is within reach.
"""

import dataclasses
import hashlib
import random
from collections.abc import Iterator
from typing import Literal

from t2t_lite.problems.parsing import ParsingProblem

from t2t_lite.data.sources import Generated
from t2t_lite.problem import Decoding
from t2t_lite.registry import register_problem

# A symbol -> its expansions, each chosen as often as it stands here; one without any is a word.
GRAMMAR = {
    "S.": ["S .", "S .", "S .", "SBAR , S .", "WH SQ ?"],
    "S": ["NP VP", "NP VP", "NP VP", "NP ADVP VP", "S CC S"],
    "SBAR": ["SUB S"],
    "WH": ["WP"],
    "SQ": ["VP"],
    "NP": [
        "DT NN",
        "DT NN",
        "DT NN",
        "DT JJ NN",
        "DT JJ JJ NN",
        "PRP",
        "NNP",
        "NNP NNP",
        "NP/ PP/",
        "NP/ SBAR/",
        "DT CD NNS",
    ],
    "NP/": ["DT NN", "DT JJ NN"],
    "PP/": ["IN/ NP"],
    "SBAR/": ["WHNP S/"],
    "WHNP": ["WDT"],
    "S/": ["VP"],
    "VP": [
        "VBD NP",
        "VBD NP",
        "VBD NP PP",
        "VI",
        "VI PP",
        "VI ADVP",
        "VS SBARC",
        "MD VPB",
        "VBD NP CC VBD NP",
    ],
    "VPB": ["VB NP", "VB NP PP"],
    "SBARC": ["THAT S"],
    "PP": ["IN NP"],
    "ADVP": ["RB"],
}
LABELS = {
    "S.": "S",
    "NP/": "NP",
    "PP/": "PP",
    "SBAR/": "SBAR",
    "S/": "S",
    "VPB": "VP",
    "SBARC": "SBAR",
    "WH": "WHNP",
}
TAGS = {
    "IN/": "IN",
    "VI": "VBD",
    "VS": "VBD",
    "SUB": "IN",
    "THAT": "IN",
    "?": ".",
    ".": ".",
    ",": ",",
}
WORDS = {
    "DT": "the a this that every no",
    "NN": "teacher dog map park letter river garden train doctor house song ticket window child "
    "story bridge lamp friend",
    "NNS": "books trees boats cities people stones horses songs",
    "JJ": "old small green quiet strange happy long cold famous broken",
    "CD": "two three seven twelve",
    "PRP": "she he they we it everyone",
    "NNP": "Anna Paul Berlin Maria Rome Karl Lena Oslo",
    "IN": "in on near behind under after before",
    "IN/": "of with",
    "SUB": "because when although while if",
    "THAT": "that",
    "WDT": "that which who",
    "WP": "who what",
    "VBD": "saw found painted carried liked sold opened moved forgot followed",
    "VI": "slept laughed arrived waited sang left",
    "VS": "said thought knew believed hoped",
    "VB": "see find paint carry sell open move follow",
    "MD": "will can must should might",
    "RB": "slowly quietly often never suddenly again",
    "CC": "and but or",
    ".": ".",
    ",": ",",
    "?": "?",
}
SIZES = {"train": 12_000, "dev": 500, "test": 1_000}
MAX_WORDS = 30


def tree(random_: random.Random, symbol: str = "S.", depth: int = 0) -> str:
    """A random tree under `symbol`, as text."""
    if symbol in WORDS:
        return f"({TAGS.get(symbol, symbol)} {random_.choice(WORDS[symbol].split())})"
    # The first expansion recurs least: deep down it is the only one.
    expansion = random_.choice(GRAMMAR[symbol]) if depth < 6 else GRAMMAR[symbol][0]
    inner = " ".join(tree(random_, part, depth + 1) for part in expansion.split())
    return f"({LABELS.get(symbol, symbol)} {inner})"


def generate(split: str) -> Iterator[tuple[str, str]]:
    """Yields (sentence, tree), no sentence twice; a sentence's digest says which split it is in."""
    random_, seen = random.Random(split), set()
    while len(seen) < SIZES[split]:
        text = f"(TOP {tree(random_)})"
        sentence = " ".join(part.rstrip(")") for part in text.split() if not part.startswith("("))
        if sentence in seen or len(sentence.split()) > MAX_WORDS or _split(sentence) != split:
            continue
        seen.add(sentence)
        yield sentence, text


def _split(sentence: str) -> str:
    digit = hashlib.blake2b(sentence.encode(), digest_size=1).digest()[0] % 10
    return {0: "dev", 1: "test"}.get(digit, "train")


@register_problem
@dataclasses.dataclass(frozen=True, kw_only=True)
class ToyParsing(ParsingProblem):
    """Sentences of a small grammar of English and their trees, generated; needs no data."""

    tags: Literal["normalised", "kept"] = "kept"

    default_vocab_size = 500
    decoding = Decoding(beam_size=4, alpha=0.3, extra_length=100)

    def gold(self, split):
        """The generated trees."""
        return Generated(
            lambda: generate(split),
            f"{SIZES[split]:,} sentences of a small grammar, {split}, version 1",
        )
