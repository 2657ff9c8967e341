"""HParams: everything about a model and its training that is a number or a choice, in one frozen dataclass."""

import dataclasses
import json
import math
from typing import get_type_hints

from t2t_lite.errors import UserError, unknown

PRECISIONS = ("float32", "bfloat16", "float16")  # of a model in training or in use

_CHOICES = {
    "norm": ("post", "pre"),
    "positions": ("sinusoidal", "learned"),
    "next_word": ("counted", "given"),
    "schedule": ("rsqrt", "cosine", "constant"),
}
_FRACTIONS = (
    "dropout",
    "attention_dropout",
    "relu_dropout",
    "label_smoothing",
    "adam_beta1",
    "adam_beta2",
)
_MAY_BE_ZERO = ("warmup_steps", "average_checkpoints")


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
    norm: str = (
        "post"  # post: LayerNorm(x + Sublayer(x)) (section 3.1); pre: x + Sublayer(LayerNorm(x))
    )
    positions: str = "sinusoidal"  # sinusoidal (section 3.5) or learned (Table 3, row E)
    max_positions: int = 1024  # rows of a learned position table; sinusoids need no bound
    next_word: str = "counted"  # of a tree: counted by the decoder itself, or given to its attention (`layers.next_word`)

    # Regularisation
    dropout: float = 0.1  # P_drop, of sub-layer outputs and of embeddings + positions (section 5.4)
    attention_dropout: float = 0.0  # of attention weights; the paper has none
    relu_dropout: float = 0.0  # after the ReLU of the feed-forward networks; the paper has none
    label_smoothing: float = 0.1  # epsilon_ls (section 5.4)

    # Optimiser
    schedule: str = (
        "rsqrt"  # after the warmup: rsqrt (Eq. 3), cosine (to 0 at train_steps), constant
    )
    learning_rate: float = 1.0  # rsqrt: factor on Eq. 3; cosine, constant: the peak itself
    warmup_steps: int = 4000  # updates of linear increase (section 5.3)
    adam_beta1: float = 0.9  # section 5.3
    adam_beta2: float = 0.98  # section 5.3
    adam_epsilon: float = 1e-9  # section 5.3

    # Training
    batch_tokens: int = (
        25_000  # bound on padded tokens a side in one update, all devices together (section 5.1)
    )
    max_length: int = (
        256  # sub-words a side, EOS included; longer pairs are dropped in training only
    )
    num_buckets: int = 16  # batch shapes at most; each is compiled once
    train_steps: int = 100_000  # updates (section 5.2)
    eval_steps: int = 5_000  # updates between evaluations on the dev set
    report_steps: int = 100  # updates between progress lines
    checkpoint_minutes: float = 10.0  # time between checkpoints (section 6.1)
    checkpoint_steps: int = 10_000  # updates between checkpoints, whichever comes first
    average_checkpoints: int = 5  # how many of the last are averaged after training (section 6.1)

    def __post_init__(self):
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if kind is float and type(value) is int:
                object.__setattr__(self, name, float(value))
            elif type(value) is not kind:
                raise UserError(f"hparams field {name}={value!r}: expected {kind.__name__}")
            _check(name, value)

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
        types = get_type_hints(type(self))
        changes = {}
        for text in assignments:
            name, equals, value = text.partition("=")
            name = name.strip()
            if not equals:
                raise UserError(f"--set {text!r}: expected name=value")
            if name not in types:
                raise unknown("hparams field", name, types)
            try:
                # int("25_000") is Python's own reading; "1e4" is a whole number to a person.
                changes[name] = types[name](value) if types[name] is not int else _int(value)
            except (ValueError, OverflowError):
                raise UserError(
                    f"--set {text}: expected {types[name].__name__} for {name}, got {value!r}"
                ) from None
        return self.replace(**changes)

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)

    def differences(self, other: "HParams") -> list[str]:
        """`name: mine -> other's` for each field that differs."""
        a, b = self.to_dict(), other.to_dict()
        return [
            f"{name}: {json.dumps(a[name])} -> {json.dumps(b[name])}"
            for name in a
            if a[name] != b[name]
        ]


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if number != int(number):
            raise ValueError(text) from None
        return int(number)


def _check(name: str, value) -> None:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise unknown(f"value of {name}", value, _CHOICES[name])
    elif name in _FRACTIONS:
        if not 0.0 <= value < 1.0:
            raise UserError(f"hparams field {name}={value}: expected at least 0 and less than 1")
    elif not 0 <= value < math.inf or (value == 0 and name not in _MAY_BE_ZERO):
        raise UserError(f"hparams field {name}={value}: expected more than 0 and finite")
