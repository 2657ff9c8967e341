"""Records: JSON files of ours that may come from elsewhere, run.json and exports' metadata."""

import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.errors import UserError


def read(file: Path) -> dict:
    """A JSON object. Raises UserError for anything else."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, too deep
        raise UserError(f"{file}: no JSON: {error}") from None
    if not isinstance(record, dict):
        raise UserError(f"{file}: {reprlib.repr(record)}; expected a JSON object")
    return record


def check(record: Mapping, kinds: Mapping[str, Any], file: Path) -> None:
    """Raises UserError unless each field is of its kind, such as `str`, or `str | None`."""
    for name, kind in kinds.items():
        value = record.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) and kind is int:
            found = reprlib.repr(value) if name in record else "missing"
            raise UserError(
                f"{file}: not a run or export of this version: {name} is {found}; "
                f"expected {getattr(kind, '__name__', kind)}"
            )
