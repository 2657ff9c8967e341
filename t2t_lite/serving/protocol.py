"""TensorFlow Serving's JSON: a request's body to rows, answers to a body.

Reference: https://www.tensorflow.org/tfx/serving/api_rest

Row form, {"instances": [...]} -> {"predictions": [...]}: an instance is an object of the
signature's inputs, or, where it has but one, its value; a prediction is an object of the outputs,
or the value of the only one. Column form, {"inputs": ...} -> {"outputs": ...}: lists, one value a
row, by the names of inputs and outputs, or the list of the only one. A string that is an input may
also be {"b64": its bytes in base64}.
"""

import base64
import dataclasses
import json
from collections.abc import Iterable

from t2t_lite.data.tokenizer import EOS, PAD, Vocabulary
from t2t_lite.errors import UserError, unknown
from t2t_lite.files import one_line
from t2t_lite.serving.limits import MAX_ATTENTION, MAX_SUBWORDS, Limits
from t2t_lite.serving.model import ATTENTION, ServedModel

_BASE64 = "b64"
_QUOTED = 40  # characters of a wrong name that an error repeats
_TYPES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What a request asks for: the rows' outputs by one signature, as rows or as columns."""

    signature: str
    rows: list[dict]  # inputs by name
    columns: bool


def read_object(body: bytes) -> dict:
    """A JSON object. Raises UserError for anything else."""
    try:
        message = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise UserError(
            f"the body is not UTF-8 (byte {error.start}); expected JSON in UTF-8"
        ) from None
    except RecursionError:
        raise UserError("the body is nested too deeply; expected a JSON object") from None
    except ValueError as error:
        raise UserError(f"the body is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise UserError(f"the body is {_type(message)}; expected a JSON object")
    return message


def read_text(value, place: str, limits: Limits) -> str:
    """A text that is not too long and can be written in UTF-8.

    Raises UserError, naming the place, for any other value.
    """
    if isinstance(value, dict) and value.keys() == {_BASE64}:
        value = _decode_base64(value[_BASE64], f"{place}.{_BASE64}")
    if not isinstance(value, str):
        raise UserError(f"{place}: {_type(value)}; expected a string")
    if len(value) > limits.max_line_length:
        raise UserError(
            f"{place}: {len(value):,} characters; expected at most {limits.max_line_length:,}"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{place}: {value[error.start]!r} is half a character (a lone surrogate); "
            "expected UTF-8"
        ) from None
    return value


def read_prediction(body: bytes, model: ServedModel, limits: Limits) -> Prediction:
    """The body of a `:predict`. Raises UserError, naming the place, for what is wrong with it."""
    message = read_object(body)
    for key in message:
        if key not in ("signature_name", "instances", "inputs"):
            raise unknown("key", key[:_QUOTED], ("signature_name", "instances", "inputs"))
    signature = message.get("signature_name", "")
    if not isinstance(signature, str):
        raise UserError(f"signature_name: {_type(signature)}; expected a string")
    signature = signature or "serving_default"
    if signature not in model.signatures:
        raise unknown("signature", signature[:_QUOTED], model.signatures)
    if ("instances" in message) == ("inputs" in message):
        raise UserError('expected either "instances", a list of rows, or "inputs", columns')
    names = sorted(model.signatures[signature].get("inputs", ()))
    columns = "inputs" in message
    rows = (
        _columns(message["inputs"], names) if columns else _instances(message["instances"], names)
    )
    if len(rows) > limits.max_lines:
        raise UserError(f"{len(rows):,} lines; expected at most {limits.max_lines:,} in a request")
    rows = [
        {
            name: _input(
                name,
                value,
                f"inputs.{name}[{number}]" if columns else f"instances[{number}].{name}",
                model,
                limits,
            )
            for name, value in row.items()
        }
        for number, row in enumerate(rows)
    ]
    if signature in ATTENTION:
        _check_attention(signature, rows, model)
    return Prediction(signature, rows, columns)


def write(prediction: Prediction, answers: list[dict], model: ServedModel) -> bytes:
    """The body of the answer."""
    names = sorted(model.signatures[prediction.signature]["outputs"])
    if not prediction.columns:
        predictions = (answer if len(names) > 1 else answer[names[0]] for answer in answers)
        return b'{"predictions": %b}\n' % _list(predictions)
    if not model.signatures[prediction.signature].get("inputs"):
        return b'{"outputs": %b}\n' % _json(answers[0][names[0]])
    columns = {name: _list(answer[name] for answer in answers) for name in names}
    if len(names) == 1:
        return b'{"outputs": %b}\n' % columns[names[0]]
    return b'{"outputs": {%b}}\n' % b", ".join(
        b"%b: %b" % (_json(name), column) for name, column in columns.items()
    )


def _decode_base64(value, place: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{place}: byte {error.start} is not UTF-8; expected UTF-8 text in base64"
        ) from None
    except (TypeError, ValueError):
        raise UserError(f"{place}: expected a string in base64") from None


def _instances(instances, names: list[str]) -> list[dict]:
    if not isinstance(instances, list):
        raise UserError(f"instances: {_type(instances)}; expected a list")
    rows = []
    for number, instance in enumerate(instances):
        if not isinstance(instance, dict) or len(names) == 1 and instance.keys() == {_BASE64}:
            if len(names) != 1:
                raise UserError(
                    f"instances[{number}]: {_type(instance)}; "
                    f"expected an object of {_listed(names)}"
                )
            instance = {names[0]: instance}
        _check_names(instance, names, f"instances[{number}]")
        rows.append(instance)
    return rows


def _columns(inputs, names: list[str]) -> list[dict]:
    if not isinstance(inputs, dict):
        if len(names) != 1:
            raise UserError(f"inputs: {_type(inputs)}; expected an object of {_listed(names)}")
        inputs = {names[0]: inputs}
    _check_names(inputs, names, "inputs")
    if not names:
        return [{}]
    for name, column in inputs.items():
        if not isinstance(column, list):
            raise UserError(f"inputs.{name}: {_type(column)}; expected a list")
    lengths = {len(column) for column in inputs.values()}
    if len(lengths) > 1:
        raise UserError(
            f"inputs: columns of {_listed(map(str, sorted(lengths)))} values; "
            "expected as many in each"
        )
    return [dict(zip(inputs, values)) for values in zip(*inputs.values())]


def _check_names(found: dict, names: list[str], place: str) -> None:
    for name in found:
        if name not in names:
            raise UserError(f"{place}: unknown input {name[:_QUOTED]!r}; expected {_listed(names)}")
    for name in names:
        if name not in found:
            raise UserError(f"{place}: no {name}; expected {_listed(names)}")


def _input(name: str, value, place: str, model: ServedModel, limits: Limits) -> str | list[int]:
    """The value as the model takes it; a target is given as the server writes outputs."""
    if name == "ids":
        return _ids(value, place, model.vocabularies.source, limits)
    text = one_line(read_text(value, place, limits), place)
    if name == "target":
        try:
            text = model.problem.target_text(text) if text.strip() else text
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
    if (count := _subwords(name, text, model, MAX_SUBWORDS)) > MAX_SUBWORDS:
        raise UserError(f"{place}: {count:,} sub-words; expected at most {MAX_SUBWORDS:,}")
    return text


def _ids(value, place: str, vocabulary: Vocabulary, limits: Limits) -> list[int]:
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise UserError(f"{place}: expected a list of whole numbers")
    if len(value) > (most := min(limits.max_line_length, MAX_SUBWORDS)):
        raise UserError(f"{place}: {len(value):,} ids; expected at most {most:,}")
    while value and value[-1] == PAD:
        value = value[:-1]
    if value and (
        value[-1] != EOS or not all(EOS < number < vocabulary.size for number in value[:-1])
    ):
        raise UserError(
            f"{place}: expected ids from {EOS + 1} to {vocabulary.size - 1}, then {EOS}, "
            "the end of the sentence"
        )
    return value


def _check_attention(signature: str, rows: list[dict], model: ServedModel) -> None:
    weights = 0
    for row in rows:
        source, target = (_subwords(name, row[name], model) for name in ("text", "target"))
        if signature == "attention":
            weights += source * target
        else:
            weights += model.heads * (source**2 + target**2 + source * target)
    if weights > MAX_ATTENTION:
        raise UserError(
            f"{signature}: {weights:,} weights in each layer; "
            f"expected at most {MAX_ATTENTION:,} in a request"
        )


def _subwords(name: str, text: str, model: ServedModel, few: int = 0) -> int:
    """The number of an input's sub-words, its end included, or a bound that is at most `few`."""
    text = model.problem.input_text(text) if name == "text" else text
    # A sub-word has a byte at least, but for the end and a space put before the text.
    bound = len(text.encode()) + 2
    if bound <= few:
        return bound
    vocabulary = model.vocabularies.source if name == "text" else model.vocabularies.target
    return len(vocabulary.encode_lines([text])[0])


def _list(values: Iterable) -> bytes:
    """One by one, so that a long list leaves other threads their turns."""
    return b"[%b]" % b", ".join(map(_json, values))


def _json(value) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _type(value) -> str:
    return _TYPES.get(type(value), "a number")


def _listed(names: Iterable[str]) -> str:
    return " and ".join(names) or "nothing"


def _no_number(name: str):
    raise ValueError(f"{name} is not a JSON number")
