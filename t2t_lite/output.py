"""Files to write: whole or not at all, and what is no regular file left what it is.

A regular file is written as NAME.partial, beside the file that NAME leads to, and gets its name
when it is whole, with the mode of the one before. Who writes it has it locked, so what a process
left that was killed is neither in the way nor taken for another's. Where a file has further names
(hard links), they keep what was there.
"""

import contextlib
import errno
import fcntl
import gzip
import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from t2t_lite.errors import UserError
from t2t_lite.files import descriptor, is_gzip, named


@contextlib.contextmanager
def replacing(path, mode: str = "w") -> Iterator[IO]:
    """Opens a new file that replaces `path` when the block ends without an error.

    Text is UTF-8 with line ends as written. Folders are made where they are missing.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    partial = partial_path(target)
    with naming(target), _locked(partial, wait=True) as held:
        held.truncate(0)
        try:
            with open(held.fileno(), mode, closefd=False, **text) as file:
                yield file
            _give_name(held, partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def partial_path(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(f"{path.name}.partial")


class Output:
    """Text on its way into a file.

    Attributes:
        lines: of the input, that were done by an earlier start, as its last `mark` says.
        digest: what that call was given.
    """

    def __init__(self, file: BinaryIO, compressed: bool, record: "_Record | None" = None):
        self.lines, self.digest = (record.lines, record.digest) if record else (0, "")
        self._file, self._compressed, self._record = file, compressed, record
        self._begin()

    def write(self, text: str) -> None:
        """Writes text as UTF-8."""
        self.write_bytes(text.encode())

    def write_bytes(self, content: bytes) -> None:
        """Writes what is no text."""
        self._stream.write(content)

    def mark(self, lines: int, digest: str) -> None:
        """Notes that the outputs of so many input lines are written; from here a start resumes."""
        self.flush()
        if self._record:
            self._record.save(lines, digest, self._file.tell())
        self._begin()

    def flush(self) -> None:
        """Hands over what was written."""
        if self._compressed:
            self._stream.close()
        self._file.flush()

    def _begin(self) -> None:
        self._stream = self._file
        if self._compressed:  # without name and time, so that equal texts are equal files
            self._stream = gzip.GzipFile("", "wb", fileobj=self._file, mtime=0)


@contextlib.contextmanager
def writing(path, options: dict | None = None, resume: bool = False) -> Iterator[Output]:
    """Opens an Output for what a user names: a file, a pipe, a device, or `-` for stdout.

    Named `.gz`, it is compressed. After an error a regular file keeps its other name, NAME.partial,
    if anything was written, and a note on the exception says so.

    Args:
        path: the name.
        options: what the output follows from, of JSON's types; None: no start can resume another.
        resume: go on behind the last mark of an earlier start, if there was one.

    Raises UserError, at once, for what cannot be written, and for an earlier start with others.
    """
    compressed = is_gzip(Path(path))
    if _in_place(path):
        if resume:
            raise UserError(f"--resume: {_named(path)} is no regular file; expected one")
        with _stream(path) as file:
            output = Output(file, compressed)
            yield output
            output.flush()
        return
    target = Path(os.path.realpath(path))
    partial = partial_path(target)
    with _or_unwritable(path):
        held = _locked(partial, wait=False)
    with held, naming(path):
        record = None if options is None else _Record(partial, options, resume)
        held.truncate(record.bytes if record else 0)
        output = Output(io.BufferedWriter(held), compressed, record)
        try:
            yield output
            output.flush()
            if record:
                record.path.unlink(missing_ok=True)
            _give_name(held, partial, target)
        except BaseException as error:
            with contextlib.suppress(OSError, ValueError):
                output.flush()
            if os.fstat(held.fileno()).st_size:
                error.add_note(f"what was written so far is kept as {partial}")
            else:
                partial.unlink(missing_ok=True)
            raise


def check_no_input(path, *inputs) -> None:
    """Raises UserError where an output is one of the inputs too, by whatever name."""
    status = _status(path, 1)
    for other in inputs:
        theirs = _status(other, 0)
        if status and theirs and os.path.samestat(status, theirs):
            raise UserError(
                f"{_named(path)} is the input {named(other)} too; expected another file"
            )


def make_folder(path) -> None:
    """Makes a folder for outputs. Raises UserError where there can be none, or nothing in it."""
    with _or_unwritable(path):
        try:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, "a file; expected a folder") from None
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "read-only")


def check_folder(path) -> None:
    """Raises UserError where `make_folder` would, but makes none."""
    existing = Path(os.path.abspath(path))
    while not os.path.exists(existing):
        existing = existing.parent
    if not existing.is_dir():
        raise UserError(f"{path}: cannot be written ({existing} is a file; expected a folder)")
    if not os.access(existing, os.W_OK):
        raise UserError(f"{path}: cannot be written ({existing} is read-only)")


def _status(path, standard: int) -> os.stat_result | None:
    """Of a regular file, also an open one; `standard`: the descriptor that `-` means."""
    number = standard if str(path) == "-" else descriptor(path)
    with contextlib.suppress(OSError):
        status = os.stat(path) if number is None else os.fstat(number)
        return status if stat.S_ISREG(status.st_mode) else None
    return None


class _Record:
    """NAME.partial.json: up to where an output is whole, and what it follows from."""

    def __init__(self, partial: Path, options: dict, resume: bool):
        self.path = partial.with_name(f"{partial.name}.json")
        self.lines, self.digest, self.bytes = 0, "", 0
        self._options = json.loads(json.dumps(options))  # as they are read again
        if not resume:
            self.path.unlink(missing_ok=True)
        elif self.path.is_file() and partial.stat().st_size:
            self._read(partial)

    def save(self, lines: int, digest: str, bytes: int) -> None:
        """Writes the state after so many input lines."""
        state = {"lines": lines, "digest": digest, "bytes": bytes, "options": self._options}
        with replacing(self.path) as file:
            json.dump(state, file)

    def _read(self, partial: Path) -> None:
        try:
            state = json.loads(self.path.read_text(encoding="utf-8"))
            self.lines, self.digest, self.bytes, options = (
                state[name] for name in ("lines", "digest", "bytes", "options")
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"--resume: {self.path}: cannot be read ({error})") from None
        changed = [
            f"{name}: {options.get(name)} -> {self._options.get(name)}"
            for name in options | self._options
            if options.get(name) != self._options.get(name)
        ]
        if changed:
            raise UserError(
                f"--resume: {partial} was written with others: {', '.join(changed)}; "
                "expected the same, or no --resume"
            )
        if partial.stat().st_size < self.bytes:
            raise UserError(f"--resume: {partial} was cut since; start without --resume")


def _in_place(path) -> bool:
    """Whether what is there is written to as it is, and nothing put in its place.

    Raises UserError for what cannot be written to.
    """
    if not str(path):
        raise UserError("an output without a name; expected a file")
    if str(path).endswith(os.sep):
        raise UserError(f"{path}: a folder's name; expected a file's")
    if str(path) == "-" or descriptor(path) is not None:
        return True
    with _or_unwritable(path):
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return False  # a link to nothing leads to a file that will be
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "a folder; expected a file")
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "read-only")
    return not stat.S_ISREG(mode) or not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK)


@contextlib.contextmanager
def _stream(path) -> Iterator[BinaryIO]:
    """What is written to in place, opened."""
    with naming(path):
        if str(path) == "-":
            sys.stdout.flush()
            yield sys.stdout.buffer
            return
        number = descriptor(path)
        with _or_unwritable(path):
            file = open(path, "wb") if number is None else open(os.dup(number), "wb")
        with file:
            yield file


def _locked(partial: Path, wait: bool) -> io.FileIO:
    """Opens a partial file for this process alone, to write at its end.

    It ends with the process, however that ends. Raises UserError where another has it, or waits.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    while True:
        file = io.FileIO(partial, "a+", opener=lambda name, _: os.open(name, flags, 0o666))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.close()
            raise UserError(f"{partial}: another process is writing it") from None
        except OSError:
            return file  # a file system without locks
        with contextlib.suppress(FileNotFoundError):  # the one before has given it its name
            if os.path.samestat(os.fstat(file.fileno()), os.stat(partial)):
                return file
        file.close()


def _give_name(held: io.FileIO, partial: Path, target: Path) -> None:
    """Puts a file that is whole in the place of `target`, with its mode and owner."""
    with contextlib.suppress(FileNotFoundError):
        old = os.stat(target)
        os.fchmod(held.fileno(), stat.S_IMODE(old.st_mode))
        with contextlib.suppress(PermissionError):
            os.fchown(held.fileno(), old.st_uid, old.st_gid)
    os.replace(partial, target)


@contextlib.contextmanager
def _or_unwritable(path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        folder = Path(os.path.realpath(path)).parent
        problem = "no such folder" if not folder.is_dir() else "no file can be made in"
        raise UserError(f"{path}: {problem}: {folder}") from None
    except OSError as error:
        raise UserError(f"{_named(path)}: cannot be written ({error.strerror})") from None


@contextlib.contextmanager
def naming(path) -> Iterator[None]:
    """An OSError of the block that names no file names this one."""
    try:
        yield
    except OSError as error:
        if error.errno:
            error.filename = error.filename or _named(path)
        raise


def _named(path) -> str:
    return "stdout" if str(path) == "-" else str(path)
