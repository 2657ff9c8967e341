"""The figures of each checkpoint that a run keeps, a row each: t2t-eval --all_checkpoints."""

import json
from collections.abc import Callable
from pathlib import Path

from t2t_lite.arrays import DamagedFile
from t2t_lite.cli.arguments import log
from t2t_lite.errors import UserError
from t2t_lite.run import Run
from t2t_lite.translator import Evaluation, Translator
from t2t_lite.weights import every, steps


def print_table(
    run: Run, measured: Callable[[Translator], Evaluation], as_json: bool, workers: int
) -> None:
    """Prints a row of figures for each checkpoint, and names the best.

    One model takes the weights of one after the other, so that nothing is compiled anew. Damaged
    ones are named and left out.

    Args:
        run: whose checkpoints.
        measured: what a Translator scores, as it is.
        as_json: print an object a line instead of a table.
        workers: of `Translator`.

    Raises UserError where there is none, or none is whole.
    """
    vocabularies = run.vocabularies()
    translator = Translator(run.new_model(vocabularies), vocabularies, run.problem, workers=workers)
    paths = every(run.path)
    names = {path: str(path.relative_to(run.path)) for path in paths}
    width, found = max(map(len, names.values())), []
    for path in paths:
        try:
            translator.take(path)
        except DamagedFile as error:
            log(f"warning: {error}; left out")
            continue
        result = measured(translator)
        figures = {name: value for name, value in result.figures.items() if name != "tokens"}
        if as_json:
            about = {"checkpoint": names[path], "step": max(steps(path), default=None)}
            print(json.dumps(about | result.figures), flush=True)
        else:
            if not found:
                print("checkpoint".ljust(width), *(name.rjust(_column(name)) for name in figures))
            row = (f"{value:{_column(name)},.4f}" for name, value in figures.items())
            print(names[path].ljust(width), *row, flush=True)
        found.append((figures, result.main or "loss", path))
    if not found:
        raise UserError(f"{run.path}: no checkpoint is whole")
    _name_best(found, names, log if as_json else print)


def _column(name: str) -> int:
    return max(len(name), 10)


def _name_best(found: list, names: dict[Path, str], say: Callable[[str], object]) -> None:
    """Of equal ones the first."""
    main = found[0][1]
    sign = -1 if main == "loss" else 1
    figures, _, path = max(found, key=lambda entry: sign * entry[0][main])
    say(f"best by {main}: {names[path]} ({figures[main]:.4f})")
