"""Files of named arrays (safetensors): weights, and the state of a training.

Whole or not at all, on the disk before they have their name, and damage is noticed: beside the
arrays stands JSON that says what they are, with checksums of both.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.models.size import parameters
from t2t_lite.output import naming

if TYPE_CHECKING:  # commands look for weights before they start TensorFlow, as `runtime` does
    import tensorflow as tf

_KINDS = {"F16", "F32", "F64", "I32", "I64"}  # safetensors' names of what may stand in a file
# Parts of variable paths in checkpoints of before, and what they are called now.
_RENAMED = {
    "memory_attention": "cross_attention",
    "memory_attention_residual": "cross_attention_residual",
}


class DamagedFile(UserError):
    """A file of arrays that is missing, cut off, or not as it was written."""

    def __init__(self, path: Path, text: str):
        super().__init__(text)
        self.path = path


def model_variables(model) -> dict[str, tf.Variable]:
    """Every variable of a Keras model, by path below the model's own name."""
    return {variable.path.partition("/")[2]: variable.value for variable in model.variables}


def arrays(variables: Mapping[str, tf.Variable]) -> dict[str, np.ndarray]:
    """The variables' values."""
    return {name: np.asarray(variable.numpy(), order="C") for name, variable in variables.items()}


def write_arrays(path: Path, values: dict[str, np.ndarray], about: dict) -> None:
    """Writes a safetensors file, whole or not at all; `about` is JSON beside the arrays.

    It is on the disk when this returns. Raises OSError where the disk is full, or the file cannot
    be written for another reason.
    """
    # Not as metadata of its own: safetensors writes several in any order, and files would differ.
    about = about | {"crc32": crc32(values)}
    about["about_crc32"] = _crc32_of_json(about)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)  # a link would be followed
    try:
        with naming(path):
            partial.touch()
            mode = partial.stat().st_mode  # safetensors makes a file that only its owner may read
            save_file(values, partial, metadata={"about": json.dumps(about)})
            partial.chmod(mode)
            to_disk(partial)
            os.replace(partial, path)
            to_disk(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        found = re.search(r"os error (\d+)", str(error))
        if found and isinstance(error, SafetensorError):
            raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from None
        raise


def to_disk(path: Path) -> None:
    """Waits until a file's content, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError) if path.is_dir() else contextlib.nullcontext():
            os.fsync(descriptor)  # of a folder not everywhere
    finally:
        os.close(descriptor)


def crc32(values: dict[str, np.ndarray]) -> str:
    """A checksum of all arrays, 8 hexadecimal digits."""
    found = 0
    for name in sorted(values):
        found = zlib.crc32(_bytes(values[name]), found)
    return f"{found:08x}"


def _bytes(value: np.ndarray) -> memoryview:
    return np.ascontiguousarray(value).data.cast("B")


def _crc32_of_json(value: dict) -> str:
    return f"{zlib.crc32(json.dumps(value).encode()):08x}"


def _check_crc32(path: Path, about: dict, checksum: str) -> None:
    if about.get("crc32") not in (None, checksum):
        raise DamagedFile(path, f"{path}: damaged, not as it was written")


def read_about(path: Path) -> dict:
    """What `write_arrays` stored beside the arrays."""
    about = _about(path, _open(path))
    about.pop("crc32", None)
    return about


def check_size(path: Path, h: HParams) -> None:
    """Raises UserError where a file cannot hold as many weights as a model would have.

    So that no model is made of sizes that no memory can hold.
    """
    weights = parameters(h, symbols=())
    if path.is_file() and (size := path.stat().st_size) < weights:
        raise UserError(
            f"{path}: not this model's checkpoint; {size:,} bytes cannot be the model's "
            f"{weights:,} weights"
        )


def load_arrays(path: Path, variables: Mapping[str, tf.Variable]) -> dict:
    """Assigns a file's arrays to the variables of the same names, or of what those are called now.

    Returns what was stored beside them. Raises UserError, before it assigns any, unless names and
    shapes are exactly the variables', and all numbers finite.
    """
    file = _open(path)
    stored, about = _names(file), _about(path, file)
    if stored.keys() != variables.keys():
        missing = sorted(variables.keys() - stored.keys())
        extra = sorted(stored.keys() - variables.keys())
        raise UserError(
            f"{path}: not this model's checkpoint; missing {missing[:3]}, unexpected {extra[:3]}"
        )
    for name, variable in variables.items():
        shape, expected = _shape(path, file, stored[name]), tuple(variable.shape)
        if shape != expected:
            raise UserError(f"{path}: {name} has shape {shape}; expected {expected}")
    values = {name: file.get_tensor(name) for name in file.keys()}
    _check_crc32(path, about, crc32(values))
    about.pop("crc32", None)
    for name, value in values.items():
        _check_finite(path, name, value)
    for name, variable in variables.items():
        variable.assign(values[stored[name]])
    return about


def check_alike(paths: Sequence[Path]) -> None:
    """Raises UserError, naming the first file that is not as the first of all, where one is not.

    That is by the names and shapes of its arrays.
    """
    first = None
    for path in paths:
        file = _open(path)
        shapes = {name: _shape(path, file, stored) for name, stored in _names(file).items()}
        first = first or shapes
        for name in [*first, *shapes]:
            here, there = (found.get(name, "missing") for found in (shapes, first))
            if here != there:
                raise UserError(
                    f"{path}: {name} is {here}, and in {paths[0]} it is {there}; expected "
                    "checkpoints of the same model"
                )


def average(paths: Sequence[Path], output: Path, **about) -> None:
    """Writes the mean of several models' weights (section 6.1), reading an array at a time.

    Args:
        paths: files of weights.
        output: the file to write.
        **about: what stands beside the arrays, further to the steps of those averaged.

    Raises UserError where names or shapes differ, or a number is not finite.
    """
    check_alike(paths)
    files = [_open(path) for path in paths]
    names = [_names(file) for file in files]
    mean, checksums = {}, [0] * len(files)
    for name in sorted(names[0]):
        total = 0.0
        for place, (path, file, stored) in enumerate(zip(paths, files, names)):
            value = file.get_tensor(stored[name])
            _check_finite(path, name, value)
            checksums[place] = zlib.crc32(_bytes(value), checksums[place])
            total = total + value.astype(np.float64)
        mean[name] = (total / len(files)).astype(np.float32)
    for path, file, stored, checksum in zip(paths, files, names, checksums):
        if all(name == now for now, name in stored.items()):  # else they come in another order
            _check_crc32(path, _about(path, file), f"{checksum:08x}")
    steps = [_about(path, file).get("step") for path, file in zip(paths, files)]
    for path, step in zip(paths, steps):
        if type(step) is not int:
            raise UserError(f"{path}: step {step!r}; expected a checkpoint, which has a number")
    write_arrays(output, mean, {"step": max(steps), "averaged": steps, **about})


def _check_finite(path: Path, name: str, value: np.ndarray) -> None:
    if not np.isfinite(value).all():
        raise DamagedFile(path, f"{path}: weights are not finite: {name}")


def _names(file) -> dict[str, str]:
    """{what a variable is called now: its name in the file}."""
    return {
        "/".join(_RENAMED.get(part, part) for part in name.split("/")): name for name in file.keys()
    }


def _shape(path: Path, file, name: str) -> tuple[int, ...]:
    """Of an array. Raises UserError for a kind of numbers that NumPy has none for."""
    array = file.get_slice(name)
    if array.get_dtype() not in _KINDS:
        raise UserError(
            f"{path}: {name} has numbers of kind {array.get_dtype()}; expected F32, as we write"
        )
    return tuple(array.get_shape())


def _about(path: Path, file) -> dict:
    try:
        about = json.loads((file.metadata() or {})["about"])
    except (KeyError, ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise DamagedFile(
            path, f"{path}: not a checkpoint of t2t_lite, which says of what step it is"
        )
    if about.pop("about_crc32", None) not in (None, _crc32_of_json(about)):
        raise DamagedFile(path, f"{path}: damaged, not as it was written")
    return about


def _open(path: Path):
    try:
        path.open("rb").close()  # safetensors says of what may not be read that it is not there
        return safe_open(path, framework="numpy")
    except PermissionError:
        raise
    except FileNotFoundError:
        raise DamagedFile(path, f"no such checkpoint: {path}") from None
    except Exception as error:
        raise DamagedFile(path, f"{path}: not a checkpoint: {error}") from None
