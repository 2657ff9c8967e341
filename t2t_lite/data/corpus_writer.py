"""Writes a source as a prepared corpus: by all cores, once, whole or not at all.

Killed at any moment, it goes on where it was when the same source is prepared again: the journal
says after each part what the files held then.
"""

import collections
import contextlib
import fcntl
import hashlib
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from t2t_lite.data.corpus import ABOUT, ENTRY, INDEX, PAIRS, Corpus
from t2t_lite.data.sources import Source
from t2t_lite.errors import UserError
from t2t_lite.lock import NO_LOCKS
from t2t_lite.output import make_folder, naming
from t2t_lite.runtime import cores

_FORMAT = 1  # of what is written; raised when it, or how a source is read, changes
_JOURNAL, _DIGESTS, _LOCK = "journal.jsonl", "digests.bin", "lock"
_FEW = 4  # parts that one process is through with before others would have started
_STALE = 7 * 24 * 3600  # seconds after which what a killed process left is removed
DUPLICATES = "duplicates"


class _Piece(NamedTuple):
    """A part of a source, as it is written."""

    text: bytes
    sizes: np.ndarray  # uint32 [N], bytes of each pair
    digests: np.ndarray  # uint64 [N], of each pair, where equal ones are looked for, or [0]
    left_out: Counter


def write_corpus(source: Source, folder: Path, name: str) -> Corpus:
    """The source as a corpus in `folder`, under `name` and the source's fingerprint.

    One that is there already is taken, unless the source is a pipe. Raises UserError for what is
    wrong with the source, and then leaves nothing.
    """
    fingerprint = source.fingerprint()
    stem = Path(folder) / f"{name}.{_FORMAT}{fingerprint}"
    final = stem.with_name(f"{stem.name}.{os.getpid()}") if source.once else stem
    partial = final.with_name(f"{final.name}.partial")
    if source.once:  # what another process of that number left was of other data
        shutil.rmtree(partial, ignore_errors=True)
    if lock := _lock(partial, final):
        with lock:
            _remove_stale(partial.parent)
            try:
                with naming(partial):
                    _write(source, partial)
                if source.fingerprint() != fingerprint:
                    raise UserError(f"{source}: changed while it was read; start again")
            except UserError:
                shutil.rmtree(partial)
                with contextlib.suppress(OSError):  # other things are in it
                    partial.parent.rmdir()
                raise
            if source.once:
                final = stem.with_name(f"{name}.{_FORMAT}{Corpus(partial).digest[:12]}")
            if final.is_dir():
                shutil.rmtree(partial)
            else:
                partial.rename(final)
                (final / _LOCK).unlink()
    return Corpus(final)


def _write(source: Source, folder: Path) -> None:
    names = [PAIRS, INDEX] + [_DIGESTS] * source.distinct
    state = _continued(folder, names)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(folder / name, "ab")) for name in (*names, _JOURNAL)]
        progress = stack.enter_context(_Progress(source, state["read"]))
        parts = itertools.islice(source.parts(), state["parts"], None)
        for piece in _pieces(source, parts):
            _append(files, piece, state)
            progress.update(state["read"])
    if source.distinct:
        state["left_out"][DUPLICATES] = _drop_equals(folder)
        (folder / _DIGESTS).unlink()
    _finish(source, folder, state)


def _append(files: list, piece: _Piece, state: dict[str, Any]) -> None:
    """Writes a piece, then how far the files are in the journal."""
    index = np.empty(len(piece.sizes), ENTRY)
    index["size"] = piece.sizes
    ends = state["bytes"] + np.cumsum(piece.sizes, dtype=np.uint64)
    index["start"] = ends - piece.sizes
    for file, data in zip(files[:-1], (piece.text, index, piece.digests)):
        file.write(data)
        file.flush()
    state["parts"] += 1
    state["bytes"] += len(piece.text)
    state["kept"] += len(piece.sizes)
    state["read"] += len(piece.sizes) + piece.left_out.total()
    for reason, count in piece.left_out.items():
        state["left_out"][reason] = state["left_out"].get(reason, 0) + count
    files[-1].write(json.dumps(state).encode() + b"\n")
    files[-1].flush()


def _continued(folder: Path, names: list[str]) -> dict[str, Any]:
    """The last state in the journal, and the files cut to it; a new one where there is none."""
    state = {"parts": 0, "bytes": 0, "kept": 0, "read": 0, "left_out": {}}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / _JOURNAL).read_bytes().split(b"\n")[:-1]:
            state = json.loads(line)
    sizes = {
        PAIRS: state["bytes"],
        INDEX: ENTRY.itemsize * state["kept"],
        _DIGESTS: 8 * state["kept"],
    }
    files = [(folder / name, sizes[name]) for name in names]
    for path, _ in files:
        path.touch()
    # Killed after equal pairs were dropped, or the power failed.
    if any(path.stat().st_size < size for path, size in files):
        for path, _ in files:
            path.unlink()
        (folder / _JOURNAL).unlink()
        return _continued(folder, names)
    for path, size in files:
        os.truncate(path, size)
    return state


def _pieces(source: Source, parts: Iterator[Any]) -> Iterator[_Piece]:
    """The pieces of the parts, in order; by several processes where it is much."""
    few = list(itertools.islice(parts, _FEW))
    # A process that runs TensorFlow's threads cannot be forked.
    if len(few) < _FEW or cores() == 1 or "tensorflow" in sys.modules:
        yield from (_piece(source, part) for part in itertools.chain(few, parts))
        return
    # Forked, since functions of users' problems cannot be sent to another process.
    context = multiprocessing.get_context("fork")
    begun = collections.deque()
    try:
        with ProcessPoolExecutor(cores(), context, _start_worker, [source]) as pool:
            for part in itertools.chain(few, parts):
                begun.append(pool.submit(_work, part))
                if len(begun) > 2 * cores():
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
    except BrokenProcessPool:
        raise ChildProcessError(
            f"{source}: a process that prepared it was ended, perhaps for want of memory; the same "
            "command goes on"
        ) from None


_source: Source | None = None  # of a worker process


def _start_worker(source: Source) -> None:
    global _source
    _source = source
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's

    def end_with_parent():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _work(part: Any) -> _Piece:
    return _piece(_source, part)


def _piece(source: Source, part: Any) -> _Piece:
    left_out = Counter()
    pairs = [
        # A data set's text may hold line ends.
        b"".join(side.replace("\n", " ").encode() + b"\n" for side in pair)
        for pair in source.read(part, left_out)
    ]
    digests = [hashlib.blake2b(pair, digest_size=8).digest() for pair in pairs if source.distinct]
    return _Piece(
        b"".join(pairs),
        np.array([len(pair) for pair in pairs], np.uint32),
        np.frombuffer(b"".join(digests), np.uint64),
        left_out,
    )


def _drop_equals(folder: Path) -> int:
    """Leaves, of equal pairs, only the first in the index; returns how many went."""
    digests = np.fromfile(folder / _DIGESTS, np.uint64)
    first = np.sort(np.unique(digests, return_index=True)[1])
    index = np.fromfile(folder / INDEX, ENTRY)
    index[first].tofile(folder / INDEX)
    return len(digests) - len(first)


def _finish(source: Source, folder: Path, state: dict[str, Any]) -> None:
    """Writes what the corpus is. Raises UserError for an empty one."""
    if not os.path.getsize(folder / INDEX):
        reasons = "; ".join(f"{reason}: {count:,}" for reason, count in state["left_out"].items())
        raise UserError(
            f"{source}: the corpus is empty; expected at least one pair"
            + f" (left out: {reasons})" * bool(reasons)
        )
    digest = hashlib.blake2b(digest_size=16)
    for name in PAIRS, INDEX:
        with open(folder / name, "rb") as file:
            while data := file.read(1 << 20):
                digest.update(data)
            os.fsync(file.fileno())
    about = {
        "source": str(source),
        "pairs": os.path.getsize(folder / INDEX) // ENTRY.itemsize,
        "left_out": {reason: count for reason, count in state["left_out"].items() if count},
        "bytes": state["bytes"],
        "digest": digest.hexdigest(),
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    (folder / _JOURNAL).unlink()


def _lock(partial: Path, final: Path) -> IO | None:
    """Holds the folder `partial`, made if need be; None once there is `final`."""
    while not final.is_dir():
        make_folder(partial.parent)
        partial.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another process has just renamed it
            lock = open(partial / _LOCK, "ab")
            _take(lock, partial.parent)
            os.utime(lock.fileno())
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(partial / _LOCK)):
                if not final.is_dir():
                    return lock
                shutil.rmtree(partial)
            lock.close()
    return None


def _take(lock: IO, folder: Path) -> None:
    """Waits until no other process writes the corpus, as far as the file system keeps locks."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        warnings.warn(f"{folder}: another process prepares this corpus; waiting", stacklevel=4)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        warnings.warn(
            f"{folder}: its file system keeps no locks ({error.strerror}); see to it yourself that "
            "no other process prepares the same corpus there",
            stacklevel=4,
        )


def _remove_stale(folder: Path) -> None:
    """Removes what processes left that were killed long ago."""
    for path in folder.glob(f"*.partial/{_LOCK}"):
        with contextlib.suppress(OSError):  # it is held, or another process removes it too
            if time.time() - path.stat().st_mtime > _STALE:
                with open(path, "ab") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.parent)


class _Progress:
    """A bar on stderr, where it takes longer than a moment."""

    def __init__(self, source: Source, read: int):
        self._source = source
        self._bar = tqdm(
            desc="preparing",
            unit=" pairs",
            unit_scale=True,
            initial=read,
            file=sys.stderr,
            # A terminal gets a moving bar, a log a line now and then.
            mininterval=0.2 if sys.stderr and sys.stderr.isatty() else 30,
            delay=2,
            leave=False,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._bar.close()

    def update(self, read: int) -> None:
        """Says how many pairs are read by now."""
        if share := self._source.progress():
            self._bar.total = int(read / share)
        self._bar.update(read - self._bar.n)
