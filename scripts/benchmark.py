"""Measures t2t_lite beside its peers: training, decoding, data and starting.

python scripts/benchmark.py [--parts training decoding data start] [--sizes tiny small] [--peers]

In training and decoding each column is a process of its own, which stays. They are asked in turn,
round by round, so that only one works at a time and what slows the machine down hits all alike. A
figure is the median of the rounds, with the least and the most.

training: real target sub-words/s, padding not counted, of whole updates.
decoding: sentences/s of searches of 24 steps over 24 sub-words, for 64 sentences at once and one
after the other. Ours and CTranslate2 use one thread for each batch.
data: seconds and pairs/s of text that is made up: its vocabulary, and reading it in random order.
start: seconds until a command shows its first result, and times that of `import tensorflow`.

The share is that of the machine's rate of matrix products: an update's multiply-adds are 3 x rows x
`t2t_lite.models.size.multiply_adds` (forward, and two products of the same size for the gradients;
padding is computed too), a search's are `search_multiply_adds`. The rate is measured in the same
process, round and precision, by products of the model's own shapes: [N, D] with [D, D], [D, F] and
[D, V], where N are the tokens of a batch, or the hypotheses of a step.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

from benchmarking import commands, peers, report
from benchmarking.column import Column
from benchmarking.work import VOCABULARIES, Decoding, Training

from t2t_lite import registry
from t2t_lite.runtime import cores

PARTS = ("training", "decoding", "data", "start")


def flags() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    add("--sizes", nargs="+", choices=VOCABULARIES, default=["small"], help="default: small")
    add("--columns", nargs="+", metavar="NAME", help="those whose names hold one of these")
    add("--rounds", type=int, default=5, help="default: 5")
    add("--threads", type=int, default=cores(), help="of each column (default: all)")
    help = "PyTorch, OpenNMT-tf and JoeyNMT too, in environments .venv-NAME, made where missing"
    add("--peers", action="store_true", help=help)
    add("--json", metavar="FILE", help="write all figures there")
    add("--plot", metavar="FILE.png", help="write a plot of training and decoding there")
    return parser.parse_args()


def measured(work_of, chosen: dict[str, list[str]], rounds: int) -> list[dict]:
    """The figures of all columns.

    Args:
        work_of: a column's name -> Work.
        chosen: each column's command.
        rounds: how many.
    """
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for number, (name, command) in enumerate(chosen.items()):
            own = Path(folder) / str(number)
            own.mkdir()
            started.append(Column(name, command, work_of(name), own))
        for _ in range(rounds):
            for column in started:
                column.measure()
        return [figures for column in started for figures in column.close()]


def columns(part: str, args) -> dict[str, list[str]]:
    """Each wanted column's command, by its name."""
    found = peers.commands(part, args.threads, args.peers)
    return {
        name: command
        for name, command in found.items()
        if not args.columns or any(wanted in name for wanted in args.columns)
    }


def main():
    """Runs the benchmark."""
    args = flags()
    registry.load_plugins()
    about = report.machine(args.threads)
    print(f"{about['cpu']}, {args.threads} threads, {' '.join(about['instructions'])}")
    figures = []
    for part in args.parts:
        if part in ("data", "start"):
            measure = commands.data if part == "data" else commands.start
            found = measure(args.rounds, args.peers)
            print("\n" + report.plain_table(found), flush=True)
            figures += found
            continue
        chosen = columns(part, args)
        for size in args.sizes if chosen else []:

            def work_of(name, part=part, size=size):
                return Decoding(size) if part == "decoding" else Training(size, "packing" in name)

            found = measured(work_of, chosen, args.rounds)
            print("\n" + report.table(found), flush=True)
            figures += found
    if not figures:
        raise SystemExit(f"--columns {' '.join(args.columns)}: no column has such a name")
    if args.json:
        text = json.dumps({"machine": about, "figures": figures}, indent=2)
        Path(args.json).write_text(text + "\n")
    if args.plot:
        report.plot(figures, args.plot)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
