"""The registry of problems and hparams sets, and the plugins that fill it.

The engine imports no problem and no set by name. Whatever an installed package names in the entry-point group
`t2t_lite.plugins`, and whatever `--usr_dir` names, is imported and registers itself; our own catalogues do the same.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from t2t_lite.config import HParams
from t2t_lite.errors import UserError, unknown
from t2t_lite.problem import Problem

_problems: dict[
    str, tuple[type[Problem], dict]
] = {}  # name -> (class, the options this name fixes)
_hparams: dict[str, Callable[[], HParams]] = {}
_loaded: set[str] = set()  # plugins already imported


def snake_case(class_name: str) -> str:
    """`Wmt14Ende` -> `wmt14_ende`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", class_name).lower()


def register_problem(cls: type[Problem]) -> type[Problem]:
    """Class decorator: registers `cls` under its name in snake_case, and its variants (`<name>_rev`)."""
    name = snake_case(cls.__name__)
    for suffix, options in cls.variants().items():
        _claim(_problems, "problem", name + suffix, (cls, options), cls)
    return cls


def register_hparams(function: Callable[[], HParams]) -> Callable[[], HParams]:
    """Function decorator: registers a function that returns an HParams under the function's name."""
    _claim(_hparams, "hparams set", function.__name__, function, function)
    return function


def _claim(table: dict, kind: str, name: str, value, owner) -> None:
    if name in table:
        taken = table[name][0] if isinstance(table[name], tuple) else table[name]
        raise UserError(
            f"{owner.__module__} registers {kind} {name!r}, which {taken.__module__} has registered; choose another name"
        )
    table[name] = value


def load_plugins(usr_dir: str | None = None) -> None:
    """Imports every installed plugin, then `usr_dir`: a Python file, or a folder with an `__init__.py`."""
    for entry in sorted(
        entry_points(group="t2t_lite.plugins"), key=lambda e: (e.dist.name != "t2t_lite", e.name)
    ):
        label = f"plugin {entry.name!r} of package {entry.dist.name}"
        _import_once(entry.value, label, entry.load)
    if usr_dir:
        path = Path(usr_dir).expanduser().resolve()
        _import_once(str(path), f"--usr_dir {usr_dir}", lambda: _import_path(path, usr_dir))


def _import_once(key: str, label: str, load: Callable[[], object]) -> None:
    if key in _loaded:
        return
    before = dict(_problems), dict(_hparams)
    try:
        load()
    except Exception as error:
        for table, kept in zip(
            (_problems, _hparams), before
        ):  # a plugin registers all it has, or nothing
            table.clear()
            table.update(kept)
        if isinstance(error, UserError):
            raise UserError(f"{label}: {error}") from None
        text = " ".join(str(error).split())
        raise UserError(
            f"{label} does not import: {type(error).__name__}: {text}{_where(error)}"
        ) from error
    _loaded.add(key)


def _where(error: Exception) -> str:
    """` (file, line n)` of the innermost frame of user code, since a one-line message has no traceback."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line already
    trace, place = error.__traceback__, ""
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if "importlib" not in name:
            place = f" ({name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _import_path(path: Path, given: str) -> None:
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


def problem_class(name: str) -> type[Problem]:
    """The class registered as `name`. Raises UserError naming the nearest names."""
    return _lookup(_problems, "problem", name)[0]


def problem(name: str, **options) -> Problem:
    """The problem registered as `name`, with its options (`raw_dir=...`) set.

    Raises UserError for an unknown name or an option that the problem does not have.
    """
    cls, fixed = _lookup(_problems, "problem", name)
    return cls.create(name, **options, **fixed)


def hparams(name: str) -> HParams:
    """The hparams set registered as `name`."""
    return _lookup(_hparams, "hparams set", name)()


def _lookup(table: dict, kind: str, name: str):
    if name not in table:
        raise unknown(kind, name, table)
    return table[name]


def describe() -> str:
    """All problems and sets, a line each with the first line of their docstrings."""
    lines = ["problems:"]
    for name, (cls, _) in sorted(_problems.items()):
        lines.append(f"  {name:24} {cls.describe(name)}")
    lines.append("hparams sets:")
    for name, function in sorted(_hparams.items()):
        lines.append(f"  {name:24} {(function.__doc__ or '').strip().splitlines()[0]}")
    return "\n".join(lines)
