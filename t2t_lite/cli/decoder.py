"""t2t-decoder: translates with a trained run."""

import argparse
import collections
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from t2t_lite.cli import arguments
from t2t_lite.cli.arguments import log
from t2t_lite.config import PRECISIONS
from t2t_lite.errors import UserError
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
Input lines end at LF or CR LF. An empty line, or one of spaces only, has an empty output with score
0. An output has at most as many sub-words as its input plus --extra_length; one that has not ended
there is cut.

example: t2t-decoder --output_dir RUN --input newstest2014.en --output newstest2014.out
"""


def parser() -> arguments.Parser:
    """The command's flags."""
    parser = arguments.Parser(
        "Translates a file, line by line, with the averaged, else best, else latest checkpoint.",
        epilog=_FORMATS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    arguments.add_run(parser)
    add("--input", metavar="FILE", help="one text a line; may be .gz; - is stdin (default)")
    add("--output", metavar="FILE", default="-", help="where to write; - is stdout (default)")
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
    total = _count(args.input, args.prefix)
    from t2t_lite.run import Run

    run = Run.open(args.output_dir, args.usr_dir, log)
    _check_problem(run.problem, args)
    threads = 1 if args.interactive and args.threads is None else args.threads
    workers = start_tensorflow(threads, together=args.interactive)
    from t2t_lite.decoding.search import Sampling
    from t2t_lite.devices import choose_xla

    translator = run.translator(
        precision=args.precision,
        batch_tokens=args.batch_tokens,
        xla=choose_xla(args.xla)[0],
        workers=workers,
    )
    kind = {run.averaged: "averaged", run.best: "best"}.get(translator.weights, "latest")
    log(f"checkpoint: {kind} ({translator.weights})")
    options = {
        name: getattr(args, name) for name in ("beam_size", "alpha", "extra_length", "n_best")
    }
    options["constrained"] = not args.unconstrained
    if args.sampling:
        temperature = 1.0 if args.temperature is None else args.temperature
        options["sampling"] = Sampling(temperature, args.top_k)
        options["seed"] = 1 if args.seed is None else args.seed
    if args.interactive:
        _interact(translator, options, args)
    else:
        _decode_file(translator, options, args, total)


def _check(args) -> None:
    """What can be said before anything is loaded."""
    if args.interactive and (args.input or args.prefix or args.output != "-"):
        raise UserError(
            "--interactive reads and writes the terminal; "
            "it goes without --input, --output and --prefix"
        )
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


def _count(path: str | None, prefix: str | None) -> int | None:
    """How many lines the input has; None for stdin.

    Reads both files, so that a bad one is known before all else.
    """
    if path in (None, "-"):
        return None
    counts = [sum(1 for _ in _lines(file)) for file in (path, prefix) if file]
    if prefix and counts[0] != counts[1]:
        raise UserError(
            f"--prefix {prefix} has {counts[1]:,} lines, --input {path} {counts[0]:,}; "
            "expected as many"
        )
    return counts[0]


def _decode_file(translator, options: dict, args, total: int | None) -> None:
    from tqdm import tqdm

    lines = collections.deque()  # read, and not yet written
    prefixes = _lines(args.prefix) if args.prefix else None
    tokenize = translator.problem.tokenize if args.tokenize else str
    start, number, subwords, first = time.monotonic(), 0, 0, 0.0
    bar = tqdm(
        total=total,
        unit=" sentences",
        unit_scale=True,
        file=sys.stderr,
        # A terminal gets a moving bar, a log a line now and then.
        mininterval=0.2 if sys.stderr.isatty() else 30,
        # On a terminal the outputs themselves show the progress.
        disable=args.output == "-" and sys.stdout.isatty(),
    )

    def progress(done: int, read: int) -> None:
        nonlocal subwords
        subwords += read
        bar.update(done)

    with _output(args.output) as output, bar:
        stream = translator.stream(
            (lines.append(line) or tokenize(line) for line in _lines(args.input or "-")),
            prefixes=prefixes,
            progress=progress,
            **options,
        )
        for number, hypotheses in enumerate(stream, 1):
            output.write(_format(number - 1, lines.popleft(), hypotheses, translator.problem, args))
            first = first or time.monotonic() - start
            if args.svg_dir:
                _draw(number, hypotheses[0].text, translator.problem, args.svg_dir)
    seconds = time.monotonic() - start
    log(
        f"{number:,} sentences in {seconds:.1f} s, the first after {first:.1f} s; "
        f"{number / seconds:.1f} sentences/s, {subwords / seconds:,.0f} source sub-words/s"
    )


def _interact(translator, options: dict, args) -> None:
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    log("one line at a time; end with Ctrl-D")
    for number in range(sys.maxsize):
        try:
            line = input("> " if sys.stdin.isatty() else "")
            line.encode()
        except EOFError:
            return
        except UnicodeEncodeError as error:  # of what stood for a wrong byte
            byte = ord(line[error.start]) & 0xFF
            position = len(line[: error.start].encode()) + 1
            problem = f"byte 0x{byte:02x} at position {position} is not UTF-8"
            log(f"error: {problem}; expected UTF-8 text")
            continue
        [hypotheses] = translator.translate(
            [translator.problem.tokenize(line) if args.tokenize else line], **options
        )
        print(_format(number, line, hypotheses, translator.problem, args), end="", flush=True)
        if args.svg_dir:
            _draw(number + 1, hypotheses[0].text, translator.problem, args.svg_dir)


def _format(number: int, line: str, hypotheses: list, problem, args) -> str:
    """The output for one input line, as `_FORMATS` says."""
    if args.format == "jsonl":
        outputs = [
            {"text": h.text, "score": h.score, "log_prob": h.log_prob, **h.details}
            for h in hypotheses
        ]
        entry = {"line": number, "input": line, "hypotheses": outputs}
        return json.dumps(entry, ensure_ascii=False) + "\n"
    if args.format == "pretty":
        return "".join(problem.pretty(hypothesis.text) + "\n" for hypothesis in hypotheses)
    if args.n_best > 1:
        return "".join(
            f"{number} ||| {hypothesis.text} ||| {hypothesis.score:.6f}\n"
            for hypothesis in hypotheses
        )
    [hypothesis] = hypotheses
    return f"{hypothesis.score:.6f}\t{hypothesis.text}\n" if args.scores else f"{hypothesis.text}\n"


def _draw(number: int, text: str, problem, folder: str) -> None:
    from t2t_lite.files import replacing

    if text:
        with replacing(Path(folder) / f"{number}.svg") as file:
            file.write(problem.svg(text))


def _lines(path: str) -> Iterator[str]:
    """The lines of a file, or of stdin for `-`, as sources read them."""
    from t2t_lite.files import read_lines

    return read_lines(path)


def _output(path: str) -> contextlib.AbstractContextManager[TextIO]:
    """stdout for `-`; else a file that has its name only once it is whole."""
    if path == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        return contextlib.nullcontext(sys.stdout)
    from t2t_lite.files import replacing

    return replacing(path)


def main() -> None:
    """The command t2t-decoder."""
    sys.exit(arguments.run(decode, "t2t-decoder"))
