"""t2t-bleu: BLEU and chrF of a file of translations."""

import json
import sys

from t2t_lite.cli import arguments
from t2t_lite.errors import UserError
from t2t_lite.files import aligned_lines, named


def parser() -> arguments.Parser:
    """The command line of t2t-bleu."""
    parser = arguments.Parser(
        "Prints sacreBLEU and chrF of a translation, with their signatures, and, on a line of its "
        "own, the older BLEU that papers of 2017 quoted for English-German. They are not to be "
        "compared with one another.",
        epilog="example: t2t-bleu --translation newstest2014.out --reference newstest2014.de",
    )
    parser.add_argument(
        "--translation",
        metavar="FILE",
        required=True,
        help="one translation a line; may be .gz; - is stdin",
    )
    parser.add_argument(
        "--reference",
        metavar="FILE",
        required=True,
        nargs="+",
        help="its references, line by line; one or more files",
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case, in all figures")
    help = "sacreBLEU's tokeniser (default: 13a), or t2t, tensor2tensor's"
    parser.add_argument("--tokenize", metavar="NAME", default="13a", help=help)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def read(translation: str, references: list[str]) -> tuple[list[str], list[list[str]]]:
    """The lines of a translation and of its references.

    Raises UserError for what cannot be read, or has more or fewer lines, and where there are none.
    """
    rows = list(aligned_lines(translation, *references))
    if not rows:
        raise UserError(f"{named(translation)}: empty; expected at least one line")
    hypotheses, *columns = map(list, zip(*rows))
    return hypotheses, columns


def bleu() -> None:
    """Prints the figures, as the command line says."""
    args = parser().parse_args()
    hypotheses, references = read(args.translation, args.reference)
    from t2t_lite.evaluation.bleu import compound_split_bleu, corpus_bleu, corpus_chrf

    scores = {
        "sacrebleu": corpus_bleu(
            hypotheses, *references, lowercase=args.lowercase, tokenize=args.tokenize
        ),
        "chrf": corpus_chrf(hypotheses, *references, lowercase=args.lowercase),
        "compound_split_bleu": compound_split_bleu(
            hypotheses, *references, lowercase=args.lowercase
        ),
    }
    if args.json:
        print(json.dumps({name: score._asdict() for name, score in scores.items()}))
        return
    print(f"sacreBLEU: {scores['sacrebleu']}")
    print(f"chrF: {scores['chrf']}")
    print(f"2017's tokenised, compound-split BLEU (en-de): {scores['compound_split_bleu']}")


def main() -> None:
    """The command t2t-bleu."""
    sys.exit(arguments.run(bleu, "t2t-bleu"))
