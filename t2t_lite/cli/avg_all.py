"""t2t-avg-all: averages checkpoints, by default the last ones of a run."""

import argparse
import sys
from pathlib import Path

from t2t_lite.cli import arguments
from t2t_lite.data import vocabulary_files
from t2t_lite.errors import UserError


def parser() -> arguments.Parser:
    """The command's flags."""
    parser = arguments.Parser(
        "Averages the weights of a run's last checkpoints, or of others of the same model, into "
        "averaged.safetensors of the run, which later commands then use.",
        epilog="t2t-trainer does this itself when it ends.\n"
        "example: t2t-avg-all --output_dir RUN --checkpoints RUN/best OTHER_RUN",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_run(parser)
    help = "how many of the last (default: the set's average_checkpoints; 5 for base, 20 for big)"
    parser.add_argument("--n", type=int, metavar="N", help=help)
    parser.add_argument(
        "--checkpoints",
        nargs="+",
        metavar="PATH",
        help="which, instead: files of weights, folders of them, and runs, for the weights that "
        "commands use of them",
    )
    return parser


def average() -> None:
    """Runs the command."""
    args = parser().parse_args()
    if args.n is not None and args.checkpoints:
        raise UserError("--n and --checkpoints both say which; expected one of them")
    from t2t_lite import arrays
    from t2t_lite.checkpoints import MODEL
    from t2t_lite.run import Run
    from t2t_lite.weights import with_steps

    run = Run.open(args.output_dir, args.usr_dir, arguments.log)
    saved = run.checkpoints().steps()
    paths = _given(run, args.checkpoints) if args.checkpoints else _last(run, saved, args.n)
    arrays.check_alike([*(path / MODEL for path in saved[-1:]), *paths])
    newest = {"newest": int(saved[-1].name.removeprefix("step-"))} if saved else {}
    arrays.average(paths, run.averaged, **newest)
    arguments.log("\n".join(f"averaged    {with_steps(path)}" for path in paths))
    print(run.averaged)


def _last(run, saved: list[Path], number: int | None) -> list[Path]:
    """The files of the run's last checkpoints."""
    from t2t_lite.checkpoints import MODEL

    wanted = number if number is not None else max(1, run.hparams.average_checkpoints)
    if not saved:
        raise UserError(f"{run.path}: no checkpoint is saved yet")
    if not 1 <= wanted <= len(saved):
        if number is not None:
            raise UserError(
                f"--n={wanted}: {run.path} has {len(saved)} checkpoints; expected 1 to {len(saved)}"
            )
        wanted = len(saved)
    return [path / MODEL for path in saved[-wanted:]]


def _given(run, names: list[str]) -> list[Path]:
    """The files that --checkpoints names.

    Raises UserError for one that is named twice, or whose run has other vocabularies.
    """
    from t2t_lite.weights import files

    found = [path for name in names for path in files(Path(name).expanduser())]
    vocabularies, seen = vocabulary_files.digests(run.path), set()
    for path in found:
        real = path.resolve()
        if real in seen:
            raise UserError(f"--checkpoints: {path} is named twice; expected once")
        seen.add(real)
        owner = next((folder for folder in real.parents if (folder / "run.json").is_file()), None)
        if owner and vocabulary_files.digests(owner) != vocabularies:
            raise UserError(
                f"{path}: the vocabulary of {owner} is not that of {run.path}; expected "
                "checkpoints of the same model"
            )
    return found


def main() -> None:
    """The command t2t-avg-all."""
    sys.exit(arguments.run(average, "t2t-avg-all"))
