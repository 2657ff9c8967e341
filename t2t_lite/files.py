"""Files: written whole or not at all, read as lines of UTF-8, and named in errors."""

import contextlib
import difflib
import gzip
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from t2t_lite.errors import UserError


@contextlib.contextmanager
def replacing(path, mode: str = "w") -> Iterator[IO]:
    """Opens a temporary file beside `path`, renamed to it when the block ends without an error.

    Text is UTF-8 with line ends as written. Folders are made where they are missing.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(partial, mode, **text) as file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def missing_file(path: Path) -> UserError:
    """The error for a file that is not there, naming the nearest ones in its folder."""
    return UserError(f"no such file: {path}; {nearest_files(path.parent, path.name)}")


def nearest_files(folder: Path, name: str) -> str:
    """`nearest in FOLDER: a, b`: the files of `folder` whose names are nearest to `name`."""
    if not folder.is_dir():
        return f"no such folder: {folder}"
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names[:6]
    return f"nearest in {folder}: {', '.join(near)}" if near else f"{folder} holds no files"


def is_gzip(path: Path) -> bool:
    """Whether a file is read as gzip, which its name says."""
    return path.suffix == ".gz"


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, plain or `.gz`.

    Raises UserError for a file that is missing or broken, and for what is not UTF-8, by its line.
    """
    if not path.is_file():
        raise missing_file(path)
    try:
        with gzip.open(path) if is_gzip(path) else open(path, "rb") as file:
            yield from decode_lines(file, str(path))
    except (OSError, EOFError) as error:
        raise UserError(
            f"{path}: cannot be read ({error}); expected {'gzip' if is_gzip(path) else 'text'}"
        ) from None


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of UTF-8 bytes as text. Only LF ends a line, CR is never part of one.

    Raises UserError for what is not UTF-8: `name`, the number of the line, and the byte.
    """
    for number, line in enumerate(lines, 1):
        try:
            yield line.rstrip(b"\n").replace(b"\r", b"").decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}:{number}: byte 0x{line[error.start]:02x} at position {error.start + 1} "
                "is not UTF-8; expected UTF-8 text"
            ) from None


def file_identity(path: Path) -> str:
    """A text that changes when the file does. Raises UserError for a missing one."""
    if not path.is_file():
        raise missing_file(path)
    status = path.stat()
    return f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
