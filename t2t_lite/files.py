"""Writing files whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(path, mode: str = "w") -> Iterator[IO]:
    """Opens a file under a temporary name beside `path`; it gets its name when the block ends without an error.

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
