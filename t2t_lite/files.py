"""Files to read: as bytes, as lines of UTF-8, and named in errors."""

import contextlib
import difflib
import gzip
import hashlib
import io
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from t2t_lite.errors import UserError

_GZIP, _BYTE_ORDER_MARK = b"\x1f\x8b", b"\xef\xbb\xbf"  # no UTF-8 begins with the first
# What files begin with that people give for text, and that hold none in UTF-8.
_NO_TEXT = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh91AY&": "bzip2",
    b"PK\3\4": "zip",
}


def missing_file(path: Path) -> UserError:
    """The error for a path where no regular file is: what is there, or the nearest names there."""
    if path.is_dir():
        return UserError(f"{path}: a folder; expected a file")
    if path.exists():
        return UserError(f"{path}: a pipe or device; expected a regular file")
    return UserError(f"no such file: {path}; {nearest_files(path.parent, path.name)}")


def nearest_files(folder: Path, name: str) -> str:
    """`nearest in FOLDER: a, b`: the files of `folder` whose names are nearest to `name`."""
    if not os.path.isdir(folder):
        return f"no such folder: {folder}"
    if not os.access(folder, os.R_OK):
        return f"{folder} may not be looked into"
    names = sorted(entry.name for entry in folder.iterdir() if os.path.isfile(entry))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names[:6]
    return f"nearest in {folder}: {', '.join(near)}" if near else f"{folder} holds no files"


def is_gzip(path: Path) -> bool:
    """Whether a file is gzip, as its name says."""
    return path.suffix == ".gz"


def is_regular(path) -> bool:
    """Whether a file may be read twice: not stdin (`-`), a pipe, a device or an open descriptor."""
    return descriptor(path) is None and os.path.isfile(path)


def descriptor(path) -> int | None:
    """The number of the open file that a path names: `-`, /dev/stdin, /dev/fd/N, links to them.

    Such a name is not to be opened: that begins at the start of a file that others share, and
    empties one that is written to.
    """
    if str(path) == "-":
        return 0
    path = os.path.abspath(path)
    for _ in range(40):  # links to links, at most
        folder, name = os.path.split(path)
        if os.path.realpath(folder) == os.path.realpath("/dev/fd") and name.isdecimal():
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.abspath(os.path.join(folder, os.readlink(path)))
    return None


def open_bytes(path) -> BinaryIO:
    """Opens a file of any kind for reading, `-` being stdin; `reading` says more.

    What gzip has compressed, in one member or several, is read as what it holds, by its first
    bytes. A byte-order mark of UTF-8 at the start is left out. A regular file can be sought in.

    Raises UserError for what is not there, for a folder, for what may not be read, and for UTF-16
    and other kinds of compression.
    """
    regular = is_regular(path)
    start, file = _beginning(_open(path), regular)
    if start.startswith(_GZIP):
        start, file = _beginning(_Gunzipped(fileobj=file), regular)
    for mark, kind in _NO_TEXT.items():
        if start.startswith(mark):
            file.close()
            raise UserError(f"{named(path)}: {kind}; expected text in UTF-8, plain or gzip")
    if start.startswith(_BYTE_ORDER_MARK):
        file.read(len(_BYTE_ORDER_MARK))
    return file


@contextlib.contextmanager
def reading(path) -> Iterator[BinaryIO]:
    """`open_bytes`, closed when the block ends.

    Raises UserError for gzip that is broken. An OSError while reading names the file.
    """
    try:
        with open_bytes(path) as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{named(path)}: cannot be read ({error}); expected whole gzip") from None
    except OSError as error:
        error.filename = error.filename or named(path)
        raise


def named(path) -> str:
    """A path in a message: `-` is stdin."""
    return "stdin" if str(path) == "-" else str(path)


class _Gunzipped(gzip.GzipFile):
    """A GzipFile that closes the file that it reads."""

    def close(self):
        file = self.fileobj
        super().close()
        if file:
            file.close()


class _Again(io.RawIOBase):
    """A stream whose beginning was read, to be read again from there."""

    def __init__(self, beginning: bytes, rest: BinaryIO):
        self._beginning, self._rest = beginning, rest

    def readable(self):
        return True

    def readinto(self, buffer):
        part = self._beginning[: len(buffer)] or self._rest.read1(len(buffer))
        self._beginning = self._beginning[len(part) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self):
        self._rest.close()
        super().close()


def _open(path) -> BinaryIO:
    number = descriptor(path)
    try:
        return open(path, "rb") if number is None else open(os.dup(number), "rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise missing_file(Path(path)) from None
    except OSError as error:
        raise UserError(f"{named(path)}: cannot be read ({error.strerror})") from None


def _beginning(file: BinaryIO, seekable: bool) -> tuple[bytes, BinaryIO]:
    """The first bytes of a file, and the file at its beginning."""
    start = file.read(max(map(len, _NO_TEXT)))
    if seekable:
        file.seek(0)
    else:
        file = io.BufferedReader(_Again(start, file))
    return start, file


def read_lines(path) -> Iterator[str]:
    """The lines of a text file as `open_bytes` and `decode_lines` read it.

    Raises UserError for a file that is missing or broken, and for what is not UTF-8, by its line.
    """
    with reading(path) as file:
        yield from decode_lines(file, named(path))


def aligned_lines(*paths) -> Iterator[tuple[str, ...]]:
    """The lines of text files side by side, each file read once.

    Raises UserError where one has more lines than another, naming all their numbers.
    """
    check_read_once(*paths)
    ended, count = object(), 0
    files = [read_lines(path) for path in paths]
    for row in itertools.zip_longest(*files, fillvalue=ended):
        if ended in row:
            counts = [
                f"{named(path)} has {count + (line is not ended) + sum(1 for _ in file):,}"
                for path, line, file in zip(paths, row, files)
            ]
            raise UserError(
                f"unequal line counts: {', '.join(counts)}; expected line-aligned files"
            )
        count += 1
        yield row


def check_read_once(*paths) -> None:
    """Raises UserError where two of the paths are the same pipe, device or open descriptor."""
    seen = set()
    for path in itertools.filterfalse(is_regular, paths):
        number = descriptor(path)
        key = os.path.realpath(path) if number is None else number
        if key in seen:
            raise UserError(f"{named(path)} given twice; it can be read only once")
        seen.add(key)


def decode_lines(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Lines of UTF-8 bytes as text. LF ends a line, or CR LF; any other CR is text.

    Args:
        lines: each with its LF; the last one may lack it.
        name: of the file, in errors.
        first: the number of the first line, likewise.

    Raises UserError for what is not UTF-8: `name`, the number of the line, and the byte.
    """
    for number, line in enumerate(lines, first):
        try:
            yield (line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line).decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}:{number}: byte 0x{line[error.start]:02x} at position {error.start + 1} "
                "is not UTF-8; expected UTF-8 text"
            ) from None


def one_line(text: str, place: str) -> str:
    """A text given as a line, without its line end, if it has one.

    Raises UserError, beginning with `place`, where another line follows.
    """
    if text.endswith("\n"):
        text = text[:-1].removesuffix("\r")
    if "\n" in text:
        position = text.index("\n") + 1
        raise UserError(f"{place}: a line ends at character {position}; expected one line")
    return text


def without_mark(line: bytes) -> bytes:
    """The first line of a stream without its byte-order mark, if any."""
    return line.removeprefix(_BYTE_ORDER_MARK)


def digest_of(path) -> str:
    """SHA-256 of what a regular file holds, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_identity(path: Path) -> str:
    """A text that changes when the file does; of what is no regular file, its name alone.

    Raises UserError for a missing one.
    """
    if not is_regular(path):
        if descriptor(path) is None and not path.exists():
            raise missing_file(path)
        return str(path)
    status = path.stat()
    # The time of the last change of any kind too: that of the content can be set by anybody.
    return f"{path.resolve()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
