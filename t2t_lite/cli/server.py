"""t2t-server: answers requests over HTTP with an export."""

import argparse
import dataclasses
import os
import socket
import sys

from t2t_lite import registry
from t2t_lite.cli import arguments
from t2t_lite.errors import UserError
from t2t_lite.runtime import start_tensorflow
from t2t_lite.serving.limits import Limits

_ROUTES = """\
routes, as TensorFlow Serving's (https://www.tensorflow.org/tfx/serving/api_rest); /versions/V may
follow NAME:
  POST /v1/models/NAME:predict   {"signature_name": "serving_default", "instances": ["a line", ...]}
                                 -> {"predictions": [...]}; or {"inputs": ...} -> {"outputs": ...};
                                 signatures: serving_default, n_best, ids, score, attention,
                                 attention_heads, metadata (see t2t-exporter --help)
  GET  /v1/models/NAME           its versions' states
  GET  /v1/models/NAME/metadata  its signatures, search and hyperparameters
  POST /v1/models/NAME:draw      {"tree": "(S ...)"} -> SVG, of parsers
  GET  /healthz  /metrics  /     health, Prometheus' figures, a page to try the model
A parsing model's texts are trees, in the targets of score and attention too. n_best has no places
without a hypothesis, ids and attentions no padding. Errors are {"error": "..."}.

example: t2t-server --export_dir models/ende
         curl -d '{"instances": ["two hundred six"]}' localhost:8501/v1/models/ende:predict
"""


def parser() -> arguments.Parser:
    """The command's flags."""
    parser = arguments.Parser(
        "Serves the newest version of an export over HTTP, and newer ones as they come. SIGTERM "
        "and Ctrl-C end it, after what it has accepted is answered.",
        epilog=_ROUTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--export_dir", metavar="DIR", required=True, help="what t2t-exporter wrote: DIR/<version>/"
    )
    parser.add_argument("--name", help="in the routes (default: the folder's name)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen at; 0.0.0.0: all (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8501,
        metavar="N",
        help="0: a free one, which is told (default: 8501)",
    )
    parser.add_argument(
        "--poll_seconds",
        type=float,
        default=1.0,
        metavar="S",
        help="how often to look for a newer version; 0: never (default: 1)",
    )
    arguments.add_usr_dir(parser)
    arguments.add_threads(parser, "all, a call of the model for each")
    group = parser.add_argument_group(
        "limits", "What goes beyond is refused: 400, 408, 413, or 503 with Retry-After."
    )

    def limit(name: str, metavar: str, help: str) -> None:
        default = getattr(Limits, name)
        group.add_argument(
            f"--{name}",
            type=type(default),
            default=default,
            metavar=metavar,
            help=f"{help} (default: {default})",
        )

    limit("max_body_bytes", "N", "size of a request")
    limit("max_lines", "N", "lines of a request")
    limit("max_line_length", "N", "characters of a line")
    limit("max_waiting_lines", "N", "lines of all requests that wait for the model")
    limit("max_batch_lines", "N", "lines that the model gets at once")
    limit(
        "timeout",
        "S",
        "seconds that a client may take to send a request, and may read nothing of the answer",
    )
    return parser


def serve() -> None:
    """Runs the command."""
    args = parser().parse_args()
    if not 0 <= args.poll_seconds < 1e6:
        raise UserError(f"--poll_seconds={args.poll_seconds:g}: expected at least 0")
    limits = Limits(
        **{field.name: getattr(args, field.name) for field in dataclasses.fields(Limits)}
    )
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(
            f'{error.name} is missing; expected an installation with pip install "t2t_lite[serve]"'
        ) from None
    listening = _listen(args.host, args.port)  # before the model is loaded, which takes longer
    workers = start_tensorflow(args.threads, together=False)
    from t2t_lite.serving.app import Service, create_app
    from t2t_lite.serving.http import run
    from t2t_lite.serving.model import ServedModel
    from t2t_lite.serving.versions import Versions, name_of

    registry.load_plugins(args.usr_dir)
    name, log = name_of(args.export_dir, args.name), arguments.log
    versions = Versions(
        args.export_dir, lambda folder: ServedModel(folder, name, args.usr_dir), log
    )
    service = Service(versions.newest(), limits, workers, states=versions.states, log=log)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def ready() -> None:
        log(f"serving {name} version {service.model.version} at {address}")
        if args.poll_seconds:
            versions.watch(service.switch, args.poll_seconds)

    # A copy, since the original is silenced while TensorFlow loads another version.
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    run(service, create_app(service), listening, ready)
    # A call of the model may still run, for nobody any more; Python would wait for its thread.
    sys.stderr.flush()
    os._exit(0)


def _listen(host: str, port: int) -> socket.socket:
    """A socket at that address. Raises UserError where there can be none."""
    if not 0 <= port < 1 << 16:  # of a larger one, only 16 bits would be taken
        raise UserError(f"--port={port}: expected 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # clients wait while the model is loaded, and nobody else gets the port
    except OSError as error:
        raise UserError(
            f"--host {host} --port {port}: {error.strerror}; "
            "expected an address of this machine and a free port"
        ) from None
    return listening


def main() -> None:
    """The command t2t-server."""
    sys.exit(arguments.run(serve, "t2t-server"))
