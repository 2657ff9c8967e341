"""Fields of a dataclass as options: their types checked, and flags of a command made of them.

A field's type says what its flag takes, its default what holds without it, its trailing comment
what `--help` says:

    min_words: int = 1  # training pairs with fewer words on either side are left out
    tags: Literal["kept", "normalised"] = "kept"  # what a word is
    train: tuple[FilePath, ...] | None = None  # files to train on
    silver: FileGroups | None = None  # the same, as often as the flag is given
"""

import argparse
import dataclasses
import functools
import inspect
import io
import os
import textwrap
import tokenize
import types
from collections.abc import Collection
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from t2t_lite.errors import UserError, unknown

FilePath = NewType("FilePath", str)  # of a file or folder; made absolute; `-` is stdin
FileGroups = tuple[tuple[FilePath, ...], ...]  # of each time that a repeatable flag is given

_METAVARS = {int: "N", float: "X", str: "TEXT", FilePath: "PATH"}
_EXPECTED = {int: "int", float: "float", str: "text", FilePath: "a path", bool: "True or False"}


@dataclasses.dataclass(frozen=True)
class Option:
    """A field as an option.

    Attributes:
        owner: the dataclass.
        name: of the field.
        kind: int, float, str, bool or FilePath, of a value.
        many: whether it is a tuple of such values.
        repeatable: whether it is a tuple of such tuples, one each time that the flag is given.
        nullable: whether it may be None.
        choices: all values there are; empty: any.
        default: dataclasses.MISSING where it has to be given.
    """

    owner: type
    name: str
    kind: Any
    many: bool
    repeatable: bool
    nullable: bool
    choices: tuple
    default: Any

    @property
    def flag(self) -> str:
        """`--name`, or `--no_name` where the default is True."""
        return f"--no_{self.name}" if self.default is True else f"--{self.name}"

    @property
    def help(self) -> str:
        """The field's metadata["help"], else its trailing comment, else nothing."""
        return field_help(self.owner).get(self.name, "")

    def parse(self, text: str) -> Any:
        """The value that the text of a flag stands for. Raises UserError where it is none."""
        try:
            return self._checked(parse(self.kind, text))
        except (ValueError, OverflowError):
            raise UserError(f"--{self.name}={text}: expected {_EXPECTED[self.kind]}") from None

    def check(self, value: Any) -> Any:
        """`value` as the field keeps it: lists as tuples, paths absolute.

        Raises UserError for one of another type or not among the choices.
        """
        if value is None and self.nullable:
            return None
        if not self.many:
            return self._checked(value)
        if not isinstance(value, list | tuple):
            raise UserError(f"--{self.name}={value}: expected a list")
        if not self.repeatable:
            return tuple(map(self._checked, value))
        groups = value if all(isinstance(group, list | tuple) for group in value) else [value]
        return tuple(tuple(map(self._checked, group)) for group in groups)

    def _checked(self, value):
        if self.kind is float and type(value) is int:
            value = float(value)
        if self.kind is FilePath and isinstance(value, str | os.PathLike):
            return "/dev/stdin" if value == "-" else os.path.abspath(os.path.expanduser(value))
        if type(value) is not self.kind:
            raise UserError(f"--{self.name}={value}: expected {_EXPECTED[self.kind]}")
        if self.choices and value not in self.choices:
            if self.kind is str:
                raise unknown(f"value of --{self.name}", value, self.choices)
            expected = " or ".join(map(str, self.choices))
            raise UserError(f"--{self.name}={value}: expected {expected}")
        return value


def parse(kind: Any, text: str) -> Any:
    """`text` as an int, float, str or bool. Raises ValueError or OverflowError if it is none."""
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if kind is not int:
        return float(text) if kind is float else text
    try:
        return int(text)  # "25_000" is Python's own reading
    except ValueError:
        number = float(text)  # "1e4" is a whole number to a person
        if number != int(number):
            raise
        return int(number)


@functools.cache
def options(cls: type) -> tuple[Option, ...]:
    """The fields of a dataclass. Raises UserError for one whose type cannot be an option's."""
    hints = get_type_hints(cls)
    return tuple(
        _option(cls, field, hints[field.name]) for field in dataclasses.fields(cls) if field.init
    )


def _option(cls: type, field: dataclasses.Field, hint: Any) -> Option:
    kind, nullable, many, repeatable, choices = hint, False, False, False, ()
    if get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind):
        nullable = True
        kind, *others = (part for part in get_args(kind) if part is not type(None))
        kind = kind if not others else None
    while _is_tuple(kind) and not repeatable:
        many, repeatable, kind = True, many, get_args(kind)[0]
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        kinds = set(map(type, choices))
        kind = kinds.pop() if len(kinds) == 1 else None
    if not any(kind is known for known in _EXPECTED) or (many and kind is bool):
        raise UserError(
            f"field {field.name} of {cls.__name__} cannot be an option; expected int, float, str, "
            "bool, FilePath, Literal[...], a tuple[..., ...] of one or of such, or one of these or "
            "None"
        )
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return Option(cls, field.name, kind, many, repeatable, nullable, choices, default)


def _is_tuple(hint: Any) -> bool:
    return get_origin(hint) is tuple and get_args(hint)[1:] == (...,)


@functools.cache
def field_help(cls: type) -> dict[str, str]:
    """Name of a field -> what it says of itself; without a comment of its own, its base class's."""
    found = {}
    for base in reversed(cls.__mro__):
        found |= _comments(base)
    helps = {field.name: field.metadata.get("help") for field in dataclasses.fields(cls)}
    return found | {name: text for name, text in helps.items() if text}


def _comments(cls: type) -> dict[str, str]:
    """The comments of the fields, `name: type = default  # comment`, in the source of a class."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # by C, or at a prompt
        return {}
    found, statement, comments, depth = {}, [], [], 0
    for token in tokens:
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.COMMENT:
            comments += [token.string.lstrip("#").strip()] if statement else []
        elif token.type == tokenize.NEWLINE:
            if depth == 1 and statement[1:2] == [":"] and comments:
                found[statement[0]] = " ".join(comments)
            statement, comments = [], []
        elif token.type != tokenize.NL:
            statement.append(token.string)
    return found


def check_fields(instance: Any) -> None:
    """Checks the fields of a dataclass's instance, for its `__post_init__`.

    Lists become tuples, paths absolute. Raises UserError for a value of another type or not among a
    Literal's.
    """
    for option in options(type(instance)):
        object.__setattr__(instance, option.name, option.check(getattr(instance, option.name)))


def add_options(parser, cls: type, exclude: Collection[str] = ()) -> None:
    """Adds a flag for each field to a parser or group of one. Their values are None unless given.

    Raises UserError for a field named like a flag that is there.
    """
    for option in options(cls):
        if option.name in exclude:
            continue
        text = (option.help + " (repeatable)" * option.repeatable).replace("%", "%%")
        if option.kind is not bool and option.default not in (None, dataclasses.MISSING, ()):
            text += f"{' ' * bool(text)}(default: {option.default})".replace("%", "%%")
        shape = {"metavar": _METAVARS.get(option.kind), "type": option.parse}
        if option.choices:
            shape["metavar"] = "{" + ",".join(map(str, option.choices)) + "}"
        if option.many:
            shape["nargs"] = "+"
        if option.repeatable:
            shape["action"] = "append"
        if option.kind is bool:
            shape = {"action": "store_false" if option.default is True else "store_true"}
        try:
            parser.add_argument(option.flag, dest=option.name, default=None, help=text, **shape)
        except argparse.ArgumentError:
            raise UserError(
                f"field {option.name} of {cls.__name__} is named like the flag {option.flag}; "
                "choose another name"
            ) from None


def given_options(args, cls: type, exclude: Collection[str] = ()) -> dict[str, Any]:
    """The fields whose flags, of `add_options`, were given, and their values."""
    names = [option.name for option in options(cls) if option.name not in exclude]
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}
