"""Silence for native libraries that talk on stderr and have no setting for it."""

import contextlib
import os
import sys


@contextlib.contextmanager
def native_stderr_silenced():
    """Discards what is written to file descriptor 2 while the block runs. Exceptions pass."""
    if sys.stderr:  # None where the process was started without
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # it is closed: whatever is written there fails
        yield
        return
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
