"""t2t-eval: loss, perplexity, token accuracy and the problem's metric on a split or on files."""

import argparse
import contextlib
import functools
import json
import sys

from t2t_lite import options
from t2t_lite.cli import arguments
from t2t_lite.data.sources import SPLITS, TextFiles
from t2t_lite.errors import UserError
from t2t_lite.evaluation.metrics import Metric
from t2t_lite.output import Output, check_no_input, writing
from t2t_lite.runs import Runs
from t2t_lite.runtime import start_tensorflow


def parser(metric: type[Metric] = Metric) -> arguments.Parser:
    """The command's flags; `metric`: of the run's problem, its fields are flags too."""
    parser = arguments.Parser(
        "Measures a trained model on a split of its problem, or on given files.",
        epilog="example: t2t-eval --output_dir RUN --split test\n"
        "t2t-eval --output_dir RUN --help shows the flags of the problem's metric too.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_runs(parser)
    what = parser.add_argument_group("what to measure on")
    what.add_argument("--split", choices=SPLITS, help="of the run's problem (default: dev)")
    help = "inputs, a line each, instead of a split; with --reference"
    what.add_argument("--input", metavar="FILE", help=help)
    what.add_argument("--reference", metavar="FILE", help="the right outputs, a line each")
    arguments.add_search(parser.add_argument_group("search", "The defaults are the problem's."))
    how = parser.add_argument_group("metric", "What the problem's outputs are scored by.")
    help = "leave out the metric, which needs decoding"
    how.add_argument("--no_decode", action="store_true", help=help)
    help = "write each pair's log probability and output, as JSON lines"
    parser.add_argument("--per_line", metavar="FILE", help=help)
    help = "a row for each checkpoint that the run keeps, its best and averaged ones among them"
    parser.add_argument("--all_checkpoints", action="store_true", help=help)
    parser.add_argument("--json", action="store_true", help="print JSON, an object a line")
    options.add_options(how, metric)  # last, to be refused where it takes a flag of the command's
    return parser


def evaluate() -> None:
    """Runs the command."""
    runs = _named_runs()
    args = parser(runs.problem.metric if runs else Metric).parse_args()
    metric = _checked_metric(args, runs)
    inputs = list(filter(None, [args.input, args.reference]))
    if args.per_line:
        check_no_input(args.per_line, *inputs)
    source = TextFiles(*inputs) if inputs else runs.problem.source(args.split or "dev")
    pairs = list(source.pairs())
    if not pairs:
        raise UserError(f"{source}: empty; expected at least one pair")
    about = f"pairs       {len(pairs):,} from {source}"
    measured = functools.partial(
        _measured, args=args, pairs=pairs, metric=metric, origin=args.reference or source
    )
    workers = start_tensorflow(together=args.no_decode)  # decoding takes most of the time
    if args.all_checkpoints:
        from t2t_lite.cli.checkpoint_table import print_table

        arguments.log(about)
        print_table(runs.members[0], measured, args.json, workers)
        return
    with writing(args.per_line) if args.per_line else contextlib.nullcontext() as per_line:
        from t2t_lite.weights import described

        translator = runs.translator(workers=workers)
        arguments.log(f"{described(translator.weights)}\n{about}")
        result = measured(translator)
        if per_line:
            _write_lines(per_line, result.scores, result.outputs)
    _print(result.figures | ({} if args.no_decode else metric.settings()), args.json)


def _print(figures: dict, as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        form = {float: ",.4f", int: ","}.get(type(value), "")
        print(f"{name:24} {value:{form}}")


def _checked_metric(args, runs: Runs) -> Metric:
    """The problem's metric as the flags set it. Raises UserError for flags that do not agree."""
    if bool(args.input) != bool(args.reference):
        raise UserError("--input and --reference go together")
    chosen = options.given_options(args, runs.problem.metric)
    if chosen and args.no_decode:
        [(name, value), *_] = chosen.items()
        raise UserError(f"--{name}={value} says how to score; expected no --no_decode with it")
    if args.input and args.split:
        raise UserError(f"--split={args.split} and --input={args.input}: give one of them")
    if args.all_checkpoints and (args.per_line or len(args.output_dir) > 1):
        other = "--per_line" if args.per_line else f"{len(args.output_dir)} runs"
        raise UserError(f"--all_checkpoints has a row for each of one run's; expected no {other}")
    return runs.problem.metric(**chosen)


def _measured(translator, *, args, pairs: list, metric: Metric, origin: object):
    """The Evaluation of a Translator on pairs, as the flags say."""
    from tqdm import tqdm

    silent = True if args.no_decode else None  # None: unless on a terminal
    with tqdm(total=len(pairs), unit="sentence", desc="decoding", disable=silent) as bar:
        return translator.evaluate(
            pairs,
            metric=metric,
            decode=not args.no_decode,
            origin=origin,
            progress=lambda lines, _: bar.update(lines),
            beam_size=args.beam_size,
            alpha=args.alpha,
            extra_length=args.extra_length,
            constrained=not args.unconstrained,
        )


def _named_runs() -> Runs | None:
    """The runs that --output_dir names, opened, since the metric of its problem has flags.

    None where none is named, or, with --help, where there is none.
    """
    look = arguments.first_look(None, "--usr_dir", several=["--output_dir"])
    try:
        return Runs.open(look.output_dir, look.usr_dir, arguments.log) if look.output_dir else None
    except UserError:
        if {"-h", "--help"} & set(sys.argv[1:]):
            return None
        raise


def _write_lines(file: Output, scores, outputs) -> None:
    for score in scores:
        log_prob = score.log_prob if score.tokens else None  # JSON has no NaN
        entry = {"line": score.line + 1, "log_prob": log_prob, "tokens": score.tokens}
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
    """The command t2t-eval."""
    sys.exit(arguments.run(evaluate, "t2t-eval"))
