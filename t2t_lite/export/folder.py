"""An export's folder: numbered, whole and checked, or not there at all."""

import contextlib
import errno
import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_lite.data.tokenizer import UNK, Vocabulary
from t2t_lite.errors import UserError
from t2t_lite.output import naming

_PARTIAL = ".partial"


def version_of(name: str) -> int | None:
    """The number that a folder's name is, as TensorFlow Serving reads it; None for other names."""
    if not re.fullmatch("0|[1-9][0-9]{0,18}", name):
        return None
    return number if (number := int(name)) < 1 << 63 else None


def new_version(export_dir, version: int | None) -> Path:
    """The folder to write, `export_dir`/<version>; default: one more than the largest, from 1.

    Raises UserError where it exists or is no valid one.
    """
    export_dir = Path(export_dir).expanduser()
    if export_dir.exists() and not export_dir.is_dir():
        raise UserError(f"{export_dir}: a file; expected a directory")
    versions = [number for path in export_dir.glob("*") if (number := version_of(path.name))]
    free = max(versions, default=0) + 1
    version = free if version is None else version
    if version_of(str(version)) is None or version < 1:
        raise UserError(
            f"version {version}: expected 1 to {2**63 - 1}; the next free one is {free}"
        )
    if version in versions:
        raise UserError(f"{export_dir / str(version)} exists; the next free version is {free}")
    return export_dir / str(version)


@contextlib.contextmanager
def building(export_dir) -> Iterator[Path]:
    """Where to build a version, a folder of its own in `export_dir`, which goes with the block.

    It is locked, so that what killed exports left, whose lock is gone with them, goes too.
    """
    export_dir = Path(export_dir).expanduser()
    made = [folder for folder in (export_dir, *export_dir.parents) if not folder.exists()]
    try:
        try:
            export_dir.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(export_dir)
            place, lock = _locked_folder(export_dir)
        except OSError as error:
            raise UserError(f"{export_dir}: {error.strerror}") from None
        try:
            with naming(export_dir):
                yield place / "version"
        finally:
            shutil.rmtree(place, ignore_errors=True)
            os.close(lock)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def publish(folder: Path, export_dir, version: int | None) -> Path:
    """Gives what was built its name, that of `new_version`, and returns it.

    Of two that end at the same time, one takes the number after the other's.
    """
    while True:
        target = new_version(export_dir, version)
        try:
            os.rename(folder, target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return target


def _locked_folder(export_dir: Path) -> tuple[Path, int]:
    """A new folder, whose name no server takes for a version, and the descriptor of its lock."""
    while True:
        place = Path(tempfile.mkdtemp(_PARTIAL, ".", export_dir))
        with contextlib.suppress(FileNotFoundError):  # taken for a leftover before it was locked
            lock = os.open(place, os.O_RDONLY)
            _lock(lock)
            if place.exists():
                return place, lock
            os.close(lock)


def _remove_leftovers(export_dir: Path) -> None:
    for place in export_dir.glob(f".*{_PARTIAL}"):
        with contextlib.suppress(OSError):  # gone meanwhile, or a link
            lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if _lock(lock):
                shutil.rmtree(place, ignore_errors=True)
            os.close(lock)


def _lock(descriptor: int) -> bool:
    """Whether the lock is ours now: no other process has it, and the file system knows locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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
