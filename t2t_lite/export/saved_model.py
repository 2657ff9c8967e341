"""Exports a run as one SavedModel, from string to string, for TensorFlow and tensorflow_text alone.

DIR/<version>/saved_model.pb, variables/    functions of `export.signatures`, weights in float32
DIR/<version>/assets/vocab.model            the SentencePiece model(s), as the graph holds them
DIR/<version>/assets.extra/metadata.json    what was exported, and how it decodes
"""

import json
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from t2t_lite.decoding.search import Search
from t2t_lite.errors import UserError
from t2t_lite.export import metadata
from t2t_lite.export.folder import building, fresh_answer, new_version, publish, random_lines
from t2t_lite.export.signatures import Signatures
from t2t_lite.problem import grammar_of
from t2t_lite.quiet import native_stderr_silenced
from t2t_lite.run import Run
from t2t_lite.runs import Runs
from t2t_lite.translator import Translator

TOLERANCE = 1e-4  # between scores of the export and of the decoder


def export(
    run: Run | Runs,
    export_dir,
    version: int | None = None,
    *,
    beam_size: int | None = None,
    alpha: float | None = None,
    extra_length: int | None = None,
    n_best: int | None = None,
    constrained: bool = True,
) -> Path:
    """Writes `export_dir`/<version>/ and returns it: whole and checked, or not at all.

    Args:
        run: an opened Run, or several; the weights that `weights.chosen` names are exported.
        version: default: one more than the largest there, from 1.
        beam_size: of the search; default: the problem's.
        alpha: likewise.
        extra_length: likewise.
        n_best: hypotheses of the signature `n_best`; default: all of the beam.
        constrained: obey the problem's grammar of outputs, where it has one.

    Raises UserError for bad values, an existing version, a run without weights, and where the
    model, loaded in a process of its own, does not give what the decoder gives.
    """
    runs = Runs((run,)) if isinstance(run, Run) else run
    search = Search.of(
        runs.problem.decoding,
        beam_size=beam_size,
        alpha=alpha,
        extra_length=extra_length,
        n_best=n_best,
        constrained=constrained and grammar_of(runs.problem, runs.vocabularies()) is not None,
    )
    new_version(export_dir, version)  # an error now rather than after the work
    with tf.device("CPU:0"):
        translator = runs.translator(devices=["CPU:0"], xla=False)
    about = metadata.metadata(runs, translator.weights, translator.vocabularies, search)
    with building(export_dir) as folder:
        write(folder, translator, search, about)
        _check(folder, translator, search)
        return publish(folder, export_dir, version)


def write(folder: Path, translator: Translator, search: Search, about: dict) -> None:
    """Writes a SavedModel of the signatures, with `about` as its metadata."""
    text = json.dumps(about, indent=2, ensure_ascii=False)
    signatures = Signatures(translator, search)
    functions = signatures.functions()
    functions["metadata"] = tf.function(
        lambda: {"metadata": tf.constant(text)}, [], autograph=False
    )
    # Not the Keras model itself, with which Keras would save call functions for every layer.
    vocabularies = translator.vocabularies
    module = tf.Module()
    module.weights = signatures.variables
    module.tokenizers = [vocabularies.source.tokenizer, vocabularies.target.tokenizer]
    files = folder.with_name("vocabularies")
    vocabularies.save(files)
    module.vocabularies = [tf.saved_model.Asset(str(file)) for file in sorted(files.iterdir())]
    with native_stderr_silenced():
        tf.saved_model.save(module, str(folder), signatures=functions)
    file = folder / metadata.FILE
    file.parent.mkdir()
    file.write_text(text + "\n", encoding="utf-8")


def fresh_outputs(folder: Path, lines: Sequence[str]) -> dict[str, list]:
    """text, score and log_prob of `serving_default` in a process that cannot import t2t_lite."""
    return fresh_answer("fresh_process.py", folder, lines)


def _check(folder: Path, translator: Translator, search: Search) -> None:
    """Raises UserError where the SavedModel differs from the decoder.

    It does in a score by more than TOLERANCE, or in a text unless the other one scores as much.
    """
    lines = random_lines(translator.vocabularies.source)
    options = {
        field: getattr(search, field)
        for field in ("beam_size", "alpha", "extra_length", "constrained")
    }
    wanted = translator.translate(lines, n_best=search.beam_size, **options)
    found = fresh_outputs(folder, lines)
    for line, hypotheses, text, score in zip(
        lines, wanted, found["text"], found["score"], strict=True
    ):
        text = translator.problem.output_text(text, line) if line.strip() else text
        best = hypotheses[0].score
        equal = [
            hypothesis.text
            for hypothesis in hypotheses
            if abs(hypothesis.score - best) <= TOLERANCE
        ]
        if not abs(score - best) <= TOLERANCE or text not in equal:
            raise UserError(
                f"the exported model differs from the decoder, nothing is written: {line!r} gives "
                f"{text!r} with score {score:.6f}; expected {hypotheses[0].text!r} with {best:.6f}"
            )
