"""EVALB's parameter files: what is read, what is warned of, what is refused."""

import pytest

from t2t_lite.errors import UserError
from t2t_lite.evaluation.evalb_parameters import COLLINS, Parameters


def read(tmp_path, text: str) -> tuple[Parameters, list[str]]:
    """The parameters and the warnings."""
    path = tmp_path / "a.prm"
    path.write_bytes(text.encode())
    warnings = []
    return Parameters.read(path, warnings.append), [
        warning.removeprefix(f"{path}:") for warning in warnings
    ]


def test_all_parameters(tmp_path):
    text = """
# DELETE_LABEL NP
DEBUG 1
DELETE_LABEL TOP
DELETE_LABEL\t,\t
DELETE_LABEL_FOR_LENGTH -NONE-
QUOTE_LABEL POS
EQ_LABEL  ADVP   PRT
EQ_WORD grey gray
EQ_WORD a\u00a0b c
LABELED 0
MAX_ERROR 5 of them
CUTOFF_LEN 70
"""
    expected = Parameters(
        delete_labels=frozenset(["TOP", ","]),
        delete_labels_for_length=frozenset(["-NONE-"]),
        quote_labels=frozenset(["POS"]),
        equivalent_labels=frozenset([("ADVP", "PRT")]),
        equivalent_words=frozenset([("grey", "gray"), ("a\u00a0b", "c")]),
        labeled=False,
        cutoff_len=70,
        max_error=5,
    )
    assert read(tmp_path, text) == read(tmp_path, text.replace("\n", "\r\n")) == (expected, [])


def test_defaults(tmp_path):
    assert read(tmp_path, "") == (Parameters(), [])
    assert (Parameters().labeled, Parameters().cutoff_len, Parameters().max_error) == (True, 40, 10)


def test_what_evalb_warns_of(tmp_path):
    parameters, warnings = read(
        tmp_path, "DELETE_LABELS X\n DELETE_LABEL X\nEQ_LABEL A B C\nEQ_WORD a\nDELETE_LABEL\nx\n"
    )
    assert parameters == Parameters()
    assert warnings == [
        "1: unknown parameter 'DELETE_LABELS'; ignored",
        "2: unknown parameter ''; ignored",  # a name stands in column 0
        "3: EQ_LABEL A B C: expected two values; ignored",
        "4: EQ_WORD a: expected two values; ignored",
        "5: DELETE_LABEL without a value; ignored",
    ]


def test_errors(tmp_path):
    with pytest.raises(UserError, match=r"a\.prm:2: CUTOFF_LEN forty: expected a whole number"):
        read(tmp_path, "LABELED 1\nCUTOFF_LEN forty\n")
    with pytest.raises(UserError, match="no such file"):
        Parameters.read(tmp_path / "b.prm")


def test_equality():
    assert (
        COLLINS.same_label("PRT", "ADVP")
        and COLLINS.same_label("ADVP", "PRT")
        and not COLLINS.same_label("NP", "PRT")
    )
    assert COLLINS.same_word("a", "a") and not COLLINS.same_word("ADVP", "PRT")
    assert Parameters(
        frozenset(["A"]), equivalent_labels=frozenset([("A", "B"), ("C", "B")])
    ).deleted_constituents == {
        "A",
        "B",
    }
