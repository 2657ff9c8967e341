"""The FastAPI application: TensorFlow Serving's routes, health, metrics and the page."""

import asyncio
import difflib
from collections.abc import Coroutine
from pathlib import Path

import prometheus_client
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

from t2t_lite.errors import UserError
from t2t_lite.problem import Drawing
from t2t_lite.serving import protocol
from t2t_lite.serving.batching import Batcher, Overloaded
from t2t_lite.serving.limits import Limits
from t2t_lite.serving.metrics import Measured, Metrics
from t2t_lite.serving.model import ServedModel

_PAGE = Path(__file__).with_name("page")
_CLIENT_GONE = 499  # nginx's status for a client that does not wait for its answer


class Service:
    """What the routes do with a model.

    Args:
        model: ServedModel.
        limits: Limits.
        workers: calls of the model at the same time.
    """

    def __init__(self, model: ServedModel, limits: Limits, workers: int = 1):
        self.model, self.limits, self.metrics = model, limits, Metrics()
        self._batcher = Batcher(
            model,
            max_lines=limits.max_batch_lines,
            max_waiting=limits.max_waiting_lines,
            weight=model.weight,
            observe=self.metrics.batch_lines.observe,
            workers=workers,
        )
        self.metrics.waiting_lines.set_function(lambda: self._batcher.waiting)
        self._stopping = False
        self._time_is_up = asyncio.Event()

    def stop(self, seconds: float) -> None:
        """Says so at /healthz, and after some seconds answers with 503 what has no answer yet."""
        self._stopping = True
        asyncio.get_running_loop().call_later(seconds, self._time_is_up.set)

    async def predict(self, request: Request) -> Response:
        """POST :predict."""
        body = await self._body(request)
        # In threads of their own, since a large body takes a while.
        prediction = await asyncio.to_thread(
            protocol.read_prediction, body, self.model, self.limits
        )
        answers = self._batcher.submit(prediction.signature, prediction.rows)
        answers = await _first(answers, self._disconnected(request), self._out_of_time())
        self.metrics.lines.inc(len(answers))
        text = await asyncio.to_thread(protocol.write, prediction, answers, self.model)
        return Response(text, media_type="application/json")

    async def draw(self, request: Request) -> Response:
        """POST :draw, {"tree": "(S ...)"} -> SVG."""
        problem = self.model.problem
        if not isinstance(problem, Drawing):
            raise HTTPException(
                404, f"outputs of problem {problem.name} are not trees; expected a parser's model"
            )
        message = protocol.read_object(await self._body(request))
        tree = protocol.read_text(message.get("tree"), "tree", self.limits)
        if not tree.strip():
            raise UserError("tree: empty; expected one, such as (S (NN cat))")
        try:
            picture = await asyncio.to_thread(problem.svg, tree)
        except RecursionError:
            raise UserError("tree: nested too deeply to be drawn") from None
        return Response(picture, media_type="image/svg+xml")

    async def models(self) -> Response:
        """GET /v1/models, which KServe has: the names."""
        return JSONResponse({"models": [self.model.name]})

    async def status(self) -> Response:
        """GET of the model."""
        status = {"error_code": "OK", "error_message": ""}
        versions = [{"version": self.model.version, "state": "AVAILABLE", "status": status}]
        return JSONResponse({"model_version_status": versions})

    async def metadata(self) -> Response:
        """GET /metadata of the model: TensorFlow Serving's, and the export's under "t2t_lite"."""
        specification = {
            "name": self.model.name,
            "signature_name": "",
            "version": self.model.version,
        }
        signatures = {"signature_def": self.model.signatures}
        return JSONResponse(
            {
                "model_spec": specification,
                "metadata": {"signature_def": signatures, "t2t_lite": self.model.metadata},
            }
        )

    async def healthz(self) -> Response:
        """GET /healthz."""
        return JSONResponse(
            {"status": "stopping" if self._stopping else "ok"}, 503 if self._stopping else 200
        )

    async def prometheus(self) -> Response:
        """GET /metrics."""
        return Response(self.metrics.text(), media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def page(self) -> Response:
        """GET /."""
        return FileResponse(_PAGE / "index.html")

    async def _body(self, request: Request) -> bytes:
        """The body of a request. Raises HTTPException 408, 413, 503."""
        try:
            async with asyncio.timeout(self.limits.timeout):
                return await _first(self._read(request), self._out_of_time())
        except TimeoutError:
            raise HTTPException(
                408,
                f"the request did not arrive within {self.limits.timeout:g} s",
                {"Connection": "close"},
            ) from None

    async def _read(self, request: Request) -> bytes:
        limit = self.limits.max_body_bytes
        too_large = HTTPException(413, f"the body is too large; expected at most {limit:,} bytes")
        if "expect" in request.headers and int(request.headers.get("content-length", 0)) > limit:
            raise too_large  # this client asks before it sends
        body = bytearray()
        size = 0
        async for part in request.stream():
            size += len(part)
            if size <= limit:
                body += part
            else:
                body.clear()
        if size > limit:  # said only now, since few clients listen while they send
            raise too_large
        return bytes(body)

    async def _disconnected(self, request: Request) -> None:
        """Raises ClientDisconnect when the client has gone. The body must have been read before."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        raise ClientDisconnect

    async def _out_of_time(self) -> None:
        """Raises HTTPException when the server has to stop."""
        await self._time_is_up.wait()
        raise HTTPException(503, "the server stops")


def create_app(service: Service) -> FastAPI:
    """The application of a service, ready for an ASGI server."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    root = f"/v1/models/{service.model.name}"
    get, post = ["GET", "HEAD"], ["POST"]
    routes = {
        "/": (service.page, get),
        "/healthz": (service.healthz, get),
        "/metrics": (service.prometheus, get),
        "/v1/models": (service.models, get),
    }
    for model in (root, f"{root}/versions/{service.model.version}"):
        routes[model] = service.status, get
        routes[f"{model}/metadata"] = service.metadata, get
        routes[f"{model}:predict"] = service.predict, post
        routes[f"{model}:draw"] = service.draw, post
    for path, (function, methods) in routes.items():
        app.add_api_route(path, function, methods=methods)
    app.mount("/page", StaticFiles(directory=_PAGE, check_dir=False))

    async def refuse(request: Request, error: Exception) -> Response:
        headers = getattr(error, "headers", None)
        match error:
            case UserError():
                return _error(400, str(error))
            case ClientDisconnect():
                return _error(_CLIENT_GONE, "the client has gone")
            case Overloaded():
                service.metrics.rejected.inc()
                return _error(503, "too many lines wait; try again later", {"Retry-After": "1"})
            case StarletteHTTPException(status_code=404) if request.url.path not in routes:
                nearest = difflib.get_close_matches(request.url.path, routes, 3, 0.5) or routes
                return _error(404, f"no route {request.url.path!r}; nearest: {', '.join(nearest)}")
            case StarletteHTTPException(status_code=405):
                allowed = (headers or {}).get("Allow", "GET, HEAD")  # not said for the page's files
                return _error(
                    405, f"{request.method} {request.url.path}: expected {allowed}", headers
                )
            case StarletteHTTPException():
                return _error(error.status_code, error.detail, headers)
        return _error(500, "internal error; the server's log says more")

    for kind in (UserError, ClientDisconnect, Overloaded, StarletteHTTPException, Exception):
        app.add_exception_handler(kind, refuse)
    app.add_middleware(Measured, metrics=service.metrics, routes=routes)
    return app


def _error(status: int, message: str, headers: dict | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers)


async def _first(wanted: Coroutine, *others: Coroutine):
    """What `wanted` returns or raises, unless one of the others, which only raise, is first."""
    tasks = [asyncio.create_task(coroutine) for coroutine in (wanted, *others)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
