"""Runs: what commands that use a trained model work with, one run or several as an ensemble."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from t2t_lite.config import PRECISIONS
from t2t_lite.data import vocabulary_files
from t2t_lite.errors import UserError
from t2t_lite.run import Run


@dataclasses.dataclass(frozen=True)
class Runs:
    """Opened runs that work together: the mean of their probabilities is the model's.

    Their sizes may differ. Both vocabularies are the same, since what the model reads and writes is
    one sequence of ids, for all that stands behind it: the search, its limits of length, exports.

    Attributes:
        members: in the order given. The first one's problem says how texts go in and out, how
            outputs are searched for, and how they are measured.
    """

    members: tuple[Run, ...]

    @classmethod
    def open(
        cls,
        paths: Sequence[str | Path],
        usr_dir: str | None = None,
        log: Callable[[str], object] = warnings.warn,
    ) -> Self:
        """Opens each as `Run.open` does, with the same arguments.

        Raises UserError where it does, and for vocabularies that differ.
        """
        first, *others = runs = [Run.open(path, usr_dir, log) for path in paths]
        digests = vocabulary_files.digests(first.path)
        for other in others:
            if vocabulary_files.digests(other.path) != digests:
                raise UserError(
                    f"--output_dir {first.path} {other.path}: their vocabularies differ; expected "
                    "runs with the same, as of one --vocab or of one corpus"
                )
            if other.problem.name != first.problem.name:
                log(
                    f"{other.path} was trained on {other.problem.name}, {first.path} on "
                    f"{first.problem.name}, by which texts are read and measured"
                )
        return cls(tuple(runs))

    @property
    def problem(self):
        """The first one's Problem."""
        return self.members[0].problem

    def vocabularies(self):
        """The `data.tokenizer.Vocabularies` of all."""
        return self.members[0].vocabularies()

    @functools.cached_property
    def weights(self) -> list[Path]:
        """The weights that each uses, `weights.chosen` once, so that all is of the same files."""
        return [run.weights() for run in self.members]

    def translator(self, precision: str = "float32", **options):
        """Opens the trained model, or the ensemble, as a `Translator`; arguments as of `Run`'s."""
        first, *others = self.members
        if not others:
            [path] = self.weights
            return first.translator(weights=path, precision=precision, **options)
        from t2t_lite.models.ensemble import Ensemble
        from t2t_lite.translator import Translator

        vocabularies = self.vocabularies()
        models = [
            run.trained_model(run.vocabularies(), path, precision)
            for run, path in zip(self.members, self.weights)
        ]
        return Translator(
            Ensemble(models),
            vocabularies,
            first.problem,
            weights=self.weights,
            frozen=True,
            **options,
        )


def load(
    path: str | Path | Sequence[str | Path],
    usr_dir: str | None = None,
    precision: str = "float32",
    threads: int | None = None,
):
    """Opens a run directory's averaged, else best, else latest weights as a `Translator`.

    Args:
        path: the run directory of t2t-trainer; or several, whose models become an ensemble.
        usr_dir: the Python file or folder that registers its problem, where it has moved or
            changed since. A run from elsewhere runs no code of its own unless that is named here.
        precision: "float32", "bfloat16" or "float16", of weights and products, the logits' too.
        threads: of the CPU; default: all. Where TensorFlow does not run yet, it is told to use one
            for each operation, and that many batches are translated side by side.

    Raises UserError where there is no run or no checkpoint, and for runs that do not fit together.
    """
    from t2t_lite.runtime import start_tensorflow

    if precision not in PRECISIONS:
        raise UserError(f"precision={precision!r}: expected one of {', '.join(PRECISIONS)}")
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths:
        raise UserError("no run to load; expected at least one")
    workers = start_tensorflow(threads, together=False)
    return Runs.open(paths, usr_dir).translator(precision=precision, workers=workers)
