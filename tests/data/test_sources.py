"""Sources: what they read, whole and in parts, and their errors."""

import gzip
import os
import pickle
import re
import subprocess
import sys
from collections import Counter

import pytest

from t2t_lite.data import sources
from t2t_lite.data.sources import (
    Filtered,
    Generated,
    Mapped,
    Mixture,
    Reversed,
    Source,
    TextFiles,
    TsvFile,
    weighted,
)
from t2t_lite.errors import UserError

ODD = (
    "a tab\there",
    "",
    " spaces ",
    "line\u2028separator",
    "form\x0cfeed, next\x85line",
    "\U0001f600 emoji",
    "no end",
)


def write(path, data: bytes):
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def from_parts(source: Source) -> list[tuple[str, str]]:
    """As several processes read it: the parts are sent to them."""
    parts = pickle.loads(pickle.dumps(list(source.parts())))
    return [pair for part in parts for pair in source.read(part, Counter())]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text_files(tmp_path, suffix, end):
    inputs = write(tmp_path / f"a.en{suffix}", end.join(ODD).encode())
    targets = write(tmp_path / f"a.de{suffix}", (end.join(ODD[::-1]) + end).encode())
    source = TextFiles(inputs, targets)
    expected = list(zip(ODD, ODD[::-1]))
    assert list(source.pairs()) == expected
    assert from_parts(source) == expected
    assert source.check() == len(ODD)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_tsv(tmp_path, name):
    source = TsvFile(write(tmp_path / name, b"one\teins\ntwo \t\n\tdrei"))
    expected = [("one", "eins"), ("two ", ""), ("", "drei")]
    assert list(source.pairs()) == from_parts(source) == expected
    assert source.check() == 3


def test_generated_and_reversed():
    source = Generated(lambda: ((str(n), f"ü{n}") for n in range(3000)), "numbers to 3000")
    expected = [(str(n), f"ü{n}") for n in range(3000)]
    assert list(source.pairs()) == from_parts(source) == expected
    turned = Reversed(source)
    assert list(turned.pairs()) == from_parts(turned) == [(b, a) for a, b in expected]
    assert turned.check() == 3000
    assert turned.fingerprint() != source.fingerprint()


def test_filtered():
    source = Generated(lambda: ((str(n), f"ü{n}") for n in range(3000)), "numbers to 3000")
    long = Filtered(source, lambda a, b: len(a) > 2 and b != "ü999", "of three digits and more")
    expected = [(str(n), f"ü{n}") for n in range(100, 3000) if n != 999]
    assert list(long.pairs()) == from_parts(long) == expected
    assert long.check() == 2899 and str(long) == "numbers to 3000"
    other = Filtered(source, lambda a, b: True, "all")
    assert len({long.fingerprint(), other.fingerprint(), source.fingerprint()}) == 3
    assert other.fingerprint() == Filtered(source, lambda a, b: True, "all").fingerprint()
    with pytest.raises(UserError, match="numbers to 3000: the corpus is empty"):
        Filtered(source, lambda a, b: False, "none").check()


def test_what_is_left_out_is_counted():
    source = Generated(lambda: ((str(n), "x") for n in range(3000)), "numbers")
    counts = Counter()
    short = Filtered(Filtered(source, lambda a, b: a > "1", "small"), lambda a, b: a < "3", "large")
    for part in short.parts():
        list(short.read(part, counts))
    kept = sum("1" < str(n) < "3" for n in range(3000))
    assert counts == {"small": 2, "large": 3000 - 2 - kept}


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_progress(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(sources, "PART", 1000)
    paths = [write(tmp_path / f"{side}{suffix}", b"line\n" * 50_000) for side in "ab"]
    source = Reversed(TextFiles(*paths))
    assert source.progress() is None
    shares = [source.progress() for _ in source.parts()]
    assert shares == sorted(shares) and 0 < shares[0] <= shares[-1] == 1


def test_mixture():
    a, b = (Generated(lambda name=name: iter([(name, name)] * 3), name) for name in "ab")
    mixture = Mixture([a, b], [1, 2])
    assert list(mixture.pairs()) == [("a", "a")] * 3 + [("b", "b")] * 3
    doubled = mixture.each(lambda source: Mapped(source, lambda x, y: (x + x, y), "doubled"))
    assert doubled.passes([3, 3]) == (1, 2) and str(doubled) == "a + b"
    assert list(doubled.pairs()) == [("aa", "a")] * 3 + [("bb", "b")] * 3
    others = [Mixture([a, b], [1, 1]), Mixture([b, a], [1, 2]), doubled]
    assert len({source.fingerprint() for source in [mixture, *others]}) == 4


def test_weighted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "odd@3", b"x\n")
    assert weighted("train", ("a.en", "a.de")) == (("a.en", "a.de"), 1)
    assert weighted("train", ("a.en", "a.de@0.5")) == (("a.en", "a.de"), 0.5)
    assert weighted("train", ("odd@3",)) == (("odd@3",), 1)
    assert weighted("train", ("me@home",)) == (("me@home",), 1)
    for wrong in ("0", "-1", "nan", "inf"):
        with pytest.raises(UserError, match=f"--silver x@{wrong}: weight {wrong}; expected a num"):
            weighted("silver", ("y", f"x@{wrong}"))


def test_fingerprint_follows_the_data(tmp_path):
    path = write(tmp_path / "a.tsv", b"one\teins\n")
    first = TsvFile(path).fingerprint()
    assert first == TsvFile(path).fingerprint()
    assert re.fullmatch("[0-9a-f]{12}", first)
    write(path, b"one\teins\ntwo\tzwei\n")
    longer = TsvFile(path).fingerprint()
    os.utime(path, (1, 1))
    touched = TsvFile(path).fingerprint()
    write(path, b"one\teins\ntwo\tdrei\n")
    os.utime(path, (1, 1))
    assert len({first, longer, touched, TsvFile(path).fingerprint()}) == 4


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_missing_file_names_the_nearest(tmp_path):
    write(tmp_path / "train.en", b"x\n")
    for name in ("train.de.txt", "other"):
        write(tmp_path / name, b"x\n")
    with pytest.raises(UserError) as error:
        TextFiles(tmp_path / "train.en", tmp_path / "train.de").check()
    assert re.search(
        r"no such file: .*train\.de; nearest in .*: train\.en, train\.de\.txt", one_line(error)
    )
    with pytest.raises(UserError, match="no such folder: .*nowhere"):
        TsvFile(tmp_path / "nowhere" / "a.tsv").fingerprint()


def test_one_pipe_is_not_both_sides():
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader), pytest.raises(UserError, match="given twice; it can be read only once"):
        TextFiles(f"/dev/fd/{reader}", f"/proc/self/fd/{reader}").check()


@pytest.mark.parametrize("counts", [(3, 5), (5, 3), (0, 1)])
def test_unequal_line_counts(tmp_path, counts):
    paths = [write(tmp_path / name, b"x\n" * count) for name, count in zip(("a", "b"), counts)]
    with pytest.raises(UserError) as error:
        TextFiles(*paths).check()
    assert re.search(rf"{paths[0]} has {counts[0]}, {paths[1]} has {counts[1]};", one_line(error))


def test_bytes_that_are_not_utf8(tmp_path):
    good, bad = write(tmp_path / "a", b"x\ny\nz\n"), write(tmp_path / "b", b"x\nna\xefve\nz\n")
    with pytest.raises(UserError) as error:
        TextFiles(good, bad).check()
    assert f"{bad}:2: byte 0xef at position 3 is not UTF-8" in one_line(error)


@pytest.mark.parametrize("line, tabs", [("no tab", 0), ("two\ttabs\there", 2)])
def test_tsv_line_without_exactly_one_tab(tmp_path, line, tabs):
    path = write(tmp_path / "a.tsv", f"one\teins\n{line}\n".encode())
    with pytest.raises(UserError) as error:
        TsvFile(path).check()
    assert f"{path}:2: {tabs} tabs; expected input, one tab, target" in one_line(error)


def test_empty_corpus(tmp_path):
    paths = [write(tmp_path / name, b"") for name in ("a", "b")]
    for source in (TextFiles(*paths), TsvFile(paths[0]), Generated(lambda: iter(()), "nothing")):
        with pytest.raises(UserError, match="the corpus is empty"):
            source.check()


@pytest.mark.parametrize(
    "data",
    [b"\x1f\x8bnot gzip", gzip.compress(b"x\ty\n" * 1000)[:-20]],
    ids=["no gzip", "cut off"],
)
def test_broken_gzip(tmp_path, data):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.tsv\.gz: cannot be read"):
        TsvFile(path).check()
    other = write(tmp_path / "b", b"one\n" * 1000)
    for files in (path, other), (other, path):
        with pytest.raises(UserError, match=r"a\.tsv\.gz: cannot be read"):
            TextFiles(*files).check()


def test_import_needs_no_tensorflow():
    code = "import sys, t2t_lite.problems; sys.exit(bool({'tensorflow', 'numpy'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
