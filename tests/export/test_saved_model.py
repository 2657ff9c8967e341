"""The SavedModel of an untrained run needs TensorFlow and tensorflow_text only."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from untrained import SEARCH, sentence, untrained_run

import t2t_lite
from t2t_lite.errors import UserError
from t2t_lite.export import metadata, saved_model


def test_no_operation_is_for_xla_only(folder):
    assert_serves_everywhere(folder)


def assert_serves_everywhere(folder):
    """All operations are those of TensorFlow's stock builds and of tensorflow_text, none XLA's."""
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    [graph] = saved.meta_graphs
    functions = graph.graph_def.library.function
    ops = {node.op for function in functions for node in function.node_def} | {
        node.op for node in graph.graph_def.node
    }
    assert {"While", "TopKV2", "SentencepieceTokenizeOp"} <= ops  # all functions were looked at
    assert not [op for op in ops if op.startswith("Xla") or "TPU" in op or op == "PyFunc"]
    assert not [function for function in functions if function.attr["_XlaMustCompile"].b]
    types = {
        tf.as_dtype(node.attr["dtype"].type)
        for node in graph.graph_def.node
        if node.op == "VarHandleOp"
    }
    assert {dtype for dtype in types if dtype.is_floating} == {tf.float32}


def test_all_weights_are_inside(loaded, run):
    """The model's, and what is made of them once, so that no call has to."""
    model = run.translator().model
    made = tf.nest.flatten(model.search_weights())

    def described(tensors):
        return sorted((list(tensor.shape), float(tf.reduce_sum(tensor))) for tensor in tensors)

    assert described(loaded.weights) == described([*model.weights, *made])


@pytest.mark.thorough
def test_saved_model_cli_runs_it_without_t2t_lite(folder, model, tmp_path):
    code = (
        "import sys; sys.modules['t2t_lite'] = None; import tensorflow_text;"
        "from tensorflow.python.tools import saved_model_cli; sys.exit(saved_model_cli.main())"
    )
    flags = [
        "--tag_set",
        "serve",
        "--signature_def",
        "serving_default",
        "--outdir",
        tmp_path,
        "--dir",
        folder,
    ]
    line = sentence(1, 4)
    command = [
        sys.executable,
        "-c",
        code,
        "run",
        *map(str, flags),
        "--input_exprs",
        f"text=[b'{line}', b' ']",
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    [best, *_], _ = model.translate([line, " "], n_best=3, **SEARCH)
    assert np.load(tmp_path / "text.npy", allow_pickle=True).tolist() == [best.text.encode(), b""]
    np.testing.assert_allclose(np.load(tmp_path / "score.npy"), [best.score, 0], atol=1e-4)


def test_a_difference_leaves_nothing(run, tmp_path, monkeypatch):
    def wrong(folder, lines):
        assert (folder / "saved_model.pb").is_file()
        return {"text": ["wrong"] * len(lines), "score": [0.0] * len(lines)}

    monkeypatch.setattr(saved_model, "fresh_outputs", wrong)
    with pytest.raises(
        UserError,
        match="differs from the decoder, nothing is written: .* gives 'wrong' with score 0.000000",
    ):
        saved_model.export(run, tmp_path / "new" / "export", beam_size=1)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(run, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise tf.errors.ResourceExhaustedError(None, None, "no space left")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(tf.errors.ResourceExhaustedError):  # one line of any command
        saved_model.export(run, tmp_path / "new", beam_size=1)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_does_not_load_is_an_error(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho 'Traceback' >&2\necho 'OSError: no SavedModel' >&2\nexit 1\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(
        UserError,
        match="does not run in a process of its own, nothing is written: OSError: no SavedModel",
    ):
        saved_model.fresh_outputs(tmp_path, ["a"])


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["restricted_self_attention", "recurrent", "convolution"])
def test_every_layer_type(kind, run, tmp_path):
    """The export compares outputs itself; a part of one is the attention that there is."""
    other = untrained_run(
        tmp_path / "run", run.problem, run.vocabularies(), ends=True, encoder_layer=kind
    )
    folder = saved_model.export(other, tmp_path / "export", **SEARCH)
    assert_serves_everywhere(folder)
    signature = tf.saved_model.load(folder).signatures["attention_heads"]
    found = signature(text=tf.constant([sentence(2, 5)]), target=tf.constant([sentence(3, 4)]))
    assert ("encoder" in found) == ("attention" in kind) and "decoder" in found


def test_parsing(parser_export):
    """Symbols out, by the grammar; the problem that the metadata names makes the tree of them."""
    run, folder = parser_export.run, parser_export.folder / "1"
    assert_serves_everywhere(folder)
    lines = [
        "she slept .",
        " the  (old)\tdog\u00a0x {saw} [a] map ",
        "",
        "a\u2581b c",
        "\r\x0bthe map\x0c",
    ]
    found = saved_model.fresh_outputs(folder, lines)
    model = t2t_lite.load(run.path)
    wanted = [best for [best] in model.translate(lines, **SEARCH)]
    trees = trees_without_tensorflow(folder, found["text"], lines)
    assert trees == [best.text for best in wanted] and trees[0].count(" ") > 3
    np.testing.assert_allclose(found["score"], [best.score for best in wanted], atol=1e-4)
    assert "metadata.problem(metadata).output_text" in metadata.read(folder)["output_text"]


def trees_without_tensorflow(folder, symbols, lines):
    """What the metadata's problem makes of a model's outputs, where TensorFlow is missing."""
    code = (
        "import json, sys; sys.modules['tensorflow'] = sys.modules['keras'] = None\n"
        "from t2t_lite.export import metadata\n"
        f"problem = metadata.problem(metadata.read({str(folder)!r}))\n"
        "tree = lambda text, line: problem.output_text(text, line) if line else ''\n"
        "print(json.dumps([tree(*pair) for pair in json.load(sys.stdin)]))"
    )
    pairs = json.dumps([*zip(symbols, lines)])
    result = subprocess.run(
        [sys.executable, "-c", code], input=pairs, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
