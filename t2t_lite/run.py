"""Run: the directory that holds a whole training run, and all that later commands need.

    run.json                 problem with its options, hparams, seed
    vocab.model              or vocab.source.model and vocab.target.model
    checkpoints/step-...     the newest, see `checkpoints`
    best.safetensors         the weights with the best figure on the dev set
    averaged.safetensors     the mean of the last checkpoints
    log.jsonl, tensorboard/  the log

Copied elsewhere, it decodes.
"""

import dataclasses
import json
from pathlib import Path
from typing import Self

from t2t_lite import __version__, registry
from t2t_lite.config import PRECISIONS, HParams
from t2t_lite.errors import UserError
from t2t_lite.output import replacing
from t2t_lite.problem import Constrained, Problem, grammar_of

# Fields that may differ when a run is resumed: they change no update that was done.
_MAY_CHANGE = {
    "train_steps",
    "eval_steps",
    "report_steps",
    "checkpoint_minutes",
    "checkpoint_steps",
    "average_checkpoints",
}
_FORMAT = 1  # of run.json; those that were written before it had a number are the same but for that


@dataclasses.dataclass(frozen=True)
class Run:
    """An opened run directory.

    Attributes:
        path: the directory.
        problem: with the options it was trained with.
        hparams_set: name of the set.
        hparams: the set with its overrides.
        seed: of initial weights, data order and dropout.
        usr_dir: the user's own module that registered them, if any.
    """

    path: Path
    problem: Problem
    hparams_set: str
    hparams: HParams
    seed: int
    usr_dir: str | None = None

    def __post_init__(self):
        if self.hparams.next_word == "given" and not isinstance(self.problem, Constrained):
            raise UserError(
                f"hparams field next_word=given: problem {self.problem.name} has no grammar that "
                "says what a word is; expected a parsing problem, or next_word=counted"
            )

    @classmethod
    def open(cls, path, usr_dir: str | None = None) -> Self:
        """Opens an existing directory.

        Raises UserError where there is no run, one of a later version, or what it was made with is
        gone.
        """
        path = Path(path).expanduser()
        file = path / "run.json"
        if not file.is_file():
            near = [str(found.parent) for found in sorted(path.parent.glob("*/run.json"))[:3]]
            nearest = f"; nearest: {', '.join(near)}" if near else ""
            raise UserError(f"--output_dir {path}: no run there (no run.json){nearest}")
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            if record.get("format", _FORMAT) > _FORMAT:
                raise UserError(
                    f"{file}: format {record['format']}, written by t2t_lite {record['t2t_lite']}; "
                    f"this version reads up to format {_FORMAT}"
                )
            usr_dir = usr_dir or record["usr_dir"]
            registry.load_plugins(usr_dir)
            return cls(
                path=path,
                problem=registry.problem(record["problem"], **record["options"]),
                hparams_set=record["hparams_set"],
                hparams=HParams().replace(**record["hparams"]),
                seed=record["seed"],
                usr_dir=usr_dir,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{file}: not a run of this version: {type(error).__name__}: {error}"
            ) from None

    def check_resumable(self) -> None:
        """Raises UserError, with the difference, where the directory holds another run."""
        if not self.exists:
            if self.path.is_dir() and any(self.path.iterdir()):
                raise UserError(
                    f"--output_dir {self.path}: not empty and no run; choose another directory"
                )
            return
        old = Run.open(self.path, self.usr_dir)
        differences = [f"{key}: {a} -> {b}" for key, a, b in self._compared(old) if a != b]
        differences += [
            text
            for text in old.hparams.differences(self.hparams)
            if text.partition(":")[0] not in _MAY_CHANGE
        ]
        if differences:
            raise UserError(
                f"--output_dir {self.path} holds another run: {'; '.join(differences)}; "
                "choose another directory"
            )

    def _compared(self, old: "Run"):
        yield "problem", old.problem.name, self.problem.name
        mine, theirs = self.problem.options(), old.problem.options()
        for key in sorted(mine.keys() | theirs.keys()):
            yield key, theirs.get(key), mine.get(key)
        yield "seed", old.seed, self.seed

    def save(self) -> None:
        """Writes run.json."""
        record = {
            "format": _FORMAT,
            "t2t_lite": __version__,
            "problem": self.problem.name,
            "options": self.problem.options(),
            "hparams_set": self.hparams_set,
            "hparams": self.hparams.to_dict(),
            "seed": self.seed,
            "usr_dir": self.usr_dir and str(Path(self.usr_dir).expanduser().resolve()),
        }
        with replacing(self.path / "run.json") as file:
            file.write(json.dumps(record, indent=2, ensure_ascii=False) + "\n")

    @property
    def exists(self) -> bool:
        """Whether the directory holds a run already."""
        return (self.path / "run.json").is_file()

    @property
    def checkpoints(self):
        """The run's `checkpoints.Checkpoints`."""
        from t2t_lite.checkpoints import Checkpoints

        return Checkpoints(self.path / "checkpoints", self.hparams.average_checkpoints)

    @property
    def best(self) -> Path:
        """The weights with the best figure on the dev set."""
        return self.path / "best.safetensors"

    @property
    def averaged(self) -> Path:
        """The mean of the last checkpoints."""
        return self.path / "averaged.safetensors"

    def vocabularies(self):
        """The run's own vocabularies (`data.tokenizer.Vocabularies`)."""
        from t2t_lite.data.tokenizer import Vocabularies

        return Vocabularies.load(self.path)

    def weights(self) -> Path:
        """The weights to use: averaged, else best, else latest.

        Raises UserError where nothing is saved yet.
        """
        from t2t_lite.checkpoints import MODEL

        latest = [path / MODEL for path in self.checkpoints.steps()[-1:]]
        for path in (self.averaged, self.best, *latest):
            if path.is_file():
                return path
        raise UserError(f"--output_dir {self.path}: no checkpoint is saved yet")

    def new_model(self, vocabularies, policy: str = "float32"):
        """A `Transformer` of the run's sizes, with fresh weights."""
        from t2t_lite.models.transformer import Transformer

        sizes, words = (vocabularies.source.size, vocabularies.target.size), None
        if self.hparams.next_word == "given":
            grammar = grammar_of(self.problem, vocabularies)
            words = grammar.begins_word, grammar.words
        return Transformer(
            self.hparams,
            *sizes,
            shared=vocabularies.shared,
            words=words,
            dtype=policy,
            name="transformer",
        )

    def translator(self, *, weights: Path | None = None, precision: str = "float32", **options):
        """Opens the run's trained model, vocabularies and problem as a `Translator`.

        Args:
            weights: a file of weights; default: `weights()`.
            precision: of weights and products, one of PRECISIONS.
            **options: `workers`, `devices`, `batch_tokens`, `xla` of `Translator`.
        """
        from t2t_lite.checkpoints import load_arrays, model_variables
        from t2t_lite.translator import Translator

        weights = weights or self.weights()
        vocabularies = self.vocabularies()
        model = self.new_model(vocabularies, precision)
        load_arrays(weights, model_variables(model))
        return Translator(model, vocabularies, self.problem, weights=weights, **options)


def load(path, usr_dir: str | None = None, precision: str = "float32", threads: int | None = None):
    """Opens a run directory's averaged, else best, else latest weights as a `Translator`.

    Args:
        path: the run directory of t2t-trainer.
        usr_dir: the Python file or folder that registers its problem, where it has moved since.
        precision: "float32", "bfloat16" or "float16", of weights and products, the logits' too.
        threads: of the CPU; default: all. Where TensorFlow does not run yet, it is told to use one
            for each operation, and that many batches are translated side by side.

    Raises UserError where there is no run or no checkpoint.
    """
    from t2t_lite.runtime import start_tensorflow

    if precision not in PRECISIONS:
        raise UserError(f"precision={precision!r}: expected one of {', '.join(PRECISIONS)}")
    workers = start_tensorflow(threads, together=False)
    return Run.open(path, usr_dir).translator(precision=precision, workers=workers)
