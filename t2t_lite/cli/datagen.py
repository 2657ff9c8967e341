"""t2t-datagen: the data part of t2t-trainer alone: download, check, clean, train the vocabulary."""

import sys

from t2t_lite.cli import arguments
from t2t_lite.runtime import start_tensorflow


def parser() -> arguments.ProblemParser:
    """The command line of t2t-datagen."""
    return arguments.ProblemParser(
        "Downloads and checks a problem's data and trains its vocabulary, as t2t-trainer does "
        "where they are missing.",
        epilog="example: t2t-datagen --problem=wmt14_ende --data_dir=DIR",
    )


def generate() -> None:
    """Prepares the data, as the command line says."""
    flags = parser()
    problem = flags.problem(flags.parse_args())
    from t2t_lite.data.prepare import prepare_corpora, prepare_vocabularies

    # Before TensorFlow runs, for then several processes can share the work.
    corpora = prepare_corpora(problem, arguments.log)
    start_tensorflow()
    prepare_vocabularies(problem, corpora.train, arguments.log)


def main() -> None:
    """The command t2t-datagen."""
    sys.exit(arguments.run(generate, "t2t-datagen"))
