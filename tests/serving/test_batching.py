"""The batcher: whose line goes into which call, and whose answer is whose."""

import asyncio
import random
import threading

import pytest

from t2t_lite.serving.batching import Batcher, Overloaded


class Model:
    """Returns (kind, line) for each line, notes its calls, and works only while it is not held."""

    def __init__(self):
        self.calls = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, kind, lines):
        self.calls.append((kind, list(lines)))
        self.free.wait()
        if "broken" in lines:
            raise ValueError("a broken line")
        return [(kind, line) for line in lines]


@pytest.fixture
def model():
    return Model()


def serve(model, script, **options):
    """Runs `script(batcher)`, a coroutine function."""

    async def run():
        batcher = Batcher(model, **{"max_lines": 4, "max_waiting": 1000, **options})
        result = await script(batcher)
        assert batcher.waiting == 0
        return result

    return asyncio.run(run())


async def begun(model, calls):
    """Waits until the model has been called that often."""
    async with asyncio.timeout(60):
        while len(model.calls) < calls:
            await asyncio.sleep(0.001)


def submit(batcher, *lines, kind="text"):
    return asyncio.create_task(batcher.submit(kind, lines))


def test_lines_gather_while_a_call_runs(model):
    async def script(batcher):
        model.free.clear()
        first = submit(batcher, "a")
        await begun(model, 1)
        rest = [submit(batcher, line) for line in "bcd"]
        await asyncio.sleep(0)
        assert batcher.waiting == 3
        model.free.set()
        assert await first == [("text", "a")]
        assert [await task for task in rest] == [[("text", line)] for line in "bcd"]

    serve(model, script)
    assert [lines for _, lines in model.calls] == [["a"], ["b", "c", "d"]]


def test_small_requests_do_not_wait_for_large_ones(model):
    async def script(batcher):
        model.free.clear()
        large = submit(batcher, *range(100))
        await begun(model, 1)
        small, second = submit(batcher, "small"), submit(batcher, "x", "y")
        await asyncio.sleep(0)
        model.free.set()
        await small, await second
        assert not large.done()
        assert await large == [("text", number) for number in range(100)]

    serve(model, script)
    assert [lines for _, lines in model.calls][:3] == [
        [0, 1, 2, 3],
        [4, "small", "x", 5],
        ["y", 6, 7, 8],
    ]


def test_kinds_take_turns_and_never_share_a_call(model):
    async def script(batcher):
        model.free.clear()
        tasks = [
            submit(batcher, *range(8), kind="a"),
            submit(batcher, *range(8), kind="b"),
            submit(batcher, 0, kind="c"),
        ]
        await begun(model, 1)
        model.free.set()
        await asyncio.gather(*tasks)

    serve(model, script)
    assert [kind for kind, _ in model.calls] == ["a", "b", "c", "a", "b"]


def test_workers_share_what_waits(model):
    async def script(batcher):
        model.free.clear()
        tasks = [submit(batcher, *range(5))]
        await begun(model, 2)
        tasks += [submit(batcher, "a", "b"), submit(batcher, "c")]
        await asyncio.sleep(0.01)
        assert len(model.calls) == 2 and batcher.waiting == 3
        model.free.set()
        return await asyncio.gather(*tasks)

    answers = serve(model, script, workers=2)
    assert [line for answer in answers for _, line in answer] == [*range(5), "a", "b", "c"]
    assert sorted(lines for _, lines in model.calls[:2]) == [[0, 1, 2], [3, 4]]


def test_long_lines_run_beside_short_ones_only(model):
    async def script(batcher):
        model.free.clear()
        tasks = []
        for calls, line in (1, "short"), (2, "l" * 70), (2, "L" * 80), (2, "last"):
            tasks.append(submit(batcher, line))
            await begun(model, calls)
        await asyncio.sleep(0.01)
        assert [lines for _, lines in model.calls] == [
            ["short"],
            ["l" * 70],
        ] and batcher.waiting == 2
        model.free.set()
        await asyncio.gather(*tasks)

    serve(model, script, workers=3, weight=lambda kind, line: len(line) / 90)


@pytest.mark.parametrize("workers", [1, 3])
def test_every_request_gets_its_own_answers(model, workers):
    chooser = random.Random(1)
    requests = [
        (chooser.choice("ab"), [chooser.random() for _ in range(chooser.randrange(12))])
        for _ in range(200)
    ]

    async def script(batcher):
        async def ask(kind, lines):
            await asyncio.sleep(chooser.random() / 20)
            return await batcher.submit(kind, lines)

        return await asyncio.gather(*(ask(*request) for request in requests))

    answers = serve(model, script, workers=workers)
    assert answers == [[(kind, line) for line in lines] for kind, lines in requests]
    assert all(len(lines) <= 4 for _, lines in model.calls)
    assert sum(len(lines) for _, lines in model.calls) == sum(len(lines) for _, lines in requests)


def test_who_has_gone_costs_no_work(model):
    async def script(batcher):
        model.free.clear()
        leaving = submit(batcher, *"abcdef")
        await begun(model, 1)
        others = submit(batcher, "x"), submit(batcher, "y")
        await asyncio.sleep(0)
        leaving.cancel()
        others[0].cancel()
        await asyncio.sleep(0)
        assert batcher.waiting == 1
        model.free.set()
        assert await others[1] == [("text", "y")]
        assert leaving.cancelled() and others[0].cancelled()

    serve(model, script)
    assert [lines for _, lines in model.calls] == [["a", "b", "c", "d"], ["y"]]


def test_an_error_is_only_its_own_requests(model):
    async def script(batcher):
        model.free.clear()
        first = submit(batcher, "first")
        await begun(model, 1)
        good, bad, late = (
            submit(batcher, "a", "b"),
            submit(batcher, "broken", "c", "d", "e", "f", "g"),
            submit(batcher, "h"),
        )
        await asyncio.sleep(0)
        model.free.set()
        assert (
            await first
            and await good == [("text", "a"), ("text", "b")]
            and await late == [("text", "h")]
        )
        with pytest.raises(ValueError, match="a broken line"):
            await bad

    serve(model, script)
    assert not any("g" in lines for _, lines in model.calls)  # the rest of it is not tried


def test_a_call_with_too_few_results_is_an_error():
    async def script(batcher):
        with pytest.raises(ValueError):
            await batcher.submit("text", ["a", "b"])

    serve(lambda kind, lines: lines[1:], script)


def test_more_lines_than_may_wait_are_refused(model):
    async def script(batcher):
        model.free.clear()
        tasks = [submit(batcher, *range(4))]
        await begun(model, 1)
        tasks.append(submit(batcher, *range(10)))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await batcher.submit("text", "x")
        assert await batcher.submit("text", []) == []
        model.free.set()
        await asyncio.gather(*tasks)
        assert await batcher.submit("text", "x")

    serve(model, script, max_waiting=10)


def test_long_lines_fill_a_call_sooner(model):
    async def script(batcher):
        await batcher.submit("text", ["aaa", "bb", "cccccccccccc", "d", "e", "f", "g", "h"])

    serve(model, script, weight=lambda kind, line: len(line) / 5)
    assert [lines for _, lines in model.calls] == [
        ["aaa", "bb"],
        ["cccccccccccc"],
        ["d", "e", "f", "g"],
        ["h"],
    ]


def test_calls_are_observed(model):
    sizes = []
    serve(model, lambda batcher: batcher.submit("text", range(10)), observe=sizes.append)
    assert sizes == [4, 4, 2]
