"""The application, without a socket: routes, answers, limits, errors, health and metrics."""

import asyncio
import base64
import dataclasses
import json
import re
import shutil
import threading
import weakref

import numpy as np
import pytest
import tensorflow as tf
from untrained import SEARCH

import t2t_lite
from t2t_lite.errors import UserError
from t2t_lite.export import metadata
from t2t_lite.serving import protocol
from t2t_lite.serving.app import Service, create_app
from t2t_lite.serving.limits import MAX_SUBWORDS, Limits
from t2t_lite.serving.model import ServedModel

LINES = [
    "a slow train", "", "   ", "\u3000\u2028", "two\tbridges", " far  roofs ",
    "\U0001f600 \u6f22", "\x00", "x\ry\r", "\ufeffsnow", "\ufffd",
    "nobody on board sees the snow " * 4, "roofs", "train train",
]  # fmt: skip
SENTENCES = ["she slept .", " the  (old)\tdog\u00a0x {saw} [a] map ", "", "the map"]


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body, parse_constant=pytest.fail)


async def ask(
    app, method: str, path: str, *parts: bytes, headers: dict | None = None, stays: bool = True
) -> Answer:
    """One request, its body in parts.

    A client that does not stay goes after the last, and one without parts never sends one.
    """
    waiting = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if waiting:
        waiting[-1]["more_body"] = False
    sent = []

    async def receive():
        if waiting:
            return waiting.pop(0)
        if stays:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": b"", "server": ("test", 80), "client": ("test", 1),
        "headers": [
            (name.lower().encode(), value.encode()) for name, value in (headers or {}).items()
        ],
    }  # fmt: skip
    await app(scope, receive, send)
    start, *bodies = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(body.get("body", b"") for body in bodies))


class Client:
    """Requests to a service, on one event loop."""

    def __init__(self, service: Service):
        self.service, self.app, self.runner = service, create_app(service), asyncio.Runner()
        self.model = f"/v1/models/{service.model.name}"

    def post(self, path: str, message) -> Answer:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.runner.run(ask(self.app, "POST", self.model + path, body))

    def get(self, path: str) -> Answer:
        return self.runner.run(ask(self.app, "GET", path, b""))

    def predict(self, signature="serving_default", **message):
        """The answer's value, where all went well."""
        answer = self.post(":predict", {"signature_name": signature, **message})
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == "application/json"
        [value] = answer.json.values()
        return value

    def refusal(self, message, path=":predict") -> tuple[int, str]:
        answer = self.post(path, message)
        assert list(answer.json) == ["error"] and "\n" not in answer.json["error"]
        return answer.status, answer.json["error"]

    def metric(self, name: str) -> float:
        text = self.get("/metrics").body.decode()
        return sum(map(float, re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)))


@pytest.fixture
def client(translator):
    """A service with small limits."""
    limits = Limits(
        max_body_bytes=2000,
        max_lines=3,
        max_line_length=40,
        max_waiting_lines=3,
        max_batch_lines=1,
        timeout=0.2,
    )
    client = Client(Service(translator[1], limits))
    yield client
    client.runner.close()


@pytest.fixture(scope="module")
def numbers(translator):
    client = Client(Service(translator[1], Limits()))
    yield client
    client.runner.close()


@pytest.fixture(scope="module")
def trees(parser):
    client = Client(Service(parser[1], Limits()))
    yield client
    client.runner.close()


class Held:
    """A model that works only while it is not held."""

    def __init__(self, model):
        self.model, self.begun, self.free = model, threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, signature, rows):
        self.begun.set()
        assert self.free.wait(20)
        return self.model(signature, rows)


@pytest.fixture
def said():
    """What the service of `held` logs."""
    return []


@pytest.fixture
def held(translator, said):
    held = Held(translator[1])
    limits = Limits(max_lines=3, max_waiting_lines=3, max_batch_lines=2, timeout=5)
    client = Client(Service(held, limits, log=said.append))
    yield client, held
    held.free.set()
    client.runner.close()


def decoded(run, lines):
    return t2t_lite.load(run.path).translate(lines, n_best=3, **SEARCH)


@pytest.mark.parametrize("kind", ["numbers", "trees"])
def test_the_decoders_texts_and_scores(kind, request, translator, parser):
    client, (run, _), lines = (
        request.getfixturevalue(kind),
        *((translator, LINES) if kind == "numbers" else (parser, SENTENCES)),
    )
    wanted = decoded(run, lines)
    together, alone = (
        client.predict(instances=lines),
        [client.predict(instances=[{"text": line}])[0] for line in lines],
    )
    columns = client.predict(inputs=lines)
    assert columns["text"] == [found["text"] for found in together]
    for line, found, also, (best, *_) in zip(lines, together, alone, wanted, strict=True):
        assert found["text"] == also["text"] == best.text
        for value in (found, also):
            assert (value["score"], value["log_prob"]) == pytest.approx(
                (best.score, best.log_prob), abs=1e-4
            )
        if not line.strip():
            assert found == {"text": "", "score": 0, "log_prob": 0}
    assert len({found["text"] for found in together}) > 3
    assert kind == "numbers" or together[0]["text"].startswith("(TOP ")


@pytest.mark.parametrize("kind", ["numbers", "trees"])
def test_n_best_has_no_places_without_a_hypothesis(kind, request, translator, parser):
    client, (run, _), lines = (
        request.getfixturevalue(kind),
        *((translator, LINES) if kind == "numbers" else (parser, SENTENCES)),
    )
    found = client.predict("n_best", instances=lines)
    for value, hypotheses in zip(found, decoded(run, lines), strict=True):
        assert value["text"] == [h.text for h in hypotheses]
        assert value["score"] == pytest.approx([h.score for h in hypotheses], abs=1e-4)
        assert value["log_prob"] == pytest.approx([h.log_prob for h in hypotheses], abs=1e-4)
    assert [len(value["text"]) for value in found if value["text"] == [""]] == [1] * sum(
        not line.strip() for line in lines
    )


def test_strings_in_base64_and_the_default_signature(numbers):
    wanted = numbers.predict(instances=["a slow train", "\u6f22"])
    coded = [
        {"b64": base64.b64encode(text.encode()).decode()} for text in ("a slow train", "\u6f22")
    ]
    assert (
        numbers.predict("", instances=coded)
        == numbers.predict(instances=[{"text": text} for text in coded])
        == wanted
    )
    assert numbers.predict(inputs={"text": coded})["text"] == [value["text"] for value in wanted]


def test_ids_have_no_padding(numbers, translator):
    vocabulary = translator[0].vocabularies().source
    rows = vocabulary.encode_lines(["", "a slow train", "roofs"])
    texts = numbers.predict(inputs=["", "a slow train", "roofs"])
    found = numbers.predict("ids", inputs=[[*row, 0, 0] for row in rows])
    assert vocabulary.decode_lines(found["ids"]) == texts["text"]
    assert found["score"] == pytest.approx(texts["score"], abs=1e-4)
    assert found["ids"][0] == [] and all(0 not in row for row in found["ids"])
    assert numbers.predict("ids", instances=[{"ids": rows[1]}, []])[0]["ids"] == found["ids"][1]


def test_score(numbers, translator):
    pairs = [("a slow train", "two bridges"), ("", "snow"), ("roofs", "")]
    found = numbers.predict(
        "score", instances=[{"text": text, "target": target} for text, target in pairs]
    )
    wanted = t2t_lite.load(translator[0].path).score(pairs, alpha=SEARCH["alpha"])
    for value, hypothesis in zip(found, wanted, strict=True):
        assert (value["score"], value["log_prob"]) == pytest.approx(
            (hypothesis.score, hypothesis.log_prob), abs=1e-4
        )
    columns = numbers.predict("score", inputs=dict(zip(("text", "target"), zip(*pairs))))
    assert columns["score"] == pytest.approx([value["score"] for value in found], abs=1e-4)


def test_attention_is_that_of_the_export_without_padding(numbers, translator_export):
    rows = [
        {"text": "a slow train", "target": "two bridges over the snow"},
        {"text": "roofs", "target": "far"},
    ]
    found = numbers.predict("attention", instances=rows)
    attention = tf.saved_model.load(translator_export.folder / "1").signatures["attention"]
    for row, value in zip(rows, found, strict=True):
        result = attention(**{name: tf.constant([text]) for name, text in row.items()})
        assert value["source_pieces"] == [
            piece.decode() for piece in result["source_pieces"][0].numpy()
        ]
        assert value["target_pieces"][-1] == "</s>" and "" not in value["target_pieces"]
        np.testing.assert_allclose(value["attention"], result["attention"][0], atol=1e-5)


def test_attention_of_each_kind_and_head(numbers, translator):
    rows = [
        {"text": "a slow train", "target": "two bridges over the snow"},
        {"text": "roofs", "target": "far"},
    ]
    found = numbers.predict("attention_heads", instances=rows)
    model = translator[0].translator()
    for row, value in zip(rows, found, strict=True):
        wanted = model.attention(row["text"], row["target"])
        for name, kind in wanted.kinds().items():
            np.testing.assert_allclose(value[name], kind.weights, atol=1e-4)
        for name in "source_pieces", "target_pieces":
            assert value[name] == getattr(wanted, name)


def test_a_parsers_targets_are_its_trees(trees, parser):
    [best] = trees.predict(instances=SENTENCES[:1])
    [value] = trees.predict("score", instances=[{"text": SENTENCES[0], "target": best["text"]}])
    assert value["log_prob"] == pytest.approx(best["log_prob"], abs=1e-4)
    [value] = trees.predict("attention", instances=[{"text": SENTENCES[0], "target": best["text"]}])
    symbols = parser[0].problem.target_text(best["text"]).split()
    assert [piece.lstrip("\u2581") for piece in value["target_pieces"]] == [*symbols, "</s>"]
    status, error = trees.refusal(
        {"signature_name": "score", "instances": [{"text": "a", "target": "(S"}]}
    )
    assert status == 400 and error.startswith("instances[0].target: tree: closing brackets missing")


def test_metadata(numbers, translator):
    about = metadata.read(translator[0].path.parent / "numbers" / "1")
    assert json.loads(numbers.predict("metadata", inputs={})) == about
    assert list(map(json.loads, numbers.predict("metadata", instances=[{}, {}]))) == [about, about]
    found = numbers.get("/v1/models/numbers/metadata").json
    assert found["model_spec"] == {"name": "numbers", "signature_name": "", "version": "1"}
    assert found["metadata"]["t2t_lite"] == about
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert sorted(signatures) == [
        "attention",
        "attention_heads",
        "ids",
        "metadata",
        "n_best",
        "score",
        "serving_default",
    ]
    text = signatures["score"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING" and text["tensor_shape"]["dim"] == [
        {"size": "-1", "name": ""}
    ]
    assert numbers.get("/v1/models/numbers/versions/1/metadata").json == found


def test_status_and_versions(numbers):
    state = {
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    assert numbers.get("/v1/models/numbers").json == {"model_version_status": [state]}
    assert numbers.get("/v1/models/numbers/versions/1").json == {"model_version_status": [state]}
    assert numbers.get("/v1/models").json == {"models": ["numbers"]}
    answer = numbers.post("/versions/1:predict", {"instances": ["roofs"]})
    assert (
        answer.json["predictions"]
        == numbers.predict(instances=["roofs"])
        == [pytest.approx(answer.json["predictions"][0])]
    )


def test_what_is_not_there_is_answered_with_what_is(numbers):
    for path, near in [
        ("/v1/models/number:predict", "/v1/models/numbers:predict"),
        ("/v1/models/numbers/versions/2", "/v1/models/numbers/versions/1"),
        ("/healthz/", "/healthz"),
        ("/page/../app.py", "/"),
        ("/page/nothing.js", "/"),
    ]:
        answer = numbers.get(path)
        assert answer.status == 404 and answer.json["error"].startswith(
            f"no route {path!r}; nearest: "
        )
        assert near in answer.json["error"]
    answer = numbers.get("/v1/models/numbers:predict")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json["error"] == "GET /v1/models/numbers:predict: expected POST"


@pytest.mark.thorough
def test_ten_thousand_lines_in_one_request(numbers):
    lines = [f"{'' if number % 3 else 'snow on'} {number % 10}" for number in range(10_000)]
    found = numbers.predict(instances=lines)
    kinds = {line: value for line, value in zip(lines, found)}
    assert len(found) == 10_000 and len(kinds) < 31
    for line, value in zip(lines, found):
        assert value["text"] == kinds[line]["text"] and value["score"] == pytest.approx(
            kinds[line]["score"], abs=1e-4
        )
    assert numbers.metric("t2t_waiting_lines") == 0


@pytest.mark.thorough
def test_two_thousand_words(numbers):
    [value] = numbers.predict(instances=["snow on far roofs " * 500])
    assert np.isfinite(value["score"])
    status, error = numbers.refusal({"instances": ["a", "\U0001f600" * (MAX_SUBWORDS // 4 + 1)]})
    assert status == 400 and re.fullmatch(
        r"instances\[1\].text: 6,00\d sub-words; expected at most 6,000", error
    )
    text = "snow on far roofs " * 200
    status, error = numbers.refusal(
        {"signature_name": "attention", "instances": [{"text": text, "target": text}]}
    )
    assert (
        status == 400
        and error.startswith("attention: ")
        and error.endswith("expected at most 250,000 in a request")
    )


def test_a_body_nested_too_deeply_is_one_line():
    with pytest.raises(UserError, match="^the body is nested too deeply; expected a JSON object$"):
        protocol.read_object(b"[" * 1_000_000)


def test_mistakes_are_one_line(client):
    text, target = {"signature_name": "score"}, {"text": "a", "target": "b"}
    for message, error in [
        (b"", "the body is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"instances": ["\xff"]}', "the body is not UTF-8 (byte 16); expected JSON in UTF-8"),
        (b'{"instances": [NaN]}', "the body is not JSON: NaN is not a JSON number"),
        (
            b'{"instances": [' + b"1" * 1900 + b"]}",
            "instances[0].text: a number; expected a string",
        ),
        ([], "the body is a list; expected a JSON object"),
        ({}, 'expected either "instances", a list of rows, or "inputs", columns'),
        (
            {"instances": [], "inputs": []},
            'expected either "instances", a list of rows, or "inputs", columns',
        ),
        ({"instance": ["a"]}, "unknown key 'instance'; nearest: instances"),
        (
            {"signature_name": "nbest", "instances": ["a"]},
            "unknown signature 'nbest'; nearest: n_best",
        ),
        ({"signature_name": 1, "instances": ["a"]}, "signature_name: a number; expected a string"),
        (
            {"instances": [{"b64": "/w=="}]},
            "instances[0].text.b64: byte 0 is not UTF-8; expected UTF-8 text in base64",
        ),
        ({"inputs": [{"b64": "a"}]}, "inputs.text[0].b64: expected a string in base64"),
        ({"inputs": [{"b64": 1}]}, "inputs.text[0].b64: expected a string in base64"),
        ({"instances": "a"}, "instances: a string; expected a list"),
        ({"instances": ["a", None]}, "instances[1].text: null; expected a string"),
        (
            {"instances": ["a\n", "b\nc"]},
            "instances[1].text: a line ends at character 2; expected one line",
        ),
        (
            {"instances": ["a", "\ud83d"]},
            "instances[1].text: '\\ud83d' is half a character (a lone surrogate); expected UTF-8",
        ),
        ({"instances": ["a", "b" * 41]}, "instances[1].text: 41 characters; expected at most 40"),
        (
            {"instances": ["a", {"texts": "b"}]},
            "instances[1]: unknown input 'texts'; expected text",
        ),
        ({"instances": ["a"] * 4}, "4 lines; expected at most 3 in a request"),
        ({"inputs": {"text": "a"}}, "inputs.text: a string; expected a list"),
        ({"inputs": {"text": ["a", True]}}, "inputs.text[1]: true or false; expected a string"),
        (
            {**text, "instances": ["a"]},
            "instances[0]: a string; expected an object of target and text",
        ),
        (
            {**text, "instances": [target, {"text": "a"}]},
            "instances[1]: no target; expected target and text",
        ),
        ({**text, "inputs": ["a"]}, "inputs: a list; expected an object of target and text"),
        (
            {**text, "inputs": {"text": ["a"], "target": []}},
            "inputs: columns of 0 and 1 values; expected as many in each",
        ),
        (
            {"signature_name": "ids", "inputs": [[3, 1], [3, 1.0]]},
            "inputs.ids[1]: expected a list of whole numbers",
        ),
        (
            {"signature_name": "ids", "inputs": [[True, 1]]},
            "inputs.ids[0]: expected a list of whole numbers",
        ),
        (
            {"signature_name": "ids", "inputs": [[3] * 41]},
            "inputs.ids[0]: 41 ids; expected at most 40",
        ),
        (
            {"signature_name": "metadata", "inputs": ["a"]},
            "inputs: a list; expected an object of nothing",
        ),
        *(
            (
                {"signature_name": "ids", "inputs": [row]},
                "inputs.ids[0]: expected ids from 2 to 339, then 1, the end of the sentence",
            )
            for row in ([3], [340, 1], [-1, 1], [0, 1], [1, 1])
        ),
    ]:
        assert client.refusal(message) == (400, error)
    assert client.predict(instances=[]) == [] and client.predict(inputs=[]) == {
        "text": [],
        "score": [],
        "log_prob": [],
    }


def test_what_the_model_refuses_is_a_mistake(translator):
    with pytest.raises(UserError, match="the model refuses this: "):
        translator[1]("ids", [{"ids": [340, 1]}])


def test_a_body_too_large_is_refused_and_not_kept(client):
    path = f"{client.model}:predict"
    for parts in ([b" " * 2001], [b" " * 500] * 5, [b" " * 100_000] * 20):
        answer = client.runner.run(ask(client.app, "POST", path, *parts))
        assert (answer.status, answer.json["error"]) == (
            413,
            "the body is too large; expected at most 2,000 bytes",
        )
    asking = {"Expect": "100-continue", "Content-Length": "2001"}
    answer = client.runner.run(ask(client.app, "POST", path, headers=asking))  # not even read
    assert answer.status == 413
    assert client.post(":predict", b'{"instances": []}' + b" " * 1983).status == 200


def test_a_client_that_does_not_send_is_refused(client):
    answer = client.runner.run(ask(client.app, "POST", f"{client.model}:predict"))
    assert (answer.status, answer.headers["connection"]) == (408, "close")
    assert answer.json["error"] == "the request did not arrive within 0.2 s"


def test_too_many_lines_wait(held):
    client, model = held
    body = json.dumps({"instances": ["a", "b", "c"]}).encode()

    async def script():
        first = asyncio.create_task(ask(client.app, "POST", f"{client.model}:predict", body))
        await asyncio.to_thread(model.begun.wait, 20)
        refused = await ask(client.app, "POST", f"{client.model}:predict", body)
        model.free.set()
        return await first, refused

    answer, refused = client.runner.run(script())
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert refused.json["error"] == "too many lines wait; try again later"
    assert answer.status == 200 and client.metric("t2t_rejected_total") == 1


def test_a_client_that_has_gone_costs_no_work(held):
    client, model = held
    body = json.dumps({"instances": ["a", "b", "c"]}).encode()

    async def script():
        path = f"{client.model}:predict"
        first = asyncio.create_task(
            ask(client.app, "POST", path, json.dumps({"instances": ["a"]}).encode())
        )
        await asyncio.to_thread(model.begun.wait, 20)
        gone = await ask(client.app, "POST", path, body, stays=False)
        metrics = await ask(client.app, "GET", "/metrics", b"")
        assert gone.status == 499 and b"\nt2t_waiting_lines 0.0\n" in metrics.body
        model.free.set()
        return await first

    assert client.runner.run(script()).status == 200
    assert client.metric("t2t_batch_lines_sum") == 1


def test_stopping(held):
    client, model = held
    assert client.get("/healthz").status == 200

    async def script():
        path = f"{client.model}:predict"
        unanswered = asyncio.create_task(
            ask(client.app, "POST", path, json.dumps({"instances": ["a"]}).encode())
        )
        sending = asyncio.create_task(ask(client.app, "POST", path))
        await asyncio.to_thread(model.begun.wait, 20)
        client.service.stop(0.1)
        return await ask(client.app, "GET", "/healthz", b""), await unanswered, await sending

    health, *others = client.runner.run(script())
    assert (health.status, health.json) == (503, {"status": "stopping"})
    assert [(answer.status, answer.json["error"]) for answer in others] == [
        (503, "the server stops")
    ] * 2


def test_an_error_of_ours_is_500(translator):
    class Broken(Held):
        def __call__(self, signature, rows):
            raise KeyError("oh")

    client = Client(Service(Broken(translator[1]), Limits()))
    sent = {}

    async def script():
        with pytest.raises(KeyError):  # for the log
            await client.app(
                {
                    "type": "http",
                    "method": "POST",
                    "path": f"{client.model}:predict",
                    "headers": [],
                    "query_string": b"",
                },
                receive,
                send,
            )

    async def receive():
        if not sent:
            sent["body"] = b""
            return {"type": "http.request", "body": b'{"instances": ["a"]}', "more_body": False}
        await asyncio.Event().wait()

    async def send(message):
        sent.update(message)

    client.runner.run(script())
    client.runner.close()
    assert (sent["status"], json.loads(sent["body"])) == (
        500,
        {"error": "internal error; the server's log says more"},
    )


def test_draw(trees, numbers):
    tree = "(TOP (S (NP (PRP she)) (VP (VBD slept))))"
    answer = trees.post(":draw", {"tree": tree})
    assert (answer.status, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.body.startswith(b"<svg ") and answer.body.count(b"<text") == 8
    assert trees.refusal({"tree": "(S"}, ":draw")[0] == 400
    assert trees.refusal({"tree": " "}, ":draw") == (
        400,
        "tree: empty; expected one, such as (S (NN cat))",
    )
    assert trees.refusal({}, ":draw") == (400, "tree: null; expected a string")
    assert trees.refusal({"tree": "(S " * 3000 + "(X x)" + ")" * 3000}, ":draw") == (
        400,
        "tree: nested too deeply to be drawn",
    )
    status, error = numbers.refusal({"tree": tree}, ":draw")
    assert status == 404 and "problem spelled_numbers_ende are not trees" in error


def test_metrics_count_by_route_and_status(client):
    route = f"{client.model}:predict"
    client.predict(instances=["a", "b"])
    client.refusal({})
    client.get("/nothing"), client.get("/else")
    assert client.metric(f't2t_requests_total{{route="{route}",status="200"}}') == 1
    assert client.metric(f't2t_requests_total{{route="{route}",status="400"}}') == 1
    assert client.metric('t2t_requests_total{route="other",status="404"}') == 2
    assert client.metric("t2t_lines_total") == 2
    assert client.metric("t2t_batch_lines_count") == 2 and client.metric("t2t_batch_lines_sum") == 2
    assert client.metric(f't2t_request_seconds_count{{route="{route}"}}') == 2


class Version2:
    """The same model as another version."""

    version = "2"

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)

    def __call__(self, signature, rows):
        return [{**row, "text": "of version 2"} for row in self._model(signature, rows)]


def test_another_version_while_requests_wait_for_the_one_before(held, said):
    """They get its answers; new ones get the other's, which is the only one with a route then."""
    client, model = held
    root = client.model

    async def switched():
        body = json.dumps({"instances": ["a slow train"]}).encode()
        waiting = asyncio.create_task(ask(client.app, "POST", f"{root}/versions/1:predict", body))
        await asyncio.to_thread(model.begun.wait, 20)
        client.service.switch(Version2(model.model))
        during = await ask(client.app, "GET", root, b"")
        new = await ask(client.app, "POST", f"{root}:predict", body)
        named = await ask(client.app, "POST", f"{root}/versions/2:predict", body)
        gone = await ask(client.app, "POST", f"{root}/versions/1:predict", body)
        model.free.set()
        return await waiting, during, new, named, gone

    old, during, new, named, gone = client.runner.run(switched())
    assert old.status == 200 and old.json["predictions"][0]["text"] != "of version 2"
    for answer in new, named:
        assert answer.json["predictions"][0]["text"] == "of version 2"
    assert gone.status == 404 and f"{root}/versions/2:predict" in gone.json["error"]

    def states(answer):
        return [(v["version"], v["state"]) for v in answer.json["model_version_status"]]

    assert states(during) == [("2", "AVAILABLE"), ("1", "UNLOADING")]
    assert states(client.get(root)) == [("2", "AVAILABLE"), ("1", "END")]
    assert states(client.get(f"{root}/versions/2")) == [("2", "AVAILABLE")]
    assert client.get(f"{root}/metadata").json["model_spec"]["version"] == "2"
    assert said == ["serving numbers version 2 instead of 1", "version 1 is released"]


def test_a_version_without_requests_is_released_at_once(translator):
    said, model = [], Held(translator[1])
    model.free.set()
    client = Client(Service(model, Limits(), log=said.append))
    client.predict(instances=["roofs"])
    gone = weakref.ref(model)
    del model
    client.service.switch(Version2(translator[1]))
    assert said[1:] == ["version 1 is released"]
    assert client.predict(instances=["roofs"])[0]["text"] == "of version 2"
    client.runner.close()  # and with it the threads that may still be at the end of a call
    assert gone() is None


def test_a_version_that_is_not_whole(translator_export, tmp_path):
    for part, content in [
        ("saved_model.pb", b""),
        ("saved_model.pb", None),
        ("variables", None),
        ("variables/variables.index", None),
        ("assets.extra", None),
        ("assets/vocab.model", None),
        ("variables/variables.data-00000-of-00001", b"short"),
        ("saved_model.pb", b"not a model"),
    ]:
        folder = shutil.copytree(translator_export.folder / "1", tmp_path / "1")
        if content is not None:
            (folder / part).write_bytes(content)
        elif (folder / part).is_dir():
            shutil.rmtree(folder / part)
        else:
            (folder / part).unlink()
        with pytest.raises(UserError, match=str(folder)) as error:
            ServedModel(folder, "numbers")
        assert "\n" not in str(error.value)
        shutil.rmtree(folder)
