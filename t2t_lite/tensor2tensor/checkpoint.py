"""tensor2tensor's checkpoints: its variables under the names that ours have."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data.t2t_subwords import SubwordTextEncoder
from t2t_lite.errors import UserError

# What it stores besides the model: counters, averages of losses, Adam's.
_BOOKKEEPING = re.compile(
    r"global_step|(training|losses_avg|train_stats|eval_stats)/.*|.*/Adam(_1)?"
)
_SLOTS = {"m": "Adam", "v": "Adam_1"}
_ATTENTION = {"query": "q", "key": "k", "value": "v", "output": "output_transform"}
_SUBLAYERS = {
    "self_attention": "self_attention",
    "cross_attention": "encdec_attention",
    "feed_forward": "ffn",
}
_NORM = {"gamma": "layer_norm_scale", "beta": "layer_norm_bias"}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of tensor2tensor's, or of its t2t-avg-all.

    Attributes:
        prefix: its path without `.index`.
        shapes: of the variables it holds, by name.
        model: the scope of the model's own ones, `transformer`.
        step: updates that were made, if it says so.
    """

    prefix: str
    shapes: Mapping[str, list[int]]
    model: str
    step: int

    @classmethod
    def open(cls, path) -> Self:
        """Opens PREFIX of the files PREFIX.index and PREFIX.data-..., or the newest of a folder.

        Raises UserError where there is none, or no Transformer in it.
        """
        path = Path(path).expanduser()
        prefix = str(path)
        if path.is_dir():
            prefix = tf.train.latest_checkpoint(prefix) or prefix
        prefix = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", prefix)
        if not Path(f"{prefix}.index").is_file():
            raise UserError(
                f"--checkpoint {path}: no checkpoint there; expected PREFIX of PREFIX.index and "
                "PREFIX.data-00000-of-00001, or a folder with a file `checkpoint`"
            )
        try:
            reader = tf.train.load_checkpoint(prefix)
            shapes = reader.get_variable_to_shape_map()
            step = int(reader.get_tensor("global_step")) if "global_step" in shapes else 0
        except (tf.errors.OpError, ValueError) as error:
            raise UserError(f"--checkpoint {prefix}: cannot be read: {error}") from None
        embedded = [re.fullmatch(r"(.*)/symbol_modality_\d+_\d+/.*", name) for name in shapes]
        scopes = {found[1] for found in embedded if found and not found[1].startswith("training/")}
        if len(scopes) != 1:
            raise UserError(
                f"--checkpoint {prefix}: no Transformer of tensor2tensor's; expected variables "
                f"like transformer/symbol_modality_.../..., found {', '.join(sorted(shapes)[:3])}"
            )
        return cls(prefix, shapes, scopes.pop(), step)

    @property
    def symbols(self) -> set[int]:
        """Rows of its matrices of embeddings and softmax."""
        parts = (re.match(rf"{self.model}/symbol_modality_(\d+)_", name) for name in self.shapes)
        return {int(part[1]) for part in parts if part}

    def fitting(self, vocabulary: SubwordTextEncoder, divisor: int) -> SubwordTextEncoder:
        """A vocabulary with as many symbols as the matrices have, for a vocab_divisor.

        Raises UserError where they have another number.
        """
        size = -(-vocabulary.size // divisor) * divisor
        if size not in self.symbols:
            found = " and ".join(f"{n:,}" for n in sorted(self.symbols))
            raise UserError(
                f"--vocab: {vocabulary.size:,} sub-words, and {self.prefix} has {found}; expected "
                "the file of sub-words that it was trained with"
            )
        if size == vocabulary.size:
            return vocabulary
        return SubwordTextEncoder(vocabulary.spelling.padded(size))

    @property
    def has_slots(self) -> bool:
        """Whether Adam's are there."""
        return any(re.fullmatch("training/.*/Adam", name) for name in self.shapes)

    def read(
        self, shapes: Mapping[str, Sequence[int]], hparams: HParams, target_space_id: int
    ) -> dict[str, np.ndarray]:
        """The model's variables, by our names.

        Args:
            shapes: of our variables, by their paths below the model.
            hparams: HParams of that model.
            target_space_id: the row of tensor2tensor's embedding of target spaces.

        Raises UserError for variables that are missing, of another shape, or left over.
        """
        names = {ours: self.names(ours, shape, hparams) for ours, shape in shapes.items()}
        self._check(names)
        used = {name for theirs in names.values() for name in theirs}
        extra = [
            name for name in sorted(self.shapes.keys() - used) if not _BOOKKEEPING.fullmatch(name)
        ]
        if extra:
            raise UserError(
                f"{self.prefix}: holds {', '.join(extra[:3])} ({len(extra)} in all), which the "
                "model of these hparams has no place for"
            )
        return dict(self._arrays(names, shapes, target_space_id, "{}"))

    def read_slots(
        self, shapes: Mapping[str, Sequence[int]], hparams: HParams, target_space_id: int
    ) -> dict[str, np.ndarray]:
        """Adam's slots by the names of `Adam.slots`; arguments as `read` takes them."""
        names = {ours: self.names(ours, shape, hparams) for ours, shape in shapes.items()}
        found = {}
        for slot, theirs in _SLOTS.items():
            pattern = f"training/{{}}/{theirs}"
            self._check(names, pattern)
            for name, value in self._arrays(names, shapes, target_space_id, pattern):
                found[f"{slot}/transformer/{name}"] = value
        return found

    def _check(self, names: Mapping[str, list[str]], pattern: str = "{}") -> None:
        wanted = [pattern.format(name) for theirs in names.values() for name in theirs]
        missing = [name for name in wanted if name not in self.shapes]
        if missing:
            raise UserError(
                f"{self.prefix}: no {', '.join(missing[:3])} ({len(missing)} missing in all); "
                "expected hparams and a vocabulary that it was trained with"
            )

    def _arrays(
        self, names, shapes, target_space_id: int, pattern: str
    ) -> Iterator[tuple[str, np.ndarray]]:
        reader = tf.train.load_checkpoint(self.prefix)
        for ours, theirs in names.items():
            parts = [reader.get_tensor(pattern.format(name)) for name in theirs]
            value = np.concatenate(parts) if len(parts) > 1 else parts[0]
            if ours == "target_space/vector":
                value = value[target_space_id]
            value = value.astype(np.float32)
            if value.shape != tuple(shapes[ours]):
                raise UserError(
                    f"{self.prefix}: {theirs[0]} has shape {value.shape}; expected "
                    f"{tuple(shapes[ours])} by the hparams"
                )
            yield ours, value

    def names(self, ours: str, shape: Sequence[int], h: HParams) -> list[str]:
        """tensor2tensor's names of one of our variables: several of an embedding, in parts."""
        first, *rest = ours.split("/")
        if rest == ["embeddings"]:
            return self._shards(first, *shape, h)
        if ours == "target_space/vector":
            return [f"{self.model}/body/target_space_embedding/kernel"]
        scope = f"{self.model}/body/{first}"
        process = "layer_prepostprocess" if h.norm == "pre" else "layer_postprocess"
        if rest[0] == "final_norm":
            return [f"{scope}/{process}/layer_norm/{_NORM[rest[1]]}"]
        layer, sublayer, part, *kind = rest
        scope += f"/{layer}/{_SUBLAYERS[sublayer.removesuffix('_residual')]}"
        if part == "layer_norm":
            return [f"{scope}/{process}/layer_norm/{_NORM[kind[0]]}"]
        if sublayer == "feed_forward":
            return [f"{scope}/{ {'inner': 'conv1', 'outer': 'conv2'}[part] }/{kind[0]}"]
        return [f"{scope}/multihead_attention/{_ATTENTION[part]}/kernel"]

    def _shards(self, matrix: str, symbols: int, width: int, h: HParams) -> list[str]:
        shared = "softmax" if matrix == "softmax" else "shared"
        alone = {"source_embedding": "input_emb", "target_embedding": "target_emb"}
        place = shared if h.share_embeddings or matrix == "softmax" else alone[matrix]
        start = f"{self.model}/symbol_modality_{symbols}_{width}/{place}/weights_"
        numbers = [int(name.removeprefix(start)) for name in self.shapes if name.startswith(start)]
        return [f"{start}{number}" for number in sorted(numbers)] or [f"{start}0"]
