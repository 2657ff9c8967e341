"""What the commands do, from Python: `t2t_lite.load(RUN).translate(lines)`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.config import PRECISIONS
from t2t_lite.errors import UserError
from t2t_lite.run import Run


class Attention(NamedTuple):
    """Where each sub-word of a target looked in its source while it was written.

    Attributes:
        weights: float32 [layers, heads, T, S], the decoder's attention to the encoder's output, layers first to last; each
            row sums to 1.
        source_pieces: S SentencePiece pieces, U+2581 where a word begins, the last one </s>.
        target_pieces: T pieces, likewise.

    """

    weights: np.ndarray
    source_pieces: list[str]
    target_pieces: list[str]


class Translator:
    """A trained run, ready to use. Made by `t2t_lite.load`.

    Attributes:
        run: the opened `Run`.
        weights: the file of the weights in use.

    Example:
        model = t2t_lite.load("runs/spelled_numbers_ende-tiny")
        for best, second in model.translate(["two hundred six"], n_best=2):
            print(best.text, best.score)

    """

    def __init__(self, run: Run, precision: str = "float32"):
        from t2t_lite.decoding.decoder import Decoder
        from t2t_lite.evaluation.perplexity import Perplexity

        self.run = run
        self.weights = run.weights()
        self._vocabularies = run.vocabularies()
        self._model = run.load_model(self._vocabularies, self.weights, precision)
        self._decoder = Decoder(self._model, self._vocabularies, run.problem)
        self._perplexity = Perplexity(self._model, self._vocabularies)

    def translate(
        self, lines: Iterable[str], beam_size: int | None = None, n_best: int = 1, **options
    ):
        """Translates lines of text.

        Args:
            lines: strings without line ends.
            beam_size: W; default: the problem's (4 for translation).
            n_best: hypotheses a line.
            **options: `alpha`, `extra_length`, `prefixes`, `sampling`, `constrained` as in `decoding.decoder.Decoder.stream`.

        Returns:
            For each line a list of `Hypothesis(text, score, log_prob)`, best first. log_prob is in nats, EOS included; score is
            log_prob / ((5 + length) / 6)^alpha (section 6.1), length in sub-words counting EOS.

        """
        return self._decoder.translate(lines, beam_size=beam_size, n_best=n_best, **options)

    def score(self, pairs: Sequence[tuple[str, str]], alpha: float | None = None):
        """The model's scores of given outputs.

        Args:
            pairs: (input, output) texts.
            alpha: of the length penalty; default: the problem's.

        Returns:
            A `Hypothesis` for each pair, with the output's text, its score and its log_prob, as `translate` gives them.

        """
        from t2t_lite.decoding.beam_search import length_penalty
        from t2t_lite.decoding.decoder import Hypothesis

        alpha = self.run.problem.decoding.alpha if alpha is None else alpha
        hypotheses: list = [None] * len(pairs)
        for line, log_prob, tokens, _ in self._perplexity.scores(
            self.run.problem.texts(*pair) for pair in pairs
        ):
            score = log_prob / float(length_penalty(tokens, alpha))
            hypotheses[line] = Hypothesis(pairs[line][1], score, log_prob)
        return hypotheses

    def attention(self, source: str, target: str) -> Attention:
        """How the decoder attends to `source` (a line of input) as it writes `target`, an output as `translate` gives it."""
        source, target = self.run.problem.texts(source, target)
        [inputs] = self._vocabularies.source.encode_lines([source])
        [targets] = self._vocabularies.target.encode_lines([target])
        layers = self._model.attention(np.array([inputs], np.int32), np.array([targets], np.int32))
        return Attention(
            np.concatenate(layers),
            self._vocabularies.source.pieces(inputs),
            self._vocabularies.target.pieces(targets),
        )


def load(path, usr_dir: str | None = None, precision: str = "float32") -> Translator:
    """Loads a run directory's averaged, else best, else latest weights.

    Args:
        path: the run directory of t2t-trainer.
        usr_dir: the Python file or folder that registers its problem, where it has moved since.
        precision: "float32", "bfloat16" or "float16", of weights and products, the logits' too.

    On a CPU `translate` has several batches side by side, one on each core, if TensorFlow was told so before it started:
    `tf.config.threading.set_intra_op_parallelism_threads(1)`. That is faster for many lines.

    Raises UserError where there is no run or no checkpoint.

    """
    if precision not in PRECISIONS:
        raise UserError(f"precision={precision!r}: expected one of {', '.join(PRECISIONS)}")
    return Translator(Run.open(path, usr_dir), precision)
