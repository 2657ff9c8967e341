"""Checkpoints: all is in them, resuming is exact, few keep the optimiser, none is half written."""

import gc
import os
import resource
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from t2t_lite.arrays import (
    arrays,
    average,
    load_arrays,
    model_variables,
    read_about,
    write_arrays,
)
from t2t_lite.checkpoints import MODEL, TRAINING, Checkpoints
from t2t_lite.config import HParams
from t2t_lite.devices import make_strategy
from t2t_lite.errors import UserError
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.step import TrainStep

HPARAMS = HParams(
    num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=8, num_heads=2, d_k=4, d_v=4,
    norm="pre", positions="learned", max_positions=8, dropout=0.2, warmup_steps=4,
)  # fmt: skip


def live_variables():
    gc.collect()
    kinds = (tf.Variable, tf.distribute.DistributedValues)
    return [
        thing for thing in gc.get_objects() if isinstance(thing, kinds) and hasattr(thing, "assign")
    ]


class Training:
    """A small model under two replicas with its step."""

    def __init__(self, seed=1):
        keras.utils.set_random_seed(seed)
        strategy = make_strategy(2)
        with strategy.scope():
            self.model = Transformer(HPARAMS, 12, 10, shared=False, name="transformer")
            self.step = TrainStep(self.model, HPARAMS, strategy, seed=1)
        self.weights = model_variables(self.model)

    def update(self, steps):
        for step in steps:
            random = np.random.default_rng(step)
            self.step(*(random.integers(1, 10, (2, 1, 3, 5)).astype(np.int32) for _ in range(2)))

    def everything(self):
        return arrays({**self.weights, **self.step.state()})

    def save(self, folder, **kwargs):
        Checkpoints(folder, keep=5).save(self.step.step, self.weights, self.step.state(), **kwargs)

    def restore(self, folder):
        return Checkpoints(folder, keep=5).restore(self.weights, self.step.state())


@pytest.fixture(scope="module")
def born():
    """-> (a Training that has done an update, all variables that live since)."""
    make_strategy(2)  # holds variables of its own, which order its collectives
    before = live_variables()  # kept, so that no id is used again
    known = set(map(id, before))
    training = Training()
    training.update([0])
    return training, [variable for variable in live_variables() if id(variable) not in known]


@pytest.fixture(scope="module")
def training(born):
    return born[0]


@pytest.fixture(scope="module")
def resumed():
    """Another one, of other weights, as a new process has it."""
    return Training(seed=2)


@pytest.mark.thorough
def test_no_variable_is_left_out(born, tmp_path):
    """The stored names are the model's and the optimiser's, and no other variable lives."""
    training, created = born
    training.save(tmp_path, position={})

    model, rest = (set(load_file(tmp_path / "step-00000001" / name)) for name in (MODEL, TRAINING))
    assert model == {variable.path.partition("/")[2] for variable in training.model.variables}
    trainable = [variable.path for variable in training.model.trainable_variables]
    # The encoder's layer 12, the decoder's 18, the last normalisations 2 x 2, embeddings 2,
    # positions 2.
    assert len(trainable) == len(model) == 38
    slots = {f"{slot}/{path}" for slot in ("m", "v") for path in trainable}
    assert rest == slots | {"step", "loss_scale", "good_updates"}

    stored = [training.weights[name] for name in model] + [
        training.step.state()[name] for name in rest
    ]
    copies = [copy for variable in stored for copy in variable.values]  # one a replica
    named = set(map(id, stored + copies))
    assert [variable for variable in created if id(variable) not in named] == []
    assert named <= set(map(id, created))  # or the search would be blind


@pytest.mark.thorough
def test_stored_values_are_the_live_ones(training, tmp_path):
    training.update([0, 1])
    training.save(tmp_path, position={"epoch": 1, "batch": 2})
    path = tmp_path / f"step-{training.step.step:08d}"
    stored = {**load_file(path / MODEL), **load_file(path / TRAINING)}
    live = training.everything()
    assert stored.keys() == live.keys()
    for name, value in live.items():
        np.testing.assert_array_equal(stored[name], value)
        assert stored[name].dtype == value.dtype and stored[name].shape == value.shape
    assert read_about(path / TRAINING)["position"] == {"epoch": 1, "batch": 2}
    assert read_about(path / MODEL)["step"] == training.step.step


@pytest.mark.thorough
def test_resuming_continues_as_if_nothing_had_happened(training, resumed, tmp_path):
    training.update(range(3))
    step = training.step.step
    training.save(tmp_path, position={"epoch": 4, "batch": 7})
    training.update(range(3, 6))

    assert resumed.restore(tmp_path) == {"epoch": 4, "batch": 7}
    assert resumed.step.step == step
    resumed.update(range(3, 6))
    straight, continued = training.everything(), resumed.everything()
    assert straight.keys() == continued.keys()
    for name, value in straight.items():
        np.testing.assert_array_equal(continued[name], value, err_msg=name)
    for variable in resumed.weights.values():  # on both replicas
        np.testing.assert_array_equal(*(copy.numpy() for copy in variable.values))


def of_before(path):
    """Gives the arrays of a file the names that they had before cross-attention was called so."""
    about, values = read_about(path), load_file(path)
    old = {
        name.replace("/cross_attention", "/memory_attention"): value
        for name, value in values.items()
    }
    prefix = "" if path.name == MODEL else "m/transformer/"
    assert f"{prefix}decoder/layer_0/memory_attention/key/kernel" in old
    assert f"{prefix}decoder/layer_0/memory_attention_residual/layer_norm/gamma" in old
    write_arrays(path, old, about)


def logits(model):
    inputs = np.array([[5, 7, 4, 1], [8, 1, 0, 0]], np.int32)
    return model(inputs, inputs[:, ::-1]).numpy()


def test_a_checkpoint_of_before_is_read(training, resumed, tmp_path):
    """Weights and slots under their old names: the same outputs, and the training goes on."""
    training.update([0])
    training.save(tmp_path, position={"epoch": 1})
    folder = tmp_path / f"step-{training.step.step:08d}"
    for name in MODEL, TRAINING:
        of_before(folder / name)
    resumed.update([5])
    assert np.any(logits(resumed.model) != logits(training.model))
    assert resumed.restore(tmp_path) == {"epoch": 1}
    np.testing.assert_array_equal(logits(resumed.model), logits(training.model))
    for name, value in training.everything().items():
        np.testing.assert_array_equal(resumed.everything()[name], value, err_msg=name)


def test_average_of_checkpoints_of_before_and_of_today(training, tmp_path):
    values = arrays(training.weights)
    for name, factor in ("old", 1.0), ("new", 3.0):
        scaled = {path: value * factor for path, value in values.items()}
        write_arrays(tmp_path / name / MODEL, scaled, {"step": 1})
    of_before(tmp_path / "old" / MODEL)
    for order in ("old", "new"), ("new", "old"):
        average([tmp_path / name / MODEL for name in order], tmp_path / "averaged")
        averaged = load_file(tmp_path / "averaged")
        assert averaged.keys() == values.keys()
        for name, value in averaged.items():
            np.testing.assert_allclose(value, 2 * values[name], rtol=1e-6)


# What follows needs no model.


def variables(value=0.0):
    return {
        "kernel": tf.Variable(np.full((2, 3), value, np.float32)),
        "bias": tf.Variable(np.full(3, value + 0.5)),
    }


def save(folder, *steps, keep=5):
    for step in steps:
        Checkpoints(folder, keep).save(
            step, variables(step), {"step": tf.Variable(step)}, {"batch": step}
        )


def test_nothing_to_restore(tmp_path):
    weights = variables(3.0)
    assert Checkpoints(tmp_path / "none", 5).restore(weights, {}) is None
    assert Checkpoints(tmp_path / "none", 5).steps() == []
    assert np.all(weights["kernel"].numpy() == 3)


def test_the_newest_is_restored(tmp_path):
    save(tmp_path, 9, 10, 100)
    weights, step = variables(), tf.Variable(0)
    assert Checkpoints(tmp_path, 5).restore(weights, {"step": step}) == {"batch": 100}
    assert step.numpy() == 100 and np.all(weights["kernel"].numpy() == 100)


def test_so_many_are_kept_and_the_newest_two_can_be_resumed(tmp_path):
    for step in range(1, 8):
        save(tmp_path, step, keep=4)
        steps = Checkpoints(tmp_path, 4).steps()
        assert [int(path.name[5:]) for path in steps] == list(range(max(1, step - 3), step + 1))
        assert all((path / MODEL).is_file() for path in steps)
        assert [path.name for path in steps if (path / TRAINING).is_file()] == [
            path.name for path in steps[-2:]
        ]


def test_two_are_kept_at_least(tmp_path):
    save(tmp_path, 1, 2, 3, keep=0)
    assert [path.name for path in Checkpoints(tmp_path, 0).steps()] == [
        "step-00000002",
        "step-00000003",
    ]


def test_a_step_is_saved_once(tmp_path):
    save(tmp_path, 1)
    Checkpoints(tmp_path, 5).save(1, variables(9.0), {}, {})
    assert load_file(tmp_path / "step-00000001" / MODEL)["kernel"][0, 0] == 1


@pytest.mark.parametrize("at", ["write", "replace", "folder"])
def test_a_crash_while_saving_leaves_the_checkpoint_before(tmp_path, monkeypatch, at):
    save(tmp_path, 1)

    def crash(*_, **__):
        raise KeyboardInterrupt

    def half(values, path, **_):
        path.write_bytes(b"half a fi")
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        if at == "write":
            patch.setattr(checkpoints, "save_file", half)
        elif at == "replace":
            patch.setattr(os, "replace", crash)
        else:
            patch.setattr(type(tmp_path), "rename", crash)
        with pytest.raises((KeyboardInterrupt, OSError)):
            save(tmp_path, 2)
    assert [path.name for path in Checkpoints(tmp_path, 5).steps()] == ["step-00000001"]
    weights = variables()
    assert Checkpoints(tmp_path, 5).restore(weights, {"step": tf.Variable(0)}) == {"batch": 1}

    save(tmp_path, 3)  # the next one is whole, and what the crash left is gone
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000003"]
    assert sorted(path.name for path in (tmp_path / "step-00000003").iterdir()) == [MODEL, TRAINING]


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
        with pytest.raises(UserError, match=f"{tmp_path / name}: (kernel|bias) is not as in"):
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


def test_a_full_disk_leaves_nothing_half_written(tmp_path):
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
        with pytest.raises(OSError, match=f"File too large: '{tmp_path / 'a'}'"):
            write_arrays(tmp_path / "a", {"x": np.zeros(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert os.listdir(tmp_path) == []


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


def written(path, values=None, about='{"step": 1, "position": {}}'):
    """A file of these arrays, for variables() by default, and of anything beside them."""
    values = arrays(variables()) if values is None else values
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(values, path, metadata=None if about is None else {"about": about})
    return path


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


def test_numbers_of_other_kinds(tmp_path):
    file = written(tmp_path / "a", {"kernel": np.zeros((2, 3), np.int16), "bias": np.zeros(3)})
    with pytest.raises(UserError, match="a: kernel has numbers of kind I16; expected F32"):
        load_arrays(file, variables())


def test_a_position_that_is_none(tmp_path):
    save(tmp_path, 1)
    written(
        tmp_path / "step-00000001" / TRAINING, {"step": np.array(1, np.int32)}, '{"position": 7}'
    )
    with pytest.raises(UserError, match="training.safetensors: does not say where the data goes"):
        Checkpoints(tmp_path, 5).restore(variables(), {"step": tf.Variable(0)})


def test_no_link_is_written_through(tmp_path):
    elsewhere, file = tmp_path / "elsewhere", tmp_path / "run" / "averaged"
    elsewhere.write_text("precious")
    file.parent.mkdir()
    for name in "averaged", "averaged.partial":
        (file.parent / name).symlink_to(elsewhere)
    write_arrays(file, {"kernel": np.zeros(3, np.float32)}, {"step": 1})
    assert elsewhere.read_text() == "precious" and read_about(file) == {"step": 1}


def test_links_and_other_names_are_no_checkpoints(tmp_path):
    """Nothing outside of the folder is removed, and the order is that of numbers."""
    folder, elsewhere = tmp_path / "checkpoints", tmp_path / "elsewhere"
    written(elsewhere / MODEL)
    written(elsewhere / TRAINING)
    save(folder, 99_999_999, 100_000_000)
    (folder / "step-00000001").symlink_to(elsewhere)
    (folder / "step-\u0665").mkdir()
    names = [path.name for path in Checkpoints(folder, 2).steps()]
    assert names == ["step-99999999", "step-100000000"]
    save(folder, 100_000_001, keep=2)
    assert (elsewhere / TRAINING).is_file() and not (folder / "step-99999999").exists()
