"""Translator: the one door to a trained model. `t2t_lite.load(RUN).translate(lines)`."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import load_arrays, model_variables
from t2t_lite.attention import Attention, check_size
from t2t_lite.data.tokenizer import PAD, Vocabularies
from t2t_lite.decoding.batches import BatchedSearch
from t2t_lite.decoding.hypotheses import length_penalty
from t2t_lite.decoding.rows import Hypothesis
from t2t_lite.errors import UserError
from t2t_lite.evaluation.metrics import Metric, shares
from t2t_lite.evaluation.perplexity import SCORE_TOKENS, PairScore, Perplexity, summary
from t2t_lite.files import one_line
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.transformer import Transformer
from t2t_lite.problem import Problem


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """How a model does on pairs.

    Attributes:
        figures: loss (nats per sub-word), perplexity, accuracy (0 to 1) and tokens of all pairs;
            then the metric's figures of the decoded ones, by category too, and the shares of
            outputs of which a yes-or-no detail is true.
        scores: of each pair, in order.
        inputs, references: of the decoded pairs, the references as the metric compares them.
        outputs: the best hypothesis of each decoded pair.
        main: the figure that checkpoints are compared by; None where nothing was decoded.
    """

    figures: dict[str, float]
    scores: list[PairScore]
    inputs: Sequence[str] = ()
    references: Sequence[str] = ()
    outputs: Sequence[Hypothesis] = ()
    main: str | None = None


class Translator:
    """A model with its vocabularies and its problem, ready to use.

    Made by `t2t_lite.load`, `Run.translator` and `Runs.translator`. Those are frozen:
    of variables that are changed from outside they know after `update`. Otherwise it reads the
    model's variables as they are at each call, but for copies on further devices.

    Args:
        model: Transformer, or Ensemble of several.
        vocabularies: Vocabularies.
        problem: Problem.
        weights: the files that the weights were read from, one of each Transformer.
        workers: calls of the model at the same time on each device (`runtime.start_tensorflow`).
        score_tokens: bounds rows x length of a batch whose loss is computed.
        **options: `devices`, `batch_tokens`, `xla`, `frozen` of `decoding.batches.BatchedSearch`.

    Example:
        model = t2t_lite.load("runs/spelled_numbers_ende-tiny")
        for best, second in model.translate(["two hundred six"], n_best=2):
            print(best.text, best.score)
    """

    def __init__(
        self,
        model: Transformer | Ensemble,
        vocabularies: Vocabularies,
        problem: Problem,
        *,
        weights: Sequence[Path] = (),
        workers: int = 1,
        score_tokens: int = SCORE_TOKENS,
        **options,
    ):
        self.model, self.vocabularies, self.problem = model, vocabularies, problem
        self.weights = list(weights)
        self._search = BatchedSearch(model, vocabularies, problem, workers=workers, **options)
        self._perplexity = Perplexity(model, vocabularies, score_tokens, workers)
        ids = tf.TensorSpec([None, None], tf.int32)
        self._attention = tf.function(model.attention, [ids, ids], autograph=False)

    def take(self, weights: Path) -> None:
        """Takes other weights of the same Transformer; what is compiled stays.

        Raises UserError as `arrays.load_arrays` does, and is then as it was.
        """
        load_arrays(weights, model_variables(self.model))
        self.update()
        self.weights = [weights]

    def update(self) -> None:
        """Takes the model's variables as they are now."""
        self._search.update()

    @property
    def window(self) -> int:
        """How many lines `stream` reads and translates at a time."""
        return self._search.window

    def translate(self, lines: Iterable[str], **options) -> list[list[Hypothesis]]:
        """All of `stream`'s results at once. Takes the same arguments."""
        return list(self.stream(lines, **options))

    def stream(self, lines: Iterable[str], **options) -> Iterator[list[Hypothesis]]:
        """Translates lines of text, reading them a window at a time.

        Args:
            lines: strings, each one line; its line end, if it has one, is left out.
            **options: `beam_size`, `alpha`, `extra_length`, `n_best`, `prefixes`, `sampling`,
                `constrained`, `seed`, `first`, `progress` of `BatchedSearch.stream` in
                `decoding.batches`.

        Returns:
            For each line a list of `Hypothesis(text, score, log_prob, details)`, best first.
            log_prob is in nats, EOS included; score is log_prob / ((5 + length) / 6)^alpha
            (section 6.1), length in sub-words counting EOS.

        Raises UserError for a single string in place of lines, and for what is no line of text.
        """
        if options.get("prefixes") is not None:
            options["prefixes"] = _texts(options["prefixes"], "prefixes")
        return self._search.stream(_texts(lines, "lines"), **options)

    def score(
        self, pairs: Iterable[tuple[str, str]], alpha: float | None = None
    ) -> list[Hypothesis]:
        """The model's scores of given outputs.

        Args:
            pairs: (input, output) texts.
            alpha: of the length penalty; default: the problem's.

        Returns:
            A `Hypothesis` for each pair, with the output's text, its score and its log_prob, as
            `translate` gives them; NaN, with a warning, for a pair that is too long for the model.
        """
        alpha = self.problem.decoding.alpha if alpha is None else alpha
        pairs = _pairs(pairs)
        return [
            Hypothesis(
                output, score.log_prob / float(length_penalty(score.tokens, alpha)), score.log_prob
            )
            for (_, output), score in zip(pairs, self._scores(pairs))
        ]

    def attention(self, source: str, target: str | None = None) -> Attention:
        """How the model attends as it reads an input, `source`, and writes the output `target`.

        Without a target that is its own translation. Raises UserError for what is too long.
        """
        source = _line(source, "source")
        if target is None:
            [[best]] = self.translate([source])
            target = best.text
        source, target = self.problem.example(source, _line(target, "target"))
        [inputs] = self.vocabularies.source.encode_lines([source])
        [targets] = self.vocabularies.target.encode_lines([target])
        models = self.model.members if isinstance(self.model, Ensemble) else [self.model]
        check_size((model.hparams.to_dict() for model in models), len(inputs), len(targets))
        encoder, decoder, cross = map(_stacked, self._attention([inputs], [targets]))
        return Attention(
            cross,
            self.vocabularies.source.pieces(inputs),
            self.vocabularies.target.pieces(targets),
            encoder,
            decoder,
            self.vocabularies.target.pieces([PAD, *targets[:-1]]),
        )

    def evaluate(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        metric: Metric | None = None,
        sample: int | None = None,
        decode: bool = True,
        origin: object = "pair",
        progress: Callable[[int, int], object] = lambda lines, subwords: None,
        **search,
    ) -> Evaluation:
        """Measures the model on pairs of input and right output, as t2t-eval does.

        The dev set while training and t2t-eval's figures come from here, so they agree.

        Args:
            pairs: (input, reference) texts, as the problem's sources give them.
            metric: default: the problem's, as it is without flags.
            sample: decode this many pairs, evenly spread; None: all. The loss is of all.
            decode: False leaves out the metric.
            origin: names the pairs in an error, as in `FILE:3: ...`.
            progress: as `translate` takes it.
            **search: `beam_size`, `alpha`, `constrained` and others, as `translate` takes them.

        Raises UserError for a reference that is none, and where there are no pairs.
        """
        pairs = _pairs(pairs)
        if not pairs:
            raise UserError(f"{origin}: no pairs to evaluate on; expected at least one")
        references = self.references(pairs, origin)
        scores = self._scores(pairs)
        figures = summary(scores)
        if not decode:
            return Evaluation(figures, scores)
        every = max(1, len(pairs) // sample) if sample else 1
        references = references[::every][:sample]
        metric = metric or self.problem.metric()
        inputs = [line for line, _ in pairs[::every][:sample]]
        outputs = [best[0] for best in self.translate(inputs, progress=progress, **search)]
        texts = [output.text for output in outputs]
        categories = [self.problem.category(line) for line in inputs]
        measured = metric.by_category(texts, references, categories)
        details = shares([output.details for output in outputs])
        for name in (figures.keys() & measured.keys()) | (
            details.keys() & (figures.keys() | measured.keys())
        ):
            raise UserError(
                f"problem {self.problem.name}: two figures are called {name}; choose another name "
                "in its metric or its output_details"
            )
        return Evaluation(
            figures | measured | details, scores, inputs, references, outputs, next(iter(measured))
        )

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """In the order of the pairs."""
        return sorted(self._perplexity.scores(self.problem.example(*pair) for pair in pairs))

    def references(self, pairs: Iterable[tuple[str, str]], origin: object = "pair") -> list[str]:
        """The right outputs as the metric compares them.

        Raises UserError `origin:number: ...` for one that is none.
        """
        texts = []
        for number, (_, reference) in enumerate(pairs, 1):
            try:
                texts.append(self.problem.reference_text(reference))
            except UserError as error:
                raise UserError(f"{origin}:{number}: {error}") from None
        return texts


def _stacked(layers: Sequence) -> np.ndarray:
    """Each layer's [1, H, T, S] -> [layers, H, T, S], which is empty where there are none."""
    return np.concatenate(layers) if layers else np.zeros([0, 0, 0, 0], np.float32)


def _texts(texts: Iterable[str], name: str) -> Iterator[str]:
    """The texts, one by one, as `_line` has them. Raises UserError, at once, for no list."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise UserError(f"{name}={texts!r:.60}: expected a list of strings, not one text")
    return (_line(text, f"{name}[{number}]") for number, text in enumerate(texts))


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Raises UserError for what is no pair of lines."""
    pairs = [pairs] if isinstance(pairs, str | bytes) else list(pairs)
    for number, pair in enumerate(pairs):
        if not (
            isinstance(pair, tuple | list)
            and len(pair) == 2
            and all(isinstance(t, str) for t in pair)
        ):
            raise UserError(f"pairs[{number}]={pair!r:.60}: expected (input, output), two strings")
    return [
        tuple(_line(text, f"pairs[{number}][{side}]") for side, text in enumerate(pair))
        for number, pair in enumerate(pairs)
    ]


def _line(text: str, name: str) -> str:
    """A text without the line end that it may have, as a line of a file is read.

    Raises UserError for what is no string, for two lines, and for what UTF-8 cannot write.
    """
    if not isinstance(text, str):
        raise UserError(f"{name}={text!r:.60}: expected a string")
    text = one_line(text, f"{name}={text!r:.60}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        position = error.start + 1
        raise UserError(
            f"{name}={text!r:.60}: a lone surrogate at character {position}; expected Unicode text"
        ) from None
    return text
