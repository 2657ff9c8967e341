"""The SavedModel of an untrained run: it does what the decoder does.

And it needs TensorFlow and tensorflow_text only.
"""

import dataclasses
import json
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from untrained import SEARCH, WORDS, sentence

import t2t_lite
from t2t_lite import registry
from t2t_lite.data.tokenizer import EOS, PAD
from t2t_lite.decoding.decoder import Search
from t2t_lite.errors import UserError
from t2t_lite.export import metadata, saved_model
from t2t_lite.export.signatures import Signatures

ODD = [
    "", "   ", "\u3000\u2028", "\t", "a\tb", " two  spaces ", "\U0001f600 \u6f22", "\x00",
    "x\ny\r", "\ufeffBOM", "\ufffd", "\x1c", "\x85\xa0", sentence(7, 60),
]  # fmt: skip
LINES = [*ODD, *(sentence(i, 1 + i % 9) for i in range(12))]


@pytest.fixture(scope="module")
def run(translator_export):
    return translator_export.run


@pytest.fixture(scope="module")
def folder(translator_export):
    return translator_export.folder / "1"


@pytest.fixture(scope="module")
def loaded(folder):
    return tf.saved_model.load(folder)


@pytest.fixture(scope="module")
def model(run):
    return t2t_lite.load(run.path)


@pytest.fixture(scope="module")
def wanted(model):
    """The decoder's hypotheses of LINES, at most 3 each."""
    return model.translate(LINES, n_best=3, **SEARCH)


def texts(tensor):
    return np.vectorize(bytes.decode, otypes=[object])(tensor.numpy()).tolist()


@pytest.mark.parametrize("size", [1, 7, len(LINES)])
def test_the_decoders_texts_and_scores_at_any_batch_size(loaded, wanted, size):
    function = loaded.signatures["serving_default"]
    outputs = []
    for start in range(0, len(LINES), size):
        result = function(text=tf.constant(LINES[start : start + size]))
        outputs += zip(
            texts(result["text"]), result["score"].numpy(), result["log_prob"].numpy(), strict=True
        )
    best = [hypotheses[0] for hypotheses in wanted]
    assert [text for text, _, _ in outputs] == [h.text for h in best]
    numbers = [(score, log_prob) for _, score, log_prob in outputs]
    np.testing.assert_allclose(numbers, [(h.score, h.log_prob) for h in best], atol=1e-4)
    assert len({h.text for h in best}) > 8
    assert [outputs[i] for i in range(4)] == [("", 0.0, 0.0)] * 4


def test_n_best(loaded, wanted):
    result = loaded.signatures["n_best"](text=tf.constant(LINES))
    assert (
        result["text"].shape == result["score"].shape == result["log_prob"].shape == [len(LINES), 3]
    )
    for line, scores, hypotheses in zip(
        texts(result["text"]), result["score"].numpy(), wanted, strict=True
    ):
        missing = 3 - len(hypotheses)
        assert line == [h.text for h in hypotheses] + [""] * missing
        np.testing.assert_allclose(
            scores, [h.score for h in hypotheses] + [metadata.NO_SCORE] * missing, atol=1e-4
        )
    assert [len(hypotheses) for hypotheses in wanted[:2]] == [1, 1] and len(wanted[-1]) == 3


def test_ids(loaded, run):
    vocabulary = run.vocabularies().source
    rows = vocabulary.encode_lines(["", *LINES[14:]])
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor(PAD)
    result = loaded.signatures["ids"](ids=ids)
    as_text = loaded.signatures["serving_default"](text=tf.constant(["", *LINES[14:]]))
    assert result["ids"].shape == [len(rows), ids.shape[1] + SEARCH["extra_length"]]
    assert vocabulary.decode_lines(result["ids"].numpy()) == texts(as_text["text"])
    np.testing.assert_allclose(result["score"], as_text["score"], atol=1e-4)
    assert not result["ids"].numpy()[0].any() and result["score"][0] == 0
    for row, output in zip(rows, result["ids"].numpy()):
        length = np.count_nonzero(output)
        assert (
            length <= len(row) + SEARCH["extra_length"]
            and not output[length:].any()
            and EOS not in output[: length - 1]
        )


def test_score(loaded, model):
    pairs = [(line, sentence(i, i % 6)) for i, line in enumerate(LINES[:13])]
    text, target = map(tf.constant, zip(*pairs))
    result = loaded.signatures["score"](text=text, target=target)
    wanted = [(h.log_prob, h.score) for h in model.score(pairs, alpha=SEARCH["alpha"])]
    np.testing.assert_allclose(
        np.stack([result["log_prob"], result["score"]], 1), wanted, rtol=1e-5, atol=1e-4
    )


def test_attention_says_where_each_piece_looked(loaded, run):
    vocabularies = run.vocabularies()
    text, target = ["the old boat", "rain"], ["green hills", "seven quiet houses past the hills"]
    result = loaded.signatures["attention"](text=tf.constant(text), target=tf.constant(target))
    weights, shape = result["attention"].numpy(), result["attention"].shape
    model = run.load_model(vocabularies)
    for i in range(2):
        [inputs], [outputs] = (
            vocabularies.source.encode_lines(text[i : i + 1]),
            vocabularies.target.encode_lines([target[i]]),
        )
        for side, ids, length in (
            ("source_pieces", inputs, shape[3]),
            ("target_pieces", outputs, shape[2]),
        ):
            assert texts(result[side])[i] == vocabularies.source.pieces(ids) + [""] * (
                length - len(ids)
            )
        alone = model.attention(np.array([inputs], np.int32), np.array([outputs], np.int32))
        assert len(alone) == shape[1] == 2
        mine = weights[i, :, : len(outputs), : len(inputs)]
        np.testing.assert_allclose(mine, [np.mean(layer[0], axis=0) for layer in alone], atol=1e-5)
        np.testing.assert_allclose(mine.sum(-1), 1, atol=1e-5)
        assert weights[i].sum() == pytest.approx(mine.sum(), abs=1e-4)


def test_what_is_not_utf8_is_named(loaded):
    bad = tf.constant([b"good", b"a\xff", b"\xed\xa0\x80"])
    good = tf.constant(["a", "b", "c"])
    for name, arguments, message in [
        ("serving_default", dict(text=bad), r"text: expected UTF-8.*\[1 2\]"),
        ("n_best", dict(text=bad), r"text: expected UTF-8.*\[1 2\]"),
        ("score", dict(text=good, target=bad), r"target: expected UTF-8.*\[1 2\]"),
        ("attention", dict(text=bad, target=good), r"text: expected UTF-8.*\[1 2\]"),
        ("score", dict(text=good, target=good[:2]), "expected as many targets as texts"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            loaded.signatures[name](**arguments)


def test_an_empty_batch(loaded):
    none = tf.zeros([0], tf.string)
    assert loaded.signatures["serving_default"](text=none)["text"].shape == [0]
    assert loaded.signatures["score"](text=none, target=none)["score"].shape == [0]


def test_ten_thousand_lines_and_two_thousand_words(loaded, model):
    few = [sentence(i, 1 + i % 3) for i in range(7)] + [" ".join(WORDS * 120)[:12_000]]
    wanted = [best.text for [best] in model.translate(few, **SEARCH)]
    assert len(few[-1].split()) > 2000
    result = loaded.signatures["serving_default"](
        text=tf.constant((few[:7] * 1429)[:9_999] + few[7:])
    )
    assert texts(result["text"]) == (wanted[:7] * 1429)[:9_999] + wanted[7:]


def test_large_batches_are_cut(run, wanted, monkeypatch):
    """With room for few rows at a time, and so in many batches, the results are the same."""
    monkeypatch.setattr("t2t_lite.export.signatures.BATCH_TOKENS", 200)
    monkeypatch.setattr("t2t_lite.export.signatures.SCORE_TOKENS", 30)
    vocabularies = run.vocabularies()
    search = Search(**SEARCH, n_best=1, sampling=None, constrained=False)
    functions = Signatures(
        run.load_model(vocabularies), vocabularies, run.problem, search
    ).functions()
    result = functions["serving_default"](tf.constant(LINES))
    assert texts(result["text"]) == [hypotheses[0].text for hypotheses in wanted]
    lines = tf.constant(LINES)
    cut = functions["score"](lines, lines)
    monkeypatch.undo()
    whole = Signatures(run.load_model(vocabularies), vocabularies, run.problem, search).functions()[
        "score"
    ](lines, lines)
    np.testing.assert_allclose(cut["log_prob"], whole["log_prob"], rtol=1e-5)


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
    stored = sorted(
        (variable.shape.as_list(), float(tf.reduce_sum(variable))) for variable in loaded.weights
    )
    mine = sorted(
        (list(weight.shape), float(tf.reduce_sum(weight)))
        for weight in run.load_model(run.vocabularies()).weights
    )
    assert stored == mine


def test_metadata_and_vocabulary_travel_along(loaded, folder, run):
    about = metadata.read(folder)
    assert (
        {name: about[name] for name in SEARCH} == SEARCH
        and about["n_best"] == 3
        and about["output_text"] is None
    )
    assert about["attention_layer"] == 0  # of two
    assert about["weights"] == "averaged.safetensors" and about["problem"] == "spelled_numbers_ende"
    assert json.loads(loaded.signatures["metadata"]()["metadata"].numpy()) == about
    assert (folder / "assets" / "vocab.model").read_bytes() == (
        run.path / "vocab.model"
    ).read_bytes()
    with pytest.raises(UserError, match="no export of t2t-exporter"):
        metadata.read(folder.parent)


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


def test_a_folder_that_cannot_be_written_is_one_line(run, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise tf.errors.ResourceExhaustedError(None, None, "no space left")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(UserError, match=f"^--export_dir {tmp_path}/new: no space left$"):
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


def test_parsing(parser_export):
    """Symbols out, by the grammar; the problem that the metadata names makes the tree of them."""
    run, folder = parser_export.run, parser_export.folder / "1"
    assert_serves_everywhere(folder)
    lines = [
        "she slept .",
        " the  (old)\tdog\u00a0x {saw} [a] map ",
        "",
        "a\u2581b c",
        "\r\n\x0bthe map\x0c",
    ]
    found = saved_model.fresh_outputs(folder, lines)
    model = t2t_lite.load(run.path)
    wanted = [best for [best] in model.translate(lines, **SEARCH)]
    trees = trees_without_tensorflow(folder, found["text"], lines)
    assert trees == [best.text for best in wanted] and trees[0].count(" ") > 3
    np.testing.assert_allclose(found["score"], [best.score for best in wanted], atol=1e-4)
    assert "metadata.problem(metadata).output_text" in metadata.read(folder)["output_text"]

    signatures = tf.saved_model.load(folder).signatures
    written = [i for i, text in enumerate(found["text"]) if text]
    pairs = {
        "text": tf.constant([lines[i] for i in written]),
        "target": tf.constant([found["text"][i] for i in written]),
    }
    scores = signatures["score"](**pairs)["score"]
    np.testing.assert_allclose(scores, [found["score"][i] for i in written], atol=1e-4)
    attention = signatures["attention"](**pairs)
    rows = (
        attention["attention"]
        .numpy()
        .sum(-1)[attention["target_pieces"].numpy()[:, None].repeat(2, 1) != b""]
    )
    np.testing.assert_allclose(rows, 1, atol=1e-5)
    assert texts(signatures["n_best"](text=pairs["text"])["text"][:, 0]) == texts(pairs["target"])


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


def test_input_texts_is_input_text_in_the_graph():
    registry.load_plugins()
    problem = registry.problem("toy_parsing")
    chooser = random.Random(1)
    lines = [
        "".join(
            chooser.choices("ab ()[]{}-\\$\t\r\n\f\v\u00a0\u2581\u3000", k=chooser.randrange(12))
        )
        for _ in range(500)
    ]
    assert texts(problem.input_texts(tf.constant(lines))) == [
        problem.input_text(line) for line in lines
    ]


def test_a_problem_whose_input_is_python_only_cannot_be_exported():
    class Shouting(t2t_lite.Problem):
        def input_text(self, line):
            return line.upper()

    with pytest.raises(
        UserError,
        match="problem shouting has input_text in Python only; an export needs its input_texts",
    ):
        Shouting(name="shouting").input_texts(tf.constant(["a"]))


def test_options_that_name_files_stay_behind(run):
    problem = dataclasses.replace(
        registry.problem("spelled_numbers_ende"), data_dir="/home/me", vocab_size=7
    )
    assert metadata._portable(problem.options()) == {"vocab_size": 7, "drop_duplicates": False}
