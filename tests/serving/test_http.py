"""The connection's own timers, on a transport that only counts."""

import asyncio
import types

import pytest

pytest.importorskip("uvicorn", reason="no package uvicorn")
from t2t_lite.serving.http import _Connection  # noqa: E402


class Transport:
    def __init__(self, unread: int):
        self.unread, self.aborted = unread, False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.aborted = True


def paused(transport: Transport) -> _Connection:
    """A connection with a full buffer. Its client has 0.2 seconds."""
    connection = object.__new__(_Connection)
    connection.loop, connection.timeout_keep_alive, connection.transport = (
        asyncio.get_running_loop(),
        0.2,
        transport,
    )
    connection.flow = types.SimpleNamespace(pause_writing=lambda: None, resume_writing=lambda: None)
    connection.pause_writing()
    return connection


def test_who_reads_nothing_is_cut():
    async def read_nothing():
        transport = Transport(5)
        paused(transport)
        await asyncio.sleep(1)
        return transport.aborted

    assert asyncio.run(read_nothing())


def test_who_reads_a_little_at_a_time_is_not():
    async def read_slowly():
        transport = Transport(1000)
        connection = paused(transport)
        for _ in range(100):
            await asyncio.sleep(0.01)
            transport.unread -= 1
        lasted = not transport.aborted
        connection.resume_writing()
        await asyncio.sleep(0.5)
        return lasted and not transport.aborted

    assert asyncio.run(read_slowly())
