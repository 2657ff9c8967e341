"""What a problem's `metric` names: functions from hypotheses and references to figures, the one that counts first."""

import functools
from collections.abc import Callable, Sequence

from t2t_lite.errors import unknown
from t2t_lite.evaluation.bleu import corpus_bleu, corpus_chrf
from t2t_lite.evaluation.bracketing import bracketing

Figures = dict[
    str, float
]  # name -> 0 to 100, more is better; checkpoints are compared by the first


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Figures:
    """sacreBLEU and chrF2 of the lines."""
    return {
        "bleu": corpus_bleu(hypotheses, references).value,
        "chrf": corpus_chrf(hypotheses, references).value,
    }


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Figures:
    """The percentage of lines that equal their reference, and their BLEU."""
    score = corpus_bleu(hypotheses, references)  # first, since it refuses an empty list
    equal = sum(
        hypothesis == reference
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    )
    return {"exact_match": 100.0 * equal / len(references), "bleu": score.value}


def shares(details: Sequence[dict]) -> Figures:
    """The percentage of outputs of which each yes-or-no detail is true."""
    names = (
        [name for name, value in details[0].items() if isinstance(value, bool)] if details else []
    )
    return {name: 100.0 * sum(detail[name] for detail in details) / len(details) for name in names}


METRICS: dict[str, Callable[[Sequence[str], Sequence[str]], Figures]] = {
    "bleu": bleu,
    "exact_match": exact_match,
    "f1": bracketing,
    "f1_own_tags": functools.partial(bracketing, gold_tags=False),
}


def evaluate(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[str],
    categories: Sequence[str | None] = (),
) -> Figures:
    """The figures of `metric`. With a category for each line, the first figure of every category follows them.

    Raises UserError for a metric that is not in METRICS.
    """
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    figures = METRICS[metric](hypotheses, references)
    first = next(iter(figures))
    for category in sorted(set(categories) - {None}):
        lines = [i for i, c in enumerate(categories) if c == category]
        part = METRICS[metric]([hypotheses[i] for i in lines], [references[i] for i in lines])
        figures[f"{first}/{category}"] = part[first]
    return figures


def display(figures: Figures) -> str:
    """`exact_match 97.10  bleu 99.31`."""
    return "  ".join(f"{name} {value:.2f}" for name, value in figures.items())
