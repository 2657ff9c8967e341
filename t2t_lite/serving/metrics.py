"""What Prometheus reads at /metrics."""

import time
from collections.abc import Container

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LINES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The figures of one application."""

    def __init__(self):
        registry = self._registry = prometheus_client.CollectorRegistry()
        labels = ["route", "status"]
        self.requests = Counter(
            "t2t_requests",
            "Requests answered; 499: the client did not wait.",
            labels,
            registry=registry,
        )
        self.seconds = Histogram(
            "t2t_request_seconds",
            "From a request's headers to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.lines = Counter("t2t_lines", "Lines answered.", registry=registry)
        self.batch_lines = Histogram(
            "t2t_batch_lines", "Lines in a call of the model.", buckets=_LINES, registry=registry
        )
        self.waiting_lines = Gauge(
            "t2t_waiting_lines", "Lines that no call of the model has begun.", registry=registry
        )
        self.rejected = Counter(
            "t2t_rejected", "Requests refused since too many lines waited.", registry=registry
        )

    def text(self) -> bytes:
        """In Prometheus' text format, prometheus_client.CONTENT_TYPE_LATEST."""
        return prometheus_client.generate_latest(self._registry)


class Measured:
    """ASGI middleware that counts and times requests by route, "other" where there is none."""

    def __init__(self, app, metrics: Metrics, routes: Container[str]):
        self._app, self._metrics, self._routes = app, metrics, routes

    async def __call__(self, scope, receive, send) -> None:
        """Handles a request as the application does; status 500 where that raises."""
        started, status = time.perf_counter(), 500

        async def note(message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            route = scope["path"] if scope["path"] in self._routes else "other"
            self._metrics.requests.labels(route, status).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - started)
