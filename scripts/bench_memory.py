"""Measures what t2t-decoder takes: peak memory and speed, by beam size and length of the file.

python scripts/bench_memory.py --output_dir RUN --input FILE
    [--beam_sizes 4 21] [--lines 1000 10000] [--words 164] [-- FLAGS]

Each row is a process of its own, start-up included in its memory and not in its speed. A file
shorter than --lines starts anew. --words N: every line is N words of the file instead. What stands
after -- goes to t2t-decoder.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    """Prints a table: a row for each beam size and number of lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", required=True, metavar="RUN", help="a trained run")
    parser.add_argument("--input", required=True, metavar="FILE", help="sentences, a line each")
    parser.add_argument("--beam_sizes", nargs="+", type=int, default=[4, 21], metavar="W")
    parser.add_argument("--lines", nargs="+", type=int, default=[1000, 10_000], metavar="N")
    parser.add_argument(
        "--words", type=int, metavar="N", help="words a line (default: the file's own lines)"
    )
    parser.add_argument("flags", nargs="*", metavar="FLAGS", help="of t2t-decoder")
    args = parser.parse_args()
    text = Path(args.input).read_text(encoding="utf-8")

    print("| lines | beam | peak memory, MiB | sentences/s |\n|---:|---:|---:|---:|")
    for count, beam_size in itertools.product(args.lines, args.beam_sizes):
        flags = [f"--output_dir={args.output_dir}", f"--beam_size={beam_size}", *args.flags]
        peak, speed = decode("\n".join(lines(text, count, args.words)) + "\n", flags)
        print(f"| {count:,} | {beam_size} | {peak:,.0f} | {speed} |", flush=True)


def lines(text: str, count: int, words: int | None) -> list[str]:
    """`count` lines of the text, or lines of `words` words of it, over and over."""
    if words is None:
        return list(itertools.islice(itertools.cycle(text.splitlines()), count))
    endless = itertools.cycle(text.split())
    return [" ".join(itertools.islice(endless, words)) for _ in range(count)]


def decode(text: str, flags: list[str]) -> tuple[float, str]:
    """Peak resident memory in MiB, and the sentences/s that t2t-decoder reports."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open(Path(folder, "log"), "w+", encoding="utf-8") as log,
    ):
        Path(folder, "input").write_text(text, encoding="utf-8")
        command = [
            str(Path(sys.executable).with_name("t2t-decoder")),
            f"--input={folder}/input",
            f"--output={folder}/output",
        ]
        process = subprocess.Popen([*command, *flags], stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        log.seek(0)
        report = log.read()
    if status:
        sys.exit(report)
    return usage.ru_maxrss / 1024, re.search(r"([\d,.]+) sentences/s", report)[1]


if __name__ == "__main__":
    main()
