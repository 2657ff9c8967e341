"""The FastAPI application: TensorFlow Serving's routes, health, metrics and the page."""

import asyncio
import contextlib
import dataclasses
import difflib
from collections.abc import Callable, Coroutine, Iterator
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
from t2t_lite.serving.versions import States

_PAGE = Path(__file__).with_name("page")
_CLIENT_GONE = 499  # nginx's status for a client that does not wait for its answer


@dataclasses.dataclass(eq=False)
class _Served:
    """A version that is served, and how many requests it has to answer."""

    model: ServedModel
    batcher: Batcher
    requests: int = 0


class Service:
    """What the routes do with a model.

    Args:
        model: ServedModel.
        limits: Limits.
        workers: calls of the model at the same time.
        states: what becomes of the versions is noted there.
        log: is told of it.
    """

    def __init__(
        self,
        model: ServedModel,
        limits: Limits,
        workers: int = 1,
        *,
        states: States | None = None,
        log: Callable[[str], object] = lambda text: None,
    ):
        self.limits, self.metrics, self._workers = limits, Metrics(), workers
        self.states, self._log = states or States(), log
        self._served = self._serve(model)
        self._before: list[_Served] = []  # versions that still have requests to answer
        self.metrics.waiting_lines.set_function(
            lambda: sum(served.batcher.waiting for served in (self._served, *self._before))
        )
        self._stopping = False
        self._time_is_up = asyncio.Event()

    @property
    def model(self) -> ServedModel:
        """The version that new requests get."""
        return self._served.model

    def switch(self, model: ServedModel) -> None:
        """Serves another version; requests that have begun are answered by the one before."""
        before, self._served = self._served, self._serve(model)
        self._log(f"serving {model.name} version {model.version} instead of {before.model.version}")
        self.states.set(before.model.version, "UNLOADING")
        self._before.append(before)
        self._release(before)

    @contextlib.contextmanager
    def request(self) -> Iterator[_Served]:
        """The version for a request, until that has its answer."""
        served = self._served
        served.requests += 1
        try:
            yield served
        finally:
            served.requests -= 1
            self._release(served)

    def _serve(self, model: ServedModel) -> _Served:
        self.states.set(model.version, "AVAILABLE")
        batcher = Batcher(
            model,
            max_lines=self.limits.max_batch_lines,
            max_waiting=self.limits.max_waiting_lines,
            weight=model.weight,
            observe=self.metrics.batch_lines.observe,
            workers=self._workers,
        )
        return _Served(model, batcher)

    def _release(self, served: _Served) -> None:
        if served in self._before and not served.requests:
            self._before.remove(served)
            self.states.set(served.model.version, "END")
            self._log(f"version {served.model.version} is released")

    def stop(self, seconds: float) -> None:
        """Says so at /healthz, and after some seconds answers with 503 what has no answer yet."""
        self._stopping = True
        asyncio.get_running_loop().call_later(seconds, self._time_is_up.set)

    async def predict(self, request: Request) -> Response:
        """POST :predict."""
        served = request.scope["served"]
        body = await self._body(request)
        # In threads of their own, since a large body takes a while.
        prediction = await asyncio.to_thread(
            protocol.read_prediction, body, served.model, self.limits
        )
        answers = served.batcher.submit(prediction.signature, prediction.rows)
        answers = await _first(answers, self._disconnected(request), self._out_of_time())
        self.metrics.lines.inc(len(answers))
        text = await asyncio.to_thread(protocol.write, prediction, answers, served.model)
        return Response(text, media_type="application/json")

    async def draw(self, request: Request) -> Response:
        """POST :draw, {"tree": "(S ...)"} -> SVG."""
        problem = request.scope["served"].model.problem
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

    async def status(self, request: Request) -> Response:
        """GET of the model: what has become of its versions, or of the one that the path names."""
        states = self.states.as_json(request.scope["version"])
        return JSONResponse({"model_version_status": states})

    async def metadata(self, request: Request) -> Response:
        """GET /metadata of the model: TensorFlow Serving's, and the export's under "t2t_lite"."""
        model = request.scope["served"].model
        specification = {"name": model.name, "signature_name": "", "version": model.version}
        signatures = {"signature_def": model.signatures}
        return JSONResponse(
            {
                "model_spec": specification,
                "metadata": {"signature_def": signatures, "t2t_lite": model.metadata},
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


class _OneVersion:
    """ASGI middleware: a request has one version of the model, from its beginning to its end.

    That is `scope["served"]`. A path that names it, .../versions/V, becomes one that does not, and
    `scope["version"]` is V.
    """

    def __init__(self, app, service: Service):
        self._app, self._service = app, service

    async def __call__(self, scope, receive, send) -> None:
        """Handles a request as the application does."""
        with self._service.request() as served:
            path, version = scope["path"], served.model.version
            root = f"/v1/models/{served.model.name}"
            rest = path.removeprefix(f"{root}/versions/{version}")
            if rest != path and rest[:1] in ("", "/", ":"):
                path = root + rest
            else:
                version = None
            scope = {**scope, "served": served, "version": version, "path": path}
            await self._app(scope, receive, send)


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
    routes[root] = service.status, get
    routes[f"{root}/metadata"] = service.metadata, get
    routes[f"{root}:predict"] = service.predict, post
    routes[f"{root}:draw"] = service.draw, post
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
                version = f"{root}/versions/{service.model.version}"
                known = [*routes, *(path.replace(root, version) for path in routes if root in path)]
                nearest = difflib.get_close_matches(request.url.path, known, 3, 0.5) or known
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
    app.add_middleware(_OneVersion, service=service)
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
