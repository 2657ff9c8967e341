"""Plugins: other people's code, which registers problems and hparams sets when it is imported."""

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import all_suffixes
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from t2t_lite.errors import UserError


class Plugin(NamedTuple):
    """Code that is not imported yet.

    Attributes:
        key: tells it from all others.
        label: what errors call it.
        load: imports it.
    """

    key: str
    label: str
    load: Callable[[], object]

    def run(self) -> None:
        """Imports it. Raises UserError, one line with the place, for all that goes wrong there."""
        try:
            self.load()
        except UserError as error:
            raise UserError(f"{self.label}: {error}") from None
        except Exception as error:
            text = " ".join(str(error).split())
            raise UserError(
                f"{self.label} does not import: {type(error).__name__}: {text}{_where(error)}"
            ) from error


def installed() -> Iterator[Plugin]:
    """What installed packages name as `t2t_lite.plugins`, our own catalogues first."""
    entries = entry_points(group="t2t_lite.plugins")
    for entry in sorted(entries, key=lambda e: (e.dist.name != "t2t_lite", e.name)):
        label = f"plugin {entry.name!r} of package {entry.dist.name}"
        yield Plugin(entry.value, label, entry.load)


def at(usr_dir: str) -> Plugin:
    """A user's own: a Python file, or a folder with an `__init__.py`."""
    path = Path(usr_dir).expanduser().resolve()
    return Plugin(str(path), f"--usr_dir {usr_dir}", lambda: _import_path(path))


def digest(usr_dir: str) -> str:
    """SHA-256 of a user's own code: of the file, or of all that can be imported from the folder."""
    path = Path(usr_dir).expanduser().resolve()
    total = hashlib.sha256()
    for file in _code(path):
        if path.is_dir():
            total.update(os.fsencode(file.relative_to(path)) + b"\0")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def check_trusted(usr_dir: str, stored: str | None, folder: Path) -> None:
    """Raises UserError unless code that a record names is the user's own, as it was.

    Args:
        usr_dir: where the code was.
        stored: its `digest` of then.
        folder: where the record lies. What lies there too came with it.
    """
    path = Path(os.path.realpath(usr_dir))
    if not os.path.isfile(_main_file(path)):
        reason = "is not there"
    elif any(file.resolve().is_relative_to(folder.resolve()) for file in _code(path)):
        reason = "lies in it"
    elif str(path) != usr_dir:  # ~, .. and links (/proc/self/cwd) may lead beside what came
        reason = "is no absolute path without links"
    elif stored is None:
        reason = "has no digest there, which would tell whether it is as it was"
    elif digest(usr_dir) != stored:
        reason = "is not as it was then"
    else:
        return
    raise UserError(
        f"{folder} was made with --usr_dir {usr_dir}, which {reason}; expected --usr_dir=PATH, "
        "where you trust the code at PATH (in Python: usr_dir=PATH)"
    )


def _main_file(path: Path) -> Path:
    return path / "__init__.py" if os.path.isdir(path) else path


def _code(path: Path) -> list[Path]:
    """The file, or all files that can be imported from below the folder, links followed."""
    if not path.is_dir():
        return [path]
    found, seen = [], set()
    for folder, names, files in os.walk(path, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            names.clear()
            continue
        seen.add(real)
        names[:] = sorted(name for name in names if name.isidentifier() and name != "__pycache__")
        found += [file for name in files if _importable(file := Path(folder, name))]
    return sorted(found)


def _importable(file: Path) -> bool:
    name = file.name.partition(".")[0]
    return name.isidentifier() and file.name.endswith(tuple(all_suffixes())) and file.is_file()


def _import_path(path: Path) -> None:
    file = _main_file(path)
    if not os.path.isfile(file):  # unlike Path.is_file, no error for a name too long
        raise UserError(
            f"no such file: {file}; expected a Python file or a folder with an __init__.py"
        )
    name = "t2t_lite_usr_" + (path.name if path.is_dir() else path.stem)
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(path)] if path.is_dir() else None
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that a folder's own relative imports work
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _where(error: Exception) -> str:
    """` (file, line n)` of the innermost frame of user code, since one line has no traceback."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line already
    trace, place = error.__traceback__, ""
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if "importlib" not in name:
            place = f" ({name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
