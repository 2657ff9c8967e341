"""Problem: what a task must say about itself. It knows no batches, no devices and no model."""

import dataclasses
from typing import ClassVar

from t2t_lite.data.sources import Mapped, Source
from t2t_lite.errors import UserError


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How a task's outputs are searched for, unless the user says otherwise."""

    beam_size: int = 4  # section 6.1
    alpha: float = 0.6  # length penalty (section 6.1)
    extra_length: int = 50  # an output has at most its input's sub-words + this many (section 6.1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """A task: where its examples come from, how text becomes sub-words, how outputs are judged.

    A subclass is a dataclass only if it adds options; class attributes say the rest. The fields are the options that a
    user may give on the command line (`--raw_dir`, `--vocab_size`, ...); a run directory stores them, so that later
    commands need nothing but the directory.
    """

    name: str = ""  # what it was registered as
    data_dir: str | None = None  # where downloads and trained vocabularies are kept
    raw_dir: str | None = None  # a folder of local files to read instead of downloading
    vocab_size: int | None = None  # sub-words; None: default_vocab_size
    vocab: str | None = (
        None  # an existing SentencePiece model to use (for the input, where each side has its own)
    )

    default_vocab_size: ClassVar[int] = 8_000
    subword_model: ClassVar[str] = "bpe"  # SentencePiece's model type: bpe or unigram
    target_subword_model: ClassVar[str | None] = (
        None  # the target's own, where it differs; word: symbols that stay whole
    )
    shared_vocabulary: ClassVar[bool] = (
        True  # one vocabulary for both sides, hence one embedding matrix (section 3.4)
    )
    decoding: ClassVar[Decoding] = Decoding()
    metric: ClassVar[str] = "bleu"  # what `t2t_lite.evaluation.metrics` calls the task's score

    @classmethod
    def create(cls, name: str, **options) -> "Problem":
        """An instance with the given options. Raises UserError for an option it does not have."""
        fixed = {key for variant in cls.variants().values() for key in variant}
        fields = {field.name for field in dataclasses.fields(cls)} - {"name"}
        for option, value in options.items():
            if option not in fields:
                takes = ", ".join(f"--{field}" for field in sorted(fields - fixed))
                raise UserError(f"problem {name} takes no --{option}={value}; it takes {takes}")
        # JSON, in which a run stores them, has lists only.
        return cls(
            name=name,
            **{
                option: tuple(value) if isinstance(value, list) else value
                for option, value in options.items()
            },
        )

    @classmethod
    def variants(cls) -> dict[str, dict]:
        """Suffix of the registered name -> the options it fixes. `""` is the problem itself."""
        return {"": {}}

    @classmethod
    def describe(cls, name: str) -> str:
        """One line for `--registry_help`: the first of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    def options(self) -> dict:
        """The options that `create` takes, as stored in a run directory."""
        options = dataclasses.asdict(self)
        for fixed in ("name", *self._fixed_options()):
            options.pop(fixed)
        return options

    def _fixed_options(self) -> set[str]:
        return {key for variant in type(self).variants().values() for key in variant}

    def source(self, split: str) -> Source:
        """The raw examples of `split`: train, dev or test, as a user would give them.

        Raises UserError where the problem has no such split.
        """
        raise NotImplementedError

    def examples(self, split: str) -> Source:
        """The examples of `split` as the model reads and writes them."""
        source, own = self.source(split), type(self)
        if own.input_text is Problem.input_text and own.target_text is Problem.target_text:
            return source  # which streams faster than through Python
        return Mapped(source, self.texts, key=str(self.options()))

    def subwords(self) -> int:
        """How many sub-words a newly trained vocabulary gets."""
        return self.vocab_size or self.default_vocab_size

    def category(self, line: str) -> str | None:
        """The kind of example that an input is, where the task's score is also given by kind; None: no kinds."""
        return None

    def texts(self, line: str, reference: str) -> tuple[str, str]:
        """What the model reads and what it is to write, for a raw example."""
        return self.input_text(line), self.target_text(reference)

    def input_text(self, line: str) -> str:
        """What the model reads for a line that a user gives."""
        return line

    def input_texts(self, lines):
        """What `input_text` does, in the graph, for exports: string tensor [B] -> string tensor [B].

        Raises UserError where the problem has it in Python only.
        """
        if type(self).input_text is not Problem.input_text:
            raise UserError(
                f"problem {self.name} has input_text in Python only; an export needs its input_texts, in the graph"
            )
        return lines

    def target_text(self, reference: str) -> str:
        """What the model is to write for a right output that a user gives."""
        return reference

    def reference_text(self, reference: str) -> str:
        """A right output that a user gives, as outputs are compared with it."""
        return reference

    def output_text(self, text: str, line: str) -> str:
        """What a user gets for the model's output `text` on the input `line`. Called, as `output_details`, from several threads."""
        return text

    def output_details(self, text: str, line: str) -> dict:
        """What else there is to say of the model's output; `t2t-decoder --format=jsonl` writes it."""
        return {}

    def tokenize(self, line: str) -> str:
        """A raw line as the tokenised one that `input_text` expects, where the problem reads tokenised text."""
        raise UserError(f"problem {self.name} reads raw text; expected no --tokenize")

    def pretty(self, text: str) -> str:
        """An output drawn for a terminal, over several lines."""
        raise UserError(
            f"outputs of problem {self.name} have no --format=pretty; expected text or jsonl"
        )

    def svg(self, text: str) -> str:
        """An output as an SVG picture."""
        raise UserError(f"outputs of problem {self.name} cannot be drawn; expected no --svg_dir")

    def grammar(self, vocabularies):
        """The `decoding.constraint.Brackets` that outputs obey; None: they are free. `vocabularies`: Vocabularies."""
        return None
