"""The registry of problems and hparams sets, which plugins fill.

The engine imports no problem and no set by name. Whatever an installed package names in the
entry-point group `t2t_lite.plugins`, and whatever `--usr_dir` names, is imported and registers
itself; our own catalogues do the same.
"""

import contextlib
import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import ClassVar, get_origin

from t2t_lite import plugins
from t2t_lite.config import HParams
from t2t_lite.errors import UserError, unknown
from t2t_lite.evaluation.metrics import Metric
from t2t_lite.options import options
from t2t_lite.problem import Constrained, Drawing, Problem, Tokenizing, first_line

# The flags of t2t-trainer and t2t-datagen, which are no option's name.
ENGINE_FLAGS = frozenset(
    """problem usr_dir registry_help help version hparams set output_dir seed dry_run precision xla
    logical_devices micro_batch_tokens deterministic data_changed devices_changed optimizer_lost
    train_minutes init_from""".split()
)
# The flags of t2t-eval, which are no name of a metric's field.
EVAL_FLAGS = frozenset(
    """help version output_dir usr_dir split input reference beam_size alpha extra_length
    unconstrained no_decode per_line json""".split()
)
_METHODS = {
    name
    for cls in (Problem, Constrained, Tokenizing, Drawing)
    for name, value in vars(cls).items()
    if callable(value) or isinstance(value, classmethod)
}

_problems: dict[str, tuple[type[Problem], dict]] = {}  # name -> (class, fields that it fixes)
_hparams: dict[str, Callable[[], HParams]] = {}
_topics: dict[str, Callable[[], str]] = {}  # of --registry_help
_loaded: set[str] = set()  # plugins already imported


def snake_case(class_name: str) -> str:
    """`Wmt14Ende` -> `wmt14_ende`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", class_name).lower()


def register_problem(cls: type[Problem]) -> type[Problem]:
    """Class decorator: registers `cls` under its name in snake_case, and its variants.

    Raises UserError for a name that is taken, and for a field that cannot be a flag.
    """
    _check_flags(cls)
    name = snake_case(cls.__name__)
    for suffix, fixed in cls.variants().items():
        _claim(_problems, "problem", name + suffix, (cls, fixed), cls)
    return cls


def register_hparams(function: Callable[[], HParams]) -> Callable[[], HParams]:
    """Function decorator: registers a function that returns an HParams under its name."""
    _claim(_hparams, "hparams set", function.__name__, function, function)
    return function


def register_topic(function: Callable[[], str]) -> Callable[[], str]:
    """Function decorator: `--registry_help=NAME` prints the text that the function returns."""
    _claim(_topics, "topic", function.__name__, function, function)
    return function


def _check_flags(cls: type[Problem]) -> None:
    """Raises UserError for what a problem says in a way that would be lost, or break later."""
    for name, now in ("texts", "example"), ("input_texts", "input_text_in_graph"):
        if hasattr(cls, name):
            raise UserError(f"{cls.__name__} defines {name}, which is now called {now}")
    for base in cls.__mro__[: cls.__mro__.index(Problem)]:
        _check_is_dataclass(base)
    for option in options(cls):
        taken = ENGINE_FLAGS & {option.name, option.flag.removeprefix("--")}
        if taken or option.name in _METHODS:
            what = "flag of t2t-trainer" if taken else "method of a problem"
            raise UserError(
                f"field {option.name} of {cls.__name__} is named like a {what}; choose another name"
            )
    if not (isinstance(cls.metric, type) and issubclass(cls.metric, Metric)):
        raise UserError(
            f"metric of {cls.__name__} is {cls.metric!r}; expected a subclass of "
            "t2t_lite.evaluation.metrics.Metric, such as Bleu or ExactMatch"
        )
    for base in cls.metric.__mro__[: cls.metric.__mro__.index(Metric)]:
        _check_is_dataclass(base)
    for option in options(cls.metric):
        if option.name in EVAL_FLAGS:
            raise UserError(
                f"field {option.name} of {cls.metric.__name__} is named like a flag of t2t-eval; "
                "choose another name"
            )


def _check_is_dataclass(cls: type) -> None:
    """Raises UserError for a field that a class declares, or sets anew, without being one."""
    names = {field.name for field in dataclasses.fields(cls)}
    annotated = {
        name
        for name, kind in inspect.get_annotations(cls, eval_str=True).items()
        if kind is not ClassVar and get_origin(kind) is not ClassVar
    }
    no_fields = (names & vars(cls).keys()) - annotated  # plain assignments, which change no default
    if "__dataclass_fields__" not in vars(cls):
        no_fields |= annotated
    for name in sorted(no_fields):
        raise UserError(
            f"field {name} of {cls.__name__}: expected {name}: TYPE = DEFAULT, and "
            "@dataclasses.dataclass(frozen=True, kw_only=True) at the class"
        )


def _claim(table: dict, kind: str, name: str, value, owner) -> None:
    if name in table:
        taken = table[name][0] if isinstance(table[name], tuple) else table[name]
        raise UserError(
            f"{owner.__module__} registers {kind} {name!r}, which {taken.__module__} has "
            "registered; choose another name"
        )
    table[name] = value


def load_plugins(usr_dir: str | None = None) -> None:
    """Imports every installed plugin, then `usr_dir`, a Python file or a folder with `__init__.py`.

    Raises UserError for one that does not import or takes a taken name; then it registers nothing.
    """
    for plugin in [*plugins.installed(), *([plugins.at(usr_dir)] if usr_dir else [])]:
        if plugin.key not in _loaded:
            with _all_or_nothing():
                plugin.run()
            _loaded.add(plugin.key)


@contextlib.contextmanager
def _all_or_nothing():
    tables = _problems, _hparams, _topics
    before = [dict(table) for table in tables]
    try:
        yield
    except UserError:
        for table, kept in zip(tables, before):
            table.clear()
            table.update(kept)
        raise


def problem_class(name: str) -> type[Problem]:
    """The class registered as `name`. Raises UserError naming the nearest names."""
    return _lookup(_problems, "problem", name)[0]


def problem(name: str, /, **given) -> Problem:
    """The problem registered as `name`, with the given options (`raw_dir=...`).

    Raises UserError for an unknown name, and for an option that the problem does not have, or
    cannot do without.
    """
    cls, fixed = _lookup(_problems, "problem", name)
    takes = {option.name: option for option in options(cls)}
    for key in cls.fixed_fields():
        takes.pop(key)
    for key in given:
        if key not in takes:
            raise takes_no(name, key)
    for key, option in takes.items():
        if option.default is dataclasses.MISSING and key not in given:
            raise UserError(f"problem {name} needs --{key}: {option.help}")
    # Here too, since a class's own __post_init__ may not call Problem's.
    checked = {key: takes[key].check(value) for key, value in given.items()}
    return cls(name=name, **checked, **fixed)


def takes_no(name: str, option: str) -> UserError:
    """The error for an option that the problem registered as `name` does not have."""
    cls = problem_class(name)
    flags = [other.flag for other in options(cls) if other.name not in cls.fixed_fields()]
    return UserError(f"problem {name} takes no --{option}; it takes {', '.join(sorted(flags))}")


def takers(option: str) -> list[str]:
    """The names of the problems that have an option."""
    return sorted(
        name
        for name, (cls, _) in _problems.items()
        if option in {other.name for other in options(cls)} - cls.fixed_fields()
    )


def hparams(name: str) -> HParams:
    """The hparams set registered as `name`."""
    return _lookup(_hparams, "hparams set", name)()


def _lookup(table: dict, kind: str, name: str):
    if name not in table:
        raise unknown(kind, name, table)
    return table[name]


def describe(topic: str | None = None) -> str:
    """A topic's text; without one all problems, sets and topics, a line each.

    Raises UserError for an unknown topic.
    """
    if topic:
        return _lookup(_topics, "topic of --registry_help", topic)()
    lines = ["problems:"]
    for name, (cls, _) in sorted(_problems.items()):
        lines.append(f"  {name:24} {cls.describe(name)}")
    lines.append("hparams sets:")
    lines += _first_lines(_hparams)
    lines.append("topics, for --registry_help=TOPIC:")
    lines += _first_lines(_topics)
    return "\n".join(lines)


def _first_lines(table: dict[str, Callable]) -> list[str]:
    return [f"  {name:24} {first_line(f.__doc__)}" for name, f in sorted(table.items())]
