"""The files of vocabularies: their names, and whether they are what they were."""

from collections.abc import Mapping
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import digest_of, missing_file

_BOTH, _EACH = "vocab.model", ("vocab.source.model", "vocab.target.model")
NAMES = _BOTH, *_EACH


def names(shared: bool) -> tuple[str, str]:
    """The files of source and target; of a shared vocabulary one and the same."""
    return (_BOTH, _BOTH) if shared else _EACH


def digests(folder) -> dict[str, str]:
    """{name: SHA-256} of the vocabularies in a folder."""
    files = [Path(folder, name) for name in NAMES]
    return {file.name: digest_of(file) for file in files if file.is_file()}


def check(folder, stored: Mapping[str, str]) -> None:
    """Raises UserError, naming the file, unless a folder's vocabularies have the stored digests."""
    found = digests(folder)
    for name in NAMES:
        file, expected = Path(folder, name), stored.get(name)
        if name in found and found[name] != expected:
            happened = "was not there" if expected is None else "had other contents"
            raise UserError(f"{file}: {happened} when {folder} was made; put back the file of then")
        if name not in found and expected is not None:
            raise missing_file(file)
