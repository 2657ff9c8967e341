"""Run: the directory that holds a whole training run, and all that later commands need.

    run.json                 problem with its options, hparams, seed
    vocab.model              or vocab.source.model and vocab.target.model
    checkpoints/step-...     the newest, see `checkpoints`
    best/step-...            the weights with the best figures on the dev set
    averaged.safetensors     the mean of the last checkpoints
    log.jsonl, tensorboard/  the log

Copied elsewhere, it decodes.
"""

import contextlib
import dataclasses
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

from t2t_lite import __version__, plugins, records, registry
from t2t_lite.config import HParams
from t2t_lite.data import vocabulary_files
from t2t_lite.data.prepare import changes
from t2t_lite.errors import UserError
from t2t_lite.options import FilePath, options
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
    "patience",
    "best_by",
    "keep_best",
}
# The fields of run.json, but for those that say which version wrote it.
_KINDS = {
    "problem": str,
    "options": dict,
    "hparams_set": str,
    "hparams": dict,
    "seed": int,
    "usr_dir": str | None,
    "usr_dir_digest": str | None,
    "vocabularies": dict | None,
    "data": dict | None,
    "init_from": str | None,
}
# What a directory may hold and become a run: what is hidden, logs, and what a start left that was
# killed before it wrote run.json.
_HARMLESS = re.compile(
    r"\..*|lost\+found|.*\.(log|out|err)|(vocab(\.source|\.target)?\.model|run\.json)(\.partial)?"
)
FILE = "run.json"
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
        data: what it is trained on, `data.prepare.Corpora.record`; None in runs of before.
        init_from: the run that it began with, if any, see `Origin`.
        usr_dir_digest: of what that module was when the Run was made.
    """

    path: Path
    problem: Problem
    hparams_set: str
    hparams: HParams
    seed: int
    usr_dir: str | None = None
    data: dict[str, Any] | None = None
    init_from: str | None = None
    usr_dir_digest: str | None = dataclasses.field(init=False, default=None)

    def __post_init__(self):
        if self.usr_dir:
            object.__setattr__(self, "usr_dir_digest", plugins.digest(self.usr_dir))
        if self.hparams.next_word == "given" and not isinstance(self.problem, Constrained):
            raise UserError(
                f"hparams field next_word=given: problem {self.problem.name} has no grammar that "
                "says what a word is; expected a parsing problem, or next_word=counted"
            )

    @classmethod
    def open(
        cls, path, usr_dir: str | None = None, log: Callable[[str], object] = warnings.warn
    ) -> Self:
        """Opens an existing directory.

        Args:
            usr_dir: trusted, and `log` is told if it differs from what the run was made with. By
                default that itself, unless it may be other code, or came with the run.

        Raises UserError where there is no run, one of a later version, or what it was made with is
        gone or not to be trusted.
        """
        path = Path(path).expanduser()
        record, file = read_record(path), path / FILE
        stored, digest = record.get("usr_dir"), record.get("usr_dir_digest")
        if stored and not usr_dir:
            plugins.check_trusted(stored, digest, path)
        usr_dir = usr_dir or stored
        registry.load_plugins(usr_dir)
        with _of_record(file):
            run = cls(
                path=path,
                problem=registry.problem(record["problem"], **record["options"]),
                hparams_set=record["hparams_set"],
                hparams=HParams().replace(**record["hparams"]),
                seed=record["seed"],
                usr_dir=usr_dir,
                data=record.get("data"),
                init_from=record.get("init_from"),
            )
        if digest and run.usr_dir_digest != digest:
            log(f"{usr_dir} is not as it was when {path} was made")
        return run

    def check_resumable(self, log: Callable[[str], object] = warnings.warn) -> Self | None:
        """Returns the run that the directory holds, if it does.

        Raises UserError, with the difference, where that is another one. `log` is that of `open`.
        """
        if not self.exists:
            if others := self._others():
                raise UserError(
                    f"{self.path}: not empty and no run ({', '.join(others[:3])}); "
                    "choose another directory"
                )
            return None
        old = Run.open(self.path, self.usr_dir, log)
        differences = [f"{key}: {a} -> {b}" for key, a, b in self._compared(old) if a != b]
        differences += [
            text
            for text in old.hparams.differences(self.hparams)
            if text.partition(":")[0] not in _MAY_CHANGE
        ]
        if differences:
            raise UserError(
                f"{self.path} holds another run: {'; '.join(differences)}; choose another directory"
            )
        if self.averaged.is_file() and not self.checkpoints().steps():
            raise UserError(
                f"{self.path}: no checkpoint to go on from, only {self.averaged.name}; bring "
                f"checkpoints/ back, or choose another directory, where --init_from={self.path} "
                "begins with these weights"
            )
        return old

    def _others(self) -> list[str]:
        """The names of what lies in the directory and is neither harmless nor prepared data."""
        if not self.path.is_dir():
            return []
        here, data = self.path.resolve(), self.problem.data_folder.resolve()
        folder = data.relative_to(here).parts[:1] if here in data.parents else ()
        return [
            path.name
            for path in sorted(self.path.iterdir())
            if not _HARMLESS.fullmatch(path.name)
            and path.name not in folder
            and not (here == data and path.name.startswith(f"{self.problem.name}."))
        ]

    def _compared(self, old: "Run"):
        yield "problem", old.problem.name, self.problem.name
        mine, theirs = self.problem.options(), old.problem.options()
        # Where files lie may change; what they hold is compared by `check_data`.
        paths = {option.name for option in options(type(self.problem)) if option.kind is FilePath}
        for key in sorted((mine.keys() | theirs.keys()) - paths):
            yield key, theirs.get(key), mine.get(key)
        yield "seed", old.seed, self.seed
        yield "init_from", old.init_from, self.init_from

    def check_data(self, data_changed: Literal["refuse", "continue"]) -> None:
        """Compares `data` with those that the directory's run was trained on so far.

        Raises UserError for other ones, with the difference, unless `data_changed` is continue.
        """
        old = Run.open(self.path, self.usr_dir, log=lambda _: None).data if self.exists else None
        try:
            differences = changes(old, self.data) if old else []
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(f"{self.path / FILE}: data: not as t2t-trainer writes it") from None
        if differences and data_changed == "refuse":
            raise UserError(
                f"{self.path} was trained on other data: {'; '.join(differences)}; "
                "bring them back, choose another directory to train anew, or train on with the "
                "new data from the next epoch on: --data_changed=continue"
            )

    def save(self) -> None:
        """Writes run.json, after the vocabularies, whose digests stand in it."""
        record = {
            "format": _FORMAT,
            "t2t_lite": __version__,
            "problem": self.problem.name,
            "options": self.problem.options(),
            "hparams_set": self.hparams_set,
            "hparams": self.hparams.to_dict(),
            "seed": self.seed,
            "data": self.data,
            "init_from": self.init_from,
            "usr_dir": self.usr_dir and str(Path(self.usr_dir).expanduser().resolve()),
            "usr_dir_digest": self.usr_dir_digest,
            "vocabularies": vocabulary_files.digests(self.path),
        }
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        with replacing(self.path / FILE, "wb") as file:
            # Of a folder whose name is not UTF-8 the bytes are surrogates, and JSON escapes them.
            file.write(text.encode(errors="backslashreplace"))

    @property
    def exists(self) -> bool:
        """Whether the directory holds a run already."""
        return (self.path / FILE).is_file()

    def checkpoints(self, log: Callable[[str], object] = warnings.warn):
        """The run's `checkpoints.Checkpoints`; `log` is theirs."""
        from t2t_lite.checkpoints import Checkpoints

        return Checkpoints(self.path / "checkpoints", self.hparams.average_checkpoints, log)

    @property
    def best_weights(self):
        """The run's `checkpoints.BestWeights`."""
        from t2t_lite.checkpoints import BestWeights

        return BestWeights(self.path / "best", self.hparams.keep_best)

    @property
    def averaged(self) -> Path:
        """The mean of the last checkpoints."""
        from t2t_lite.weights import AVERAGED

        return self.path / AVERAGED

    def vocabularies(self):
        """The run's own vocabularies (`data.tokenizer.Vocabularies`).

        Raises UserError for files that are not those that the run was made with.
        """
        from t2t_lite.data.tokenizer import Vocabularies

        if (stored := read_record(self.path).get("vocabularies")) is not None:
            vocabulary_files.check(self.path, stored)
        return Vocabularies.load(self.path)

    def weights(self) -> Path:
        """The weights to use, as `weights.chosen` says."""
        from t2t_lite.weights import chosen

        return chosen(self.path)

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

    def trained_model(self, vocabularies, weights: Path, precision: str = "float32"):
        """A `Transformer` of the run's sizes, with the weights of a file."""
        from t2t_lite.arrays import check_size, load_arrays, model_variables

        check_size(weights, self.hparams)
        model = self.new_model(vocabularies, precision)
        load_arrays(weights, model_variables(model))
        return model

    def translator(self, *, weights: Path | None = None, precision: str = "float32", **options):
        """Opens the run's trained model, vocabularies and problem as a `Translator`.

        Args:
            weights: a file of weights; default: `weights()`.
            precision: of weights and products, one of PRECISIONS.
            **options: `workers`, `devices`, `batch_tokens`, `xla` of `Translator`.
        """
        from t2t_lite.translator import Translator

        weights, vocabularies = weights or self.weights(), self.vocabularies()
        model = self.trained_model(vocabularies, weights, precision)
        return Translator(
            model, vocabularies, self.problem, weights=[weights], frozen=True, **options
        )


def read_record(path: Path, flag: str = "--output_dir") -> dict:
    """The run.json of the directory that a flag names.

    Raises UserError where there is none, for one of a later version, and for fields of other kinds.
    """
    file = path / FILE
    if not file.is_file():
        near = [str(found.parent) for found in sorted(path.parent.glob(f"*/{FILE}"))[:3]]
        nearest = f"; nearest: {', '.join(near)}" if near else ""
        raise UserError(f"{flag} {path}: no run there (no {FILE}){nearest}")
    record = {"format": _FORMAT, **records.read(file)}
    records.check(record, {"format": int}, file)
    if record["format"] > _FORMAT:
        raise UserError(
            f"{file}: format {record['format']}, written by t2t_lite {record.get('t2t_lite')}; "
            f"this version reads up to format {_FORMAT}"
        )
    records.check(record, _KINDS, file)
    return record


def hparams_of(record: dict, path: Path) -> HParams:
    """Those that a run's record holds."""
    with _of_record(path / FILE):
        return HParams().replace(**record["hparams"])


@contextlib.contextmanager
def _of_record(file: Path) -> Iterator[None]:
    """Raises UserError that names the file for what its block finds to be wrong with the fields."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"{file}: not a run of this version: {type(error).__name__}: {error}"
        ) from None
