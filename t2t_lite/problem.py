"""Problem: what a task must say about itself. It knows no batches, no devices and no model."""

import dataclasses
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from t2t_lite import __version__
from t2t_lite.data.sources import Mapped, Source, digest
from t2t_lite.errors import UserError
from t2t_lite.evaluation.metrics import Bleu, Metric
from t2t_lite.files import digest_of
from t2t_lite.options import FilePath, check_fields, options

# What Python's `str.isspace` calls blank, as RE2 writes it.
BLANK = (
    r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)

Hook = TypeVar("Hook", bound=Callable)


def default(hook: Hook) -> Hook:
    """Marks a text hook of `Problem` itself, to tell whether a problem has one of its own."""
    hook.is_default = True
    return hook


def is_default(hook: Callable) -> bool:
    """Whether `hook` is marked by `default`; one that overrides it is not."""
    return getattr(hook, "is_default", False)


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How a task's outputs are searched for, unless the user says otherwise."""

    beam_size: int = 4  # section 6.1
    alpha: float = 0.6  # length penalty (section 6.1)
    extra_length: int = 50  # an output has at most its input's sub-words + this many (section 6.1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """A task: where its examples come from, how text becomes sub-words, how outputs are judged.

    A subclass that adds a field is a dataclass too. Each field but `name` is a flag of t2t-trainer
    and t2t-datagen: its type, default and trailing comment are the flag's (`t2t_lite.options`). A
    run directory stores them, so that later commands need nothing but the directory. Class
    attributes say the rest. What only some tasks can do stands in the protocols below.
    """

    name: str = ""  # what it was registered as
    data_dir: FilePath | None = None  # keeps downloads and vocabularies (default: t2t_data)
    raw_dir: FilePath | None = None  # local files to read instead of downloading
    vocab_size: int | None = None  # sub-words of a newly trained vocabulary
    vocab: FilePath | None = None  # an existing SentencePiece model to use, for the input

    default_vocab_size: ClassVar[int] = 8_000
    subword_model: ClassVar[str] = "bpe"  # SentencePiece's model type: bpe or unigram
    target_subword_model: ClassVar[str | None] = None  # the target's, where it differs; word: whole
    shared_vocabulary: ClassVar[bool] = True  # hence one embedding matrix (section 3.4)
    decoding: ClassVar[Decoding] = Decoding()
    metric: ClassVar[type[Metric]] = Bleu  # its fields are flags of t2t-eval

    def __post_init__(self):
        check_fields(self)
        if self.vocab_size is not None and self.vocab_size < 1:
            raise UserError(f"--vocab_size={self.vocab_size}: expected more than 0")

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Suffix of the registered name -> the fields it fixes. `""` is the problem itself."""
        return {"": {}}

    @classmethod
    def describe(cls, name: str) -> str:
        """One line for `--registry_help`: the first of the docstring."""
        return first_line(cls.__doc__)

    @classmethod
    def fixed_fields(cls) -> set[str]:
        """The fields that are no options: the registered name says them."""
        return {"name"} | {key for variant in cls.variants().values() for key in variant}

    def options(self) -> dict[str, Any]:
        """The options as a run directory stores them."""
        names = {option.name for option in options(type(self))} - self.fixed_fields()
        return {key: value for key, value in dataclasses.asdict(self).items() if key in names}

    @property
    def data_folder(self) -> Path:
        """Where prepared corpora and vocabularies go."""
        return Path(self.data_dir or "t2t_data").expanduser()

    def subwords(self) -> int:
        """How many sub-words a newly trained vocabulary gets."""
        return self.vocab_size or self.default_vocab_size

    def source(self, split: str) -> Source:
        """The raw examples of `split`: train, dev or test, as a user would give them.

        Raises MissingSplit where the problem has no such split.
        """
        raise NotImplementedError

    def examples(self, split: str) -> Source:
        """The examples of `split` as the model reads and writes them."""
        key = self._text_options()
        return self.source(split).each(lambda part: Mapped(part, self.example, key))

    def _text_options(self) -> str:
        """The options that examples may depend on: paths, which sources know, they do not."""
        paths = {option.name for option in options(type(self)) if option.kind is FilePath}
        others = {key: v for key, v in self.options().items() if key not in paths | {"vocab_size"}}
        return f"{self.name} {others}"

    def code_digest(self) -> str:
        """A digest of the code that makes the examples.

        It is of t2t_lite's version and the files of the problem's classes; where those have none,
        as at a prompt, another at each call.
        """
        files = []
        for cls in type(self).__mro__[:-1]:
            try:
                files.append(digest_of(inspect.getfile(cls)))
            except (OSError, TypeError):
                files.append(os.urandom(8).hex())
        return digest(__version__, *files)

    def example(self, line: str, reference: str) -> tuple[str, str]:
        """What the model reads and what it is to write, for a raw example."""
        return self.input_text(line), self.target_text(reference)

    @default
    def input_text(self, line: str) -> str:
        """What the model reads for a line that a user gives: without the blanks at its ends."""
        return line.strip()

    @default
    def target_text(self, reference: str) -> str:
        """What the model is to write for a right output that a user gives."""
        return reference

    @default
    def reference_text(self, reference: str) -> str:
        """A right output that a user gives, as outputs are compared with it."""
        return reference

    @default
    def output_text(self, text: str, line: str) -> str:
        """What a user gets for the model's output `text` on the input `line`.

        Called from several threads.
        """
        return text

    def output_details(self, text: str, line: str) -> dict[str, Any]:
        """What else there is to say of that output; `t2t-decoder --format=jsonl` writes it.

        Called from several threads.
        """
        return {}

    @default
    def input_text_in_graph(self, lines):
        """What `input_text` does, as graph operations, for exports: string [B] -> string [B].

        Raises UserError where the problem has it in Python only.
        """
        if is_default(self.input_text_in_graph) and not is_default(self.input_text):
            raise UserError(
                f"problem {self.name} has input_text in Python only; "
                "an export needs its input_text_in_graph too"
            )
        import tensorflow as tf

        return tf.strings.regex_replace(lines, rf"\A{BLANK}+|{BLANK}+\z", "")

    def category(self, line: str) -> str | None:
        """The kind of example that an input is, where the score is given by kind too, or None."""
        return None


def output_line(problem: Problem, text: str, line: str) -> str:
    """`output_text` as one line: line ends, which a model can spell out, become spaces."""
    return problem.output_text(text, line).replace("\r", " ").replace("\n", " ")


def first_line(docstring: str | None) -> str:
    """The first line of a docstring; of none, nothing."""
    return next(iter((docstring or "").strip().splitlines()), "")


@runtime_checkable
class Constrained(Protocol):
    """A problem whose outputs obey a grammar."""

    def grammar(self, vocabularies):
        """The `decoding.constraint.Brackets` that the search obeys, for Vocabularies."""


@runtime_checkable
class Tokenizing(Protocol):
    """A problem that reads tokenised text and can make it from raw text."""

    def tokenize(self, line: str) -> str:
        """A raw line as the tokenised one that `input_text` expects."""


@runtime_checkable
class Drawing(Protocol):
    """A problem whose outputs can be drawn."""

    def pretty(self, text: str) -> str:
        """An output drawn for a terminal, over several lines."""

    def svg(self, text: str) -> str:
        """An output as an SVG picture."""


def grammar_of(problem: Problem, vocabularies):
    """The grammar that outputs obey; None: they are free. `vocabularies`: Vocabularies."""
    return problem.grammar(vocabularies) if isinstance(problem, Constrained) else None
