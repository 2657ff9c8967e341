"""Joins the lines of concurrent requests into calls of one function, which is faster.

A call never waits to be full: lines gather while as many calls run as may, and the next call takes
what is there.
"""

import asyncio
import collections
import dataclasses
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


class Overloaded(Exception):
    """More lines would wait than may."""


@dataclasses.dataclass(eq=False)
class _Request:
    kind: str
    lines: Sequence
    answer: asyncio.Future  # of `results`
    results: list
    missing: int  # results that are still to come
    begun: int = 0  # lines that were given to a call


class Batcher:
    """Answers requests, each of several lines of one kind, by calls of `call` in its own threads.

    A call takes one line from each waiting request in turn, until it is full: small requests don't
    wait for large ones. Kinds of lines, which can't share a call, take turns likewise.

    Args:
        call: (kind, lines) -> results, as many and in their order; called from several threads.
        max_lines: in a call.
        max_waiting: lines that no call has begun, of all requests.
        weight: (kind, line) -> the part of a call that the line takes, from 0 to 1, so that few
            long lines fill one too.
        observe: is told the number of lines of each call.
        workers: calls at the same time. Those that may begin share the lines that wait. But where
            the squares of the weights of all their lines sum to more than 1, they run one after the
            other: memory grows with the square of a length.
    """

    def __init__(
        self,
        call: Callable[[str, list], Sequence],
        *,
        max_lines: int,
        max_waiting: int,
        weight: Callable[[str, object], float] = lambda kind, line: 0.0,
        observe: Callable[[int], object] = lambda lines: None,
        workers: int = 1,
    ):
        self._call, self._max_lines, self._max_waiting = call, max_lines, max_waiting
        self._weight, self._observe = weight, observe
        # By kind; none is empty; the first is served next.
        self._queues: dict[str, collections.deque[_Request]] = {}
        self._workers, self._threads = workers, ThreadPoolExecutor(workers, "model")
        # The calls that run, with the sum of their lines' squared weights.
        self._calls: dict[asyncio.Task, float] = {}
        self.waiting = 0  # lines that no call has begun

    async def submit(self, kind: str, lines: Sequence) -> list:
        """The results of the lines, in their order.

        Cancelled, it takes back the lines that no call has begun. Raises Overloaded, and what
        `call` raises for these lines.
        """
        if self.waiting + len(lines) > self._max_waiting:
            raise Overloaded
        if not lines:
            return []
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        request = _Request(kind, lines, answer, results=[None] * len(lines), missing=len(lines))
        self._queues.setdefault(kind, collections.deque()).append(request)
        self.waiting += len(lines)
        loop.call_soon(self._begin)  # with what else comes at this moment
        try:
            return await answer
        finally:
            self._take_back(request)

    def _begin(self) -> None:
        """Begins as many calls as there are lines for and as may run."""
        while self._queues and len(self._calls) < self._workers:
            kind, places, squares = self._next_call()
            if not places:
                return
            self._calls[asyncio.create_task(self._run(kind, places))] = squares

    async def _run(self, kind: str, places: list[tuple[_Request, int]]) -> None:
        await self._answer(kind, places)
        del self._calls[asyncio.current_task()]
        self._begin()

    def _next_call(self) -> tuple[str, list[tuple[_Request, int]], float]:
        """Takes lines of one kind off the queues; none where they must wait for the calls that run.

        Returns:
            (kind, [(request, index of its line)], the sum of their squared weights).
        """
        kind, queue = next(iter(self._queues.items()))
        others = sum(self._calls.values())
        share = math.ceil(self.waiting / (self._workers - len(self._calls)))
        places, weight, squares = [], 0.0, 0.0
        while queue and len(places) < min(share, self._max_lines):
            request = queue[0]
            more = self._weight(kind, request.lines[request.begun])
            if (places or self._calls) and (weight + more > 1 or others + squares + more**2 > 1):
                break
            weight, squares = weight + more, squares + more**2
            places.append((request, request.begun))
            request.begun += 1
            queue.popleft()
            if request.begun < len(request.lines):
                queue.append(request)
        if places:
            del self._queues[kind]
            if queue:
                self._queues[kind] = queue  # behind the other kinds
        self.waiting -= len(places)
        return kind, places, squares

    async def _answer(self, kind: str, places: list[tuple[_Request, int]]) -> None:
        """Calls, and hands out the results.

        A call that fails is repeated for each request alone, to find whose fault it is.
        """
        lines = [request.lines[index] for request, index in places]
        self._observe(len(lines))
        try:
            results = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._call, kind, lines
            )
            answered = list(zip(places, results, strict=True))
        except Exception as error:
            await self._blame(error, kind, places)
            return
        for (request, index), result in answered:
            request.results[index] = result
            request.missing -= 1
            if not request.missing and not request.answer.done():
                request.answer.set_result(request.results)

    async def _blame(self, error: Exception, kind: str, places: list[tuple[_Request, int]]) -> None:
        requests = list(dict.fromkeys(request for request, _ in places))
        if len(requests) > 1:
            for request in requests:
                if not request.answer.done():
                    await self._answer(kind, [place for place in places if place[0] is request])
        elif not requests[0].answer.done():
            self._take_back(requests[0])
            requests[0].answer.set_exception(error)

    def _take_back(self, request: _Request) -> None:
        """Takes the lines that no call has begun, if any, off the queues."""
        rest = len(request.lines) - request.begun
        if not rest:
            return
        self.waiting -= rest
        request.begun += rest
        queue = self._queues[request.kind]
        queue.remove(request)
        if not queue:
            del self._queues[request.kind]
