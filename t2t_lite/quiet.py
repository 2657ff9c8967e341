"""Silence for native libraries that talk on stderr and have no setting for it."""

import contextlib
import os
import sys


@contextlib.contextmanager
def native_stderr_silenced():
    """Discards what is written to file descriptor 2 while the block runs. Exceptions pass."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
