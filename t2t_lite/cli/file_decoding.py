"""t2t-decoder's way through a file: lines in, entries out, progress told, resumable."""

import collections
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from t2t_lite.cli.arguments import log
from t2t_lite.errors import UserError
from t2t_lite.files import aligned_lines, check_read_once, is_regular, named
from t2t_lite.output import Output, replacing


def decode_file(
    translator, options: dict, args, rows: "Rows", total: int | None, output: Output
) -> None:
    """Writes an entry for each of the rows that are left.

    `options`: of `Translator.stream`; `total`: how many rows there are in all, if that is known.
    """
    from tqdm import tqdm

    done, subwords, first, start = output.lines, 0, 0.0, time.monotonic()
    bar = tqdm(
        initial=done,
        total=total,
        unit=" sentences",
        unit_scale=True,
        file=sys.stderr,
        # A terminal gets a moving bar, a log a line now and then.
        mininterval=0.2 if sys.stderr.isatty() else 30,
        # On a terminal the outputs themselves show the progress.
        disable=args.output == "-" and sys.stdout.isatty(),
    )

    def progress(lines: int, read: int) -> None:
        nonlocal subwords
        subwords += read
        bar.update(lines)

    tokenize = translator.problem.tokenize if args.tokenize else str
    lines, prefixes = rows.columns()
    with bar:
        for hypotheses in translator.stream(
            map(tokenize, lines),
            prefixes=prefixes,
            first=done,
            progress=progress,
            **options,
        ):
            write_entry(output, done, rows.pop(), hypotheses, translator.problem, args)
            first = first or time.monotonic() - start
            done += 1
            if done % translator.window == 0:
                output.mark(done, rows.digest())
    seconds = time.monotonic() - start
    log(
        f"{done - output.lines:,} sentences in {seconds:.1f} s, the first after {first:.1f} s; "
        f"{(done - output.lines) / seconds:.1f} sentences/s, "
        f"{subwords / seconds:,.0f} source sub-words/s"
    )


def write_entry(output, number: int, line: str, hypotheses: list, problem, args) -> None:
    """Writes the outputs of a line, and draws the best one where --svg_dir asks for it.

    `output`: Output, or another thing with `write`; `number`: of the line, from 0.
    """
    if args.svg_dir and hypotheses[0].text:  # first: what is written is not drawn when resuming
        with replacing(Path(args.svg_dir) / f"{number + 1}.svg") as file:
            file.write(problem.svg(hypotheses[0].text))
    output.write(_entry(number, line, hypotheses, problem, args))


def _entry(number: int, line: str, hypotheses: list, problem, args) -> str:
    """The output for one input line, as `decoder._FORMATS` says."""
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


class Rows:
    """The lines of --input, and of --prefix beside them, each file read once to be decoded."""

    def __init__(self, args):
        self.paths = [path for path in (args.input or "-", args.prefix) if path]
        check_read_once(*self.paths)
        self._rows = aligned_lines(*self.paths)
        self._waiting = collections.deque()  # read, and not yet written
        self._hash = hashlib.blake2b(digest_size=16)

    def count(self) -> int | None:
        """How many there are; None where that cannot be known without losing them.

        A mistake in a regular file is so known before all else.
        """
        if not all(map(is_regular, self.paths)):
            return None
        return sum(1 for _ in aligned_lines(*self.paths))

    def skip(self, output: Output) -> None:
        """Passes over the lines that `output` has already.

        Raises UserError where they are no longer the same.
        """
        for row in itertools.islice(self._rows, output.lines):
            self._update(row)
        if not output.lines:
            return
        if self.digest() != output.digest:
            raise UserError(
                f"--resume: the first {output.lines:,} lines of "
                f"{' and '.join(map(named, self.paths))} have changed since; "
                "expected the same, or no --resume"
            )
        log(f"resuming after {output.lines:,} lines")

    def columns(self) -> tuple[Iterator[str], Iterator[str] | None]:
        """The input lines that are left, and their prefixes; None without --prefix."""
        ours, theirs = itertools.tee(self._rows)
        lines = (self._waiting.append(row) or row[0] for row in ours)
        return lines, (row[1] for row in theirs) if self.paths[1:] else None

    def pop(self) -> str:
        """The next line whose output is known."""
        row = self._waiting.popleft()
        self._update(row)
        return row[0]

    def digest(self) -> str:
        """Of all lines passed over or popped."""
        return self._hash.hexdigest()

    def _update(self, row: tuple[str, ...]) -> None:
        self._hash.update("\n".join([*row, ""]).encode())
