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


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_digest_is_of_all_code_and_of_nothing_else(tmp_path, kind):
    code = tmp_path / "mine.py" if kind == "file" else tmp_path / "mine" / "__init__.py"
    code.parent.mkdir(exist_ok=True)
    code.write_text("value = 1\n")
    usr_dir = str(code if kind == "file" else code.parent)
    before = plugins.digest(usr_dir)
    others = "notes.txt", ".hidden/more.py", ".#lock.py", "__pycache__/mine.py", "no-name/more.py"
    for name in others:
        other = code.parent / name
        other.parent.mkdir(exist_ok=True)
        other.write_text("value = 2\n")
    assert plugins.digest(usr_dir) == before
    code.write_text("value = 3\n")
    assert plugins.digest(usr_dir) != before


def test_a_digest_of_a_folder_is_of_what_lies_and_is_linked_below(tmp_path):
    folder, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    for file in folder / "__init__.py", folder / "deep" / "sets.py", elsewhere / "linked.py":
        file.parent.mkdir(exist_ok=True)
        file.write_text("value = 1\n")
    (folder / "link").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(folder)  # a circle
    found = {plugins.digest(str(folder))}
    (folder / "deep" / "sets.py").rename(folder / "deep" / "other.py")
    found.add(plugins.digest(str(folder)))
    (elsewhere / "linked.py").write_text("value = 2\n")
    found.add(plugins.digest(str(folder)))
    (folder / "deep" / "native.so").touch()  # would be imported before a native.py
    found.add(plugins.digest(str(folder)))
    assert len(found) == 4


def distrust(usr_dir, folder, stored="") -> str:
    """Why code is not trusted, with the digest that is stored, by default the right one."""
    if stored == "":
        stored = plugins.digest(str(usr_dir))
    with pytest.raises(UserError) as error:
        plugins.check_trusted(str(usr_dir), stored, folder)
    before, _, reason = str(error.value).partition(f"--usr_dir {usr_dir}, which ")
    assert before == f"{folder} was made with "
    reason, _, advice = reason.partition("; ")
    assert advice.startswith("expected --usr_dir=PATH, where you trust the code at PATH")
    return reason


def test_only_ones_own_code_as_it_was_is_trusted(tmp_path, monkeypatch):
    tmp_path = tmp_path.resolve()
    folder, mine = tmp_path / "run", tmp_path / "mine.py"
    folder.mkdir()
    mine.write_text("value = 1\n")
    plugins.check_trusted(str(mine), plugins.digest(str(mine)), folder)

    monkeypatch.chdir(tmp_path)
    for path in "mine.py", f"{folder}/../mine.py", "/proc/self/cwd/mine.py", f"{tmp_path}//mine.py":
        assert distrust(path, folder) == "is no absolute path without links"
    (tmp_path / "link.py").symlink_to(mine)
    assert distrust(tmp_path / "link.py", folder) == "is no absolute path without links"
    for stored, reason in (
        (None, "has no digest there, which would tell whether it is as it was"),
        (
            "0" * 64,
            "is not as it was then",
        ),
    ):
        assert distrust(mine, folder, stored) == reason
    for gone in tmp_path / "gone.py", tmp_path, tmp_path / ("long" * 100):
        assert distrust(gone, folder, "0" * 64) == "is not there"


def test_code_that_came_along_is_not_trusted(tmp_path):
    folder, brought = tmp_path / "run", tmp_path / "run" / "deep" / "brought.py"
    brought.parent.mkdir(parents=True)
    brought.write_text("value = 1\n")
    (tmp_path / "link.py").symlink_to(brought)  # from outside into it
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").touch()
    (tmp_path / "__init__.py").touch()  # a package around the run: `from .run.deep import brought`
    (tmp_path / "other").symlink_to(folder)  # another name of the run
    for usr_dir in brought, tmp_path / "link.py", folder / "mine", tmp_path:
        for name in folder, tmp_path / "other":
            assert distrust(usr_dir, name) == "lies in it"
    brought.unlink()
    (folder / "mine" / "__init__.py").unlink()
    plugins.check_trusted(str(tmp_path), plugins.digest(str(tmp_path)), folder)
