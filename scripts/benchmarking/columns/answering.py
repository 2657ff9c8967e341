"""How a column of the benchmark answers: a line of JSON for the start, each round, and the end."""

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np


class Job:
    """What the command line says, and the work that the folder holds.

    Attributes:
        started: when the process was, of time.time().
        args: part, threads, precision, and the flags that the column adds.
        hparams, vocabulary, steps, alone: of work.json.
        arrays: by name.
    """

    def __init__(self, parts: list[str], *flags: str):
        self.started = time.time() - time.process_time()  # importing is counted
        parser = argparse.ArgumentParser()
        parser.add_argument("folder", type=Path)
        parser.add_argument("--part", choices=parts)
        parser.add_argument("--threads", type=int)
        parser.add_argument("--precision")
        for flag in flags:
            parser.add_argument(f"--{flag}", action="store_true")
        self.args = parser.parse_args()
        about = json.loads((self.args.folder / "work.json").read_text())
        self.hparams, self.vocabulary = about["hparams"], about["vocabulary"]
        self.steps, self.alone = about["steps"], about["alone"]
        self.arrays = dict(np.load(self.args.folder / "arrays.npz"))

    def train(self, update, product) -> None:
        """Answers with the time of updates.

        Args:
            update: trains on (inputs, targets), and waits for it.
            product: (M, K, N) -> a function that multiplies [M, K] with [K, N] and waits for it.
        """
        count = len(self.arrays) // 2
        batches = [(self.arrays[f"{i}.0"], self.arrays[f"{i}.1"]) for i in range(count)]

        def updates():
            for batch in batches:
                update(*batch)

        tokens = self.hparams["batch_tokens"]
        self._answer(lambda: update(*batches[0]), {"updates": updates}, product, tokens)

    def decode(self, make_search, product) -> None:
        """Answers with the time of searches.

        Args:
            make_search: W -> a function of sources, int32 [B, S], that gives ids [B, L] of the
                best outputs of a search of `steps` steps with W beams.
            product: as in `train`.
        """
        sources = self.arrays["sources"]
        searches = {beam: make_search(beam) for beam in (1, 4)}
        cases = {}
        for beam, search in searches.items():
            cases[f"beam {beam}, batch {len(sources)}"] = lambda search=search: search(sources)
            cases[f"beam {beam}, batch 1"] = lambda search=search: [
                search(sources[i : i + 1]) for i in range(self.alone)
            ]
        for name, search in cases.items():
            outputs = search()
            for ids in outputs if isinstance(outputs, list) else [outputs]:
                if np.shape(ids)[1] < self.steps or not np.all(np.asarray(ids)[:, self.steps - 1]):
                    raise SystemExit(f"{name}: an output ended before {self.steps} steps")
        first = next(iter(searches.values()))
        tokens = len(sources) * 4  # those of a step
        self._answer(lambda: first(sources[:1]), cases, product, tokens)

    def _answer(self, first, cases, product, tokens) -> None:
        stdout = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what libraries print

        def tell(**figures):
            print(json.dumps(figures), file=stdout, flush=True)

        first()
        tell(first=time.time() - self.started)
        for run in cases.values():
            run()
        products = self._products(product, tokens)
        for _ in sys.stdin:
            before, seconds = rate(products), {}
            for name, run in cases.items():
                start = time.perf_counter()
                run()
                seconds[name] = time.perf_counter() - start
            tell(seconds=seconds, multiply_adds_per_second=max(before, rate(products)))
        tell(peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    def _products(self, product, tokens):
        """(multiply-adds, functions) of products of the model's shapes."""
        width, inner = self.hparams["d_model"], self.hparams["d_ff"]
        shapes = [(tokens, width, width)] * 4 + [(tokens, width, inner), (tokens, inner, width)]
        shapes.append((tokens, width, self.vocabulary))
        return sum(m * k * n for m, k, n in shapes), [product(*shape) for shape in shapes]


def rate(products) -> float:
    """Multiply-adds per second: the best of some repetitions of 50 ms or more."""
    adds, runs = products
    best, repeat, tries = 0.0, 1, 0
    while tries < 4:
        start = time.perf_counter()
        for _ in range(repeat):
            for run in runs:
                run()
        seconds = time.perf_counter() - start
        if seconds < 0.05:
            repeat *= 2
            continue
        best, tries = max(best, repeat * adds / seconds), tries + 1
    return best
