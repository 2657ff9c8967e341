"""What an export says of itself, and the problem whose Python its outputs may still need."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite import __version__, records, registry
from t2t_lite.data import vocabulary_files
from t2t_lite.errors import UserError
from t2t_lite.options import FilePath, options
from t2t_lite.problem import Problem, is_default

if TYPE_CHECKING:  # clients read metadata without TensorFlow
    from t2t_lite.data.tokenizer import Vocabularies
    from t2t_lite.decoding.search import Search
    from t2t_lite.run import Run
    from t2t_lite.runs import Runs

FILE = "assets.extra/metadata.json"  # TensorFlow Serving leaves that folder to its users
CTRANSLATE2_FILE = "metadata.json"
_ASSETS = {FILE: "assets", CTRANSLATE2_FILE: "."}  # where the vocabularies lie
# The fields that are read here and by the server.
_KINDS = {"problem": str, "options": dict, "output_text": str | None, "vocabularies": dict}
# Score of a place among the N best that no hypothesis takes: the lowest float32, for want of -inf.
NO_SCORE = -3.4028234663852886e38


def metadata(
    runs: Runs,
    weights: Sequence[Path],
    vocabularies: Vocabularies,
    search: Search,
    file: str = FILE,
) -> dict:
    """The record of an export, ready for JSON, which becomes `file`: FILE or CTRANSLATE2_FILE."""
    import tensorflow as tf

    problem = runs.problem
    first, *others = map(_model, runs.members, weights)
    depth = min(run.hparams.num_decoder_layers for run in runs.members)
    return {
        "t2t_lite": __version__,
        "tensorflow": tf.__version__,
        "problem": problem.name,
        "options": _portable(problem),
        **first,
        **({"ensemble": others} if others else {}),  # with these
        "beam_size": search.beam_size,
        "alpha": search.alpha,
        "extra_length": search.extra_length,
        "n_best": search.n_best,
        "constrained": search.constrained,
        # The layer for a heat map, from 0: the last but one follows the words best, the last looks
        # elsewhere at the end (Garg et al. 2019, https://arxiv.org/abs/1909.02074, and so it was in
        # `small` on Multi30k en-fr).
        "attention_layer": max(depth - 2, 0),
        "vocabularies": _vocabularies(vocabularies, _ASSETS[file]),
        # The model's text is not yet the user's where the problem says so.
        "output_text": None
        if is_default(problem.output_text)
        else "t2t_lite.export.metadata.problem(metadata).output_text(text, line)",
    }


def _model(run: Run, weights: Path) -> dict:
    """What the metadata say of one run's model."""
    return {
        "hparams_set": run.hparams_set,
        "hparams": run.hparams.to_dict(),
        "weights": str(weights.relative_to(run.path)),
    }


def read(folder) -> dict:
    """The metadata of DIR/<version>.

    Raises UserError where there is none, and where a vocabulary is not that of the export.
    """
    for name, assets in _ASSETS.items():
        file = Path(folder, name)
        if file.is_file():
            record = records.read(file)
            records.check(record, _KINDS, file)
            _check_vocabularies(record["vocabularies"].values(), Path(folder, assets), file)
            return record
    raise UserError(f"{folder}: no export of t2t-exporter (no {FILE}, no {CTRANSLATE2_FILE})")


def _vocabularies(vocabularies: Vocabularies, assets: str) -> dict:
    """What the metadata say of both sides' vocabularies."""
    from t2t_lite.data.tokenizer import EOS, PAD

    about = {}
    for side, name in zip(("source", "target"), vocabulary_files.names(vocabularies.shared)):
        vocabulary = getattr(vocabularies, side)
        about[side] = {
            "file": str(Path(assets, name)),
            "sha256": vocabulary.digest,
            "kind": vocabulary.kind,
            "size": vocabulary.size,
            "pad": PAD,
            "eos": EOS,
            "unk": vocabulary.unk,
        }
    return about


def _check_vocabularies(sides: Iterable, assets: Path, file: Path) -> None:
    kinds = {"file": str, "sha256": str}
    stored = {}
    for side in sides:
        if isinstance(side, dict) and "sha256" in side:  # those of before have none
            records.check(side, kinds, file)
            stored[Path(side["file"]).name] = side["sha256"]
    if stored:
        vocabulary_files.check(assets, stored)


def problem(metadata: dict, usr_dir: str | None = None) -> Problem:
    """The problem of an export, for what it does in Python: `output_text`, `pretty`, `svg`, ...

    A parsing model returns tree symbols; this makes the tree of them:

        metadata = read("export/1")
        serve = tf.saved_model.load("export/1").signatures["serving_default"]
        symbols = serve(tf.constant([line]))["text"][0].numpy().decode()
        tree = problem(metadata).output_text(symbols, line)
    """
    registry.load_plugins(usr_dir)
    return registry.problem(metadata["problem"], **metadata["options"])


def _portable(problem: Problem) -> dict:
    """The options that mean something elsewhere: those given, but no paths of this machine.

    A path that the problem cannot be made without stays.
    """
    given = problem.options()
    return {
        option.name: given[option.name]
        for option in options(type(problem))
        if given.get(option.name) is not None
        and (option.kind is not FilePath or option.default is dataclasses.MISSING)
    }
