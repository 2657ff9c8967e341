"""Silence for native libraries that talk on stderr and have no setting for it."""

import contextlib
import os
import sys


@contextlib.contextmanager
def native_stderr_silenced():
    """Sends file descriptor 2 to nowhere while the block runs. Python's own errors are raised as ever."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
