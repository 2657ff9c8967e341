"""Fields of a dataclass as options: what they take, what they say of themselves, their flags."""

import dataclasses
import inspect
import os
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from t2t_lite.cli.arguments import Parser
from t2t_lite.errors import UserError
from t2t_lite.options import (
    FileGroups,
    FilePath,
    add_options,
    check_fields,
    field_help,
    given_options,
    options,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Base:
    """Of every type that a field may have."""

    count: int = 1  # how many; 100% of them
    share: float = 0.5  # how much
    label: str | None = None
    file: FilePath | None = None  # where it is
    files: tuple[FilePath, ...] | None = None  # one or more
    sizes: tuple[int, ...] = (1, 2)  # of each
    shape: Literal["round", "square"] = "round"  # which of two
    level: Literal[1, 2] = 1
    quiet: bool = False  # say nothing
    check: bool = True  # look twice

    kind: ClassVar[str] = "none"  # is no field

    def __post_init__(self):
        check_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Derived(Base):
    count: int = 7
    shape: Literal["round", "square"] = (
        "square"  # spread by a formatter
        # over two lines
    )
    label: str | None = dataclasses.field(default=None, metadata={"help": "what it is called"})
    extra: int  # has to be given


def error_of(function, *arguments, **named) -> str:
    with pytest.raises(UserError) as error:
        function(*arguments, **named)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_options_say_what_fields_are():
    found = {option.name: option for option in options(Base)}
    assert list(found) == [field.name for field in dataclasses.fields(Base)]
    assert [option.kind for option in found.values()] == [
        int, float, str, FilePath, FilePath, int, str, int, bool, bool
    ]  # fmt: skip
    assert [name for name, option in found.items() if option.many] == ["files", "sizes"]
    assert [name for name, option in found.items() if option.nullable] == ["label", "file", "files"]
    assert found["shape"].choices == ("round", "square") and found["count"].choices == ()
    assert (found["check"].flag, found["quiet"].flag) == ("--no_check", "--quiet")
    assert {option.name: option.default for option in options(Derived)} | {"extra": None} == {
        **{option.name: option.default for option in found.values()},
        **{"count": 7, "shape": "square", "extra": None},
    }


def test_help_is_the_fields_trailing_comment():
    assert field_help(Base) == {
        "count": "how many; 100% of them",
        "share": "how much",
        "file": "where it is",
        "files": "one or more",
        "sizes": "of each",
        "shape": "which of two",
        "quiet": "say nothing",
        "check": "look twice",
        "kind": "is no field",
    }
    assert field_help(Derived) == field_help(Base) | {
        "shape": "spread by a formatter over two lines",
        "label": "what it is called",
        "extra": "has to be given",
    }


def test_no_source_no_help():
    names = {"dataclasses": dataclasses}
    exec("@dataclasses.dataclass\nclass Typed:\n    n: int = 1  # unseen\n", names)
    cls = names["Typed"]
    assert field_help(cls) == {} and options(cls)[0].help == ""
    add_options(Parser("x"), cls)


def test_check_fields_makes_tuples_and_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = Base(file="~/a", files=["b", Path("c"), os.sep + "d"], sizes=[3], share=1)
    assert made.file == f"{tmp_path}/home/a"
    assert made.files == (f"{tmp_path}/b", f"{tmp_path}/c", "/d")
    assert dataclasses.replace(made, file="-").file == "/dev/stdin"
    assert made.sizes == (3,) and type(made.share) is float
    assert dataclasses.replace(made) == made


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("count", "x", "--count=x: expected int"),
        ("count", 1.5, "--count=1.5: expected int"),
        ("count", True, "--count=True: expected int"),
        ("count", None, "--count=None: expected int"),
        ("share", "x", "--share=x: expected float"),
        ("label", 3, "--label=3: expected text"),
        ("file", 3, "--file=3: expected a path"),
        ("files", "abc", "--files=abc: expected a list"),
        ("files", ["a", 1], "--files=1: expected a path"),
        ("sizes", None, "--sizes=None: expected a list"),
        ("quiet", "yes", "--quiet=yes: expected True or False"),
        ("shape", "squar", "unknown value of --shape 'squar'; nearest: square"),
        ("level", 3, "--level=3: expected 1 or 2"),
    ],
)
def test_a_bad_value_is_one_line(field, value, message):
    assert error_of(Base, **{field: value}) == message


def test_flags():
    parser = Parser("x")
    add_options(parser, Base, exclude=["level"])

    def given(*args):
        return given_options(parser.parse_args(args), Base, exclude=["level"])

    assert given() == {}
    assert given("--count=1e4", "--share=2", "--label=a b", "--quiet", "--no_check") == {
        "count": 10_000, "share": 2.0, "label": "a b", "quiet": True, "check": False
    }  # fmt: skip
    assert given("--files", "a", "b", "--sizes", "3", "--shape", "square") == {
        "files": [os.path.abspath("a"), os.path.abspath("b")], "sizes": [3], "shape": "square"
    }  # fmt: skip
    for args, message in (
        (["--count=x"], "--count=x: expected int"),
        (["--count=inf"], "--count=inf: expected int"),
        (["--sizes", "1", "b"], "--sizes=b: expected int"),
        (["--shape=squar"], "unknown value of --shape 'squar'; nearest: square"),
        (["--no_quiet"], "unknown flag --no_quiet; nearest: --quiet, --no_check"),
        (["--level=1"], "unknown flag --level; nearest: --label"),
        (["--quiet", "--quiet"], "--quiet given twice; expected once"),
        (["--no_check", "--no_check"], "--no_check given twice; expected once"),
        (["--files", "a", "--files", "b"], "--files given twice; expected once"),
    ):
        assert error_of(parser.parse_args, args).startswith(message)


def test_help_shows_defaults_and_choices():
    parser = Parser("x")
    add_options(parser, Base)
    text = " ".join(parser.format_help().split())
    for part in (
        "--count N how many; 100% of them (default: 1)",
        "--share X how much (default: 0.5)",
        "--file PATH where it is --files PATH [PATH ...] one or more",
        "--shape {round,square} which of two (default: round)",
        "--quiet say nothing --no_check look twice",
    ):
        assert part in text


def test_fields_that_cannot_be_options():
    for kind in (dict, int | str, tuple[int, int], tuple[bool, ...], list[str], Literal["a", 1]):
        cls = dataclasses.make_dataclass("Odd", [("odd", kind)])
        assert error_of(options, cls).startswith("field odd of Odd cannot be an option; expected")
    parser = Parser("x")
    parser.add_argument("--count")
    message = error_of(add_options, parser, Base)
    assert message == "field count of Base is named like the flag --count; choose another name"


def test_every_comment_of_our_own_problems_is_found():
    from t2t_lite import registry

    registry.load_plugins()
    for name in ("treebank", "text_pairs", "wsj_parsing_semisup", "spelled_numbers_ende"):
        cls = registry.problem_class(name)
        silent = [option.name for option in options(cls) if not option.help]
        assert silent == [], (name, inspect.getsourcefile(cls))


def test_a_flag_that_may_be_given_several_times():
    @dataclasses.dataclass(frozen=True)
    class Several:
        files: FileGroups | None = None  # of one kind

        def __post_init__(self):
            check_fields(self)

    parser = Parser()
    add_options(parser, Several)
    args = parser.parse_args(["--files", "a", "b", "--files", "c"])
    here = Path.cwd()
    groups = ((f"{here}/a", f"{here}/b"), (f"{here}/c",))
    assert Several(**given_options(args, Several)).files == groups
    assert Several(["a", "b"]).files == groups[:1]  # as when it could be given once
    assert Several(groups).files == groups and Several().files is None
    assert "of one kind (repeatable)" in parser.format_help()
    assert "--files=a: expected a list" in error_of(Several, "a")
