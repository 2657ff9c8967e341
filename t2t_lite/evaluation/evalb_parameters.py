"""EVALB's parameter files (`.prm`): what is deleted before trees are compared, what is equal."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from t2t_lite.errors import UserError
from t2t_lite.files import read_lines

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
    """How trees are compared. The defaults are EVALB's: nothing is deleted or held equal."""

    # Words of these tags are deleted; constituents of these labels too, but not their words.
    delete_labels: frozenset[str] = frozenset()
    # Words of these tags are not counted in a sentence's length.
    delete_labels_for_length: frozenset[str] = frozenset()
    # Tags of quotation marks that one side may have deleted and the other not.
    quote_labels: frozenset[str] = frozenset()
    # Pairs, in either order; not transitive.
    equivalent_labels: frozenset[tuple[str, str]] = frozenset()
    equivalent_words: frozenset[tuple[str, str]] = frozenset()
    # Whether brackets of different labels do not match.
    labeled: bool = True
    # Words: the second half of the summary is about sentences of at most that length.
    cutoff_len: int = 40
    # Scoring stops with the error that exceeds this number by two, as EVALB does.
    max_error: int = 10

    @classmethod
    def read(cls, path, warn: Callable[[str], None] = lambda text: None) -> "Parameters":
        """Reads a file of lines `NAME value`, where `#` in column 0 begins a comment.

        Where EVALB warns and goes on (unknown names, no value, not two values) so does this,
        through `warn`. Raises UserError for what cannot be read and for a number that is none.
        """
        fields = {}
        for number, line in enumerate(read_lines(path), 1):
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
        """delete_labels and what is equivalent to them.

        EVALB deletes words by equality of their tags, but constituents by equivalence.
        """
        equivalent = {
            pair[1 - i]
            for pair in self.equivalent_labels
            for i in (0, 1)
            if pair[i] in self.delete_labels
        }
        return self.delete_labels | equivalent

    def same_label(self, a: str, b: str) -> bool:
        """Whether two labels are equal or a pair of `equivalent_labels`."""
        return a == b or (a, b) in self.equivalent_labels or (b, a) in self.equivalent_labels

    def same_word(self, a: str, b: str) -> bool:
        """Whether two words are equal or a pair of `equivalent_words`."""
        return a == b or (a, b) in self.equivalent_words or (b, a) in self.equivalent_words


# COLLINS.prm of EVALB, with which results on the Penn Treebank are reported.
COLLINS = Parameters(
    delete_labels=frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."]),
    delete_labels_for_length=frozenset(["-NONE-"]),
    equivalent_labels=frozenset([("ADVP", "PRT")]),
)
