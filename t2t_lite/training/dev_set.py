"""The dev set of a training: measured now and then, and whole at the end."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_lite.arrays import model_variables
from t2t_lite.data.corpus import Corpus
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.errors import reason
from t2t_lite.models.transformer import Transformer
from t2t_lite.run import Run
from t2t_lite.training.progress import RunLog, dev_report
from t2t_lite.training.stopping import Standing
from t2t_lite.translator import Translator

_SAMPLE = 200  # pairs that are decoded at an evaluation while training


class DevSet:
    """Evaluates a model in training, and keeps its best weights.

    Args:
        run: Run.
        corpus: the pairs; None: there are none, and nothing is ever due.
        model: Transformer, in training.
        vocabularies: the run's.
        device: where evaluations run: copies of the model on others would not follow the training.
        options: of Translator, the bounds of their memory.
        log: where the figures go.

    Attributes:
        standing: how the evaluations have gone so far.

    Raises UserError for a reference that is none: before any update.
    """

    def __init__(
        self,
        run: Run,
        corpus: Corpus | None,
        model: Transformer,
        vocabularies: Vocabularies,
        device: str,
        options: dict[str, Any],
        log: Callable[[str], object],
    ):
        self._run, self._variables, self._options = run, model_variables(model), options
        self._translator = Translator(model, vocabularies, run.problem, devices=[device], **options)
        self._log = log
        self.standing = Standing()
        if not corpus and run.hparams.patience:
            log(f"warning: no dev set, so patience={run.hparams.patience} will never end it")
        self._pairs = list(corpus.pairs()) if corpus else []
        self._translator.references(self._pairs, corpus and corpus.source)
        shortest_first = sorted(self._pairs[:20], key=lambda pair: len(pair[0]))
        self._shown = shortest_first[len(shortest_first) // 2] if self._pairs else None

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def is_due(self, step: int) -> bool:
        """Whether there is an evaluation after so many updates, which was not made yet.

        Before the first one, of what another run's weights are worth.
        """
        h, last = self._run.hparams, self.standing
        if step == 0:
            return bool(self and self._run.init_from and last.figure is None)
        return bool(self) and step % h.eval_steps == 0 and last.step < step < h.train_steps

    def evaluate(self, step: int, record: RunLog) -> None:
        """Measures the model as it is; all of the loss, a sample of the outputs."""
        dev = self._translator.evaluate(self._pairs, sample=_SAMPLE)
        record.write("dev", step, **dev.figures)
        record.show(step, dev, self._translator.attention(*self._shown).weights)
        self._log(dev_report(f"dev at step {step:,}", dev))
        figure = "loss" if self._run.hparams.best_by == "loss" or not dev.main else dev.main
        value = dev.figures[figure]
        if math.isnan(value):  # which no other would ever be better than
            value = math.inf if figure == "loss" else -math.inf
        try:
            self._run.best_weights.add(step, figure, value, self._variables)
        except OSError as error:
            self._log(f"warning: the best weights were not written: {reason(error)}")
        # Last, for a signal may end it at any place, and then it has not been made.
        self.standing = self.standing.after(step, figure, value)

    def evaluate_whole(self, weights: Path, step: int, record: RunLog) -> None:
        """Measures a file of weights on all pairs, if there are any."""
        if self:
            translator = self._run.translator(weights=weights, **self._options)
            dev = translator.evaluate(self._pairs)
            record.write("dev_final", step, **dev.figures)
            self._log(dev_report("dev, whole, averaged", dev))
