"""CTranslate2's model of an untrained run: it gives the decoder's texts.

To a program that has ctranslate2 and sentencepiece only.
"""

import builtins
import dataclasses
import importlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from readme import python_example
from untrained import sentence, untrained_run

import t2t_lite
from t2t_lite import registry
from t2t_lite.data.tokenizer import EOS, PAD, UNK, Vocabularies, Vocabulary
from t2t_lite.errors import UserError
from t2t_lite.export import metadata
from t2t_lite.run import Run

package = pytest.importorskip("ctranslate2", reason="no package ctranslate2")
from t2t_lite.export import ctranslate2  # noqa: E402

EXAMPLE = python_example("import json, ctranslate2")
OPTIONS = dict(beam_size=3, alpha=0.8, extra_length=20)

LINES = [
    "",
    "   ",
    "\u3000\u2028",
    "a\tb",
    " two  spaces ",
    "\U0001f600 \u6f22",
    *(sentence(i, 1 + i % 9) for i in range(24)),
]


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.train([sentence(i, 12) for i in range(300)], 340)


def make_run(path, vocabularies, **sizes):
    """A run whose untrained model is as sure of its outputs as a trained one.

    It gives no PAD, UNK or byte, and EOS in due time: the last two dimensions of its outputs, which
    the embeddings of words leave free, say "never" and "the end".
    """
    registry.load_plugins()
    processor = vocabularies.target.processor
    never = [
        i for i in range(processor.get_piece_size()) if i in (PAD, UNK) or processor.is_byte(i)
    ]

    def make_sure(model):
        for layer in model.target_embedding, model.softmax:
            embeddings = layer.embeddings.numpy()
            embeddings[never] = embeddings[:, -2:] = 0
            embeddings[EOS, -2], embeddings[never, -1] = 4, -3
            layer.embeddings.assign(embeddings)
        last = model.decoder.final_norm or model.decoder.layers[-1].feed_forward_residual.layer_norm
        last.beta.assign([0] * 15 + [9])
        if model.hparams.positions == "learned":
            table = model.target_positions.table.numpy()
            table[:, -2] = 8 * (np.arange(len(table)) - 5)
            model.target_positions.table.assign(table)

    problem = registry.problem("spelled_numbers_ende")
    return untrained_run(path, problem, vocabularies, alter=make_sure, **sizes)


@pytest.fixture(scope="module")
def run(vocabulary, tmp_path_factory):
    sizes = dict(norm="pre", positions="learned", max_positions=64)
    return make_run(
        tmp_path_factory.mktemp("runs") / "run",
        Vocabularies(vocabulary, vocabulary, shared=True),
        **sizes,
    )


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return ctranslate2.export(run, tmp_path_factory.mktemp("export"), **OPTIONS)


def outputs(folder, lines):
    """(text, score) that the example finds, in a process without t2t_lite and TensorFlow."""
    assert len(EXAMPLE.splitlines()) == 10
    code = EXAMPLE.replace(
        '"models/ende-ct2/1", ["two hundred six"]', f"{str(folder)!r}, {lines!r}"
    )
    code = "import sys; sys.modules['t2t_lite'] = sys.modules['tensorflow'] = None\n" + code
    code += "    print(max(map(rank, result.hypotheses, result.scores))[1])\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert result.returncode == 0, result.stderr
    printed = result.stdout.splitlines()
    return list(zip(printed[::2], map(float, printed[1::2]), strict=True))


def test_the_example_gives_the_decoders_texts_and_scores(folder, run):
    wanted = [best for [best] in t2t_lite.load(run.path).translate(LINES, **OPTIONS)]
    found = outputs(folder, LINES)
    assert [text for text, _ in found] == [best.text for best in wanted]
    np.testing.assert_allclose(
        [score for _, score in found], [best.score for best in wanted], atol=1e-3
    )
    assert len({best.text for best in wanted}) > 20 and wanted[0].text == wanted[1].text == ""


def test_metadata_and_vocabulary_travel_along(folder, run):
    about = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    assert {name: about[name] for name in OPTIONS} == OPTIONS and about[
        "weights"
    ] == "averaged.safetensors"
    assert (
        about["quantization"] is None
        and about["input_text"] is None
        and about["ctranslate2"] == package.__version__
    )
    assert metadata.read(folder) == about and metadata.problem(about).name == "spelled_numbers_ende"
    assert (folder / "vocab.model").read_bytes() == (run.path / "vocab.model").read_bytes()
    pieces = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    assert pieces[:3] == ["<pad>", "</s>", "<unk>"] and len(pieces) == len(set(pieces)) == 340
    assert {path.name for path in folder.iterdir()} == {
        "model.bin", "config.json", "shared_vocabulary.json", "vocab.model", "metadata.json"
    }  # fmt: skip


def test_a_vocabulary_that_was_replaced_is_noticed(folder, tmp_path):
    """In the folder itself, where the metadata of this format say that it lies."""
    copy = shutil.copytree(folder, tmp_path / "1")
    file = copy / metadata.read(copy)["vocabularies"]["target"]["file"]
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(UserError, match=f"{file}: had other contents when {copy} was made"):
        metadata.read(copy)


@pytest.mark.thorough
@pytest.mark.parametrize("quantization", ["int8", "float16"])
def test_quantized(run, folder, tmp_path, quantization):
    small = ctranslate2.export(run, tmp_path, quantization=quantization, **OPTIONS)
    assert json.loads((small / "metadata.json").read_text())["quantization"] == quantization
    assert (small / "model.bin").stat().st_size < (folder / "model.bin").stat().st_size
    assert len(outputs(small, LINES)) == len(LINES)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sizes",
    [
        dict(
            norm="post", positions="learned", max_positions=4
        ),  # positions beyond them read the last
        dict(num_heads=1, d_k=7, d_v=4, num_encoder_layers=2, num_decoder_layers=1),
        dict(norm="pre", positions="sinusoidal_halves", tie_softmax=False, target_space=True),
    ],
)
def test_all_that_a_set_can_say(vocabulary, tmp_path, sizes):
    """With separate vocabularies, hence embeddings."""
    target = Vocabulary.train([sentence(i, 12).upper() for i in range(300)], 330)
    run = make_run(tmp_path / "run", Vocabularies(vocabulary, target, shared=False), **sizes)
    folder = ctranslate2.export(run, tmp_path / "export", **OPTIONS)
    lines = [line for line in LINES if line.strip()]
    # Greedy; `export` has compared log probabilities.
    found = ctranslate2.fresh_answer(
        "fresh_ctranslate2.py", folder, [line.strip() for line in lines]
    )
    texts = [target.processor.decode(pieces) for pieces in found["pieces"]]
    wanted = [
        best for [best] in t2t_lite.load(run.path).translate(lines, **OPTIONS | {"beam_size": 1})
    ]
    assert texts == [best.text for best in wanted] and len(set(texts)) > 8
    assert (folder / "vocab.target.model").is_file()


def test_heads_that_are_too_wide_are_refused(vocabulary, tmp_path):
    run = make_run(tmp_path / "run", Vocabularies(vocabulary, vocabulary, shared=True), d_k=9)
    message = (
        "heads of d_model / num_heads = 16 / 2 and this run d_k=9, d_v=8, which are more; "
        "use --format=saved_model"
    )
    with pytest.raises(UserError, match=message):
        ctranslate2.export(run, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_a_difference_leaves_nothing(run, tmp_path, monkeypatch):
    def answer(pieces, log_prob):
        def answer(script, folder, lines):
            assert (folder / "model.bin").is_file()
            return {"pieces": [pieces] * len(lines), "log_prob": [log_prob] * len(lines)}

        monkeypatch.setattr(ctranslate2, "fresh_answer", answer)

    answer(["\u2581the"], 0.5)
    with pytest.raises(
        UserError,
        match="differs .*, nothing .*: .* gives 'the' with log probability 0.5.*; expected -",
    ):
        ctranslate2.export(run, tmp_path / "new" / "export", **OPTIONS)
    monkeypatch.setattr(ctranslate2, "TOLERANCE", np.inf)
    with pytest.raises(
        UserError, match="model's search differs .*, nothing is written: .* gives 'the'; expected "
    ):
        ctranslate2.export(run, tmp_path / "new" / "export", **OPTIONS)
    assert list(tmp_path.iterdir()) == []


def test_a_grammar_cannot_be_obeyed(vocabulary, tmp_path):
    word = Vocabulary.train(["(S (NP XX )NP (VP XX )VP )S"], None, model_type="word")
    run = make_run(tmp_path / "run", Vocabularies(vocabulary, word, shared=False))
    run = Run(run.path, registry.problem("toy_parsing"), "none", run.hparams, seed=1)
    with pytest.raises(
        UserError,
        match="problem toy_parsing has a grammar of outputs, .* use --format=saved_model, or",
    ):
        ctranslate2.export(run, tmp_path / "export")
    given = dataclasses.replace(run, hparams=run.hparams.replace(next_word="given"))
    with pytest.raises(
        UserError,
        match="knows no next_word=given, with which this run was trained; use --format=saved_model",
    ):
        ctranslate2.export(given, tmp_path / "export", constrained=False)
    folder = ctranslate2.export(run, tmp_path / "export", constrained=False)
    about = json.loads((folder / "metadata.json").read_text())
    assert (
        not about["constrained"]
        and "input_text(line)" in about["input_text"]
        and "output_text" in about["output_text"]
    )


def test_layer_types_that_it_does_not_know(run, tmp_path):
    hparams = run.hparams.replace(encoder_layer="convolution")
    with pytest.raises(
        UserError,
        match="^CTranslate2 knows no encoder_layer=convolution.* use --format=saved_model$",
    ):
        ctranslate2.export(dataclasses.replace(run, hparams=hparams), tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_without_the_package(monkeypatch):
    original = builtins.__import__

    def missing(name, *arguments):
        if name.partition(".")[0] == "ctranslate2":
            raise ModuleNotFoundError(name)
        return original(name, *arguments)

    monkeypatch.delitem(sys.modules, "t2t_lite.export.ctranslate2")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(
        UserError, match=r'^--format=ctranslate2 needs .*: pip install "t2t_lite\[ctranslate2\]"$'
    ):
        importlib.import_module("t2t_lite.export.ctranslate2")
