"""Plugins: what is imported, once, and what is said of what cannot be."""

import sys

import pytest

from t2t_lite import plugins
from t2t_lite.errors import UserError


@pytest.fixture(autouse=True)
def no_modules_left():
    yield
    for name in [name for name in sys.modules if name.startswith("t2t_lite_usr_")]:
        del sys.modules[name]


def error_of(path) -> str:
    with pytest.raises(UserError) as error:
        plugins.at(str(path)).run()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_our_own_catalogues_come_first():
    keys = [plugin.key for plugin in plugins.installed()]
    assert keys[:2] == ["t2t_lite.hparams", "t2t_lite.problems"]


def test_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("value = 3\n")
    plugin = plugins.at(str(path))
    assert (plugin.key, plugin.label) == (str(path), f"--usr_dir {path}")
    assert "t2t_lite_usr_mine" not in sys.modules  # not yet
    plugin.run()
    assert sys.modules["t2t_lite_usr_mine"].value == 3


def test_a_folder_with_relative_imports(tmp_path):
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import sets\nfrom .sets import value\n")
    (folder / "sets.py").write_text("value = 4\n")
    plugins.at(str(folder)).run()
    assert sys.modules["t2t_lite_usr_plugin"].value == 4


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "import no_such_module_here",
            "does not import: ModuleNotFoundError: No module named 'no_such_module_here' (",
        ),
        ("x = 1\nx = y", "does not import: NameError: name 'y' is not defined ("),
        ("def broken(:", "does not import: SyntaxError:"),
        ("raise ValueError('two\\nlines')", "does not import: ValueError: two lines ("),
    ],
)
def test_one_that_does_not_import(tmp_path, text, message):
    path = tmp_path / "mine.py"
    path.write_text(text)
    found = error_of(path)
    assert found.startswith(f"--usr_dir {path} ") and message in found
    assert "mine.py" in found and "line" in found
    assert "t2t_lite_usr_mine" not in sys.modules


def test_what_a_plugin_says_itself_stands_as_it_is(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from t2t_lite import UserError\nraise UserError('needs more')"
    )
    assert error_of(tmp_path / "mine.py") == f"--usr_dir {tmp_path}/mine.py: needs more"


def test_nothing_there(tmp_path):
    assert "no such file" in error_of(tmp_path / "nothing.py")
    assert "__init__.py" in error_of(tmp_path)
