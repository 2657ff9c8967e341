"""t2t-datagen: the data part of t2t-trainer alone: download, check, clean, train the vocabulary."""

import sys

from t2t_lite.cli import arguments


def parser() -> arguments.Parser:
    parser = arguments.Parser(
        "Downloads and checks a problem's data and trains its vocabulary, as t2t-trainer does where they are missing.",
        epilog="example: t2t-datagen --problem=wmt14_ende --data_dir=DIR",
    )
    arguments.add_problem(parser)
    return parser


def generate() -> None:
    args = parser().parse_args()
    if arguments.registry_help(args):
        return
    problem = arguments.problem_from(args)
    arguments.start_tensorflow()
    from t2t_lite.data.prepare import prepare

    prepare(problem, arguments.log)


def main() -> None:
    sys.exit(arguments.run(generate, "t2t-datagen"))
