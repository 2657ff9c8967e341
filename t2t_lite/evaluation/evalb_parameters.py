"""EVALB's parameter files (`.prm`): what is deleted before trees are compared, and what counts as equal."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from t2t_lite.data.sources import read_lines
from t2t_lite.errors import UserError

_BLANK = r"[ \t\v\f\r]"  # what C calls a space; a no-break space is part of a label
_SETS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIRS = {"EQ_LABEL": "equivalent_labels", "EQ_WORD": "equivalent_words"}
_NUMBERS = {
    "MAX_ERROR": ("max_error", int),
    "CUTOFF_LEN": ("cutoff_len", int),
    "LABELED": ("labeled", bool),
}


@dataclass(frozen=True)
class Parameters:
    """How two trees are compared; the defaults are EVALB's, which deletes nothing and holds nothing equal."""

    delete_labels: frozenset[str] = (
        frozenset()
    )  # words of these tags go; constituents of these labels, but not their words
    delete_labels_for_length: frozenset[str] = (
        frozenset()
    )  # words of these tags are not counted in a sentence's length
    quote_labels: frozenset[str] = (
        frozenset()
    )  # tags of quotation marks that one side may have deleted and the other not
    equivalent_labels: frozenset[tuple[str, str]] = (
        frozenset()
    )  # pairs, in either order; not transitive
    equivalent_words: frozenset[tuple[str, str]] = frozenset()
    labeled: bool = True  # brackets of different labels do not match
    cutoff_len: int = (
        40  # words; the second half of the summary is about sentences of at most so many
    )
    max_error: int = (
        10  # scoring stops with the error that exceeds this number by two, as EVALB does
    )

    @classmethod
    def read(cls, path, warn: Callable[[str], None] = lambda text: None) -> "Parameters":
        """Reads a file of lines `NAME value`, where `#` in column 0 begins a comment.

        Where EVALB warns and goes on (unknown names, no value, not two values) so does this, through `warn`.
        Raises UserError for what cannot be read and for a number that is none.
        """
        fields = {}
        for number, line in enumerate(read_lines(Path(path)), 1):
            line = line.rstrip(" \t\v\f\r")
            if line.startswith("#") or len(line) < 3:
                continue
            name, value = re.fullmatch(f"(.*?)(?:{_BLANK}+(.*))?", line).groups("")
            if not value:
                warn(f"{path}:{number}: {name} without a value; ignored")
            elif name in _SETS:
                fields.setdefault(_SETS[name], set()).add(value)
            elif name in _PAIRS:
                pair = tuple(re.split(f"{_BLANK}+", value))
                if len(pair) == 2:
                    fields.setdefault(_PAIRS[name], set()).add(pair)
                else:
                    warn(f"{path}:{number}: {name} {value}: expected two values; ignored")
            elif name in _NUMBERS:
                digits = re.match("[-+]?[0-9]+", value)
                if not digits:
                    raise UserError(f"{path}:{number}: {name} {value}: expected a whole number")
                field, kind = _NUMBERS[name]
                fields[field] = kind(int(digits[0]))
            elif name != "DEBUG":
                warn(f"{path}:{number}: unknown parameter {name!r}; ignored")
        return cls(
            **{
                field: frozenset(value) if isinstance(value, set) else value
                for field, value in fields.items()
            }
        )

    @functools.cached_property
    def deleted_constituents(self) -> frozenset[str]:
        """delete_labels and what is equivalent to them: EVALB asks for equality of words' tags, for equivalence here."""
        equivalent = {
            pair[1 - i]
            for pair in self.equivalent_labels
            for i in (0, 1)
            if pair[i] in self.delete_labels
        }
        return self.delete_labels | equivalent

    def same_label(self, a: str, b: str) -> bool:
        return a == b or (a, b) in self.equivalent_labels or (b, a) in self.equivalent_labels

    def same_word(self, a: str, b: str) -> bool:
        return a == b or (a, b) in self.equivalent_words or (b, a) in self.equivalent_words


# COLLINS.prm of EVALB, with which results on the Penn Treebank are reported.
COLLINS = Parameters(
    delete_labels=frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."]),
    delete_labels_for_length=frozenset(["-NONE-"]),
    equivalent_labels=frozenset([("ADVP", "PRT")]),
)
