"""The HTTP server around the application: slow clients, signals, and the end of the process."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from t2t_lite.serving.app import Service

# After the signal to stop: for requests that are already on their way to arrive, and for all to be
# answered. The process ends within 10 seconds.
_ARRIVE_SECONDS, _ANSWER_SECONDS = 0.5, 8.0


def run(service: Service, app, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serves until SIGTERM or SIGINT. `ready` is called once it does."""
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        log_config=None,
        log_level="error",
        access_log=False,
        timeout_keep_alive=service.limits.timeout,
        timeout_graceful_shutdown=_ANSWER_SECONDS + 0.5,
    )
    _Server(config, service, ready).run([listening])


class _Connection(H11Protocol):
    """A connection that is closed on a client that is too slow, by `timeout_keep_alive` seconds.

    Within that time the headers of each request have to arrive (uvicorn asks that of their first
    byte only), and the client has to read so much of its answer that the system takes more of it.
    """

    _deadline: asyncio.TimerHandle | None = None  # of the headers
    # Of the client's reading, while the system has not taken all of its answer.
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport):
        super().connection_made(transport)
        # Or pause_writing would be called only for more than 64 KiB.
        transport.set_write_buffer_limits(high=0)
        self._expect_headers()

    def data_received(self, data):
        super().data_received(data)
        self._expect_headers()

    def connection_lost(self, exc):
        super().connection_lost(exc)
        for timer in self._deadline, self._reading:
            if timer:
                timer.cancel()

    def pause_writing(self):
        super().pause_writing()
        self._expect_reading(self.transport.get_write_buffer_size())

    def resume_writing(self):
        super().resume_writing()
        self._reading.cancel()

    def _expect_reading(self, unread: int) -> None:
        """Ends the connection if after a while as many bytes still wait for the system."""

        def check():
            if (now := self.transport.get_write_buffer_size()) < unread:
                self._expect_reading(now)
            else:
                self.transport.abort()

        self._reading = self.loop.call_later(self.timeout_keep_alive, check)

    def _expect_headers(self) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and self._deadline:
            self._deadline.cancel()
            self._deadline = None
        elif not answering and not self._deadline:
            self._deadline = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]):
        super().__init__(config)
        self._service, self._ready = service, ready

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets=None):
        for server in self.servers:
            server.close()
        # uvicorn closes connections without a request at once, and with them those whose next
        # request it has not read yet. Here their clients are told first, in the answers.
        self.server_state.default_headers.append((b"connection", b"close"))
        await asyncio.sleep(_ARRIVE_SECONDS)
        await super().shutdown(sockets)

    def handle_exit(self, sig, frame):
        # Not uvicorn's, which raises the signal again when all is done, so that the exit code would
        # not be 0.
        self.should_exit = True
        asyncio.get_running_loop().call_soon_threadsafe(self._service.stop, _ANSWER_SECONDS)
