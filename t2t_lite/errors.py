"""What a user did wrong, or the machine refused, said in one line."""

import difflib
import re
import signal
import sys
from collections.abc import Iterable

# What TensorFlow sets around the words of its errors: which operation on which device failed.
_OPERATION = re.compile(r"^\{\{[^}]*\}\} *| *\[Op:\w+\] *(name: *)?$")


class UserError(Exception):
    """Bad input. Its text is one line: the file or value, what was expected, the nearest choice.

    Commands print it and exit with code 2.
    """


class Failed(Exception):
    """What happened on the way and cannot go on, in one line. Commands exit with code 1."""


class Stopped(KeyboardInterrupt):
    """A signal has asked to stop.

    Args:
        number: of the signal. Commands exit with code 128 + that.
    """

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


def unknown(kind: str, name: str, choices: Iterable[str]) -> UserError:
    """The error for a `name` that is not among `choices`, naming the nearest of them."""
    choices = sorted(choices)
    near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5) or choices[:12]
    if not near:
        return UserError(f"unknown {kind} {name!r}: none is registered")
    return UserError(f"unknown {kind} {name!r}; nearest: {', '.join(near)}")


def machine_errors() -> tuple[type[Exception], ...]:
    """The exceptions that no program can prevent: a full disk, no memory, names that are no text.

    TensorFlow's are among them where it is imported.
    """
    tensorflow = sys.modules.get("tensorflow")
    names = "ResourceExhausted", "PermissionDenied", "NotFound", "DataLoss", "Unknown"
    theirs = [getattr(tensorflow.errors, f"{name}Error") for name in names if tensorflow]
    return Failed, OSError, MemoryError, UnicodeError, *theirs


def reason(error: Exception) -> str:
    """One line for one of `machine_errors`: the file, where it is known, and what is wrong."""
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        return place + error.strerror
    if isinstance(error, MemoryError):
        return " ".join(["out of memory", *map(str, error.args)])
    if isinstance(error, UnicodeError) and len(error.args) == 5:
        return f"{error.object!r:.80}: {error.reason}"
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return _OPERATION.sub("", text)
