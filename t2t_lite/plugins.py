"""Plugins: other people's code, which registers problems and hparams sets when it is imported."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
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


def _import_path(path: Path) -> None:
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
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
