"""Records that someone wrote who meant no good, or another version."""

import pytest

from t2t_lite import records
from t2t_lite.errors import UserError

KINDS = {"name": str, "seed": int, "note": str | None}


def error_of(call, *args) -> str:
    with pytest.raises(UserError) as error:
        call(*args)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
    return str(error.value)


@pytest.mark.parametrize(
    "text, message",
    [
        (b"", "no JSON: Expecting value"),
        (b'{"a": 1', "no JSON: Expecting ',' delimiter"),
        (b'{"a": "\xff"}', "no JSON: 'utf-8' codec"),
        (b"[" * 200_000, "no JSON: maximum recursion depth"),
        (b"1" * 5000, "no JSON: Exceeds the limit"),
        (b"[1, 2]", "[1, 2]; expected a JSON object"),
        (b"null", "None; expected a JSON object"),
    ],
)
def test_what_is_no_object(tmp_path, text, message):
    file = tmp_path / "record.json"
    file.write_bytes(text)
    assert error_of(records.read, file).startswith(f"{file}: {message}")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"name": ["a"]}, "name is ['a']; expected str"),
        ({"seed": 1e300}, "seed is 1e+300; expected int"),
        ({"seed": float("nan")}, "seed is nan; expected int"),
        ({"seed": True}, "seed is True; expected int"),
        ({"note": [1] * 10_000}, "note is [1, 1, 1, 1, 1, 1, ...]; expected str | None"),
    ],
)
def test_fields_of_other_kinds(tmp_path, fields, message):
    record = {"name": "a", "seed": 1} | fields
    assert (
        error_of(records.check, record, KINDS, tmp_path)
        == f"{tmp_path}: not a run or export of this version: {message}"
    )


def test_fields_that_are_missing(tmp_path):
    records.check({"name": "a", "seed": 1, "more": []}, KINDS, tmp_path)
    records.check({"name": "a", "seed": 1, "note": None}, KINDS, tmp_path)
    message = "not a run or export of this version: seed is missing; expected int"
    assert error_of(records.check, {"name": "a"}, KINDS, tmp_path) == f"{tmp_path}: {message}"
