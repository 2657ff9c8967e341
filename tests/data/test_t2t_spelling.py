"""How tensor2tensor cut texts; tests/data/test_t2t_subwords.py compares with its encodings."""

import subprocess
import sys

import pytest

from t2t_lite.data.t2t_spelling import Spelling, tokens


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Dude - that's so cool.", ["Dude", " - ", "that", "'", "s", "so", "cool", "."]),
        (" a b ", [" ", "a", "b", " "]),
        ("", []),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected


def test_equal_subwords_have_the_last_ones_id():
    """As in tensor2tensor."""
    spelling = Spelling(["<pad>_", "<EOS>_", "a_", "b", "a_"])
    assert spelling.encode("a") == [4] and spelling.decode([2, 0, 4]) == "a a"


def test_what_cannot_be_spelled_is_a_value_error():
    with pytest.raises(ValueError, match="'abb': no sub-word spells 'b' in it"):
        Spelling(["<pad>_", "<EOS>_", "a", "b_", "_"]).encode("abb")


def test_a_lone_quote_and_empty_lines_are_as_in_tensor2tensor(tmp_path):
    file = tmp_path / "vocab"
    file.write_text("<pad>_\n<EOS>_\n'\na_\n\n\n")
    assert Spelling.read(file).subwords == ["<pad>_", "<EOS>_", "", "a_", "", ""]


def test_it_needs_pythons_own_library_only():
    code = (
        "import sys; from t2t_lite.data import t2t_spelling; "
        "assert not {'tensorflow', 'keras', 'numpy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
