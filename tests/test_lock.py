"""A lock on a folder: one process holds it, as long as it lives."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys

import pytest

from t2t_lite.errors import UserError
from t2t_lite.lock import locked

HOLD = """
import os, pathlib, sys, time
from t2t_lite.lock import locked
with locked(pathlib.Path(sys.argv[1])):
    pathlib.Path(sys.argv[1], "content").touch()
    if os.fork() == 0:
        print("forked", flush=True)
        os.close(1)
        time.sleep(60)
    time.sleep(60)
"""


def test_it_ends_with_the_process_and_what_that_forked_does_not_hold_it(tmp_path):
    folder = tmp_path / "run"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert holder.stdout.readline() == b"forked\n"
        with pytest.raises(UserError, match=f"at work there \\(process {holder.pid} on "):
            with locked(folder):
                pass
        holder.kill()
        holder.wait()
        with locked(folder):
            assert (folder / "content").is_file()
    finally:
        os.killpg(holder.pid, 9)
        holder.stdout.close()
        holder.wait()
    assert (folder / "content").is_file()


def test_an_empty_folder_goes_with_the_lock(tmp_path):
    with locked(tmp_path / "a" / "run"):
        assert (tmp_path / "a" / "run").is_dir()
    assert not (tmp_path / "a" / "run").exists()
    with locked(tmp_path / "run"):
        shutil.rmtree(tmp_path / "run")


def test_where_the_file_system_keeps_no_locks(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    said = []
    with locked(tmp_path, said.append):
        pass
    assert len(said) == 1 and "keeps no locks (No locks available)" in said[0]
    monkeypatch.setattr(fcntl, "flock", lambda *_: os.stat(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError), locked(tmp_path):
        pass


def test_no_link_is_followed(tmp_path):
    (tmp_path / "precious").write_text("text")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError), locked(tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "text"
