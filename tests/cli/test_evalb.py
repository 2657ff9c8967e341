"""t2t-evalb: EVALB's output, and how the command refuses."""

import gzip
import json
import subprocess
import sys

import pytest

from t2t_lite.cli import evalb

GOLD = [
    "(TOP (S (NP (NN owls)) (VP (VBP hoot)) (. .)))",
    "(TOP (S (NP (NN mice)) (VP (VBP hide))))",
    "(TOP (NP (NN night)))",
]
PREDICTED = [
    "(TOP (S (NP (XX owls)) (VP (XX hoot)) (XX .)))",
    "(TOP (S (XX mice) (VP (XX hide))))",
    "",
]


@pytest.fixture
def files(tmp_path):
    """Writes gold and predicted lines, and returns the flags that name the files."""

    def write(gold=GOLD, predicted=PREDICTED):
        for name, lines in (("gold", gold), ("out", predicted)):
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return "--gold", tmp_path / "gold", "--predicted", tmp_path / "out"

    return write


@pytest.mark.parametrize("name, parameters", [("sample", "sample.prm"), ("bug", "new.prm")])
def test_prints_what_evalb_prints(call, shared, name, parameters):
    folder = shared / "data" / "evalb"
    gold, predicted = folder / f"{name}.gld", folder / f"{name}.tst"
    code, out, err = call(
        evalb, "--gold", gold, "--predicted", predicted, "--params", folder / parameters
    )
    assert code == 0 and out == (folder / f"{name}.expected").read_text()
    assert "tags: own" in err and err.count(f"{predicted}:") == (5 if name == "sample" else 0)


def test_tags(call, files):
    code, out, err = call(evalb, *files())
    assert code == 0 and "tags: own" in err and out.split("\n")[3].split()[2] == "1"
    assert f"{files()[3]}:1: 3 words after deletion; expected 2" in err
    code, out, err = call(evalb, *files(), "--tags", "gold")
    assert code == 0 and "tags: gold" in err
    assert [row.split()[2] for row in out.split("\n")[3:6]] == ["0", "0", "2"]


def test_summary(call, files):
    full = call(evalb, *files())[1]
    code, out, _ = call(evalb, *files(), "--summary")
    assert code == 0 and out.startswith("=== Summary ===\n") and full.endswith(out)


def test_json(call, files):
    code, out, _ = call(evalb, *files(), "--tags=gold", "--json")
    result = json.loads(out)
    assert code == 0 and list(result) == ["tags", "cutoff_len", "all", "up_to_cutoff"]
    assert (
        result["tags"] == "gold"
        and result["cutoff_len"] == 40
        and result["all"] == result["up_to_cutoff"]
    )
    figures = result["all"]
    assert (figures["sentences"], figures["errors"], figures["skipped"], figures["valid"]) == (
        3,
        0,
        1,
        2,
    )
    assert (figures["precision"], figures["recall"]) == (100, pytest.approx(500 / 6))
    assert (figures["matched"], figures["gold"], figures["predicted"]) == (5, 6, 5)


def test_gzip(call, files, tmp_path):
    flags = list(files())
    plain = call(evalb, *flags)[1]
    for i in (1, 3):
        packed = flags[i].with_name(f"{flags[i].name}.gz")
        packed.write_bytes(gzip.compress(flags[i].read_bytes()))
        flags[i] = packed
    assert call(evalb, *flags)[1] == plain


def test_a_pipe_and_a_byte_order_mark(call, files):
    flags = files()
    expected = call(evalb, *flags)[:2]
    marked = b"\xef\xbb\xbf" + flags[1].read_bytes()
    assert call(evalb, "--gold", "-", *flags[2:], stdin=marked)[:2] == expected


def test_stops_at_max_error(call, files, tmp_path):
    parameters = tmp_path / "a.prm"
    parameters.write_text("MAX_ERROR 2\nFOO 1\n")
    flags = files(["(S (NN a))"] * 5, ["(S (NN a))"] + ["(S (NN b))"] * 4)
    code, out, err = call(evalb, *flags, "--params", parameters)
    assert (
        code == 2 and out.count("\n") == 3 + 4
    )  # EVALB too ends with the error after the next, without totals
    assert (
        f"{flags[3]}:5: stopped after 4 errors; MAX_ERROR is 2" in err
        and f"{parameters}:2: unknown parameter 'FOO'" in err
    )


def test_stops_at_a_word_outside_brackets(call, files):
    flags = files(["(S (NN a))"] * 2, ["(S (NN a))", "(S (NN a b))"])
    code, out, err = call(evalb, *flags)
    assert (
        code == 2 and out.count("\n") == 3 + 1 and f"error: {flags[3]}:2: 'a' is not alone" in err
    )


def test_refusals(refusal, files):
    flags = files(GOLD, PREDICTED[:2])
    err = refusal(evalb, *flags)
    assert f"{flags[1]} has 3" in err and f"{flags[3]} has 2" in err
    assert "nearest in" in refusal(evalb, "--gold", flags[1].with_name("gol"), *flags[2:])
    parameters = flags[1].with_name("COLLINS.prm")
    assert "nearest in" in refusal(evalb, *files(), "--params", parameters)
    assert "--tags" in refusal(evalb, *flags, "--tags", "silver")
    assert "--predicted" in refusal(evalb, *flags[:2])
    assert "nearest: --params" in refusal(evalb, *flags, "--param", "x")
    assert "empty" in refusal(evalb, *files([], []))


def test_imports_nothing_slow():
    code = """
import sys
from t2t_lite.cli import evalb
evalb.parser().format_help()
import t2t_lite.evaluation.bracketing
assert not {"tensorflow", "keras", "nltk", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
