"""write_corpus: what it keeps and counts, whole or not at all, and that it goes on when killed."""

import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from unittest.mock import Mock

import pytest

from t2t_lite.data import corpus_writer
from t2t_lite.data.corpus import ABOUT
from t2t_lite.data.corpus_writer import write_corpus
from t2t_lite.data.sources import PART, Distinct, Filtered, Generated, TextFiles, TsvFile
from t2t_lite.errors import UserError

PAIRS = [("a b", "x"), ("", "y"), ("a b", "x"), ("line\nend", "\u2028 \r"), ("a b", "z")]


def content(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_keeps_and_counts(tmp_path):
    source = Distinct(Filtered(Generated(lambda: iter(PAIRS), "pairs"), lambda a, b: a, "no input"))
    corpus = write_corpus(source, tmp_path, "some")
    assert list(corpus.pairs()) == [("a b", "x"), ("line end", "\u2028 \r"), ("a b", "z")]
    assert corpus.left_out == {"no input": 1, "duplicates": 1}
    assert str(corpus) == "3 pairs from pairs"
    assert sorted(path.name for path in corpus.folder.iterdir()) == [
        "about.json",
        "index.bin",
        "pairs.txt",
    ]


def test_written_once(tmp_path):
    calls = []
    source = Generated(lambda: calls.append(1) or iter(PAIRS), "pairs")
    first, second = (write_corpus(source, tmp_path, "some") for _ in range(2))
    assert len(calls) == 1 and first.folder == second.folder
    assert write_corpus(source, tmp_path, "other").folder != first.folder


@pytest.mark.parametrize(
    "pairs, message",
    [
        ([], "broken: the corpus is empty; expected at least one pair"),
        ([("", "x")] * 7, r"broken: the corpus is empty; expected .* \(left out: no input: 7\)"),
    ],
)
def test_nothing_left(tmp_path, pairs, message):
    source = Filtered(Generated(lambda: iter(pairs), "broken"), lambda a, b: a, "no input")
    with pytest.raises(UserError, match=message):
        write_corpus(source, tmp_path / "data", "some")
    assert not (tmp_path / "data").exists()


def test_a_wrong_source_leaves_nothing(tmp_path):
    def pairs():
        yield from [("a", "b")] * (PART + 1)
        raise UserError("line 8194 is broken")

    (tmp_path / "other").touch()
    for folder in tmp_path / "data", tmp_path:
        with pytest.raises(UserError, match="line 8194"):
            write_corpus(Generated(pairs, "broken"), folder, "some")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("different", [50_000, 7 * PART])
def test_goes_on_after_any_interruption(tmp_path, monkeypatch, different):
    """Ended after each write there is, as by kill -9: the result is the same to the byte."""
    lines = [(f"line {n % different}", str(n % different)) for n in range(7 * PART)]
    files = tmp_path / "a.tsv"
    files.write_text("".join(f"{a}\t{b}\n" for a, b in lines))
    source = Distinct(TsvFile(files))
    expected = content(write_corpus(source, tmp_path / "whole", "some").folder)
    read = []
    monkeypatch.setattr(TsvFile, "read", lambda self, part, _: read.append(part[0]) or _read(part))

    def killing(function, after):
        calls = iter(range(after + 1))
        return lambda *args: function(*args) if next(calls) < after else _raise(Killed)

    for function in ("_append", "_drop_equals", "_finish"):
        for after in range(7 if function == "_append" else 1):
            folder = tmp_path / f"{function}{after}"
            with monkeypatch.context() as patch, pytest.raises(Killed):
                patch.setattr(
                    corpus_writer, function, killing(getattr(corpus_writer, function), after)
                )
                write_corpus(source, folder, "some")
            (partial,) = folder.iterdir()
            with open(partial / "pairs.txt", "ab") as file:  # a write that was cut off
                file.write(b"line 1")
            read.clear()
            assert content(write_corpus(source, folder, "some").folder) == expected
            if function == "_append" and after > 3:  # the rest is too little to be shared
                assert len(read) == 7 - after
            assert len(list(folder.iterdir())) == 1


class Killed(BaseException):
    """In place of a signal."""


def _read(part):
    return (tuple(line.decode().rstrip("\n").split("\t")) for line in part[1])


def _raise(kind):
    raise kind


KILLED = """
    import os, sys
    from t2t_lite.data.corpus_writer import write_corpus
    from t2t_lite.data.sources import Generated, PART

    def pairs():
        for n in range(20 * PART):
            if n == int(sys.argv[2]):
                os.kill(os.getpid(), 9)
            yield f"line {n}", str(n)

    write_corpus(Generated(pairs, "lines"), sys.argv[1], "some")
"""


def test_several_processes_and_kill(tmp_path):
    """By forked workers, which end with a parent that is killed; another start goes on."""
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    command = [sys.executable, str(script), str(tmp_path / "data")]
    killed = subprocess.run([*command, str(13 * PART)])
    assert killed.returncode == -signal.SIGKILL
    (partial,) = (tmp_path / "data").iterdir()
    journal = (partial / "journal.jsonl").read_bytes().splitlines()
    assert json.loads(journal[-1])["parts"] > 0
    assert subprocess.run([*command, "-1"]).returncode == 0
    (folder,) = (tmp_path / "data").iterdir()
    whole = Generated(lambda: ((f"line {n}", str(n)) for n in range(20 * PART)), "lines")
    assert content(folder) == content(write_corpus(whole, tmp_path / "again", "some").folder)


WORKER_ENDED = """
    import os, sys
    from t2t_lite.data.corpus_writer import write_corpus
    from t2t_lite.data.sources import Mapped, Generated, PART

    def end(source, target):
        if os.getpid() != parent:
            os.kill(os.getpid(), 9)
        return source, target

    parent = os.getpid()
    lines = Generated(lambda: ((str(n), str(n)) for n in range(5 * PART)), "lines")
    try:
        write_corpus(Mapped(lines, end, "ended"), sys.argv[1], "some")
    except OSError as error:
        print(error)
"""


def test_a_worker_that_is_ended_is_an_error_of_the_machine(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(WORKER_ENDED), str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("lines: a process that prepared it was ended, perhaps for want of mem")


def test_two_at_once(tmp_path, monkeypatch):
    """The second says that it waits for the first, and takes what that made."""
    made, said = [], []
    begun, go_on = threading.Event(), threading.Event()

    def pairs():
        made.append(1)
        begun.set()
        go_on.wait(60)
        return iter(PAIRS)

    found = []

    def write():
        found.append(write_corpus(Generated(pairs, "pairs"), tmp_path, "some").folder)

    threads = [threading.Thread(target=write) for _ in range(2)]
    threads[0].start()
    assert begun.wait(60)
    monkeypatch.setattr("warnings.warn", lambda message, **_: said.append(message) or go_on.set())
    threads[1].start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 1 and len(found) == 2 and found[0] == found[1]
    assert said == [f"{tmp_path}: another process prepares this corpus; waiting"]


def test_where_the_file_system_keeps_no_locks(tmp_path, monkeypatch):
    none = OSError(errno.ENOLCK, "No locks available")
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=none))
    with pytest.warns(UserWarning, match=r"keeps no locks \(No locks available\)"):
        assert len(write_corpus(Generated(lambda: iter(PAIRS), "pairs"), tmp_path, "a")) == len(
            PAIRS
        )
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=PermissionError))
    with pytest.raises(PermissionError):
        write_corpus(Generated(lambda: iter(PAIRS), "pairs"), tmp_path, "b")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_text("a\tb\n" * 9)

    def keep(source, target):
        file.write_text("a\tb\n" * 10)
        return True

    with pytest.raises(UserError, match="a.tsv: changed while it was read; start again"):
        write_corpus(Filtered(TsvFile(file), keep, "all"), tmp_path, "some")
    assert os.listdir(tmp_path) == ["a.tsv"]


def test_a_full_disk_names_the_corpus_and_the_next_start_goes_on(tmp_path):
    lines = Generated(lambda: ((f"line {n}", str(n)) for n in range(3 * PART)), "lines")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, old[1]))
        with pytest.raises(OSError, match="File too large: .*some.*partial"):
            write_corpus(lines, tmp_path, "some")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert len(write_corpus(lines, tmp_path, "some")) == 3 * PART


def test_what_was_left_long_ago_goes(tmp_path):
    for name in "old.partial", "new.partial":
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()  # all that one has at its very beginning
    os.utime(tmp_path / "old.partial" / "lock", (1, 1))
    write_corpus(Generated(lambda: iter(PAIRS), "pairs"), tmp_path, "some")
    left = {path.name for path in tmp_path.iterdir()}
    assert "new.partial" in left and "old.partial" not in left


def test_a_pipe_is_read_once(tmp_path):
    """Its corpus is found again by its digest alone, for another's content is unknown."""

    def piped(text):
        reader, writer = os.pipe()
        os.write(writer, text)
        os.close(writer)
        try:
            return write_corpus(TsvFile(f"/dev/fd/{reader}"), tmp_path, "some")
        finally:
            os.close(reader)

    first, again, other = map(piped, (b"a\tb\n", b"a\tb\n", b"c\td\n"))
    assert list(first.pairs()) == [("a", "b")] and list(other.pairs()) == [("c", "d")]
    assert first.folder == again.folder != other.folder
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_process_of_the_same_number_left_of_a_pipe_is_another_pipes(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("killed")

    def piped(text):
        with tempfile.TemporaryFile() as file:
            file.write(text)
            file.seek(0)
            return write_corpus(TsvFile(f"/dev/fd/{file.fileno()}"), tmp_path, "some")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):
        patch.setattr(corpus_writer, "_finish", broken)
        piped(b"a\tb\n" * 9)
    [left] = tmp_path.iterdir()
    assert left.name.endswith(f".{os.getpid()}.partial")
    # The same descriptor, hence the same name and, in a container, often the same process number.
    assert list(piped(b"c\td\n").pairs()) == [("c", "d")]
    assert not left.exists()


def test_about_is_plain(tmp_path):
    (tmp_path / "ä").mkdir()
    paths = [tmp_path / "ä" / name for name in "ab"]
    for path in paths:
        path.write_text("x\n")
    corpus = write_corpus(TextFiles(*paths), tmp_path, "some")
    about = json.loads((corpus.folder / ABOUT).read_text(encoding="utf-8"))
    assert about == {
        "source": f"{paths[0]} and {paths[1]}",
        "left_out": {},
        "pairs": 1,
        "bytes": 4,
        "digest": corpus.digest,
    }
