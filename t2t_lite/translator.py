"""What the commands do, from Python: `t2t_lite.load(RUN).translate(lines)`."""

from collections.abc import Iterable, Sequence

from t2t_lite.run import Run


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

    def __init__(self, run: Run):
        from t2t_lite.decoding.decoder import Decoder
        from t2t_lite.evaluation.perplexity import Perplexity

        self.run = run
        self.weights = run.weights()
        vocabularies = run.vocabularies()
        model = run.load_model(vocabularies, self.weights)
        self._decoder = Decoder(model, vocabularies, run.problem)
        self._perplexity = Perplexity(model, vocabularies)

    def translate(self, lines: Iterable[str], beam_size: int | None = None, n_best: int = 1, **options):
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
        for line, log_prob, tokens, _ in self._perplexity.scores(self.run.problem.texts(*pair) for pair in pairs):
            score = log_prob / float(length_penalty(tokens, alpha))
            hypotheses[line] = Hypothesis(pairs[line][1], score, log_prob)
        return hypotheses


def load(path, usr_dir: str | None = None) -> Translator:
    """Loads a run directory's averaged, else best, else latest weights.

    Args:
        path: the run directory of t2t-trainer.
        usr_dir: the Python file or folder that registers its problem, where it has moved since.

    Raises UserError where there is no run or no checkpoint.
    """
    return Translator(Run.open(path, usr_dir))
