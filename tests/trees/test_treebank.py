"""A treebank as a source: which files of a folder are read, and what is counted."""

import gzip
import os
import pickle
from collections import Counter

import pytest

from t2t_lite.errors import UserError
from t2t_lite.trees import treebank
from t2t_lite.trees.treebank import TreebankFiles


def tree(word: str) -> str:
    return f"(S (NN {word}))\n"


def sentences(*paths, **options) -> list[str]:
    return [sentence for sentence, _ in TreebankFiles(paths, **options).pairs()]


@pytest.fixture
def folder(tmp_path):
    """A folder of trees with other things in it, and links to one beside it and to itself."""
    bank, elsewhere = tmp_path / "bank", tmp_path / "elsewhere"
    for path in (bank / "01", bank / ".git", bank / "01" / ".copies", elsewhere):
        path.mkdir(parents=True)
    (bank / "01" / "a.mrg").write_text(tree("ant"))
    (bank / "01" / "b.psd.gz").write_bytes(gzip.compress(b"( (N bee) (ID B,1))"))
    (bank / "01" / ".copies" / "a-copy.mrg").write_text(tree("ant"))
    (bank / "01" / "._a.mrg").write_bytes(b"\0\5\26\7\377")
    (bank / ".git" / "c.trees").write_text(tree("cat"))
    (bank / "notes.txt").write_text("no trees")
    (elsewhere / "d.ptb").write_text(tree("dog"))
    (bank / "02").symlink_to(elsewhere)
    (bank / "03").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(bank)
    (bank / "z.mrg").symlink_to(bank / "01" / "a.mrg")
    (bank / "lost.mrg").symlink_to(bank / "nowhere")
    return bank


def test_folders_are_read_once_without_what_is_hidden(folder):
    source = TreebankFiles([folder])
    assert [sentence for sentence, _ in source.pairs()] == ["ant", "bee", "dog"]
    assert str(source) == (f"{folder} (3 files; others left out: 5, .git, ._a.mrg, .copies, ...)")
    # What was named itself is read whatever it is called, and as often as it is named.
    assert sentences(folder / "01" / ".copies", folder / "01") == ["ant", "ant", "bee"]
    again = folder / "01" / "a.mrg"
    assert sentences(again, again, folder) == ["ant", "ant", "bee", "dog"]


def test_a_folder_without_trees_or_that_cannot_be_read(folder, monkeypatch):
    with pytest.raises(UserError, match=r"\.git: no .*\.psd files"):
        (folder / ".git" / "c.trees").rename(folder / ".git" / ".c.trees")
        sentences(folder / ".git")

    def scandir(path, real=os.scandir):
        if os.fspath(path).endswith("01"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(UserError, match=r"01: cannot be read \(Permission denied\)"):
        sentences(folder)


@pytest.mark.parametrize("large", [0, 1 << 20])
def test_what_is_left_out_is_counted(tmp_path, monkeypatch, large):
    """In small files, which are a part each, and in large ones, which are several."""
    monkeypatch.setattr(treebank, "_LARGE", large)
    monkeypatch.setattr(treebank, "PART", 1)
    file = tmp_path / "auto.trees"
    file.write_text(tree("a") + "(())\n(S (NN b) (NP))\n( )\n(TOP (S))\n" + tree("c") + "()\n")
    with pytest.raises(UserError, match=r"auto\.trees:3: \(NP\) is empty"):
        sentences(file)
    source, counts = TreebankFiles([file, file], skip_bad=True), Counter()
    parts = pickle.loads(pickle.dumps(list(source.parts())))
    assert len(parts) == (2 if large else 6)  # of large files the last holds counts alone
    found = [pair for part in parts for pair in source.read(part, counts)]
    assert found == list(source.pairs()) == [(w, f"(TOP (S (NN {w})))") for w in "acac"]
    assert counts == {"broken trees": 2, "trees without words": 8}


def test_words_are_as_people_write_them(tmp_path):
    file = tmp_path / "a.mrg"
    file.write_text(r"(NP (CD 1\/2) (SYM \*) (NN a\\b) (-LRB- () (NN \/\*))")
    assert sentences(file) == [r"1/2 * a\\b -LRB- /*"]
