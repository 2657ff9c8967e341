"""What a command takes for granted: names of files in UTF-8, and three standard streams."""

import io
import os
import sys

from t2t_lite.errors import UserError


def prepare() -> None:
    """Makes the process what commands expect.

    Under a locale that is not UTF-8's, such as C, the process starts anew in Python's UTF-8 mode:
    TensorFlow and JSON take names as UTF-8 whatever the locale says. A standard stream that is
    closed becomes one that fails at its first use, or for stderr says nothing; else the next file
    that is opened would take its place. All write UTF-8, and names that are none as they are.
    Results are buffered even with PYTHONUNBUFFERED, since what then writes only a part of a text,
    where the disk is nearly full, forgets the rest.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for number, (name, mode, null) in enumerate(
        (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
    ):
        if getattr(sys, name) is None:
            if not _is_open(number):
                os.dup2(os.open(os.devnull, null), number)
            setattr(sys, name, open(number, mode, closefd=False))
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        sys.stdout = open(1, "w", closefd=False)
    for stream in sys.stdout, sys.stderr:
        stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")


def check_utf8(arguments: list[str]) -> None:
    """Raises UserError for an argument that is not UTF-8; see `prepare`."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UserError(f"{argument!r}: not UTF-8; expected names of files in UTF-8") from None


def flush_output() -> None:
    """Writes what stdout still holds. An OSError names it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        error.filename = "stdout"
        raise


def discard_output() -> None:
    """Forgets what was not written to stdout, and what will be, since it cannot be."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
