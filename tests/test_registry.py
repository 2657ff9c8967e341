"""The registry: names, plugins and what a user is told when they are wrong."""

import subprocess
import sys
import textwrap

import pytest

from t2t_lite import registry
from t2t_lite.errors import UserError

PLUGIN = """
from t2t_lite import Problem, register_hparams, register_problem
from t2t_lite.data.sources import TsvFile
from t2t_lite.registry import hparams

@register_problem
class MyPairs(Problem):
    '''My own pairs.'''
    def source(self, split):
        return TsvFile(f"{self.raw_dir}/{split}.tsv")

@register_hparams
def my_tiny():
    '''Tiny, but wider.'''
    return hparams("tiny").replace(d_ff=768)
"""


@pytest.fixture(autouse=True)
def clean_registry():
    """Each test starts with the installed plugins alone."""
    registry.load_plugins()
    kept = dict(registry._problems), dict(registry._hparams), set(registry._loaded)
    yield
    for table, before in zip((registry._problems, registry._hparams, registry._loaded), kept):
        table.clear()
        table.update(before)


@pytest.fixture
def write(tmp_path):
    def write(text, name="my_plugin.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


def error_of(function, *arguments) -> str:
    with pytest.raises(UserError) as error:
        function(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "class_name, name",
    [
        ("Wmt14Ende", "wmt14_ende"),
        ("Multi30kEnfr", "multi30k_enfr"),
        ("SpelledNumbersEnde", "spelled_numbers_ende"),
    ],
)
def test_snake_case(class_name, name):
    assert registry.snake_case(class_name) == name


def test_catalogue():
    text = registry.describe()
    for name in (
        "wmt14_ende",
        "wmt14_ende_rev",
        "wmt14_enfr",
        "multi30k_ende",
        "multi30k_enfr",
        "text_pairs",
    ):
        assert f"  {name} " in text
    for name in (
        "spelled_numbers_ende",
        "spelled_numbers_ende_rev",
        "base",
        "big",
        "big_enfr",
        "small",
        "tiny",
    ):
        assert f"  {name} " in text
    entries = [line for line in text.splitlines() if line.startswith("  ")]
    assert all(len(line.split(None, 1)) == 2 for line in entries)  # each says what it is


def test_nearest_names():
    assert error_of(registry.problem, "wmt14_edne").startswith(
        "unknown problem 'wmt14_edne'; nearest: wmt14_en"
    )
    assert (
        error_of(registry.hparams, "bigg") == "unknown hparams set 'bigg'; nearest: big, big_enfr"
    )
    assert "base" in error_of(registry.hparams, "transformer")  # nothing is near: some of them


def test_options():
    problem = registry.problem("text_pairs_rev", train=("a.en", "a.de"), vocab_size=100)
    assert problem.reverse and problem.subwords() == 100
    again = registry.problem(problem.name, **problem.options())
    assert again == problem
    message = error_of(lambda: registry.problem("multi30k_ende", train=("a", "b")))
    assert message.startswith("problem multi30k_ende takes no --train;") and "--raw_dir" in message


def test_plugin_file(write):
    registry.load_plugins(write(PLUGIN))
    assert registry.problem("my_pairs", raw_dir="x").describe("my_pairs") == "My own pairs."
    assert registry.hparams("my_tiny").d_ff == 768
    assert "my_tiny" in registry.describe()


def test_plugin_folder_with_relative_imports(write, tmp_path):
    write("from . import sets", "plugin/__init__.py")
    write(
        """
        from t2t_lite import HParams, register_hparams

        @register_hparams
        def mine():
            "Mine."
            return HParams()
        """,
        "plugin/sets.py",
    )
    registry.load_plugins(str(tmp_path / "plugin"))
    assert registry.hparams("mine") == registry.hparams("base")


def test_loaded_twice_registers_once(write):
    path = write(PLUGIN)
    registry.load_plugins(path)
    registry.load_plugins(path)
    assert registry.hparams("my_tiny").d_ff == 768


def test_taken_name_names_both_and_registers_nothing(write):
    path = write(
        """
        from t2t_lite import HParams, register_hparams

        @register_hparams
        def before():
            "Registered before the mistake."
            return HParams()

        @register_hparams
        def big():
            "Not mine to take."
            return HParams()
        """
    )
    message = error_of(registry.load_plugins, path)
    assert message.startswith(
        f"--usr_dir {path}: t2t_lite_usr_my_plugin registers hparams set 'big'"
    )
    assert "t2t_lite.hparams.transformer has registered" in message
    assert "unknown hparams set 'before'" in error_of(registry.hparams, "before")
    assert registry.hparams("big").d_model == 1024


def test_taken_problem(write):
    path = write(
        """
        from t2t_lite import Problem, register_problem

        @register_problem
        class TextPairs(Problem):
            "Taken."
        """
    )
    message = error_of(registry.load_plugins, path)
    assert "registers problem 'text_pairs', which t2t_lite.problems.translation has" in message


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "import no_such_module_here",
            "does not import: ModuleNotFoundError: No module named 'no_such_module_here' (",
        ),
        ("x = 1\nx = y", "does not import: NameError: name 'y' is not defined ("),
        ("def broken(:", "does not import: SyntaxError:"),
    ],
)
def test_plugin_that_does_not_import(write, text, message):
    path = write(text)
    found = error_of(registry.load_plugins, path)
    assert (
        found.startswith(f"--usr_dir {path}")
        and message in found
        and "my_plugin.py" in found
        and "line" in found
    )
    assert "t2t_lite_usr_my_plugin" not in sys.modules


def test_missing_usr_dir(tmp_path):
    assert "no such file" in error_of(registry.load_plugins, str(tmp_path / "nothing.py"))
    assert "__init__.py" in error_of(registry.load_plugins, str(tmp_path))


def test_registry_imports_no_tensorflow():
    code = """
import sys
from t2t_lite import registry
registry.load_plugins()
registry.problem("wmt14_ende"), registry.hparams("big"), registry.describe()
heavy = {"tensorflow", "keras", "sentencepiece", "sacrebleu"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
