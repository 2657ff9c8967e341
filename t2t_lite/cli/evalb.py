"""t2t-evalb: labelled bracketing of predicted trees, as the program EVALB prints it."""

import json
import sys
from collections.abc import Iterator

from t2t_lite.cli import arguments
from t2t_lite.errors import UserError
from t2t_lite.files import aligned_lines, named


def parser() -> arguments.Parser:
    """The command line of t2t-evalb."""
    parser = arguments.Parser(
        "Scores predicted trees against gold ones, one a line, and prints what the program EVALB "
        "prints: labelled precision, recall, F1, complete match, crossing brackets and tagging "
        "accuracy, for all sentences and for those of at most 40 words. A line without a tree is a "
        "sentence that the parser skipped.",
        epilog="example: t2t-evalb --gold section23.trees --predicted output.trees --tags gold",
    )
    parser.add_argument(
        "--gold",
        metavar="FILE",
        required=True,
        help="the right trees, one a line; may be .gz; - is stdin",
    )
    parser.add_argument(
        "--predicted",
        metavar="FILE",
        required=True,
        help="the trees to score, line by line; may be .gz",
    )
    parser.add_argument(
        "--params", metavar="FILE", help="EVALB's parameter file (default: COLLINS.prm, built in)"
    )
    parser.add_argument(
        "--tags",
        choices=["gold", "own"],
        default="own",
        help="gold: give the predicted words the gold tags before scoring, since punctuation is "
        "left out by its tag; for parsers that predict none. own, the default: take the trees as "
        "they are",
    )
    parser.add_argument("--summary", action="store_true", help="print the summary only")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _scores(pairs, args, parameters) -> Iterator:
    """The SentenceScore of each pair of lines; their errors go to stderr.

    Raises UserError where EVALB stops.
    """
    from t2t_lite.evaluation.bracketing import score_lines

    errors = 0
    for number, pair in enumerate(pairs, 1):
        names = f"{named(args.gold)}:{number}", f"{named(args.predicted)}:{number}"
        score = score_lines(*pair, parameters, gold_tags=args.tags == "gold", names=names)
        for error in score.errors:
            arguments.log(error)
        errors += len(score.errors)
        if errors > parameters.max_error + 1:
            hint = (
                "; a parser that predicts no tags needs --tags=gold" if args.tags == "own" else ""
            )
            limit = f"MAX_ERROR is {parameters.max_error}"
            raise UserError(f"{names[1]}: stopped after {errors} errors; {limit}{hint}")
        yield score


def evalb() -> None:
    """Prints the figures, as the command line says."""
    args = parser().parse_args()
    from t2t_lite.evaluation.bracketing import report, summaries
    from t2t_lite.evaluation.evalb_parameters import COLLINS, Parameters

    parameters = Parameters.read(args.params, arguments.log) if args.params else COLLINS
    pairs = list(aligned_lines(args.gold, args.predicted))  # nothing is printed unless all is read
    if not pairs:
        raise UserError(f"{named(args.gold)}: empty; expected at least one line")
    scores = _scores(pairs, args, parameters)
    if args.json:
        everything, short = summaries([*scores], parameters)
        figures = {"all": everything._asdict(), "up_to_cutoff": short._asdict()}
        print(json.dumps({"tags": args.tags, "cutoff_len": parameters.cutoff_len, **figures}))
        return
    arguments.log(
        "tags: own, as predicted"
        if args.tags == "own"
        else "tags: gold, given to the predicted words before scoring; the tagging accuracy is not "
        "the parser's"
    )
    for piece in report(scores, parameters, table=not args.summary):
        sys.stdout.write(piece)


def main() -> None:
    """The command t2t-evalb."""
    sys.exit(arguments.run(evalb, "t2t-evalb"))
