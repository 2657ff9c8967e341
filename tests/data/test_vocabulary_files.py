"""Vocabularies that were replaced, by files of equal size too."""

import pytest

from t2t_lite.data import vocabulary_files
from t2t_lite.errors import UserError


def test_what_is_as_it_was(tmp_path):
    assert vocabulary_files.digests(tmp_path) == {}
    vocabulary_files.check(tmp_path, {})
    (tmp_path / "vocab.model").write_bytes(b"abc")
    (tmp_path / "other.model").write_bytes(b"abc")
    found = vocabulary_files.digests(tmp_path)
    assert found.keys() == {"vocab.model"} and found["vocab.model"].startswith("ba7816bf")
    vocabulary_files.check(tmp_path, found)


def test_what_was_replaced_added_or_lost(tmp_path):
    for side in "source", "target":
        (tmp_path / f"vocab.{side}.model").write_bytes(side.encode())
    stored = vocabulary_files.digests(tmp_path)
    for name, content, message in [
        ("vocab.target.model", b"TARGET", "had other contents when .* was made"),
        ("vocab.model", b"both", "was not there when .* was made"),
        ("vocab.source.model", None, "no such file"),
    ]:
        file = tmp_path / name
        before = file.read_bytes() if file.exists() else None
        file.unlink() if content is None else file.write_bytes(content)
        with pytest.raises(UserError, match=message) as error:
            vocabulary_files.check(tmp_path, stored)
        assert str(file) in str(error.value)
        file.unlink(missing_ok=True) if before is None else file.write_bytes(before)
    vocabulary_files.check(tmp_path, stored)


def test_names_that_lead_elsewhere_are_none(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"abc")
    vocabulary_files.check(tmp_path / "run", {"../elsewhere": "0" * 64})
