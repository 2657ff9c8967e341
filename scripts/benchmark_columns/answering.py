"""How a column of benchmark.py answers: a line of JSON for the start, each round, and the end."""

import json
import os
import resource
import sys
import time


def rate(product, tokens: int, width: int, inner: int, vocabulary: int) -> float:
    """Multiply-adds per second of products of a model's shapes.

    Args:
        product: (M, K, N) -> a function that multiplies [M, K] with [K, N] and waits for it.
    """
    shapes = [(tokens, width, width)] * 4 + [(tokens, width, inner), (tokens, inner, width)]
    shapes.append((tokens, width, vocabulary))
    products = [product(*shape) for shape in shapes]
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        for run in products:
            run()
        seconds.append(time.perf_counter() - start)
    return sum(m * k * n for m, k, n in shapes) / min(seconds[1:])


def answer(started: float, update, batches: list, measure_rate) -> None:
    """Answers until there are no more questions.

    Args:
        started: when the process was, of time.time().
        update: trains on (inputs, targets), and waits for it.
        batches: of a round.
        measure_rate: -> multiply-adds per second.
    """
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print

    def tell(**figures):
        print(json.dumps(figures), file=stdout, flush=True)

    update(*batches[0])
    tell(first_update=time.time() - started)
    for batch in batches:
        update(*batch)
    for _ in sys.stdin:
        before = measure_rate()
        start = time.perf_counter()
        for batch in batches:
            update(*batch)
        seconds = time.perf_counter() - start
        tell(seconds=seconds, multiply_adds_per_second=max(before, measure_rate()))
    tell(peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
