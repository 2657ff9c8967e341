"""Exports a run for CTranslate2, which translates on CPUs and GPUs without TensorFlow, in int8 too.

DIR/<version>/model.bin, config.json, ..._vocabulary.json    CTranslate2's own
DIR/<version>/vocab.model            the vocabularies: tokens are their pieces
DIR/<version>/metadata.json          what was exported, and how it decodes

CTranslate2's search differs from ours: it divides by length^a, has one length limit for all of a
batch, leaves PAD and UNK out of the softmax where they are forbidden, and lets a hypothesis end
only where EOS is among the best W extensions, not 2W. `translate_batch` of the metadata are the
options that come closest: W hypotheses are asked for by a length penalty like ours, to be ranked
again by ours itself, and the search goes on until 2W are finished.
"""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.tokenizer import EOS, PAD, Vocabularies
from t2t_lite.decoding.search import Search
from t2t_lite.errors import UserError
from t2t_lite.evaluation.perplexity import score_batch
from t2t_lite.export import metadata
from t2t_lite.export.folder import building, fresh_answer, new_version, publish, random_lines
from t2t_lite.models.transformer import Transformer
from t2t_lite.problem import Problem, grammar_of, is_default
from t2t_lite.run import Run
from t2t_lite.runs import Runs
from t2t_lite.translator import Translator

try:
    import ctranslate2  # the package, since imports are absolute
    from ctranslate2.converters import Converter
    from ctranslate2.specs import transformer_spec
except ModuleNotFoundError:
    raise UserError(
        '--format=ctranslate2 needs the package ctranslate2: pip install "t2t_lite[ctranslate2]"'
    ) from None

POSITIONS = 2048  # that are stored: CTranslate2 has an error for inputs and outputs that are longer
BATCH = 64  # sentences of equal length, nearly, that are translated together

# Between log probabilities per sub-word of the export and of the model.
TOLERANCE, QUANTIZED_TOLERANCE = 1e-4, 0.5


def export(
    run: Run | Runs,
    export_dir,
    version: int | None = None,
    *,
    quantization: str | None = None,
    beam_size: int | None = None,
    alpha: float | None = None,
    extra_length: int | None = None,
    constrained: bool = True,
) -> Path:
    """Writes `export_dir`/<version>/ and returns it: whole and checked, or not at all.

    Args:
        run: an opened Run; the weights that `weights.chosen` names are exported.
        version: default: one more than the largest there, from 1.
        quantization: CTranslate2's: int8, int8_float16, int16 or float16; default: float32.
        beam_size: of the search that the metadata describe; default: the problem's.
        alpha: likewise.
        extra_length: likewise.
        constrained: must be False where the problem has a grammar, which CTranslate2 cannot obey.

    Raises UserError for bad values, an existing version, a run without weights, a model that
    CTranslate2 cannot hold, and where it, loaded in a process of its own, does not give what the
    model gives.
    """
    runs = Runs((run,)) if isinstance(run, Run) else run
    run = _only(runs)
    _check_hparams(run.hparams)
    if constrained and grammar_of(run.problem, run.vocabularies()) is not None:
        raise UserError(
            f"problem {run.problem.name} has a grammar of outputs, which CTranslate2 cannot obey; "
            "use --format=saved_model, or --unconstrained to go without it"
        )
    search = Search.of(
        run.problem.decoding,
        beam_size=beam_size,
        alpha=alpha,
        extra_length=extra_length,
        n_best=None,
    )
    new_version(export_dir, version)  # an error now rather than after the work
    with tf.device("CPU:0"):
        translator = run.translator(devices=["CPU:0"], xla=False)
    vocabularies = translator.vocabularies
    about = metadata.metadata(
        runs, translator.weights, vocabularies, search, metadata.CTRANSLATE2_FILE
    )
    about |= _about(run.problem, vocabularies, search, quantization)
    with building(export_dir) as folder:
        write(folder, translator.model, vocabularies, about)
        _check(folder, translator, search, quantization)
        return publish(folder, export_dir, version)


def _only(runs: Runs) -> Run:
    """Raises UserError where they are several."""
    run, *others = runs.members
    if others:
        raise UserError(
            f"--output_dir: {len(runs.members)} runs, and CTranslate2 has no ensembles; expected "
            "one, or --format=saved_model"
        )
    return run


def _check_hparams(h: HParams) -> None:
    """Raises UserError where CTranslate2 has no such model."""
    if h.encoder_layer != "self_attention":
        raise UserError(
            f"CTranslate2 knows no encoder_layer={h.encoder_layer}, with which this run was "
            "trained, but self_attention; use --format=saved_model"
        )
    if h.d_model % h.num_heads or max(h.d_k, h.d_v) > h.d_model // h.num_heads:
        raise UserError(
            f"CTranslate2 has heads of d_model / num_heads = {h.d_model} / {h.num_heads} "
            f"and this run d_k={h.d_k}, d_v={h.d_v}, which are more; use --format=saved_model"
        )
    if h.next_word == "given":
        raise UserError(
            "CTranslate2 knows no next_word=given, with which this run was trained; "
            "use --format=saved_model"
        )


def write(folder: Path, model: Transformer, vocabularies: Vocabularies, about: dict) -> None:
    """Writes a model of CTranslate2's, quantised as `about` says, with `about` as its metadata."""
    TransformerConverter(model, vocabularies).convert(
        str(folder), quantization=about["quantization"]
    )
    vocabularies.save(folder)
    text = json.dumps(about, indent=2, ensure_ascii=False)
    (folder / metadata.CTRANSLATE2_FILE).write_text(text + "\n", encoding="utf-8")


def _about(
    problem: Problem, vocabularies: Vocabularies, search: Search, quantization: str | None
) -> dict:
    """What the metadata of this format say beside those of all."""
    python = not is_default(problem.input_text)
    return {
        "ctranslate2": ctranslate2.__version__,
        "quantization": quantization,
        "positions": POSITIONS,
        "input_text": "t2t_lite.export.metadata.problem(metadata).input_text(line)"
        if python
        else None,
        # Arguments of ctranslate2.Translator.translate_batch.
        "translate_batch": {
            "max_batch_size": BATCH,
            "beam_size": search.beam_size,
            "num_hypotheses": search.beam_size,
            "patience": 2,
            # d log ((5 + n) / 6) / d log n = n / (5 + n), which is 3/4 at 15 sub-words.
            "length_penalty": 0.75 * search.alpha,
            "disable_unk": True,
            "suppress_sequences": [vocabularies.target.pieces([PAD])],
            "min_decoding_length": 0,
            "max_input_length": 0,
            "return_scores": True,
            "return_end_token": True,
        },
    }


def _check(folder: Path, translator: Translator, search: Search, quantization: str | None) -> None:
    """Raises UserError where the export's greedy outputs differ from ours.

    They do where their log probabilities are not those that the model gives them; or, unless
    quantised, where most of the texts are others. A few may be: a tie can go either way.
    """
    vocabularies, problem = translator.vocabularies, translator.problem
    lines = [line for line in random_lines(vocabularies.source) if line.strip()]
    texts = [problem.input_text(line) for line in lines]
    found = fresh_answer("fresh_ctranslate2.py", folder, texts)
    ids = [vocabularies.target.ids(pieces) for pieces in found["pieces"]]
    inputs, targets = (
        _padded(rows)
        for rows in (vocabularies.source.encode_lines(texts), [[*row, EOS] for row in ids])
    )
    log_probs, lengths, _ = (
        tensor.numpy() for tensor in score_batch(translator.model, inputs, targets)
    )
    tolerances = lengths * (QUANTIZED_TOLERANCE if quantization else TOLERANCE)
    outputs = [
        problem.output_text(text, line)
        for text, line in zip(vocabularies.target.decode_lines(ids), lines)
    ]
    for line, output, log_prob, expected, tolerance in zip(
        lines, outputs, found["log_prob"], log_probs, tolerances
    ):
        if not abs(log_prob - expected) <= tolerance:
            raise UserError(
                f"the exported model differs from the decoder's, nothing is written: {line!r} "
                f"gives {output!r} with log probability {log_prob:.6f}; expected {expected:.6f}"
            )
    if quantization:
        return
    greedy = translator.translate(
        lines, beam_size=1, alpha=search.alpha, extra_length=search.extra_length, constrained=False
    )
    wanted = [best.text for [best] in greedy]
    different = [i for i, (output, text) in enumerate(zip(outputs, wanted)) if output != text]
    if len(different) > len(lines) / 2:
        i = different[0]
        raise UserError(
            f"the exported model's search differs from the decoder's, nothing is written: "
            f"{lines[i]!r} gives {outputs[i]!r}; expected {wanted[i]!r}"
        )


def _padded(rows: list[list[int]]) -> tf.Tensor:
    """-> int32 [B, T]."""
    return tf.ragged.constant(rows, tf.int32).to_tensor(PAD)


class TransformerConverter(Converter):
    """CTranslate2's converter of a Transformer: `convert(folder, quantization=None)`."""

    def __init__(self, model: Transformer, vocabularies: Vocabularies):
        self._model, self._vocabularies = model, vocabularies

    def _load(self) -> transformer_spec.TransformerSpec:
        model, h = self._model, self._model.hparams
        spec = transformer_spec.TransformerSpec(
            transformer_spec.TransformerEncoderSpec(
                h.num_encoder_layers, h.num_heads, pre_norm=h.norm == "pre"
            ),
            transformer_spec.TransformerDecoderSpec(
                h.num_decoder_layers,
                h.num_heads,
                pre_norm=h.norm == "pre",
                alignment_layer=max(h.num_decoder_layers - 2, 0),  # the metadata's attention_layer
                alignment_heads=0,  # their mean
            ),
        )
        self._set_config(spec)
        _set_side(spec.encoder, model.encoder, model.source_positions, h.d_model)
        if model.target_space:  # added to each position, as the positions are
            spec.encoder.position_encodings.encodings += model.target_space.vector.numpy()
        _set_side(spec.decoder, model.decoder, model.target_positions, h.d_model)
        spec.encoder.embeddings[0].weight = model.source_embedding.embeddings.numpy()
        spec.decoder.embeddings.weight = model.target_embedding.embeddings.numpy()
        spec.decoder.projection.weight = model.softmax.embeddings.numpy()
        spec.decoder.start_from_zero_embedding = True  # PAD's, whose row is none for the softmax
        return spec

    def _set_config(self, spec: transformer_spec.TransformerSpec) -> None:
        source, target = self._vocabularies.source, self._vocabularies.target
        spec.register_source_vocabulary(_pieces(source))
        spec.register_target_vocabulary(_pieces(target))
        # Without UNK it gets PAD, which is forbidden too and no text's.
        unk = PAD if target.unk is None else target.unk
        pad, eos, unk = target.pieces([PAD, EOS, unk])
        spec.config.decoder_start_token, spec.config.eos_token, spec.config.unk_token = (
            pad,
            eos,
            unk,
        )
        spec.config.add_source_eos = True
        spec.config.layer_norm_epsilon = self._model.encoder.layers[
            0
        ].feed_forward_residual.layer_norm.epsilon


def _pieces(vocabulary) -> list[str]:
    """Raises UserError where two are equal, which CTranslate2 could not tell apart."""
    pieces = vocabulary.pieces(range(vocabulary.size))
    if len(set(pieces)) < len(pieces):
        raise UserError(
            "CTranslate2 tells sub-words apart by their texts, and some of this vocabulary are "
            "equal; use --format=saved_model"
        )
    return pieces


def _set_side(spec, side, positions, d_model: int) -> None:
    """The encoder, or the decoder."""
    spec.position_encodings.encodings = positions(tf.zeros([POSITIONS, d_model])).numpy()
    for layer_spec, layer in zip(spec.layer, side.layers):
        decodes = hasattr(layer_spec, "attention")
        attention = layer.self_attention if decodes else layer.mixing
        residual = layer.self_attention_residual if decodes else layer.mixing_residual
        _set_attention(layer_spec.self_attention, attention, d_model)
        _set_norm(layer_spec.self_attention.layer_norm, residual.layer_norm)
        if decodes:
            _set_attention(layer_spec.attention, layer.cross_attention, d_model)
            _set_norm(layer_spec.attention.layer_norm, layer.cross_attention_residual.layer_norm)
        _set_linear(layer_spec.ffn.linear_0, layer.feed_forward.inner)
        _set_linear(layer_spec.ffn.linear_1, layer.feed_forward.outer)
        _set_norm(layer_spec.ffn.layer_norm, layer.feed_forward_residual.layer_norm)
    if side.final_norm:
        _set_norm(spec.layer_norm, side.final_norm)


def _set_attention(spec, attention, d_model: int) -> None:
    """Heads narrower than d_model / h are filled up with zeros, which change no product or sum."""
    heads, width = attention.num_heads, d_model // attention.num_heads

    def padded(matrix) -> np.ndarray:  # [D, H * K] -> [D, D]
        matrix = matrix.reshape(d_model, heads, -1)
        return np.pad(matrix, [(0, 0), (0, 0), (0, width - matrix.shape[2])]).reshape(
            d_model, d_model
        )

    query, key, value = (
        padded(layer.kernel.numpy()).T
        for layer in (attention.query, attention.key, attention.value)
    )
    fused = [[query, key, value]] if len(spec.linear) == 2 else [[query], [key, value]]
    for linear, weights in zip(spec.linear, fused):
        linear.weight = np.concatenate(weights)
    spec.linear[-1].weight = padded(attention.output_projection.kernel.numpy().T)
    spec.queries_scale = attention.d_k**-0.5


def _set_linear(spec, dense) -> None:
    spec.weight, spec.bias = dense.kernel.numpy().T, dense.bias.numpy()


def _set_norm(spec, norm) -> None:
    spec.gamma, spec.beta = norm.gamma.numpy(), norm.beta.numpy()
