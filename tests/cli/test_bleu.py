"""t2t-bleu: what it prints and how it refuses."""

import gzip
import json
import subprocess
import sys

import pytest

from t2t_lite.cli import bleu
from t2t_lite.evaluation.bleu import compound_split_bleu, corpus_bleu, corpus_chrf

HYPOTHESES = ["Das Haus am See ist alt.", "Ein U-Boot taucht auf.", ""]
REFERENCES = ["Das Haus am See ist neu.", "Ein U-Boot taucht auf.", "Nichts."]


@pytest.fixture
def files(tmp_path):
    translation, reference = tmp_path / "out.de", tmp_path / "ref.de"
    translation.write_text("\n".join(HYPOTHESES) + "\n", encoding="utf-8")
    reference.write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    return translation, reference


def test_three_labelled_lines(call, files):
    code, out, err = call(bleu, "--translation", files[0], "--reference", files[1])
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"sacreBLEU: {corpus_bleu(HYPOTHESES, REFERENCES)}"
    assert lines[1] == f"chrF: {corpus_chrf(HYPOTHESES, REFERENCES)}"
    score = compound_split_bleu(HYPOTHESES, REFERENCES)
    assert lines[2] == f"2017's tokenised, compound-split BLEU (en-de): {score}"
    assert len(lines) == 3


def test_json(call, files):
    code, out, _ = call(
        bleu, f"--translation={files[0]}", f"--reference={files[1]}", "--json", "--lowercase"
    )
    scores = json.loads(out)
    assert code == 0 and list(scores) == ["sacrebleu", "chrf", "compound_split_bleu"]
    assert scores["sacrebleu"]["value"] == corpus_bleu(HYPOTHESES, REFERENCES, lowercase=True).value
    assert all("case:lc" in score["signature"] for score in scores.values())


def test_gzip_crlf_and_several_references(call, files, tmp_path):
    packed = tmp_path / "other.de.gz"
    with gzip.open(packed, "wb") as file:
        file.write(
            "\r\n".join(HYPOTHESES).encode() + b"\r\n"
        )  # as if a reference were what was translated
    code, out, _ = call(bleu, "--translation", files[0], "--reference", files[1], packed)
    assert code == 0 and "BLEU = 100.00" in out and "nrefs:2" in out


def test_pipes_and_a_byte_order_mark(call, files, refusal):
    code, expected, _ = call(bleu, "--translation", files[0], "--reference", files[1])
    marked = b"\xef\xbb\xbf" + files[0].read_bytes()
    for name in "-", "/dev/stdin":
        flags = "--translation", name, "--reference", files[1]
        assert call(bleu, *flags, stdin=marked) == (code, expected, "")
        assert call(bleu, *flags, stdin=gzip.compress(marked))[1] == expected
    err = refusal(bleu, "--translation", "-", "--reference", files[1], "/dev/stdin")
    assert err == "/dev/stdin given twice; it can be read only once\n"


def test_only_line_feeds_end_lines(call, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("eins\u2028zwei drei vier fünf\x85sechs\n", encoding="utf-8")
    code, out, _ = call(bleu, "--translation", tmp_path / "a", "--reference", tmp_path / "b")
    assert code == 0 and "BLEU = 100.00" in out


def test_missing_file(refusal, files):
    err = refusal(bleu, "--translation", files[0].with_name("ou.de"), "--reference", files[1])
    assert "ou.de" in err and "out.de" in err  # names the nearest


def test_unequal_line_counts(refusal, files):
    files[1].write_text("Das Haus.\n", encoding="utf-8")
    err = refusal(bleu, "--translation", files[0], "--reference", files[1])
    assert f"{files[0]} has 3" in err and f"{files[1]} has 1" in err


def test_not_utf8(refusal, files):
    files[1].write_bytes("Das Haus.\nEine T\xfcr.\n\n".encode("latin-1"))
    err = refusal(bleu, "--translation", files[0], "--reference", files[1])
    assert f"{files[1]}:2" in err and "0xfc" in err


def test_empty_files(refusal, files):
    for file in files:
        file.write_text("")
    assert "empty" in refusal(bleu, "--translation", files[0], "--reference", files[1])


def test_bad_flags(refusal, files):
    both = ("--translation", files[0], "--reference", files[1])
    assert "nearest: 13a" in refusal(bleu, *both, "--tokenize", "13")
    assert "unknown flag --lowercas; nearest: --lowercase" in refusal(bleu, *both, "--lowercas")
    assert "--reference" in refusal(bleu, "--translation", files[0])


def test_help_imports_nothing_slow():
    code = """
import sys
from t2t_lite.cli import bleu
bleu.parser().format_help()
assert not {"tensorflow", "keras", "sacrebleu", "sacremoses"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
