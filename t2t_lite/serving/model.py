"""An export as the server uses it: rows of JSON values in, rows of JSON values out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers SentencePiece's operations
from google.protobuf.json_format import MessageToDict
from tensorflow.core.protobuf import saved_model_pb2

from t2t_lite.attention import Attention, check_size
from t2t_lite.data.tokenizer import PAD, Vocabularies
from t2t_lite.errors import UserError
from t2t_lite.export import metadata
from t2t_lite.export.folder import version_of
from t2t_lite.problem import Problem, output_line
from t2t_lite.quiet import native_stderr_silenced

ATTENTION = "attention", "attention_heads"  # signatures whose outputs grow with lengths squared
MODEL_FILE = "saved_model.pb"
_PARTS = MODEL_FILE, "variables/variables.index", metadata.FILE
# Characters, or ids, that fill a call of the model: 64 sentences, or a line of 2,000 words.
_CALL = 16_000


class ServedModel:
    """One version of an export.

    Attributes:
        folder: that it was loaded from.
        name: in the routes.
        version: the name of its folder.
        metadata: the export's own, see `t2t_lite.export.metadata`.
        signatures: {name: TensorFlow's SignatureDef in JSON}, as TensorFlow Serving tells them.
        vocabularies: of the export.
        problem: makes the texts that the user sees from the model's, and the other way round, where
            the export says so.
    """

    def __init__(self, folder: Path, name: str, usr_dir: str | None = None):
        """Loads the version in a folder.

        Raises UserError where it is not whole, or what its problem was registered by is missing.
        """
        for part in _PARTS:
            if not (folder / part).is_file() or not (folder / part).stat().st_size:
                raise UserError(f"{folder}: no {part}; expected what t2t-exporter wrote, whole")
        self.folder, self.name = folder, name
        self.version = "1" if version_of(folder.name) is None else folder.name
        self.metadata = metadata.read(folder)
        self.vocabularies = Vocabularies.load(folder / "assets")
        in_python = self.metadata["output_text"] is not None
        self.problem = (
            metadata.problem(self.metadata, usr_dir)
            if in_python
            else Problem(name=self.metadata["problem"])
        )
        try:
            with native_stderr_silenced():
                self._model = tf.saved_model.load(folder)
            saved = saved_model_pb2.SavedModel.FromString((folder / MODEL_FILE).read_bytes())
            self.warm_up()
        except Exception as error:  # TensorFlow has many for a broken file
            text = " ".join(str(error).split())
            raise UserError(f"{folder}: does not load: {type(error).__name__}: {text}") from None
        self.signatures = {
            name: MessageToDict(
                saved.meta_graphs[0].signature_def[name],
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name in sorted(self._model.signatures)
        }

    @property
    def heads(self) -> int:
        """H of an attention of the model, of an ensemble's members together."""
        return sum(member["hparams"]["num_heads"] for member in self._members)

    @property
    def _members(self) -> list[dict]:
        """What the metadata say of each model."""
        return [self.metadata, *self.metadata.get("ensemble", ())]

    def warm_up(self) -> None:
        """Makes a first call, which takes longer than those after it."""
        self("serving_default", [{"text": "The first call takes longer."}])

    def weight(self, signature: str, row: dict) -> float:
        """The part of a call that a row takes, see `Batcher`."""
        if signature in ATTENTION:  # [layers, heads, T, S] for each row: a call of its own
            return 1.0
        return sum(map(len, row.values())) / _CALL

    def __call__(self, signature: str, rows: Sequence[dict]) -> list[dict]:
        """The outputs of each row by one signature; inputs and outputs by name.

        Texts are strings; ids, in and out, have no padding. A score that is not finite is None.
        `n_best` has as many entries as there are hypotheses; `attention` is
        [layers][target piece][source piece], to 6 decimals, and the kinds of `attention_heads` are
        [layers][heads][piece][piece], to 4.

        Raises UserError for inputs that the model refuses.
        """
        if not rows[0]:  # `metadata`
            return [
                {
                    name: json_value(tensor.numpy())
                    for name, tensor in self._model.signatures[signature]().items()
                }
            ] * len(rows)
        try:
            tensors = self._model.signatures[signature](
                **{name: _tensor([row[name] for row in rows]) for name in rows[0]}
            )
        except tf.errors.InvalidArgumentError as error:
            raise UserError(f"the model refuses this: {error.message.splitlines()[0]}") from None
        outputs = {name: tensor.numpy() for name, tensor in tensors.items()}
        return [
            self._row(signature, row, {name: array[number] for name, array in outputs.items()})
            for number, row in enumerate(rows)
        ]

    def attention(self, text: str, target: str) -> Attention:
        """As `Translator.attention`, to 4 decimals.

        Raises UserError for an export without it, of an earlier t2t_lite.
        """
        if "attention_heads" not in self.signatures:
            raise UserError(
                f"{self.folder}: no signature attention_heads; expected an export of this t2t_lite"
            )
        target = self.problem.target_text(target) if target.strip() else target
        lines = self.problem.input_text(text), target
        sides = self.vocabularies.source, self.vocabularies.target
        source, written = (len(side.encode_lines([line])[0]) for side, line in zip(sides, lines))
        check_size((member["hparams"] for member in self._members), source, written)
        [found] = self("attention_heads", [{"text": text, "target": target}])
        pieces = found["target_pieces"]
        return Attention(
            np.array(found["cross"], np.float32),
            found["source_pieces"],
            pieces,
            np.array(found.get("encoder", []), np.float32),
            np.array(found["decoder"], np.float32),
            [*self.vocabularies.target.pieces([PAD]), *pieces[:-1]],
        )

    def _row(self, signature: str, row: dict, outputs: dict[str, np.ndarray]) -> dict:
        """One row's outputs without the padding that its neighbours made necessary."""
        if signature == "n_best":
            found = outputs["log_prob"] > metadata.NO_SCORE
            outputs = {name: array[found] for name, array in outputs.items()}
        elif signature == "ids":
            outputs["ids"] = np.trim_zeros(outputs["ids"], "b")
        elif signature in ATTENTION:
            source, target = (
                np.count_nonzero(outputs[side] != b"")
                for side in ("source_pieces", "target_pieces")
            )
            outputs = {
                name: _rounded(outputs[name][..., : sizes[0], : sizes[1]], decimals)
                for name, decimals, sizes in (
                    ("attention", 6, (target, source)),
                    ("cross", 4, (target, source)),
                    ("encoder", 4, (source, source)),
                    ("decoder", 4, (target, target)),
                )
                if name in outputs
            } | {
                "source_pieces": outputs["source_pieces"][:source],
                "target_pieces": outputs["target_pieces"][:target],
            }
        values = {name: json_value(array) for name, array in outputs.items()}
        if signature == "serving_default":
            values["text"] = self._text(values["text"], row["text"])
        elif signature == "n_best":
            values["text"] = [self._text(text, row["text"]) for text in values["text"]]
        return values

    def _text(self, text: str, line: str) -> str:
        """What the decoder writes for the model's `text`."""
        return output_line(self.problem, text, line) if line.strip() else text


def _rounded(weights: np.ndarray, decimals: int) -> np.ndarray:
    return weights.astype(np.float64).round(decimals)


def _tensor(column: list) -> tf.Tensor:
    """Texts -> string [B]; rows of ids -> int32 [B, the longest's length]."""
    if isinstance(column[0], str):
        return tf.constant(column, tf.string)
    return tf.ragged.constant(column, tf.int32, ragged_rank=1).to_tensor(PAD)


def json_value(array):
    """An array, or a scalar, as JSON has it: bytes as text, None for a number not finite."""
    if isinstance(array, bytes):
        return array.decode()
    if array.dtype == object:
        return [json_value(item) for item in array]
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return [json_value(item) for item in array] if array.ndim else None
    return array.tolist()
