"""The versions of an export: the newest that can be served, and newer ones as they come.

As TensorFlow Serving does it: the largest number is served, and a folder under another name is
nobody's. What is not whole, or not an export, is named and left out.
"""

import asyncio
import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.export.folder import version_of
from t2t_lite.serving.model import MODEL_FILE, ServedModel


class States:
    """What has become of each version: LOADING, AVAILABLE, UNLOADING or END."""

    def __init__(self):
        self._states: dict[str, tuple[str, str]] = {}

    def set(self, version: str, state: str, error: str = "") -> None:
        """Notes a state, and why one that could not be served has ended."""
        self._states[version] = state, error

    def as_json(self, only: str | None = None) -> list[dict]:
        """All versions, or one, as TensorFlow Serving tells them, the newest first."""
        return [
            {
                "version": version,
                "state": state,
                "status": {"error_code": "UNKNOWN" if error else "OK", "error_message": error},
            }
            for version, (state, error) in sorted(
                self._states.items(), key=lambda item: int(item[0]), reverse=True
            )
            if only in (None, version)
        ]


class Versions:
    """The versions below an export's folder.

    Args:
        export_dir: DIR of DIR/<version>, or a version itself, which is the only one then.
        load: makes a model of a version's folder, ready to answer. Raises UserError for a broken
            one.
        log: is told what is left out, and what happens.
    """

    def __init__(
        self,
        export_dir,
        load: Callable[[Path], ServedModel],
        log: Callable[[str], object],
    ):
        self._folder = Path(os.path.abspath(Path(export_dir).expanduser()))
        self._load, self._log, self.states = load, log, States()
        self._served, self._served_look = self._folder, ()  # the version's own folder
        # By version: how it looked when it was last seen, and when it was found broken.
        self._seen: dict[int, tuple] = {}
        self._broken: dict[int, tuple] = {}
        self._trouble = ""  # that was told last

    def newest(self) -> ServedModel:
        """The largest version that can be served.

        Raises UserError, with the reasons, where there is none.
        """
        if (self._folder / MODEL_FILE).is_file():
            return self._begin(self._folder)
        entries = sorted(self._folder.iterdir()) if self._folder.is_dir() else []
        skipped = [
            f"{path}: not a version's name"
            for path in entries
            if path.is_dir() and version_of(path.name) is None
        ]
        for path in _numbered(entries):
            self._broken[int(path.name)] = _look_of(path)
            try:
                model = self._begin(path)
            except UserError as error:
                skipped.append(str(error))
                continue
            for reason in skipped:
                self._log(f"skipped {reason}")
            return model
        raise UserError(f"{self._folder}: {'; '.join(skipped) or self._nothing()}")

    def look(self) -> ServedModel | None:
        """A version newer than the last one, where there is one now, loaded.

        A folder must look the same twice, since it may be on its way here. Of one that turns out
        to be broken nothing more is said until it changes.
        """
        if self._served == self._folder:
            return None
        try:
            entries = list(self._folder.iterdir())
            self._tell(self._what_is_wrong(entries))
        except OSError as error:
            self._tell(f"{self._folder}: {error.strerror}")
            return None
        newest = int(self._served.name)
        newer = [path for path in _numbered(entries) if int(path.name) > newest]
        looks = {path: _look_of(path) for path in newer}
        seen, self._seen = self._seen, {int(path.name): look for path, look in looks.items()}
        for path, look in looks.items():
            if self._broken.get(number := int(path.name)) == look:
                continue
            if seen.get(number) != look:
                return None  # next time
            self._broken[number] = look
            self._log(f"loading {path}")
            try:
                return self._begin(path)
            except UserError as error:
                self._log(f"skipped {error}")
        return None

    def watch(self, switch: Callable[[ServedModel], object], seconds: float) -> None:
        """Looks again and again in a thread; `switch` is called in the event loop that runs now."""
        loop = asyncio.get_running_loop()

        def run():
            while not loop.is_closed():
                time.sleep(seconds)
                if model := self.look():
                    with contextlib.suppress(RuntimeError):  # closed meanwhile
                        loop.call_soon_threadsafe(switch, model)

        threading.Thread(target=run, name="versions", daemon=True).start()

    def _begin(self, path: Path) -> ServedModel:
        """Loads a version. Raises UserError, which begins with its path, for any fault."""
        number = path.name if version_of(path.name) is not None else "1"
        self.states.set(number, "LOADING")
        look = _look_of(path)
        try:
            model = self._load(path)
        except Exception as error:  # whatever it is, others are served
            kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            text = f"{kind}{' '.join(str(error).removeprefix(f'{path}: ').split())}"
            self.states.set(number, "END", text)
            raise UserError(f"{path}: {text}") from None
        self._served, self._served_look = path, look
        return model

    def _nothing(self) -> str:
        near = sorted(self._folder.parent.glob(f"*/*/{MODEL_FILE}"))[:3]
        nearest = f"; nearest: {', '.join(str(file.parents[1]) for file in near)}" * bool(near)
        return f"no export there (no <version>/{MODEL_FILE}){nearest}"

    def _what_is_wrong(self, entries: list[Path]) -> str:
        if self._served not in entries:
            return f"{self._served} is gone"
        if _look_of(self._served) != self._served_look:
            return f"{self._served} has changed; expected a new version to have a new number"
        return ""

    def _tell(self, trouble: str) -> None:
        """Logs what is wrong with the folder, once."""
        if trouble and trouble != self._trouble:
            self._log(f"{trouble}; version {self._served.name} is served on as it was loaded")
        self._trouble = trouble


def name_of(export_dir, name: str | None = None) -> str:
    """The name of a model in the routes: `name`, by default that of its folder.

    Raises UserError for one that cannot stand there.
    """
    folder = Path(export_dir).expanduser().resolve()
    is_version = (folder / MODEL_FILE).is_file() and version_of(folder.name) is not None
    name = name or (folder.parent if is_version else folder).name
    if not re.fullmatch(r"[\w.-]+", name):
        raise UserError(
            f"name {name!r}: expected letters, digits, dots and dashes only, "
            "since it stands in URLs"
        )
    return name


def _numbered(paths: Iterable[Path]) -> list[Path]:
    """Those that are called like a version, the largest first."""
    versions = [path for path in paths if version_of(path.name) is not None]
    return sorted(versions, key=lambda path: int(path.name), reverse=True)


def _look_of(path: Path) -> tuple:
    """The names, sizes and times of the files below: what copying changes until it is done."""
    files = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    found = []
    for file in sorted(files):
        try:
            status = file.stat()
        except OSError:
            continue
        found.append((str(file), status.st_size, status.st_mtime_ns))
    return tuple(found)
