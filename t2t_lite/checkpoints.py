"""Checkpoints of a run: written while training goes on, resumed from the newest whole one.

A checkpoint is a folder `step-00001200` of files of arrays: `model.safetensors`, and
`training.safetensors` with the optimizer's state and everything else that resuming needs. It is
written under a temporary name and renamed once it is on the disk, so a folder of that name is
whole, whenever the machine stops. If what wrote it, or the disk, has failed nevertheless, the one
before takes its place.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.arrays import (
    DamagedFile,
    arrays,
    average,
    load_arrays,
    read_about,
    to_disk,
    write_arrays,
)
from t2t_lite.errors import UserError, reason

if TYPE_CHECKING:  # commands look for weights before they start TensorFlow, as `runtime` does
    import tensorflow as tf

MODEL, TRAINING = "model.safetensors", "training.safetensors"
# The newest checkpoints that keep the optimizer's state, twice as large as the model itself.
_RESUMABLE = 2


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: where they lie; made at the first save.
        keep: how many of the newest stay.
        log: is told which ones are damaged.
    """

    def __init__(self, folder: Path, keep: int, log: Callable[[str], object] = warnings.warn):
        self.folder = Path(folder)
        self.keep = max(keep, _RESUMABLE)
        self._log = log
        self._writer = ThreadPoolExecutor(1)
        self._pending: Future | None = None

    def steps(self) -> list[Path]:
        """The checkpoints' folders, oldest first."""
        steps = {
            int(found[1]): path
            for path in self.folder.glob("step-*")
            # No link, since old ones are removed.
            if (found := re.fullmatch(r"step-([0-9]+)", path.name)) and not path.is_symlink()
        }
        return [steps[step] for step in sorted(steps)]

    def save(
        self,
        step: int,
        model: Mapping[str, tf.Variable],
        training: Mapping[str, tf.Variable],
        position: dict,
        interim: bool = False,
    ) -> None:
        """Begins to write one checkpoint; at its end, what is no longer needed is removed.

        It holds what the variables are now; they may change while it is written. Waits for the one
        before, if that is not written yet.

        Args:
            position: where the data stream continues; any JSON values.
            interim: it goes with the next save, so that what is averaged in the end does not follow
                from when a training was stopped.
        """
        self.wait()
        about = {"step": step, "position": position, "interim": interim}
        self._pending = self._writer.submit(self._write, arrays(model), arrays(training), about)

    def wait(self) -> None:
        """Waits until the last one is written. Raises OSError, once, where it could not be."""
        pending, self._pending = self._pending, None
        if pending:
            pending.result()

    def failed(self) -> bool:
        """Whether `wait` would raise at once."""
        return bool(self._pending and self._pending.done() and self._pending.exception())

    def _write(self, model: dict[str, np.ndarray], training: dict, about: dict) -> None:
        path = self.folder / f"step-{about['step']:08d}"
        if path.exists():
            return
        # One name for all, so that what a crash left goes with the next save.
        partial = self.folder / ".partial"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            self.folder.mkdir(exist_ok=True)  # the run's is there, or was taken away meanwhile
            partial.mkdir()
            write_arrays(partial / MODEL, model, about)
            write_arrays(partial / TRAINING, training, about)
            to_disk(partial)
            partial.rename(path)
            to_disk(self.folder)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            error.add_note(f"step {about['step']:,} is not saved; the same command resumes before")
            raise
        try:
            self._remove_old()
        except OSError as error:
            self._log(f"warning: {path.name} is saved, but an old one stays: {reason(error)}")

    def _remove_old(self) -> None:
        for old in self.steps()[:-1]:
            with contextlib.suppress(DamagedFile):
                if read_about(old / MODEL).get("interim"):
                    self._remove(old)
        newest_last = self.steps()
        for old in newest_last[: -self.keep]:
            self._remove(old)
        for old in newest_last[-self.keep : -_RESUMABLE]:
            (old / TRAINING).unlink(missing_ok=True)

    def average(self, count: int, output: Path) -> list[Path]:
        """Writes the mean of the newest weights (section 6.1), but for damaged ones.

        Returns the checkpoints it is of. Raises UserError where none is whole.
        """
        paths = self.steps()[-max(1, count) :]
        while True:
            try:
                average([path / MODEL for path in paths], output)
                return paths
            except DamagedFile as error:
                if len(paths) == 1:
                    raise
                self._log(f"warning: {error}; averaged without it")
                paths.remove(error.path.parent)

    def _remove(self, path: Path) -> None:
        """So that a crash leaves no part of it under its name."""
        for left in self.folder.glob(".*.removed"):
            shutil.rmtree(left, ignore_errors=True)
        removed = path.with_name(f".{path.name}.removed")
        path.rename(removed)
        shutil.rmtree(removed)

    def restore(
        self,
        model: Mapping[str, tf.Variable],
        training: Mapping[str, tf.Variable],
        without_optimizer: bool = False,
    ) -> dict | None:
        """Loads the newest whole checkpoint and returns its position; None where there is none yet.

        Damaged ones that are newer are set aside: nothing is to be mixed with what comes now.

        Args:
            without_optimizer: where none is whole, load the newest one's weights and step, and
                leave the rest of `training` as it is.

        Raises UserError where there are some, and none is whole; and for links, which are none.
        """
        for path in self.folder.glob("step-*"):
            if path.is_symlink():
                raise UserError(f"{path}: a link; expected the checkpoint itself")
        damaged: dict[Path, str] = {}
        weights_left = False
        for path in reversed(self.steps()):
            try:
                load_arrays(path / MODEL, model)
                position = load_arrays(path / TRAINING, training).get("position")
                self._set_aside(damaged, path)
                return _checked(position, path / TRAINING)
            except DamagedFile as error:
                damaged[path] = str(error)
                weights_left |= error.path.name == TRAINING
        if not damaged:
            return None
        if weights_left and not without_optimizer:
            why = next(iter(damaged.values()))
            raise UserError(
                f"no checkpoint is left from which training can go on: {why}; bring the file back, "
                "or go on from the newest weights with a fresh optimizer: "
                "--optimizer_lost=continue"
            )
        return self._restore_weights(list(damaged), model, training["step"])

    def _restore_weights(self, paths: list[Path], model, step: tf.Variable) -> dict:
        """Loads the first whole one's weights, and its step."""
        damaged = {}
        for path in paths:
            try:
                about = load_arrays(path / MODEL, model)
            except DamagedFile as error:
                damaged[path] = str(error)
                continue
            self._set_aside(damaged, path)
            self._log(f"warning: the weights of {path} go on with a fresh optimizer")
            step.assign(about["step"])
            return about.get("position") or {"epoch": 0}
        why = next(iter(damaged.values()))
        raise UserError(f"no checkpoint is whole: {why}; bring one back, or train anew elsewhere")

    def _set_aside(self, damaged: dict[Path, str], whole: Path) -> None:
        for path, why in damaged.items():
            aside = path.with_name(f"{path.name}.damaged")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            self._log(f"warning: {why}; set aside as {aside.name}; {whole.name} takes its place")


class BestWeights:
    """The weights with the best figures on the dev set: files `step-00001200.safetensors`.

    Args:
        folder: where they lie; made with the first.
        keep: how many.
    """

    def __init__(self, folder: Path, keep: int = 1):
        self.folder, self.keep = folder, keep

    def ranked(self, figure: str | None = None) -> list[tuple[float, Path]]:
        """(value, file), the best first; of files of this figure, default: of the newest one's."""
        found = []
        for path in sorted(self.folder.glob("step-*.safetensors")):
            with contextlib.suppress(DamagedFile, KeyError):  # one that is broken ends no training
                about = read_about(path)
                found.append((about["figure"], about["value"], about["step"], path))
        figure = figure or (max(found, key=lambda entry: entry[2])[0] if found else None)
        ranked = sorted(
            (entry for entry in found if entry[0] == figure),
            key=lambda entry: (entry[1] if figure == "loss" else -entry[1], entry[2]),
        )
        return [(value, path) for _, value, _, path in ranked]

    def add(self, step: int, figure: str, value: float, model: Mapping[str, tf.Variable]) -> None:
        """Keeps these weights if they are among the best.

        Args:
            figure: the name of `value`; the higher, the better, but for a loss.
        """
        ranked = self.ranked(figure)
        sign = -1 if figure == "loss" else 1
        if len(ranked) < self.keep or sign * value > sign * ranked[self.keep - 1][0]:
            self.folder.mkdir(exist_ok=True)  # the run's is there, or was taken away meanwhile
            path = self.folder / f"step-{step:08d}.safetensors"
            write_arrays(path, arrays(model), {"step": step, "figure": figure, "value": value})
            for _, worst in self.ranked(figure)[self.keep :]:
                worst.unlink()


def _checked(position, path: Path) -> dict:
    if not isinstance(position, dict):
        raise UserError(f"{path}: does not say where the data goes on")
    return position
