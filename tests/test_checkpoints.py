"""Checkpoints: all is in them, resuming is exact, few keep the optimiser, none is half written."""

import errno
import gc
import os
import shutil
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from array_files import variables, written
from safetensors.numpy import load_file

from t2t_lite import arrays as arrays_module
from t2t_lite import checkpoints as checkpoints_module
from t2t_lite.arrays import (
    arrays,
    average,
    model_variables,
    read_about,
    write_arrays,
)
from t2t_lite.checkpoints import MODEL, TRAINING, BestWeights, Checkpoints
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
            self.step(*(random.integers(1, 10, (6, 5)).astype(np.int32) for _ in range(2)))

    def everything(self):
        return arrays({**self.weights, **self.step.state()})

    def save(self, folder, **kwargs):
        checkpoints = Checkpoints(folder, keep=5)
        checkpoints.save(self.step.step, self.weights, self.step.state(), **kwargs)
        checkpoints.wait()

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


def save(folder, *steps, keep=5):
    checkpoints = Checkpoints(folder, keep)
    for step in steps:
        checkpoints.save(step, variables(step), {"step": tf.Variable(step)}, {"batch": step})
    checkpoints.wait()


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
    checkpoints = Checkpoints(tmp_path, 5)
    checkpoints.save(1, variables(9.0), {}, {})
    checkpoints.wait()
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
            patch.setattr(arrays_module, "save_file", half)
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


def test_a_position_that_is_none(tmp_path):
    save(tmp_path, 1)
    written(
        tmp_path / "step-00000001" / TRAINING, {"step": np.array(1, np.int32)}, '{"position": 7}'
    )
    with pytest.raises(UserError, match="training.safetensors: does not say where the data goes"):
        Checkpoints(tmp_path, 5).restore(variables(), {"step": tf.Variable(0)})


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
    with pytest.raises(UserError, match="step-00000001: a link"):
        Checkpoints(folder, 2).restore(variables(), {})
    save(folder, 100_000_001, keep=2)
    assert (elsewhere / TRAINING).is_file() and not (folder / "step-99999999").exists()


class Saved:
    """Checkpoints of these steps, of whose files some are then broken."""

    def __init__(self, folder, *steps):
        self.folder, self.said = folder, []
        save(folder, *steps)

    def break_file(self, step, name, content=None):
        file = self.folder / f"step-{step:08d}" / name
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content(file.read_bytes()))
        return file

    def restore(self, without_optimizer=False):
        """-> (position, the weights' step, the training's step)."""
        weights, step = variables(-1.0), tf.Variable(0)
        position = Checkpoints(self.folder, 5, self.said.append).restore(
            weights, {"step": step}, without_optimizer
        )
        return position, weights["kernel"].numpy()[0, 0], step.numpy()

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


def cut_off(content):
    return content[:-7]


def changed(content):
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("name", [MODEL, TRAINING])
@pytest.mark.parametrize("damage", [None, cut_off, changed, lambda content: b""])
def test_a_damaged_one_is_set_aside_for_the_one_before(tmp_path, name, damage):
    saved = Saved(tmp_path, 1, 2, 3)
    file = saved.break_file(3, name, damage)
    assert saved.restore() == ({"batch": 2}, 2, 2)
    [said] = saved.said
    assert str(file) in said and "step-00000003.damaged" in said and "step-00000002 takes" in said
    assert saved.names() == ["step-00000001", "step-00000002", "step-00000003.damaged"]
    save(tmp_path, 3)  # the training goes on, and saves that step anew
    assert saved.restore() == ({"batch": 3}, 3, 3) and len(saved.said) == 1


def test_without_the_optimizers_state_it_is_refused_unless_told(tmp_path):
    saved = Saved(tmp_path, 1, 2, 3)
    saved.break_file(3, TRAINING)
    saved.break_file(2, TRAINING)
    with pytest.raises(UserError, match="training.safetensors.*--optimizer_lost=continue"):
        saved.restore()
    assert saved.names() == ["step-00000001", "step-00000002", "step-00000003"]
    assert saved.restore(without_optimizer=True) == ({"batch": 3}, 3, 3)
    assert "with a fresh optimizer" in saved.said[0]
    saved.break_file(3, MODEL, cut_off)
    assert saved.restore(without_optimizer=True) == ({"batch": 2}, 2, 2)
    assert saved.names() == ["step-00000001", "step-00000002", "step-00000003.damaged"]
    for step in 1, 2:
        saved.break_file(step, MODEL, changed)
    with pytest.raises(UserError, match="no checkpoint is whole: .*step-00000002/model"):
        saved.restore()


def test_another_models_checkpoint_is_no_damage(tmp_path):
    saved = Saved(tmp_path, 1, 2)
    with pytest.raises(UserError, match="step-00000002.*missing"):
        Checkpoints(tmp_path, 5).restore({"other": tf.Variable(0.0)}, {})
    assert saved.names() == ["step-00000001", "step-00000002"]


def test_what_is_saved_is_what_was_when_it_began(tmp_path, monkeypatch):
    go_on, write = threading.Event(), checkpoints_module.write_arrays
    monkeypatch.setattr(
        checkpoints_module, "write_arrays", lambda *args: go_on.wait(30) and write(*args)
    )
    weights, checkpoints = variables(1.0), Checkpoints(tmp_path, 5)
    checkpoints.save(1, weights, {"step": tf.Variable(1)}, {})
    weights["kernel"].assign_add(tf.ones([2, 3]))  # training goes on meanwhile
    assert checkpoints.steps() == [] and not checkpoints.failed()
    go_on.set()
    checkpoints.wait()
    assert np.all(load_file(tmp_path / "step-00000001" / MODEL)["kernel"] == 1)


def test_a_failed_save_is_told_once_and_leaves_nothing(tmp_path, monkeypatch):
    save(tmp_path, 1)
    checkpoints = Checkpoints(tmp_path, 5)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "to_disk", lambda path: os.stat(path / "missing"))
        checkpoints.save(2, variables(), {"step": tf.Variable(2)}, {})
        with pytest.raises(OSError):
            checkpoints.wait()
    checkpoints.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    checkpoints.save(2, variables(), {"step": tf.Variable(2)}, {})
    checkpoints.wait()
    assert [path.name for path in checkpoints.steps()] == ["step-00000001", "step-00000002"]


def test_a_run_that_is_taken_away_is_not_begun_anew(tmp_path):
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoints", 5)
    checkpoints.save(1, variables(), {}, {})
    with pytest.raises(FileNotFoundError, match="run/checkpoints"):
        checkpoints.wait()
    with pytest.raises(FileNotFoundError, match="run/best"):
        BestWeights(tmp_path / "run" / "best").add(1, "bleu", 3.0, variables())
    assert not (tmp_path / "run").exists()


def test_what_is_saved_counts_though_an_old_one_cannot_be_removed(tmp_path, monkeypatch):
    """Nor is that one in the way of others."""
    said, remove = [], shutil.rmtree
    checkpoints = Checkpoints(tmp_path, 2, said.append)
    save(tmp_path, 1, 2)

    def denied(path, ignore_errors=False):
        if "00000001" not in path.name:
            remove(path, ignore_errors)
        elif not ignore_errors:
            raise PermissionError(errno.EACCES, "Permission denied", "model.safetensors")

    monkeypatch.setattr(shutil, "rmtree", denied)
    for step in 3, 4:
        checkpoints.save(step, variables(step), {"step": tf.Variable(step)}, {})
        checkpoints.wait()
    assert [path.name for path in checkpoints.steps()] == ["step-00000003", "step-00000004"]
    [line] = said
    assert "step-00000003 is saved, but an old one stays: model.safetensors: Perm" in line


def test_the_average_is_of_what_is_whole(tmp_path):
    saved = Saved(tmp_path, 1, 2, 3, 4)
    saved.break_file(3, MODEL, changed)
    checkpoints = Checkpoints(tmp_path, 5, saved.said.append)
    found = checkpoints.average(3, tmp_path / "averaged")
    assert [path.name for path in found] == ["step-00000002", "step-00000004"]
    assert np.all(load_file(tmp_path / "averaged")["kernel"] == 3) and len(saved.said) == 1
    for step in 2, 4:
        saved.break_file(step, MODEL, changed)
    with pytest.raises(UserError, match="damaged"):
        checkpoints.average(3, tmp_path / "averaged")


def test_what_is_removed_in_part_is_no_checkpoint(tmp_path, monkeypatch):
    """kill -9 may come while an old one is removed."""
    saved = Saved(tmp_path, 1, 2)
    remove = shutil.rmtree

    def half(path, **options):
        if not options and (path / MODEL).is_file():
            (path / MODEL).unlink()
            raise KeyboardInterrupt
        remove(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", half)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 3, keep=2)
    assert [path.name for path in Checkpoints(tmp_path, 2).steps()][0] == "step-00000002"
    save(tmp_path, 4, keep=2)
    assert saved.restore() == ({"batch": 4}, 4, 4)
    assert saved.names() == ["step-00000003", "step-00000004"]


@pytest.mark.parametrize(
    "figure, values, kept", [("bleu", [3, 9, 5, 9], [2, 4]), ("loss", [3, 9, 5, 2], [4, 1])]
)
def test_the_best_weights_are_kept(tmp_path, figure, values, kept):
    best = BestWeights(tmp_path / "best", keep=2)
    assert best.ranked() == []
    best.add(0, "other", 100.0, variables())
    for step, value in enumerate(values, 1):
        best.add(step, figure, float(value), variables(step))
    files = [path for _, path in best.ranked()]
    assert [read_about(path)["step"] for path in files] == kept
    assert [load_file(path)["kernel"][0, 0] for path in files] == kept
    assert [value for value, _ in best.ranked()] == [values[step - 1] for step in kept]
    files[0].write_bytes(
        files[0].read_bytes()[:50]
    )  # a broken one is neither the best nor in the way
    assert [path for _, path in best.ranked(figure)] == files[1:]


def test_weights_that_are_not_finite_give_way_to_those_before(tmp_path):
    save(tmp_path, 1, 2)
    said, weights, step = [], variables(), tf.Variable(0)
    checkpoints = Checkpoints(tmp_path, 5, said.append)
    checkpoints.save(3, variables(np.nan), {"step": tf.Variable(3)}, {"batch": 3})
    checkpoints.wait()
    assert checkpoints.restore(weights, {"step": step}) == {"batch": 2} and step == 2
    assert np.all(weights["kernel"].numpy() == 2)
    assert "step-00000003/model.safetensors: weights are not finite" in said[0]
