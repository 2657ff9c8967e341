"""An export's folder: numbered, whole and checked, or not there at all."""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_lite.data.tokenizer import UNK, Vocabulary
from t2t_lite.errors import UserError


def new_version(export_dir, version: int | None) -> Path:
    """The folder to write, `export_dir`/<version>; default: one more than the largest, from 1.

    Raises UserError where it exists or is no valid one.
    """
    export_dir = Path(export_dir).expanduser()
    if export_dir.exists() and not export_dir.is_dir():
        raise UserError(f"--export_dir {export_dir}: a file; expected a directory")
    versions = [int(path.name) for path in export_dir.glob("*") if path.name.isdecimal()]
    free = max(versions, default=0) + 1
    version = free if version is None else version
    if version < 1:
        raise UserError(f"--version={version}: expected at least 1; the next free one is {free}")
    if version in versions:
        raise UserError(
            f"--version={version}: {export_dir / str(version)} exists; the next free one is {free}"
        )
    return export_dir / str(version)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A folder under a temporary name, which gets its own when the block ends well, else goes."""
    made = [folder for folder in target.parents if not folder.exists()]
    partial = target.with_name(
        f"{target.name}.{os.getpid()}.partial"
    )  # no number: TensorFlow Serving does not load it
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        os.rename(partial, target)
    except OSError as error:
        raise UserError(f"--export_dir {target.parent}: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def random_lines(vocabulary: Vocabulary) -> list[str]:
    """What an export is checked with: texts of random sub-words, long and short, and odd ones."""
    chooser = random.Random(1)
    rows = [
        [chooser.randrange(UNK + 1, vocabulary.size) for _ in range(length)]
        for length in (1, 3, 6, 12, 24)
    ]
    return [*vocabulary.decode_lines(rows), "", " \u3000", "\U0001f600", "  a\tb  "]


def fresh_answer(script: str, folder: Path, lines: Sequence[str]) -> dict:
    """What a script beside this file makes of lines, in a process that cannot import t2t_lite.

    Raises UserError, with the last line of its errors, where it fails.
    """
    result = subprocess.run(
        [sys.executable, "-P", str(Path(__file__).with_name(script)), str(folder)],
        input=json.dumps(lines),
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONUTF8": "1"},
    )
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
        raise UserError(
            f"the exported model does not run in a process of its own, nothing is written: {reason}"
        )
    return json.loads(result.stdout)
