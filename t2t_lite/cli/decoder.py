"""t2t-decoder: translates with a trained run."""

import argparse
import itertools
import sys

from t2t_lite.cli import arguments
from t2t_lite.cli.arguments import log
from t2t_lite.cli.file_decoding import Rows, decode_file, write_entry
from t2t_lite.config import PRECISIONS
from t2t_lite.errors import UserError
from t2t_lite.files import decode_lines, digest_of, without_mark
from t2t_lite.output import check_no_input, make_folder, writing
from t2t_lite.problem import Drawing, Problem, Tokenizing
from t2t_lite.runtime import start_tensorflow

_FORMATS = """\
What is written for each input line, in order:
  text            the output; with --scores: score, tab, output
  text, --n_best  up to N lines `number ||| output ||| score`, as Moses writes them; numbers from 0
  jsonl           {"line": number, "input": "...",
                   "hypotheses": [{"text": "...", "score": s, "log_prob": p}, ...]};
                  parsers add "well_formed", of what the model wrote, "repairs", and the "words"
                  as they were given
  pretty          the output drawn, where the problem draws: a parser's trees
A score is the log probability (natural, end of sentence included) divided by the length penalty.
Input lines end at LF or CR LF. Blanks at their ends are left out; a line of blanks only has an
empty output with score 0. An output has at most as many sub-words as its input plus --extra_length;
one that has not ended there is cut.

example: t2t-decoder --output_dir RUN --input newstest2014.en --output newstest2014.out
"""
# Flags that do not change what is written.
_CHANGE_NOTHING = {
    *("input", "output", "prefix", "resume", "interactive", "svg_dir"),
    *("output_dir", "usr_dir", "threads", "batch_tokens", "xla"),
}


def parser() -> arguments.Parser:
    """The command's flags."""
    parser = arguments.Parser(
        "Translates a file, line by line, with the averaged, else best, else latest checkpoint.",
        epilog=_FORMATS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    arguments.add_runs(parser)
    help = "one text a line; may be a pipe, or .gz; - is stdin (default)"
    add("--input", metavar="FILE", help=help)
    help = "where to write; .gz is compressed; - is stdout (default)"
    add("--output", metavar="FILE", default="-", help=help)
    help = "go on where the same command was killed; until it ends, FILE is FILE.partial"
    add("--resume", action="store_true", help=help)
    add("--interactive", action="store_true", help="ask for one line after the other")
    add("--prefix", metavar="FILE", help="each output begins with its line of this file")
    add("--n_best", type=int, default=1, metavar="N", help="outputs of a line (default: 1)")
    formats = ["text", "jsonl", "pretty"]
    add("--format", choices=formats, default="text", help="see below (default: text)")
    add("--scores", action="store_true", help="write the score before each text")
    help = "the input is raw text; split it into words, for problems that read words"
    add("--tokenize", action="store_true", help=help)
    help = "draw each line's best output into DIR/<line number>.svg, where the problem draws"
    add("--svg_dir", metavar="DIR", help=help)
    arguments.add_search(parser.add_argument_group("search", "The defaults are the problem's."))
    _add_sampling(parser.add_argument_group("sampling"))
    help = "All visible GPUs are used, each with a copy of the model."
    _add_devices(parser.add_argument_group("devices", help))
    return parser


def _add_sampling(group) -> None:
    add = group.add_argument
    add("--sampling", action="store_true", help="draw --n_best outputs instead of searching")
    add("--temperature", type=float, metavar="T", help="divides the logits (default: 1)")
    help = "draw from the K most probable sub-words (default: all)"
    add("--top_k", type=int, metavar="K", help=help)
    help = "the same seed draws the same outputs (default: 1)"
    add("--seed", type=int, metavar="N", help=help)


def _add_devices(group) -> None:
    threads = "all, a batch of sentences for each; with --interactive 1, since more take longer"
    arguments.add_threads(group, threads)
    add = group.add_argument
    add(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="of the model (default: float32); 16 bits are faster on GPUs, bfloat16 on CPUs that "
        "multiply it too",
    )
    help = "bounds a batch's hypotheses x positions"
    add("--batch_tokens", type=int, metavar="N", help=help)
    help = "compile by XLA (auto: on GPUs)"
    add("--xla", choices=["auto", "on", "off"], default="auto", help=help)


def decode() -> None:
    """Runs the command."""
    args = parser().parse_args()
    _check(args)
    rows = Rows(args)
    total = None if args.interactive else rows.count()
    from t2t_lite.runs import Runs

    runs = Runs.open(args.output_dir, args.usr_dir, log)
    _check_problem(runs.problem, args)
    if args.interactive:
        _interact(*_translator(runs, args), args)
        return
    if args.svg_dir:
        make_folder(args.svg_dir)
    with writing(args.output, _kept(runs, args), args.resume) as output:
        rows.skip(output)
        decode_file(*_translator(runs, args), args, rows, total, output)


def _kept(runs, args) -> dict | None:
    """What an output follows from, but for the input; None for stdout, which cannot be resumed."""
    if args.output == "-":
        return None
    flags = {name: value for name, value in vars(args).items() if name not in _CHANGE_NOTHING}
    return {"weights": " ".join(map(digest_of, runs.weights))} | flags


def _translator(runs, args) -> tuple:
    """The runs' Translator, and how it is to search: `stream`'s options."""
    threads = 1 if args.interactive and args.threads is None else args.threads
    workers = start_tensorflow(threads, together=args.interactive)
    from t2t_lite.decoding.search import Sampling
    from t2t_lite.devices import choose_xla
    from t2t_lite.weights import described

    translator = runs.translator(
        precision=args.precision,
        batch_tokens=args.batch_tokens,
        xla=choose_xla(args.xla)[0],
        workers=workers,
    )
    log(described(translator.weights))
    options = {
        name: getattr(args, name) for name in ("beam_size", "alpha", "extra_length", "n_best")
    }
    options["constrained"] = not args.unconstrained
    if args.sampling:
        temperature = 1.0 if args.temperature is None else args.temperature
        options["sampling"] = Sampling(temperature, args.top_k)
        options["seed"] = 1 if args.seed is None else args.seed
    return translator, options


def _check(args) -> None:
    """What can be said before anything is loaded."""
    if args.interactive and (args.input or args.prefix or args.output != "-" or args.resume):
        raise UserError(
            "--interactive reads and writes the terminal; "
            "it goes without --input, --output, --prefix and --resume"
        )
    check_no_input(args.output, *filter(None, [args.input or "-", args.prefix]))
    for name in ("temperature", "top_k", "seed"):
        if getattr(args, name) is not None and not args.sampling:
            raise UserError(
                f"--{name}={getattr(args, name)} says how to sample; expected --sampling with it"
            )
    if args.seed is not None and args.seed < 0:
        raise UserError(f"--seed={args.seed}: expected at least 0")
    if args.batch_tokens is not None and args.batch_tokens < 1:
        raise UserError(f"--batch_tokens={args.batch_tokens}: expected at least 1")


def _check_problem(problem: Problem, args) -> None:
    """Raises UserError for what is asked of outputs that the problem's cannot do."""
    if args.tokenize and not isinstance(problem, Tokenizing):
        raise UserError(f"problem {problem.name} reads raw text; expected no --tokenize")
    if not isinstance(problem, Drawing):
        if args.format == "pretty":
            raise UserError(
                f"outputs of problem {problem.name} have no --format=pretty; expected text or jsonl"
            )
        if args.svg_dir:
            raise UserError(
                f"outputs of problem {problem.name} cannot be drawn; expected no --svg_dir"
            )


def _interact(translator, options: dict, args) -> None:
    log("one line at a time; end with Ctrl-D")
    tokenize = translator.problem.tokenize if args.tokenize else str
    for number in itertools.count():
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)
        raw = sys.stdin.buffer.readline()
        if not raw:
            return
        try:
            [line] = decode_lines([raw if number else without_mark(raw)], "stdin", number + 1)
        except UserError as error:
            log(f"error: {error}")
            continue
        [hypotheses] = translator.translate([tokenize(line)], first=number, **options)
        write_entry(sys.stdout, number, line, hypotheses, translator.problem, args)
        sys.stdout.flush()


def main() -> None:
    """The command t2t-decoder."""
    sys.exit(arguments.run(decode, "t2t-decoder"))
