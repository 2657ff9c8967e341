"""The paper's Table 3: every row is a set, and its parameters are counted."""

import pytest
from t2t_lite.hparams.table3 import ROWS
from t2t_lite.hparams.transformer import base, big

from t2t_lite import registry
from t2t_lite.models.size import parameters

NAMED = {"base": (base(), 65)} | {
    row.name: (row.hparams(), row.millions) for row in ROWS if row.millions
}


def fit(symbols: int) -> set[str]:
    """The rows whose parameters round to the paper's figure with a vocabulary."""
    return {
        name for name, (h, paper) in NAMED.items() if round(parameters(h, [symbols]) / 1e6) == paper
    }


@pytest.fixture(autouse=True, scope="module")
def plugins():
    registry.load_plugins()


def test_one_vocabulary_fits_base_and_all_variations():
    all_but = {symbols: NAMED.keys() - fit(symbols) for symbols in (41_003, 41_004, 41_208, 41_209)}
    assert all_but[41_004] == all_but[41_208] == set()
    assert all_but[41_003] and all_but[41_209]


def test_none_fits_with_the_papers_own_number():
    assert fit(37_000) == set() and parameters(base(), [37_000]) == 63_045_632


@pytest.mark.parametrize("symbols, fits", [(35_367, 0), (35_368, 1), (36_344, 1), (36_345, 0)])
def test_big_fits_fewer(symbols, fits):
    assert (round(parameters(big(), [symbols]) / 1e6) == 213) == fits


def test_learned_positions_add_two_tables():
    added = parameters(base().replace(positions="learned"), [9]) - parameters(base(), [9])
    assert added == 2 * 1024 * 512


def test_every_row_is_a_set():
    """Of the base model but for what the row names; without averaging (section 6.2)."""
    for row in ROWS:
        expected = base().replace(**row.changes, average_checkpoints=1)
        assert registry.hparams(row.name) == expected
    assert [row.letter for row in ROWS] == list("AAAABBCCCCCCCDDDDE")


def test_head_rows_keep_the_amount_of_computation():
    """Section 6.2; the columns of d_k and d_v."""
    for row in ROWS:
        if row.letter == "A":
            h = row.hparams()
            assert h.num_heads * h.d_k == h.num_heads * h.d_v == h.d_model


def test_the_topic_prints_a_line_for_each_row():
    lines = registry.describe("table3").splitlines()
    assert [line for line in lines if line.startswith("table3_b_dk16")] == [
        "table3_b_dk16          B    d_k=16                         5.16   25.1        58"
        "    55.97    55.46    58.07"
    ]
    names = {line.split(" ")[0] for line in lines if line}
    assert {"base", "big", *(row.name for row in ROWS)} <= names
