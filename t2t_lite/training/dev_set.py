"""The dev set while training: loss, perplexity, the problem's metric on decoded lines, sample translations."""

from collections.abc import Sequence

from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.evaluation.metrics import evaluate, shares
from t2t_lite.evaluation.perplexity import Perplexity
from t2t_lite.models.transformer import Transformer
from t2t_lite.problem import Problem

_SAMPLE = 200  # lines decoded at an evaluation
_SHOWN = 3


class DevSet:
    """Evaluates a model on the problem's dev split.

    Args:
        problem: Problem. Raises its MissingSplit where it has no dev split.
        model: Transformer; read as it is at each evaluation.
        vocabularies: Vocabularies.
        sample: decode this many lines, evenly spread; None: all.
        devices: to decode on; default: all GPUs, each but the first with a copy of the model as it is now.

    """

    def __init__(
        self,
        problem: Problem,
        model: Transformer,
        vocabularies: Vocabularies,
        sample: int | None = _SAMPLE,
        devices: Sequence[str] | None = None,
    ):
        self._problem = problem
        self._pairs = list(problem.source("dev").pairs())
        every = max(1, len(self._pairs) // sample) if sample else 1
        self._sample = self._pairs[::every][:sample]
        self._perplexity = Perplexity(model, vocabularies)
        self._decoder = Decoder(model, vocabularies, problem, devices=devices)

    @property
    def main_figure(self) -> str:
        """The figure that checkpoints are compared by: the metric's first."""
        return self._problem.metric

    def evaluate(self) -> tuple[dict[str, float], list[str]]:
        """-> (figures, sample translations as lines to print)."""
        figures = self._perplexity.figures(self._problem.texts(*pair) for pair in self._pairs)
        inputs, references = zip(*self._sample)
        best = [hypotheses[0] for hypotheses in self._decoder.translate(inputs)]
        outputs = [hypothesis.text for hypothesis in best]
        figures.update(evaluate(self._problem.metric, outputs, references))
        figures.update(shares([hypothesis.details for hypothesis in best]))
        shown = range(0, len(inputs), max(1, len(inputs) // _SHOWN))[:_SHOWN]
        samples = [
            f"  in:  {inputs[i]}\n  out: {outputs[i]}\n  ref: {references[i]}" for i in shown
        ]
        return figures, samples
