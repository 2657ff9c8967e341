"""A lock on a folder, which ends with the process that holds it, however that ends."""

import contextlib
import errno
import fcntl
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from t2t_lite.errors import UserError

_NAME = ".lock"
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}  # a file system keeps none


@contextlib.contextmanager
def locked(folder: Path, log: Callable[[str], object] = warnings.warn) -> Iterator[None]:
    """Holds `folder`, made if need be, while the block runs; removed if nothing else came into it.

    On network file systems it holds among the machines that these keep locks for; where they keep
    none, `log` is told and the block runs without.

    Raises UserError where another process holds it.
    """
    descriptor = _opened(folder, log)
    _held.add(descriptor)
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder may be gone, or be nobody's to change
            if os.listdir(folder) == [_NAME]:
                (folder / _NAME).unlink()
                folder.rmdir()
        _held.discard(descriptor)
        os.close(descriptor)


def _opened(folder: Path, log: Callable[[str], object]) -> int:
    """The lock's file, held."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / _NAME
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            _take(descriptor, folder, log)
            with contextlib.suppress(FileNotFoundError):  # its holder has just removed it
                if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _take(descriptor: int, folder: Path, log: Callable[[str], object]) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace")
        raise UserError(
            f"{folder}: another t2t-trainer is at work there ({holder or 'unknown'}); wait for "
            "its end, or choose another directory"
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        log(
            f"warning: {folder}: its file system keeps no locks ({error.strerror}); see to it "
            "yourself that no other t2t-trainer works there"
        )


def _let_go() -> None:
    """In a forked process: it would hold the lock on after the end of the one that took it."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


_held: set[int] = set()
os.register_at_fork(after_in_child=_let_go)
