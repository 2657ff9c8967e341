"""t2t-avg-all: averages the last checkpoints of a run."""

import sys

from t2t_lite.cli import arguments
from t2t_lite.errors import UserError


def parser() -> arguments.Parser:
    """The command's flags."""
    parser = arguments.Parser(
        "Averages the weights of a run's last checkpoints into averaged.safetensors, which later "
        "commands then use.",
        epilog="t2t-trainer does this itself when it ends.",
    )
    arguments.add_run(parser)
    parser.add_argument(
        "--n",
        type=int,
        metavar="N",
        help="how many (default: the set's average_checkpoints; 5 for base, 20 for big)",
    )
    return parser


def average_last() -> None:
    """Runs the command."""
    args = parser().parse_args()
    from t2t_lite.arrays import average
    from t2t_lite.checkpoints import MODEL
    from t2t_lite.run import Run

    run = Run.open(args.output_dir, args.usr_dir, arguments.log)
    paths = [path / MODEL for path in run.checkpoints().steps()]
    wanted = args.n if args.n is not None else max(1, run.hparams.average_checkpoints)
    if not 1 <= wanted <= len(paths):
        if args.n is not None or not paths:
            raise UserError(
                f"--n={wanted}: {run.path} has {len(paths)} checkpoints; expected 1 to {len(paths)}"
            )
        wanted = len(paths)
    average(paths[-wanted:], run.averaged)
    steps = [path.parent.name for path in paths[-wanted:]]
    arguments.log(f"averaged {wanted} checkpoints, {steps[0]} to {steps[-1]}")
    print(run.averaged)


def main() -> None:
    """The command t2t-avg-all."""
    sys.exit(arguments.run(average_last, "t2t-avg-all"))
