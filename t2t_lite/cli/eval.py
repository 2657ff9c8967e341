"""t2t-eval: loss, perplexity, token accuracy and the problem's metric for a split or for given files."""

import json
import sys
from collections.abc import Iterator

from t2t_lite.cli import arguments
from t2t_lite.errors import UserError


def parser() -> arguments.Parser:
    parser = arguments.Parser(
        "Measures a trained model on a split of its problem, or on given files.",
        epilog="example: t2t-eval --output_dir RUN --split test",
    )
    arguments.add_run(parser)
    what = parser.add_argument_group("what to measure on")
    what.add_argument(
        "--split", choices=["train", "dev", "test"], help="of the run's problem (default: dev)"
    )
    what.add_argument(
        "--input", metavar="FILE", help="inputs, a line each, instead of a split; with --reference"
    )
    what.add_argument("--reference", metavar="FILE", help="the right outputs, a line each")
    parser.add_argument("--beam_size", type=int, metavar="W", help="default: the problem's")
    parser.add_argument(
        "--alpha", type=float, metavar="A", help="of the length penalty; default: the problem's"
    )
    arguments.add_unconstrained(parser)
    parser.add_argument(
        "--tags",
        choices=["gold", "own"],
        help="parsing: score the predicted trees with the gold tags at their leaves (default), since punctuation is left out by "
        "its tag, or with their own",
    )
    parser.add_argument(
        "--no_decode", action="store_true", help="leave out the metric, which needs decoding"
    )
    parser.add_argument(
        "--per_line",
        metavar="FILE",
        help="write each pair's log probability and output, as JSON lines",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def evaluate() -> None:
    args = parser().parse_args()
    if bool(args.input) != bool(args.reference):
        raise UserError("--input and --reference go together")
    if args.tags and args.no_decode:
        raise UserError(f"--tags={args.tags} says how to score; expected no --no_decode with it")
    if args.input and args.split:
        raise UserError(f"--split={args.split} and --input={args.input}: give one of them")
    from t2t_lite.data.sources import TextFiles
    from t2t_lite.run import Run

    run = Run.open(args.output_dir, args.usr_dir)
    problem = run.problem
    metric = _metric(problem, args.tags)
    source = (
        TextFiles(args.input, args.reference) if args.input else problem.source(args.split or "dev")
    )
    source.check()
    pairs = list(source.pairs())
    references = list(_references(problem, pairs, args.reference or source))

    arguments.start_tensorflow(together=args.no_decode)  # decoding takes most of the time
    weights = run.weights()
    from tqdm import tqdm

    from t2t_lite.decoding.decoder import Decoder
    from t2t_lite.evaluation import metrics
    from t2t_lite.evaluation.perplexity import Perplexity, summary

    arguments.log(f"{len(pairs):,} pairs from {source}, weights {weights}")
    vocabularies = run.vocabularies()
    model = run.load_model(vocabularies, weights)
    scores = sorted(Perplexity(model, vocabularies).scores(problem.texts(*pair) for pair in pairs))
    figures = summary(scores)
    outputs = None
    if not args.no_decode:
        with tqdm(total=len(pairs), unit="sentence", desc="decoding", disable=None) as bar:
            results = Decoder(model, vocabularies, problem).translate(
                (pair[0] for pair in pairs),
                beam_size=args.beam_size,
                alpha=args.alpha,
                constrained=not args.unconstrained,
                progress=lambda lines, _: bar.update(lines),
            )
        outputs = [hypotheses[0] for hypotheses in results]
        categories = [problem.category(line) for line, _ in pairs]
        texts = [output.text for output in outputs]
        figures |= metrics.evaluate(metric, texts, references, categories)
        figures |= metrics.shares([output.details for output in outputs])
        if problem.metric == "f1":
            figures["tags"] = args.tags or "gold"
    if args.per_line:
        _write_lines(args.per_line, scores, outputs)
    if args.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(
                f"{name:24} {value if isinstance(value, str) else format(value, ',.4f' if isinstance(value, float) else ',')}"
            )


def _metric(problem, tags: str | None) -> str:
    """The key of METRICS."""
    if tags and problem.metric != "f1":
        raise UserError(
            f"--tags={tags}: outputs of problem {problem.name} are not trees; expected no --tags"
        )
    return "f1_own_tags" if tags == "own" else problem.metric


def _references(problem, pairs: list[tuple[str, str]], name) -> Iterator[str]:
    """The right outputs as the metric compares them. Raises UserError `name:number: ...` for one that is none."""
    for number, (_, target) in enumerate(pairs, 1):
        try:
            yield problem.reference_text(target)
        except UserError as error:
            raise UserError(f"{name}:{number}: {error}") from None


def _write_lines(path: str, scores, outputs) -> None:
    from t2t_lite.files import replacing

    with replacing(path) as file:
        for score in scores:
            entry = {"line": score.line + 1, "log_prob": score.log_prob, "tokens": score.tokens}
            if outputs:
                output = outputs[score.line]
                entry.update(
                    output=output.text,
                    output_score=output.score,
                    output_log_prob=output.log_prob,
                    **output.details,
                )
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def main() -> None:
    sys.exit(arguments.run(evaluate, "t2t-eval"))
