"""Metrics: what a problem's outputs are scored by. A metric's fields are flags of t2t-eval."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from t2t_lite.evaluation.bleu import corpus_bleu, corpus_chrf
from t2t_lite.evaluation.bracketing import bracketing
from t2t_lite.options import check_fields

# Name -> 0 to 100, more is better; checkpoints are compared by the first.
Figures = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Metric:
    """A score of outputs against references. A subclass that adds fields is a dataclass too."""

    def __post_init__(self):
        check_fields(self)

    def __call__(self, outputs: Sequence[str], references: Sequence[str]) -> Figures:
        """The figures of the lines, the one that counts first."""
        raise NotImplementedError

    def by_category(
        self,
        outputs: Sequence[str],
        references: Sequence[str],
        categories: Sequence[str | None],
    ) -> Figures:
        """The figures of all lines, then the first of them for the lines of each category."""
        figures = self(outputs, references)
        first = next(iter(figures))
        for category in sorted(set(categories) - {None}):
            lines = [i for i, other in enumerate(categories) if other == category]
            part = self([outputs[i] for i in lines], [references[i] for i in lines])
            figures[f"{first}/{category}"] = part[first]
        return figures

    def settings(self) -> dict[str, Any]:
        """The fields, which t2t-eval prints beside the figures that depend on them."""
        return dataclasses.asdict(self)


class Bleu(Metric):
    """sacreBLEU and chrF2."""

    def __call__(self, outputs, references):
        """`bleu`, `chrf`."""
        return {
            "bleu": corpus_bleu(outputs, references).value,
            "chrf": corpus_chrf(outputs, references).value,
        }


class ExactMatch(Metric):
    """The percentage of lines that equal their reference, and their BLEU."""

    def __call__(self, outputs, references):
        """`exact_match`, `bleu`."""
        score = corpus_bleu(outputs, references)  # first, since it refuses an empty list
        equal = sum(
            output == reference for output, reference in zip(outputs, references, strict=True)
        )
        return {"exact_match": 100.0 * equal / len(references), "bleu": score.value}


@dataclasses.dataclass(frozen=True)
class Bracketing(Metric):
    """Labelled bracketing of trees, as EVALB scores it."""

    # Punctuation is left out by its tag.
    tags: Literal["gold", "own"] = "gold"  # which tags the words of predicted trees have

    def __call__(self, outputs, references):
        """`f1`, `precision`, `recall` and more, see `evaluation.bracketing`."""
        return bracketing(outputs, references, gold_tags=self.tags == "gold")


def shares(details: Sequence[dict]) -> Figures:
    """The percentage of outputs of which each yes-or-no detail is true."""
    names = (
        [name for name, value in details[0].items() if isinstance(value, bool)] if details else []
    )
    return {name: 100.0 * sum(detail[name] for detail in details) / len(details) for name in names}
