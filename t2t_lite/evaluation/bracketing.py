"""Labelled bracketing: predicted trees against gold ones, figure by figure as EVALB prints them.

EVALB (Sekine and Collins 1997, with Ellis's correction of 2006) is the program behind the figures
that papers report.

- Deleted: a word whose tag is one of `delete_labels`, on each side by its own tag, so punctuation
  with a wrong tag stays and makes the sides differ in length. A constituent with such a label goes
  without its words, and so does one without words. If the lengths differ, quotation marks that one
  side alone has deleted are put back there (`quote_labels`).
- A bracket is a constituent that is left (tags are none): its span over the words left, and its
  label up to the first `-` or `=`, so NP for NP-SBJ-1 and nothing at all for -LRB-.
- Matched: equal in span and label, each bracket once: of two equal ones in gold and three
  predicted, two match.
- Crossing: a predicted bracket that overlaps some gold one without either of them holding the
  other.
- Status 0: in the totals. 1, error: the words left differ, or the brackets do not pair up; in the
  second case the line shows figures where there are as many words, but the totals leave it out too.
  2, skip: the prediction has no words left.

Where EVALB is limited to 200 words, 200 brackets and 5,000 bytes a tree, this is not.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.evaluation.evalb_parameters import COLLINS, Parameters
from t2t_lite.evaluation.evalb_reader import (
    Sentence,
    Unreadable,
    put_back_quotes,
    read,
    tokens,
    with_gold_tags,
)


class SentenceScore(NamedTuple):
    """A line of EVALB's table: counts of brackets, and of the words left after deletion."""

    length: int  # words of the gold sentence, but for delete_labels_for_length
    status: int  # 0 scored, 1 error, 2 skipped
    matched: int = 0
    gold: int = 0
    predicted: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    errors: tuple[str, ...] = ()  # what EVALB warns of and counts towards MAX_ERROR


_COUNTS = "matched", "gold", "predicted", "crossing", "words", "correct_tags"


class Summary(NamedTuple):
    """Totals of many sentences. Rates are percentages, 0 where there is nothing to count."""

    sentences: int
    errors: int
    skipped: int
    valid: int  # the others, which the figures are about
    recall: float
    precision: float
    f1: float
    complete_match: float
    average_crossing: float  # brackets a sentence
    no_crossing: float
    two_or_less_crossing: float
    tagging_accuracy: float
    matched: int
    gold: int
    predicted: int
    crossing: int
    words: int
    correct_tags: int


def score_lines(
    gold: str,
    predicted: str,
    parameters: Parameters = COLLINS,
    *,
    gold_tags: bool = False,
    names: tuple[str, str] = ("gold", "predicted"),
) -> SentenceScore:
    """Scores a line of a predicted file against that of a gold file; either may be empty or broken.

    Args:
        gold: bracketed tree, as EVALB reads it.
        predicted: bracketed tree.
        parameters: what is deleted and what counts as equal.
        gold_tags: give the predicted words the gold tags first, where there are as many words
            (traces not counted).
        names: what errors call the two lines. Unreadable is raised, the others are in the score.
    """
    ours, theirs = tokens(gold), tokens(predicted)
    if gold_tags:
        theirs = with_gold_tags(theirs, ours, parameters)
    return _score(
        read(ours, parameters, names[0]), read(theirs, parameters, names[1]), parameters, names[1]
    )


def bracketing(
    hypotheses: Sequence[str], references: Sequence[str], gold_tags: bool = True
) -> dict[str, float]:
    """The figures of trees, a line of text each, with COLLINS's parameters.

    Words are compared as people write them, whether they are escaped as in treebanks or not.
    `gold_tags`: the words get the gold tags; otherwise they keep their own. Percentages, but for
    `crossing`, the average number of crossing brackets; those ending in `_40` are about sentences
    of at most 40 words. `tagging_accuracy` comes with their own tags only. `valid` is the
    percentage of hypotheses that the others are about: EVALB leaves out those whose words differ
    from the reference's, whose brackets don't pair up, or that are empty. Raises UserError if there
    are no lines.
    """
    # Here, since nltk takes 0.3 s to import, and every command imports the metrics.
    from t2t_lite.trees.reader import one_spelling

    if not hypotheses:
        raise UserError("no lines to score; expected at least one")
    scores = []
    for number, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True), 1):
        names = f"reference {number}", f"hypothesis {number}"
        hypothesis, reference = one_spelling(hypothesis), one_spelling(reference)
        try:
            score = score_lines(reference, hypothesis, gold_tags=gold_tags, names=names)
        except Unreadable:  # or of the reference, and then the next line says so
            score = score_lines(reference, "", names=names)._replace(status=1)
        scores.append(score)
    everything, short = summaries(scores, COLLINS)
    figures = {}
    for total, suffix in (everything, ""), (short, f"_{COLLINS.cutoff_len}"):
        figures |= {
            f"{name}{suffix}": getattr(total, name)
            for name in ("f1", "precision", "recall", "complete_match")
        }
        figures[f"crossing{suffix}"] = total.average_crossing
        if not gold_tags:
            figures[f"tagging_accuracy{suffix}"] = total.tagging_accuracy
    return figures | {"valid": 100.0 * everything.valid / len(scores)}


def summaries(
    scores: Sequence[SentenceScore], parameters: Parameters = COLLINS
) -> tuple[Summary, Summary]:
    """The totals of all sentences, and of those of at most `cutoff_len` words."""
    return _summary(scores), _summary(
        [score for score in scores if score.length <= parameters.cutoff_len]
    )


def _summary(scores: Sequence[SentenceScore]) -> Summary:
    scored = [score for score in scores if score.status == 0]
    counts = {name: sum(getattr(score, name) for score in scored) for name in _COUNTS}
    matched, gold, predicted, crossing, words, correct_tags = counts.values()
    recall, precision = _share(matched, gold), _share(matched, predicted)
    return Summary(
        sentences=len(scores),
        errors=sum(score.status == 1 for score in scores),
        skipped=sum(score.status == 2 for score in scores),
        valid=len(scored),
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / (precision + recall) if matched else 0.0,
        complete_match=_share(
            sum(score.matched == score.gold == score.predicted for score in scored), len(scored)
        ),
        average_crossing=crossing / len(scored) if scored else 0.0,
        no_crossing=_share(sum(score.crossing == 0 for score in scored), len(scored)),
        two_or_less_crossing=_share(sum(score.crossing <= 2 for score in scored), len(scored)),
        tagging_accuracy=_share(correct_tags, words),
        **counts,
    )


def _share(count: int, of: int) -> float:
    return 100.0 * count / of if of else 0.0


def _score(gold: Sentence, predicted: Sentence, parameters: Parameters, name: str) -> SentenceScore:
    errors = (*gold.errors, *predicted.errors)
    if not predicted.words:
        return SentenceScore(gold.length, 2, errors=errors)
    if len(gold.words) != len(predicted.words):
        put_back_quotes(gold, predicted, parameters)
    difference = _difference(gold.words, predicted.words, parameters)
    if difference:
        return SentenceScore(gold.length, 1, errors=(*errors, f"{name}: {difference}"))
    ours, theirs = _kept(gold.brackets, parameters), _kept(predicted.brackets, parameters)
    return SentenceScore(
        gold.length,
        1 if errors else 0,
        _matched(ours, theirs, parameters),
        len(ours),
        len(theirs),
        _crossing({bracket[:2] for bracket in ours}, Counter(bracket[:2] for bracket in theirs)),
        len(gold.words),
        sum(map(parameters.same_label, gold.tags, predicted.tags)),
        errors,
    )


def _difference(gold: list[str], predicted: list[str], parameters: Parameters) -> str | None:
    """What keeps two sequences of words from being the same."""
    if len(gold) != len(predicted):
        return f"{len(predicted)} words after deletion; expected {len(gold)}, as in the gold tree"
    if gold != predicted:
        for number, (ours, theirs) in enumerate(zip(gold, predicted), 1):
            if not parameters.same_word(ours, theirs):
                return (
                    f"word {number} after deletion is {theirs!r}; "
                    f"expected {ours!r}, as in the gold tree"
                )
    return None


def _kept(brackets: list[list], parameters: Parameters) -> list[tuple[int, int, str]]:
    """The brackets that count: those that span words and whose bare label is not deleted."""
    kept = ((start, end, _bare_label(label)) for start, end, label in brackets if start != end)
    return [bracket for bracket in kept if bracket[2] not in parameters.deleted_constituents]


@functools.lru_cache(4096)
def _bare_label(label: str) -> str:
    return re.split("[-=]", label, maxsplit=1)[0]


def _matched(gold, predicted, parameters: Parameters) -> int:
    """How many gold brackets find a predicted one of their own, each taking the first equal."""
    rest = {}  # span -> labels of the predicted brackets that none has taken
    for start, end, label in predicted:
        rest.setdefault((start, end), []).append(label)
    matched = 0
    for start, end, label in gold:
        labels = rest.get((start, end), ())
        for other in labels:
            if not parameters.labeled or parameters.same_label(label, other):
                labels.remove(other)
                matched += 1
                break
    return matched


def _crossing(gold: set[tuple[int, int]], predicted: Counter[tuple[int, int]]) -> int:
    """How many predicted spans cross any gold one."""
    return sum(
        count
        for (start, end), count in predicted.items()
        if any(a < start < b < end or start < a < end < b for a, b in gold)
    )


_HEAD = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
"""
_RULE = "=" * 76 + "\n"


def report(
    scores: Iterable[SentenceScore], parameters: Parameters = COLLINS, table: bool = True
) -> Iterator[str]:
    """EVALB's output, character for character, in pieces as the scores come.

    `table` False: the summary only.
    """
    if table:
        yield _HEAD + _RULE
    seen = []
    for number, score in enumerate(scores, 1):
        seen.append(score)
        if table:
            yield _row(number, score)
    everything, short = summaries(seen, parameters)
    if table:
        yield _RULE + _totals(everything)
    yield (
        f"=== Summary ===\n\n-- All --\n{_figures(everything)}\n"
        f"-- len<={parameters.cutoff_len} --\n{_figures(short)}"
    )


def _row(number: int, score: SentenceScore) -> str:
    recall, precision = _share(score.matched, score.gold), _share(score.matched, score.predicted)
    return (
        f"{number:4d}  {score.length:3d}    {score.status:d}  {recall:6.2f} {precision:6.2f}   "
        f"{score.matched:3d}    {score.gold:3d}  {score.predicted:3d}    {score.crossing:3d}   "
        f"{score.words:4d}  {score.correct_tags:4d}   "
        f"{_share(score.correct_tags, score.words):6.2f}\n"
    )


def _totals(total: Summary) -> str:
    line = f"  {total.words:5d} {total.correct_tags:5d}   {total.tagging_accuracy:6.2f}\n"
    if total.gold and total.predicted:
        line = (
            f"                {total.recall:6.2f} {total.precision:6.2f} {total.matched:6d} "
            f"{total.gold:5d} {total.predicted:5d}  {total.crossing:5d}{line}"
        )
    return line


def _figures(total: Summary) -> str:
    lines = (
        ("Number of sentence", total.sentences),
        ("Number of Error sentence", total.errors),
        ("Number of Skip  sentence", total.skipped),
        ("Number of Valid sentence", total.valid),
        ("Bracketing Recall", total.recall),
        ("Bracketing Precision", total.precision),
        ("Bracketing FMeasure", total.f1 if total.matched else "-nan"),  # what C makes of 0 / 0
        ("Complete match", total.complete_match),
        ("Average crossing", total.average_crossing),
        ("No crossing", total.no_crossing),
        ("2 or less crossing", total.two_or_less_crossing),
        ("Tagging accuracy", total.tagging_accuracy),
    )
    return "".join(
        f"{name:26s}= {f'{value:.2f}' if isinstance(value, float) else value:>6}\n"
        for name, value in lines
    )
