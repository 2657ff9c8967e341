"""Files that are written whole or not at all, and what is no regular file."""

import errno
import gzip
import os
import resource
import stat
import threading

import pytest

from t2t_lite.errors import UserError
from t2t_lite.output import check_folder, check_no_input, make_folder, replacing, writing


def test_a_file_gets_its_name_when_it_is_whole_and_keeps_its_mode(tmp_path):
    file = tmp_path / "out"
    file.write_text("before")
    file.chmod(0o640)
    with writing(file) as output:
        output.write("naïve\n")
        assert file.read_text() == "before"
    assert file.read_text(encoding="utf-8") == "naïve\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640 and os.listdir(tmp_path) == ["out"]


def test_an_error_names_the_file(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError) as caught, replacing(tmp_path / "a"):
        raise full
    assert caught.value.filename == str(tmp_path / "a") and list(tmp_path.iterdir()) == []


def test_links_stay_links(tmp_path):
    (tmp_path / "real").write_text("before")
    for name, target in (("link", "real"), ("chain", "link"), ("dangling", "new")):
        (tmp_path / name).symlink_to(target)
    for name, target in (("chain", "real"), ("dangling", "new")):
        with writing(tmp_path / name) as output:
            output.write("after\n")
        assert (tmp_path / target).read_text() == "after\n"
        with replacing(tmp_path / name) as file:
            file.write("again")
        assert (tmp_path / target).read_text() == "again"
    assert all((tmp_path / name).is_symlink() for name in ("link", "chain", "dangling"))


def test_pipes_devices_and_open_files_are_written_to(tmp_path):
    fifo, other = tmp_path / "fifo", tmp_path / "other"
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    with writing(fifo) as output:
        output.write("through\n")
    reader.join()
    assert got == [b"through\n"] and stat.S_ISFIFO(fifo.stat().st_mode)
    other.write_text("begun\n")
    with open(other, "ab", buffering=0) as opened:
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{opened.fileno()}")
        with writing(tmp_path / "link") as output:
            output.write("goes on\n")
    assert other.read_text() == "begun\ngoes on\n" and (tmp_path / "link").is_symlink()
    with pytest.raises(UserError, match="--resume: .*fifo is no regular file"):
        with writing(fifo, {}, resume=True):
            pass


def test_a_null_device(tmp_path):
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices are root's to make")
    with writing(null) as output:
        output.write("nothing\n")
    assert stat.S_ISCHR(null.stat().st_mode) and os.listdir(tmp_path) == ["null"]


def test_gz_is_compressed(tmp_path):
    contents = []
    for name in ("a.gz", "b.gz"):
        with writing(tmp_path / name) as output:
            output.write("one\n")
            output.mark(1, "")
            output.write("two\n")
        contents.append((tmp_path / name).read_bytes())
    assert gzip.decompress(contents[0]) == b"one\ntwo\n" and contents[0] == contents[1]


def test_stdout(capsys):
    with writing("-") as output:
        output.write("täglich\n")
    assert capsys.readouterr().out == "täglich\n"


def test_what_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name, message in (
        ("folder", r"folder: cannot be written \(a folder; expected a file\)"),
        ("file/x", "file/x: no such folder: .*file"),
        ("none/x", "none/x: no such folder: .*none"),
        ("loop", r"loop: cannot be written \(Too many levels"),
        ("n" * 300, "File name too long"),
    ):
        with pytest.raises(UserError, match=message), writing(tmp_path / name):
            pass
    with pytest.raises(UserError, match="without a name"), writing(""):
        pass
    with pytest.raises(UserError, match="new/: a folder's name"), writing(f"{tmp_path}/new/"):
        pass
    with pytest.raises(UserError, match="/proc/x: "), writing("/proc/x"):
        pass
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "loop"]
    with pytest.raises(UserError, match=r"file: cannot be written \(a file; expected a folder"):
        make_folder(tmp_path / "file")
    with pytest.raises(UserError, match=r"x/y: cannot be written \(.*file is a file; expected"):
        check_folder(tmp_path / "file" / "x" / "y")
    check_folder(tmp_path / "new" / "one")
    make_folder(tmp_path / "new" / "one")
    assert (tmp_path / "new" / "one").is_dir()


def test_an_output_that_is_the_input(tmp_path):
    file, link, hard = (tmp_path / name for name in ("file", "link", "hard"))
    file.touch()
    link.symlink_to(file)
    hard.hardlink_to(file)
    for output in file, link, hard:
        with pytest.raises(UserError, match=f"{output} is the input {file} too"):
            check_no_input(output, tmp_path / "other", file)
    with open(file) as opened, pytest.raises(UserError, match="is the input /dev/fd/"):
        check_no_input(file, f"/dev/fd/{opened.fileno()}")
    check_no_input(tmp_path / "new", file)
    check_no_input("-", "-")


def test_a_full_disk_keeps_what_was_written(tmp_path):
    file = tmp_path / "out"
    file.write_text("before")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, old[1]))
        with pytest.raises(OSError) as caught, writing(file) as output:
            for _ in range(1000):
                output.write("a line of some length, many times\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert caught.value.filename == str(file) and file.read_text() == "before"
    partial = tmp_path / "out.partial"
    assert caught.value.__notes__ == [f"what was written so far is kept as {partial}"]
    assert partial.stat().st_size == 20_000


def test_leftovers_of_killed_processes(tmp_path):
    (tmp_path / "out.partial").write_text("left by one that was killed")
    for write in (writing, replacing):
        with write(tmp_path / "out") as output:
            output.write("whole")
        assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out").read_text() == "whole"
    for write in (writing, replacing):
        with pytest.raises(ZeroDivisionError), write(tmp_path / "out"):
            raise ZeroDivisionError
        assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out").read_text() == "whole"


def test_two_at_once(tmp_path):
    with writing(tmp_path / "out") as output:
        output.write("first")
        with pytest.raises(UserError, match="out.partial: another process is writing it"):
            with writing(tmp_path / "out"):
                pass

    def write(number: int):
        with replacing(tmp_path / "shared") as file:
            file.write(f"{number}" * 1000)

    threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = (tmp_path / "shared").read_text()
    assert len(text) == 1000 and len(set(text)) == 1
    assert sorted(os.listdir(tmp_path)) == ["out", "shared"]


OPTIONS = {"beam_size": 4, "alpha": None}


def interrupted(path, options=OPTIONS):
    """A start that marks two lines and is interrupted after the third."""
    with pytest.raises(KeyboardInterrupt), writing(path, options) as output:
        output.write("eins\nzwei\n")
        output.mark(2, "digest of two")
        output.write("dr")
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_resuming(tmp_path, name):
    file, whole = tmp_path / name, tmp_path / "whole" / name
    interrupted(file)
    with writing(file, OPTIONS, resume=True) as output:
        assert (output.lines, output.digest) == (2, "digest of two")
        output.write("drei\n")
    assert os.listdir(tmp_path) == [name]
    whole.parent.mkdir()
    with writing(whole, OPTIONS) as output:
        output.write("eins\nzwei\n")
        output.mark(2, "")
        output.write("drei\n")
    assert file.read_bytes() == whole.read_bytes()


def test_what_cannot_be_resumed(tmp_path):
    file = tmp_path / "out"
    with writing(file, OPTIONS, resume=True) as output:  # nothing is there: from the beginning
        assert output.lines == 0
        output.write("eins\n")
    interrupted(file)
    kept = (tmp_path / "out.partial").read_text()
    for options, message in (
        (OPTIONS | {"beam_size": 1}, "beam_size: 4 -> 1; expected the same"),
        (OPTIONS | {"seed": 3}, "seed: None -> 3"),
    ):
        with pytest.raises(UserError, match=message), writing(file, options, resume=True):
            pass
        assert (tmp_path / "out.partial").read_text() == kept
    with writing(file, OPTIONS) as output:  # nor asked to
        assert output.lines == 0
        output.write("neu\n")
    assert file.read_text() == "neu\n" and os.listdir(tmp_path) == ["out"]
    interrupted(file)
    os.truncate(tmp_path / "out.partial", 3)
    with pytest.raises(UserError, match="was cut since"), writing(file, OPTIONS, resume=True):
        pass
    (tmp_path / "out.partial.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"), writing(file, OPTIONS, resume=True):
        pass
