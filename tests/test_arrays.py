"""Files of arrays: whole or not at all, and what is wrong with others is said in a line."""

import errno
import os
import resource
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from array_files import variables, written
from safetensors.numpy import load_file, save_file

from t2t_lite.arrays import (
    DamagedFile,
    arrays,
    average,
    check_size,
    load_arrays,
    model_variables,
    read_about,
    write_arrays,
)
from t2t_lite.config import HParams
from t2t_lite.errors import UserError


def test_average_is_the_mean(tmp_path):
    random, values = np.random.default_rng(1), []
    for step in range(1, 4):
        kernel = random.normal(size=(2, 3)).astype(np.float32)
        values.append(kernel)
        write_arrays(
            tmp_path / f"{step}", {"kernel": kernel, "bias": np.float32([step])}, {"step": step}
        )
    average([tmp_path / name for name in "123"], tmp_path / "averaged")
    averaged = load_file(tmp_path / "averaged")
    np.testing.assert_allclose(averaged["kernel"], np.mean(np.float64(values), axis=0), rtol=1e-6)
    assert averaged["bias"] == [2] and averaged["kernel"].dtype == np.float32
    assert read_about(tmp_path / "averaged") == {"step": 3, "averaged": [1, 2, 3]}


def test_average_of_different_models(tmp_path):
    write_arrays(tmp_path / "a", {"kernel": np.zeros(3, np.float32)}, {"step": 1})
    for name, values in {
        "b": {"bias": np.zeros(3, np.float32)},
        "c": {"kernel": np.zeros(4, np.float32)},
        "d": {"kernel": np.zeros(1, np.float32)},  # which NumPy would add
        "e": {"kernel": np.zeros(3, np.float32), "bias": np.zeros(3, np.float32)},
    }.items():
        write_arrays(tmp_path / name, values, {"step": 1})
        with pytest.raises(UserError, match=f"{tmp_path / name}: (kernel|bias) is .* it is "):
            average([tmp_path / "a", tmp_path / name], tmp_path / "averaged")
    assert not (tmp_path / "averaged").exists()


@pytest.mark.parametrize(
    "stored, message",
    [
        ({"kernel": np.zeros((2, 3))}, "missing ['bias']"),
        (
            {"kernel": np.zeros((2, 3)), "bias": np.zeros(3), "gamma": np.zeros(3)},
            "unexpected ['gamma']",
        ),
        (
            {"kernel": np.zeros((3, 2)), "bias": np.zeros(3)},
            "kernel has shape (3, 2); expected (2, 3)",
        ),
    ],
)
def test_another_models_checkpoint(tmp_path, stored, message):
    save_file(
        {name: value.astype(np.float32) for name, value in stored.items()},
        tmp_path / "a",
        {"about": "{}"},
    )
    weights = variables(5.0)
    with pytest.raises(UserError) as error:
        load_arrays(tmp_path / "a", weights)
    assert (
        message in str(error.value)
        and str(tmp_path / "a") in str(error.value)
        and "\n" not in str(error.value)
    )
    assert all(np.all(variable.numpy() >= 5) for variable in weights.values())  # nothing was loaded


def test_no_checkpoint_or_none_at_all(tmp_path):
    with pytest.raises(UserError, match="no such checkpoint.*nowhere"):
        load_arrays(tmp_path / "nowhere", {})
    (tmp_path / "text").write_text("no safetensors file")
    with pytest.raises(UserError, match="text: not a checkpoint"):
        load_arrays(tmp_path / "text", {})


def test_a_checkpoint_that_may_not_be_read(tmp_path, monkeypatch):
    write_arrays(tmp_path / "a", {"x": np.zeros(3)}, {})
    forbidden = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "a"))
    monkeypatch.setattr("pathlib.Path.open", Mock(side_effect=forbidden))  # root may read all
    with pytest.raises(PermissionError, match=f"Permission denied: '{tmp_path / 'a'}'"):
        read_about(tmp_path / "a")


def test_a_full_disk_leaves_nothing_half_written(tmp_path):
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
        with pytest.raises(OSError, match=f"File too large: '{tmp_path / 'a'}'"):
            write_arrays(tmp_path / "a", {"x": np.zeros(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_what_ends_a_writing_leaves_nothing_half_written(tmp_path, monkeypatch, error):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=error))
    with pytest.raises(type(error)) as caught:
        write_arrays(tmp_path / "a", {"x": np.zeros(3)}, {})
    assert os.listdir(tmp_path) == []
    assert getattr(caught.value, "filename", str(tmp_path / "a")) == str(tmp_path / "a")


def test_files_may_be_read_by_whom_the_umask_lets(tmp_path):
    (tmp_path / "plain").touch()
    write_arrays(tmp_path / "a", {"x": np.zeros(3)}, {})
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_names_are_paths_below_the_model():
    """So that a model of another name, or loaded for decoding, finds its weights."""
    variable = SimpleNamespace(path="transformer/encoder/layer_0/kernel", value="value")
    assert model_variables(SimpleNamespace(variables=[variable])) == {
        "encoder/layer_0/kernel": "value"
    }


@pytest.mark.parametrize("about", [None, "", "{", "[1]", "[" * 100_000, "3"])
def test_files_of_other_programs(tmp_path, about):
    file = written(tmp_path / "a", about=about)
    for read in read_about, lambda path: load_arrays(path, variables()):
        with pytest.raises(UserError, match="a: not a checkpoint of t2t_lite") as error:
            read(file)
        assert "\n" not in str(error.value)


def test_files_that_are_broken(tmp_path):
    whole = written(tmp_path / "whole").read_bytes()
    huge = (2**63).to_bytes(8, "little") + whole[8:]
    for number, content in enumerate([b"", whole[:4], whole[:30], whole[:-1], whole + b"x", huge]):
        file = tmp_path / f"{number}"
        file.write_bytes(content)
        with pytest.raises(UserError, match=f"{file}: not a checkpoint: ") as error:
            load_arrays(file, variables())
        assert "\n" not in str(error.value)
        with pytest.raises(UserError, match=f"{file}: not a checkpoint: "):
            average([tmp_path / "whole", file], tmp_path / "averaged")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(tmp_path, number):
    values = arrays(variables())
    values["kernel"][1, 2] = number
    written(tmp_path / "whole")
    file, before = written(tmp_path / "diverged", values), variables(7.0)
    for read in (
        lambda: load_arrays(file, before),
        lambda: average([tmp_path / "whole", file], tmp_path / "averaged"),
    ):
        with pytest.raises(UserError, match=f"^{file}: weights are not finite: kernel$"):
            read()
    assert np.all(before["kernel"].numpy() == 7) and not (tmp_path / "averaged").exists()


def test_numbers_of_other_kinds(tmp_path):
    file = written(tmp_path / "a", {"kernel": np.zeros((2, 3), np.int16), "bias": np.zeros(3)})
    with pytest.raises(UserError, match="a: kernel has numbers of kind I16; expected F32"):
        load_arrays(file, variables())


def test_no_link_is_written_through(tmp_path):
    elsewhere, file = tmp_path / "elsewhere", tmp_path / "run" / "averaged"
    elsewhere.write_text("precious")
    file.parent.mkdir()
    for name in "averaged", "averaged.partial":
        (file.parent / name).symlink_to(elsewhere)
    write_arrays(file, {"kernel": np.zeros(3, np.float32)}, {"step": 1})
    assert elsewhere.read_text() == "precious" and read_about(file) == {"step": 1}


@pytest.mark.parametrize("last", [b"", b"1536"])  # of the arrays, or beside them
def test_a_changed_byte_is_noticed(tmp_path, last):
    write_arrays(tmp_path / "a", arrays(variables(2.0)), {"step": 1536})
    content = bytearray((tmp_path / "a").read_bytes())
    content[content.rindex(last) + len(last) - 1] ^= 1
    (tmp_path / "a").write_bytes(content)
    weights = variables()
    with pytest.raises(DamagedFile, match="a: damaged, not as it was written"):
        load_arrays(tmp_path / "a", weights)
    assert np.all(weights["kernel"].numpy() == 0)


def test_the_least_size_of_a_file_follows_from_the_layer_types(tmp_path):
    """A narrow recurrent layer has fewer weights than attention with many wide heads."""
    file = tmp_path / "weights.safetensors"
    file.write_bytes(b"x" * 500_000)
    recurrent = HParams(
        d_model=16, d_ff=16, num_heads=8, d_k=64, d_v=64,
        encoder_layer="recurrent", num_encoder_layers=20, num_decoder_layers=1,
    )  # fmt: skip
    check_size(file, recurrent)
    with pytest.raises(UserError, match="500,000 bytes cannot be the model's"):
        check_size(file, recurrent.replace(encoder_layer="self_attention"))
