"""Which version of an export is served, without a model: its folder's files decide."""

import pytest

from t2t_lite.errors import UserError
from t2t_lite.serving.versions import Versions, name_of


class Folder:
    """An export's folder, its Versions, and what was loaded and said."""

    def __init__(self, path, *versions):
        self.path, self.loaded, self.said = path, [], []
        path.mkdir(parents=True)
        for version in versions:
            self.write(version)
        self.versions = Versions(path, self.load, self.said.append)

    def write(self, version, content="model"):
        folder = self.path / str(version)
        folder.mkdir(exist_ok=True)
        (folder / "model").write_text(content)

    def load(self, folder):
        try:
            content = (folder / "model").read_text()
        except FileNotFoundError:
            raise UserError(f"{folder}: no model") from None
        if content != "model":
            raise RuntimeError(f"bad\n{content}")
        self.loaded.append(folder.name)
        return folder.name

    def states(self):
        return [(about["version"], about["state"]) for about in self.versions.states.as_json()]


def test_the_last_good_one_is_served_and_the_others_are_named(tmp_path):
    export = Folder(tmp_path / "models", 2, 10, "007", ".a1.partial", "latest", "011")
    (export.path / "README").touch()
    (export.path / "100").mkdir()
    export.write(99, "broken")
    assert export.versions.newest() == "10" and export.loaded == ["10"]
    assert export.said == [
        f"skipped {export.path}/.a1.partial: not a version's name",
        f"skipped {export.path}/007: not a version's name",
        f"skipped {export.path}/011: not a version's name",
        f"skipped {export.path}/latest: not a version's name",
        f"skipped {export.path}/100: no model",
        f"skipped {export.path}/99: RuntimeError: bad broken",
    ]
    assert export.states() == [("100", "END"), ("99", "END"), ("10", "LOADING")]
    [broken] = export.versions.states.as_json("99")
    assert broken["status"] == {
        "error_code": "UNKNOWN",
        "error_message": "RuntimeError: bad broken",
    }


def test_nothing_that_can_be_served_is_one_error(tmp_path):
    export = Folder(tmp_path / "models", "latest")
    export.write(3, "broken")
    (export.path / "4").touch()
    with pytest.raises(UserError) as error:
        export.versions.newest()
    assert str(error.value) == (
        f"{export.path}: {export.path}/latest: not a version's name; "
        f"{export.path}/4: NotADirectoryError: [Errno 20] Not a directory: "
        f"'{export.path}/4/model'; {export.path}/3: RuntimeError: bad broken"
    )
    assert export.said == []
    (tmp_path / "other" / "1").mkdir(parents=True)
    (tmp_path / "other" / "1" / "saved_model.pb").touch()
    for folder in Folder(tmp_path / "empty").path, tmp_path / "none":
        with pytest.raises(UserError, match=f"{folder}: no export there .*nearest: .*/other$"):
            Versions(folder, None, None).newest()


def test_a_version_alone(tmp_path):
    export = Folder(tmp_path / "models", 1, 2)
    (export.path / "1" / "saved_model.pb").touch()
    alone = Versions(export.path / "1", export.load, export.said.append)
    assert alone.newest() == "1" and alone.look() is None and export.said == []
    assert name_of(export.path) == name_of(export.path / "1") == "models"
    assert name_of(export.path, "other") == "other"
    with pytest.raises(UserError, match="name 'a/b': expected letters, digits, dots and dashes"):
        name_of(export.path, "a/b")


def test_a_newer_version_is_taken_once_it_has_stood_still(tmp_path):
    export = Folder(tmp_path / "models", 2)
    look = export.versions.look
    assert export.versions.newest() == "2" and look() is None
    export.write(1)  # older
    assert look() is None and look() is None
    export.write(3, "mod")
    export.write(4, "mo")
    assert look() is None  # they may be on their way
    export.write(4)
    assert look() is None
    assert look() == "4" and export.loaded == ["2", "4"]
    assert look() is None and look() is None
    assert export.said == [f"loading {export.path}/4"]


def test_a_broken_version_is_named_once_and_tried_again_when_it_changes(tmp_path):
    export = Folder(tmp_path / "models", 1)
    look = export.versions.look
    export.versions.newest()
    export.write(2, "broken")
    export.write(3, "broken too")
    for _ in range(4):
        assert look() is None
    said = [
        f"loading {export.path}/3",
        f"skipped {export.path}/3: RuntimeError: bad broken too",
        f"loading {export.path}/2",
        f"skipped {export.path}/2: RuntimeError: bad broken",
    ]
    assert export.said == said and export.states()[:2] == [("3", "END"), ("2", "END")]
    export.write(2)
    assert look() is None and look() == "2"  # though 3 is as broken as it was
    export.write(3)
    assert look() is None and look() == "3"
    assert export.said[4:] == [f"loading {export.path}/2", f"loading {export.path}/3"]


def test_one_that_was_broken_at_the_start(tmp_path):
    export = Folder(tmp_path / "models", 1)
    export.write(2, "broken")
    assert export.versions.newest() == "1"
    assert export.versions.look() is None and export.versions.look() is None
    assert len(export.said) == 1  # nothing more
    export.write(2)
    assert export.versions.look() is None and export.versions.look() == "2"


def test_what_is_gone_is_served_on(tmp_path):
    export = Folder(tmp_path / "models", 1, 2)
    export.versions.newest()
    moved = tmp_path / "moved"
    (export.path / "2").rename(moved)
    assert export.versions.look() is None and export.versions.look() is None
    assert export.said == [f"{export.path}/2 is gone; version 2 is served on as it was loaded"]
    export.path.rename(tmp_path / "elsewhere")
    assert export.versions.look() is None and export.versions.look() is None
    assert export.said[1:] == [
        f"{export.path}: No such file or directory; version 2 is served on as it was loaded"
    ]
    (tmp_path / "elsewhere").rename(export.path)
    moved.rename(export.path / "3")
    assert export.versions.look() is None and export.versions.look() == "3"


def test_what_has_changed_in_its_place_is_served_as_it_was(tmp_path):
    export = Folder(tmp_path / "models", 1)
    export.versions.newest()
    export.write(1, "another model")
    assert export.versions.look() is None and export.versions.look() is None
    assert export.loaded == ["1"] and export.said == [
        f"{export.path}/1 has changed; expected a new version to have a new number; "
        "version 1 is served on as it was loaded"
    ]
