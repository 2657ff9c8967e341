"""HParams: what is a number or a choice about a model and its training, in one frozen dataclass."""

import dataclasses
import json
import math
from typing import Literal, get_args

from t2t_lite.errors import UserError, unknown
from t2t_lite.options import Option, options, parse

Precision = Literal["float32", "bfloat16", "float16"]  # of a model in training or in use
LayerType = Literal["self_attention", "restricted_self_attention", "recurrent", "convolution"]
PRECISIONS: tuple[str, ...] = get_args(Precision)

_FRACTIONS = (
    "dropout",
    "attention_dropout",
    "relu_dropout",
    "label_smoothing",
    "subword_sampling",
    "adam_beta1",
    "adam_beta2",
)
_MAY_BE_ZERO = ("warmup_steps", "average_checkpoints", "clip_norm", "patience")


@dataclasses.dataclass(frozen=True)
class HParams:
    """One hyperparameter set. The defaults are the paper's base model (Table 3, first row)."""

    # Model
    num_encoder_layers: int = 6  # N, layers of the encoder (section 3.1)
    num_decoder_layers: int = 6  # N, layers of the decoder (section 3.1)
    d_model: int = 512  # width of every sub-layer's output (section 3.1)
    d_ff: int = 2048  # inner width of the feed-forward networks (section 3.3)
    num_heads: int = 8  # h, parallel attention heads (section 3.2.2)
    d_k: int = 64  # width of a head's queries and keys (section 3.2.2)
    d_v: int = 64  # width of a head's values (section 3.2.2)
    encoder_layer: LayerType = "self_attention"  # layers of the encoder (section 4, Table 1)
    neighbourhood: int = 64  # r, positions that one of restricted_self_attention sees (section 4)
    kernel_size: int = 3  # k, positions that one of a convolution sees (section 4)
    norm: Literal["post", "pre"] = "post"  # LayerNorm(x + Sublayer(x)); x + Sublayer(LayerNorm(x))
    # sinusoidal_halves: first the sines, then the cosines, as tensor2tensor has them.
    positions: Literal["sinusoidal", "sinusoidal_halves", "learned"] = "sinusoidal"  # section 3.5
    max_positions: int = 1024  # rows of a learned position table; sinusoids need no bound
    share_embeddings: bool = True  # one matrix for both sides, if one vocabulary (section 3.4)
    tie_softmax: bool = True  # the softmax's matrix is the target embedding's (section 3.4)
    target_space: bool = False  # a learned vector is added to the source, as in tensor2tensor
    # Counted by the decoder itself, or given to its attention (`layers.next_word`).
    next_word: Literal["counted", "given"] = "counted"  # how a parser knows which word comes next

    # Regularisation
    dropout: float = 0.1  # P_drop, of sub-layer outputs and of embeddings + positions (section 5.4)
    attention_dropout: float = 0.0  # of attention weights; the paper has none
    relu_dropout: float = 0.0  # after the ReLU of the feed-forward networks; the paper has none
    label_smoothing: float = 0.1  # epsilon_ls (section 5.4)
    # Of `Vocabulary.sample`; the paper has none.
    subword_sampling: float = 0.0  # other spellings: BPE-dropout's p, or the power of unigram's

    # Optimiser
    # Eq. 3, a cosine that ends in 0 at train_steps, or no change.
    schedule: Literal["rsqrt", "cosine", "constant"] = "rsqrt"  # after the warmup (section 5.3)
    learning_rate: float = 1.0  # rsqrt: factor on Eq. 3; cosine, constant: the peak itself
    warmup_steps: int = 4000  # updates of linear increase (section 5.3)
    first_step: Literal[1, 0] = 1  # the first update's number in the schedule; 0 in tensor2tensor
    adam_beta1: float = 0.9  # section 5.3
    adam_beta2: float = 0.98  # section 5.3
    adam_epsilon: float = 1e-9  # section 5.3
    clip_norm: float = 0.0  # the gradient's norm at most; 0: any, as in the paper

    # Training
    batch_tokens: int = 25_000  # padded tokens a side in one update, all devices (section 5.1)
    max_length: int = 256  # sub-words a side with EOS; longer pairs are dropped in training only
    num_buckets: int = 16  # batch shapes at most; each is compiled once
    packing: bool = False  # several pairs in a row, each as if alone, in place of num_buckets
    train_steps: int = 100_000  # updates (section 5.2)
    eval_steps: int = 5_000  # updates between evaluations on the dev set
    report_steps: int = 100  # updates between progress lines
    checkpoint_minutes: float = 10.0  # time between checkpoints (section 6.1)
    checkpoint_steps: int = 10_000  # updates between checkpoints, whichever comes first
    average_checkpoints: int = 5  # how many of the last are averaged after training (section 6.1)
    patience: int = 0  # evaluations without a better one after which training ends; 0: any number
    # The problem's own (BLEU, F1), or the loss.
    best_by: Literal["metric", "loss"] = "metric"  # which figure on the dev set says what is better
    keep_best: int = 1  # how many of the weights with the best figures are kept

    def __post_init__(self):
        for option in options(type(self)):
            value = getattr(self, option.name)
            if option.kind is float and type(value) is int:
                value = float(value)
                object.__setattr__(self, option.name, value)
            elif type(value) is not option.kind:
                expected = option.kind.__name__
                raise UserError(f"hparams field {option.name}={value!r}: expected {expected}")
            _check(option, value)
        self._check_packing()

    def _check_packing(self) -> None:
        """What mixes neighbouring positions, or counts a row's words, knows no pairs in a row."""
        for name, value in (("encoder_layer", "self_attention"), ("next_word", "counted")):
            if self.packing and getattr(self, name) != value:
                raise UserError(
                    f"hparams field packing=True with {name}={getattr(self, name)}: "
                    f"expected {name}={value}, or packing=False"
                )

    @classmethod
    def of(cls, value) -> "HParams":
        """An HParams as it is, or from the dict that a layer's `get_config` makes of it."""
        return value if isinstance(value, cls) else cls(**value)

    def replace(self, **changes) -> "HParams":
        """A copy with some fields changed. Raises UserError for an unknown field or a bad value."""
        for name in changes:
            if name not in self.__dataclass_fields__:
                raise unknown("hparams field", name, self.__dataclass_fields__)
        return dataclasses.replace(self, **changes)

    def override(self, assignments: list[str]) -> "HParams":
        """Applies `name=value` texts, as `--set` takes them, each parsed to its field's type."""
        fields = {option.name: option for option in options(type(self))}
        changes = {}
        for text in assignments:
            name, equals, value = text.partition("=")
            name = name.strip()
            if not equals:
                raise UserError(f"--set {text!r}: expected name=value")
            if name not in fields:
                raise unknown("hparams field", name, fields)
            kind = fields[name].kind
            try:
                changes[name] = parse(kind, value)
            except (ValueError, OverflowError):
                raise UserError(
                    f"--set {text}: expected {kind.__name__} for {name}, got {value!r}"
                ) from None
        return self.replace(**changes)

    def describe(self) -> str:
        """A line for each field: its name, its value, the choices there are, and what it is."""
        lines = []
        for option in options(type(self)):
            value = f"{option.name}={getattr(self, option.name)}"
            choices = f"{' or '.join(map(str, option.choices))}: " if option.choices else ""
            lines.append(f"  {value:26} {choices}{option.help}")
        return "\n".join(lines)

    def to_dict(self) -> dict:
        """The fields by name, as JSON takes them."""
        return dataclasses.asdict(self)

    def differences(self, other: "HParams") -> list[str]:
        """`name: mine -> other's` for each field that differs."""
        a, b = self.to_dict(), other.to_dict()
        return [
            f"{name}: {json.dumps(a[name])} -> {json.dumps(b[name])}"
            for name in a
            if a[name] != b[name]
        ]


def _check(option: Option, value) -> None:
    name = option.name
    if option.choices:
        if value not in option.choices:
            raise unknown(f"value of {name}", str(value), map(str, option.choices))
    elif option.kind is bool:
        return
    elif name in _FRACTIONS:
        if not 0.0 <= value < 1.0:
            raise UserError(f"hparams field {name}={value}: expected at least 0 and less than 1")
    elif not 0 <= value < math.inf or (value == 0 and name not in _MAY_BE_ZERO):
        raise UserError(f"hparams field {name}={value}: expected more than 0 and finite")
