"""The folder of an export: its number, and what several exports at once and killed ones leave."""

import errno
import os

import pytest

from t2t_lite.errors import UserError
from t2t_lite.export import folder as module
from t2t_lite.export.folder import building, new_version, publish, version_of


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "name, number",
    [("0", 0), ("7", 7), (f"{2**63 - 1}", 2**63 - 1), (f"{2**63}", None), ("007", None)]
    + [(name, None) for name in ("", "latest", "-1", "1.5", "\u0667", "9" * 30, ".a.partial")],
)
def test_what_a_version_is_called(name, number):
    assert version_of(name) == number


def test_the_next_number(tmp_path):
    assert new_version(tmp_path / "none", None).name == "1"
    for name in "3", "007", "latest", "\u0669", "9" * 30:
        (tmp_path / name).mkdir()
    (tmp_path / "5").touch()  # a file, which is in the way too
    assert new_version(tmp_path, None).name == "6" and new_version(tmp_path, 4).name == "4"
    for version in 0, -1, 2**63:
        with pytest.raises(UserError, match=f"^version {version}: expected 1 to .* free one is 6"):
            new_version(tmp_path, version)
    for version in 3, 5:
        with pytest.raises(UserError, match=f"{version} exists; .* free version is 6"):
            new_version(tmp_path, version)


def built(folder, text):
    folder.mkdir()
    (folder / "text").write_text(text)


def test_two_at_once_become_two_versions(tmp_path):
    export_dir = tmp_path / "models" / "new"
    with building(export_dir) as first, building(export_dir) as second:
        built(first, "first")
        built(second, "second")  # the other has not cleared it away
        assert publish(second, export_dir, None) == export_dir / "1"
        assert publish(first, export_dir, None) == export_dir / "2"
    assert names(export_dir) == ["1", "2"]
    assert [(export_dir / name / "text").read_text() for name in "12"] == ["second", "first"]


def test_a_number_taken_at_the_last_moment(tmp_path, monkeypatch):
    """By a folder, and by a file; one that was asked for is refused then."""
    built(tmp_path / "1", "other")
    (tmp_path / "2").touch()
    stale, free = iter("12"), module.new_version  # what it saw is no longer so

    def seen(folder, version):
        name = next(stale, None)
        return folder / name if name else free(folder, version)

    monkeypatch.setattr(module, "new_version", seen)
    with building(tmp_path) as folder:
        built(folder, "mine")
        assert publish(folder, tmp_path, None) == tmp_path / "3"
    with building(tmp_path) as folder:
        built(folder, "mine")
        with pytest.raises(UserError, match="1 exists"):
            publish(folder, tmp_path, 1)
    assert names(tmp_path) == ["1", "2", "3"]


def test_one_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), building(tmp_path / "models" / "new") as folder:
        built(folder, "half")
        raise RuntimeError
    assert names(tmp_path) == []


def test_a_full_disk_is_told_with_the_folder(tmp_path):
    with pytest.raises(OSError, match=f"No space left.*{tmp_path}"), building(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")  # as a file's `write` raises it
    assert names(tmp_path) == []


def test_what_killed_ones_left_goes_with_the_next(tmp_path):
    """But no folder of anybody else, and nothing behind a link."""
    elsewhere, export_dir = tmp_path / "elsewhere", tmp_path / "export"
    for killed in ".a1.partial", ".b2.partial", "mine.partial":
        (export_dir / killed).mkdir(parents=True)
        built(export_dir / killed / "version", "half")
    built(elsewhere, "whole")
    (export_dir / ".c3.partial").symlink_to(elsewhere)
    with building(export_dir) as folder:
        assert names(export_dir) == sorted([".c3.partial", "mine.partial", folder.parent.name])
        assert os.listdir(folder.parent) == []
    assert names(export_dir) == [".c3.partial", "mine.partial"] and (elsewhere / "text").exists()


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"^{tmp_path}/file/below: Not a directory$"):
        with building(tmp_path / "file" / "below"):
            pass
