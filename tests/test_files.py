"""Files of every kind, read as bytes and as lines."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import random
import threading

import pytest

from t2t_lite.errors import UserError
from t2t_lite.files import (
    aligned_lines,
    decode_lines,
    descriptor,
    is_regular,
    missing_file,
    open_bytes,
    read_lines,
)

MARK = b"\xef\xbb\xbf"
TEXT = "erste Zeile\nzweite\n\nléon\n".encode()
LINES = ["erste Zeile", "zweite", "", "léon"]


@contextlib.contextmanager
def fed(*chunks: bytes):
    """The descriptor of a pipe into which a thread writes the chunks, one at a time."""
    ours, theirs = os.pipe()

    def write():
        with open(theirs, "wb", buffering=0) as file:
            for chunk in chunks:
                file.write(chunk)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield ours
    finally:
        os.close(ours)
        thread.join()


@pytest.mark.parametrize("prefix", [b"", MARK], ids=["plain", "marked"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["text", "gzip"])
def test_files_and_pipes_are_read_alike(tmp_path, pack, prefix):
    content = pack(prefix + TEXT)
    file, fifo, link = (tmp_path / name for name in ("file", "fifo", "link"))
    file.write_bytes(content)
    link.symlink_to(file)
    os.mkfifo(fifo)
    assert list(read_lines(file)) == list(read_lines(str(link))) == LINES
    writer = threading.Thread(target=fifo.write_bytes, args=[content])
    writer.start()
    assert list(read_lines(fifo)) == LINES
    writer.join()
    # A pipe may give a byte at a time, at the beginning too.
    with fed(*(content[i : i + 1] for i in range(5)), content[5:]) as number:
        assert list(read_lines(f"/dev/fd/{number}")) == LINES


def test_gzip_of_several_members_and_text_called_gz(tmp_path):
    file = tmp_path / "in.gz"
    file.write_bytes(gzip.compress(MARK + TEXT[:9]) + gzip.compress(TEXT[9:]))
    assert list(read_lines(file)) == LINES
    file.write_bytes(TEXT)  # a browser may have unpacked it
    assert list(read_lines(file)) == LINES
    file.write_bytes(gzip.compress(TEXT)[:-9])
    with pytest.raises(UserError, match=r"in.gz: cannot be read \(.*\); expected whole gzip"):
        list(read_lines(file))
    file.write_bytes(gzip.compress(random.Random(1).randbytes(99))[:30] + b"no deflate" * 9)
    with pytest.raises(UserError, match="expected whole gzip"):
        list(read_lines(file))


def test_what_is_no_text_is_said(tmp_path):
    file = tmp_path / "in"
    text = TEXT.decode()
    for content, kind in (
        (text.encode("utf-16"), "UTF-16"),
        (gzip.compress(b"\xfe\xff" + text.encode("utf-16-be")), "UTF-16"),
        (bz2.compress(TEXT), "bzip2"),
        (lzma.compress(TEXT), "xz"),
    ):
        file.write_bytes(content)
        with pytest.raises(UserError, match=f"in: {kind}; expected text in UTF-8, plain or gzip"):
            open_bytes(file)


def test_a_mark_is_text_unless_it_is_at_the_start(tmp_path):
    file = tmp_path / "in"
    for content, lines in (
        (b"", []),
        (MARK, []),
        (MARK[:2], None),
        (MARK + MARK + b"a", ["\ufeffa"]),
        (b"a\n" + MARK + b"b", ["a", "\ufeffb"]),
    ):
        file.write_bytes(content)
        if lines is None:
            with pytest.raises(UserError, match="in:1: byte 0xef at position 1 is not UTF-8"):
                list(read_lines(file))
        else:
            assert list(read_lines(file)) == lines


def test_a_regular_file_can_be_sought_in(tmp_path):
    file = tmp_path / "in"
    file.write_bytes(MARK + TEXT)
    with open_bytes(file) as opened:
        assert opened.tell() == 3 and opened.readline() == b"erste Zeile\n"
        opened.seek(15)
        assert opened.readline() == b"zweite\n"


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\rc\n\rd", ["a\r", "b\rc", "\rd"]),
        (b"end\r", ["end\r"]),
        ("a\u2028b\u0085c\x0bd\x0ce\x1cf\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce\x1cf"]),
        (b"\n\n", ["", ""]),
        (b"nul \0\n", ["nul \0"]),
    ],
)
def test_only_lf_or_cr_lf_ends_a_line(content, lines):
    assert list(decode_lines(io.BytesIO(content), "x")) == lines


def test_what_is_not_utf_8_is_named_by_its_line():
    lines = decode_lines([b"fine\n", b"caf\xe9\n"], "menu", first=7)
    assert next(lines) == "fine"
    with pytest.raises(UserError, match="menu:8: byte 0xe9 at position 4 is not UTF-8; expected"):
        next(lines)


def test_names_of_open_files(tmp_path):
    file, link, chain = (tmp_path / name for name in ("file", "link", "chain"))
    file.write_text("first\nsecond\n")
    with open(file, "rb", buffering=0) as opened:
        number = opened.fileno()
        link.symlink_to(f"/proc/self/fd/{number}")
        chain.symlink_to("link")
        names = f"/dev/fd/{number}", f"/proc/{os.getpid()}/fd/{number}", link, chain
        assert [descriptor(name) for name in names] == [number] * 4
        assert not any(map(is_regular, names)) and is_regular(file)
        opened.read(6)
        assert list(read_lines(chain)) == ["second"]  # goes on where the file is
    assert descriptor("-") == descriptor("/dev/stdin") == 0 and descriptor(file) is None
    (tmp_path / "loop").symlink_to("loop")
    assert descriptor(tmp_path / "loop") is None


def test_what_cannot_be_opened(tmp_path):
    (tmp_path / "corpus.en").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name, message in (
        ("corpus.em", f"no such file: .*; nearest in {tmp_path}: corpus.en"),
        ("corpus.en/x", "no such file: .*; no such folder: "),
        ("", "a folder; expected a file"),
        ("loop", r"loop: cannot be read \(Too many levels of symbolic links\)"),
        ("n" * 300, r"cannot be read \(File name too long\)"),
    ):
        with pytest.raises(UserError, match=message):
            open_bytes(tmp_path / name)
    with pytest.raises(UserError, match=r"/dev/fd/999: cannot be read \(Bad file descriptor\)"):
        open_bytes("/dev/fd/999")


def test_where_no_regular_file_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in ("pipe", "pipe: a pipe or device; expected a reg"), ("", "a folder; exp"):
        assert message in str(missing_file(tmp_path / name))


def test_an_error_while_reading_names_the_file():
    with pytest.raises(OSError) as caught:  # a process may not read its address 0
        list(read_lines("/proc/self/mem"))
    assert caught.value.filename == "/proc/self/mem"


def test_aligned_lines_read_each_file_once(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path, content in zip(paths, ("1\n2\n3\n", "eins\nzwei\ndrei", "un\ndeux\ntrois\n")):
        path.write_text(content)
    rows = [("1", "eins", "un"), ("2", "zwei", "deux"), ("3", "drei", "trois")]
    with fed(paths[1].read_bytes()) as number:
        pipe = f"/dev/fd/{number}"
        assert list(aligned_lines(paths[0], pipe, paths[2])) == rows
        with pytest.raises(UserError, match=f"{pipe} given twice; it can be read only once"):
            list(aligned_lines(pipe, paths[0], pipe))
    assert list(aligned_lines(paths[0], paths[0])) == [("1", "1"), ("2", "2"), ("3", "3")]
    paths[1].write_text("eins\n")
    with pytest.raises(UserError, match="a has 3, .*b has 1, .*c has 3; expected line-aligned"):
        list(aligned_lines(*paths))
