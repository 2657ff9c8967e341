"""The weights of a run: which file of them commands use, and what it holds."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.arrays import read_about
from t2t_lite.checkpoints import MODEL, BestWeights, Checkpoints
from t2t_lite.errors import UserError

AVERAGED = "averaged.safetensors"
_BEST_OF_BEFORE = "best.safetensors"  # runs of before had one file


def chosen(run: Path) -> Path:
    """A run's averaged, else best, else latest weights.

    An average of before stays the choice where training has gone on since: it is mostly the better
    one, and the next is made when training ends. But a warning says so.

    Raises UserError where nothing is saved yet.
    """
    saved, averaged = _saved(run / "checkpoints"), run / AVERAGED
    if averaged.is_file():
        if saved:
            _warn_if_older(averaged, int(saved[-1].parent.name.removeprefix("step-")))
        return averaged
    best = [path for _, path in BestWeights(run / "best").ranked()]
    for path in (*best, run / _BEST_OF_BEFORE, *reversed(saved)):
        if path.is_file():
            return path
    raise UserError(f"{run}: no checkpoint is saved yet")


def files(path: Path) -> list[Path]:
    """The files of weights that a path stands for.

    A file is one. A folder holds a checkpoint, or several, or files, oldest first; a run stands for
    its `chosen` ones.

    Raises UserError where there are none.
    """
    if path.is_file():
        return [path]
    if (path / "run.json").is_file():
        return [chosen(path)]
    if (path / MODEL).is_file():
        return [path / MODEL]
    found = _saved(path) + sorted(path.glob("*.safetensors"))
    if not found:
        raise UserError(
            f"{path}: no checkpoint there; expected a file of weights, a folder of them, or a run"
        )
    return found


def described(paths: Sequence[Path]) -> str:
    """A line for each file that is used: `weights     RUN/averaged.safetensors (steps 4 to 20)`."""
    return "\n".join(f"weights     {with_steps(path)}" for path in paths)


def with_steps(path: Path) -> str:
    """The file, and of what steps it is: `RUN/averaged.safetensors (steps 400 to 520)`."""
    about, found = read_about(path), steps(path)
    if not found:
        return str(path)
    first, last = min(found), max(found)
    text = f"step {last:,}" if first == last else f"steps {first:,} to {last:,}"
    if "figure" in about:
        text += f", {about['figure']} {about['value']:.4f}"
    return f"{path} ({text})"


def steps(path: Path) -> list[int]:
    """Those that a file of weights is of, or the mean of; of another program's file none."""
    about = read_about(path)
    found = about.get("averaged") or [about.get("step")]
    return found if all(type(step) is int for step in found) else []


def every(run: Path) -> list[Path]:
    """All weights that a run keeps: its checkpoints, oldest first, its best ones, the average.

    Raises UserError where nothing is saved yet.
    """
    found = _saved(run / "checkpoints") + sorted((run / "best").glob("step-*.safetensors"))
    found += [path for path in (run / _BEST_OF_BEFORE, run / AVERAGED) if path.is_file()]
    if not found:
        raise UserError(f"{run}: no checkpoint is saved yet")
    return found


def _saved(folder: Path) -> list[Path]:
    """The weights of the checkpoints in a folder, oldest first."""
    return [path / MODEL for path in Checkpoints(folder, keep=1).steps()]


def _warn_if_older(averaged: Path, newest: int) -> None:
    about = read_about(averaged)
    known = about.get("newest", about.get("step"))  # the newest checkpoint when it was made
    if type(known) is int and known < newest:
        warnings.warn(
            f"{with_steps(averaged)}: training has gone on to step {newest:,} since; the average "
            "is used as it was, until training ends or t2t-avg-all makes a new one",
            stacklevel=3,
        )
