"""Checkpoints of tensor2tensor's, written by hand: names, parts of matrices, what is wrong."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.tensor2tensor.checkpoint import Checkpoint

H = HParams(num_encoder_layers=1, num_decoder_layers=1, d_model=4, d_ff=6, num_heads=2, norm="pre")
UNTIED = H.replace(share_embeddings=False, tie_softmax=False, target_space=True)
V = 5


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def write(path, **arrays):
    """A checkpoint of a graph of TensorFlow 1; `__` stands for `/`."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in arrays.items():
            tf.compat.v1.get_variable(name.replace("__", "/"), initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(tf.compat.v1.global_variables())
        saver.save(session, str(path), write_meta_graph=False)
    return path


def test_parts_of_a_matrix_are_joined_in_numeric_order(tmp_path):
    rows = numbers(12, 4)
    scope = "transformer__symbol_modality_12_4__shared__weights_"
    parts = {f"{scope}{i}": rows[i : i + 1] for i in range(12)}
    checkpoint = Checkpoint.open(write(tmp_path / "model.ckpt-7", **parts, global_step=np.int64(7)))
    read = checkpoint.read({"embedding/embeddings": (12, 4)}, H, 0)
    np.testing.assert_array_equal(read["embedding/embeddings"], rows)
    assert (checkpoint.step, checkpoint.symbols, checkpoint.has_slots) == (7, {12}, False)


def test_separate_matrices_and_the_target_space(tmp_path):
    scope = "transformer__symbol_modality_5_4__"
    names = {"source_embedding": "input_emb", "target_embedding": "target_emb"}
    names["softmax"] = "softmax"
    written = {
        f"{scope}{theirs}__weights_0": numbers(V, 4) + i for i, theirs in enumerate(names.values())
    }
    written["transformer__body__target_space_embedding__kernel"] = numbers(32, 4)
    checkpoint = Checkpoint.open(write(tmp_path / "model.ckpt-1", **written))
    shapes = {f"{ours}/embeddings": (V, 4) for ours in names} | {"target_space/vector": (4,)}
    read = checkpoint.read(shapes, UNTIED, target_space_id=11)
    for i, ours in enumerate(names):
        np.testing.assert_array_equal(read[f"{ours}/embeddings"], numbers(V, 4) + i)
    np.testing.assert_array_equal(read["target_space/vector"], numbers(32, 4)[11])


def test_the_newest_of_a_folder(tmp_path):
    name = "transformer__symbol_modality_5_4__shared__weights_0"
    for step in 1, 2:
        write(
            tmp_path / f"model.ckpt-{step}", **{name: numbers(V, 4), "global_step": np.int64(step)}
        )
    assert Checkpoint.open(tmp_path).step == 2
    assert Checkpoint.open(tmp_path / "model.ckpt-1.index").step == 1


def test_what_is_wrong_is_named(tmp_path):
    name = "transformer__symbol_modality_5_4__shared__weights_0"
    one = {name: numbers(V, 4)}
    with pytest.raises(UserError, match="no Transformer of tensor2tensor's.*found lstm"):
        Checkpoint.open(write(tmp_path / "lstm", lstm=numbers(2)))
    checkpoint = Checkpoint.open(
        write(tmp_path / "more", **one, transformer__body__moe__gate=numbers(2))
    )
    with pytest.raises(UserError, match=r"holds transformer/body/moe/gate \(1 in all\)"):
        checkpoint.read({"embedding/embeddings": (V, 4)}, H, 0)
    checkpoint = Checkpoint.open(write(tmp_path / "one", **one))
    shapes = {"embedding/embeddings": (V, 4), "encoder/final_norm/gamma": (4,)}
    with pytest.raises(UserError, match="no transformer/body/encoder/layer_prepostprocess/layer_"):
        checkpoint.read(shapes, H, 0)
    (tmp_path / "broken.index").write_bytes(b"nothing")
    with pytest.raises(UserError, match="broken: cannot be read"):
        Checkpoint.open(tmp_path / "broken")
