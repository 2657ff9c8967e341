"""What an export says of itself."""

import dataclasses
import json
import shutil

import pytest
from untrained import SEARCH

from t2t_lite.decoding.search import Search
from t2t_lite.errors import UserError
from t2t_lite.export import metadata
from t2t_lite.runs import Runs


def test_metadata_and_vocabulary_travel_along(loaded, folder, run):
    about = metadata.read(folder)
    assert (
        {name: about[name] for name in SEARCH} == SEARCH
        and about["n_best"] == 3
        and about["output_text"] is None
    )
    assert about["attention_layer"] == 0  # of two
    assert about["weights"] == "averaged.safetensors" and about["problem"] == "spelled_numbers_ende"
    assert json.loads(loaded.signatures["metadata"]()["metadata"].numpy()) == about
    assert (folder / "assets" / "vocab.model").read_bytes() == (
        run.path / "vocab.model"
    ).read_bytes()
    with pytest.raises(UserError, match="no export of t2t-exporter"):
        metadata.read(folder.parent)


def test_options_that_name_files_stay_behind(run):
    problem = dataclasses.replace(run.problem, data_dir="/home/me", vocab_size=7)
    run = dataclasses.replace(run, problem=problem)
    search = Search(**SEARCH, n_best=1, sampling=None, constrained=False)
    about = metadata.metadata(Runs((run,)), [run.averaged], run.vocabularies(), search)
    assert about["options"] == {"vocab_size": 7, "drop_duplicates": False}


def copied(folder, tmp_path):
    """A copy whose files can be changed."""
    return shutil.copytree(folder, tmp_path / "1")


def test_a_vocabulary_that_was_replaced_is_noticed(folder, tmp_path):
    copy = copied(folder, tmp_path)
    sides = metadata.read(copy)["vocabularies"]
    assert {side["file"] for side in sides.values()} == {"assets/vocab.model"}
    file = copy / "assets" / "vocab.model"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(UserError, match=f"{file}: had other contents when"):
        metadata.read(copy)
    file.unlink()
    with pytest.raises(UserError, match=f"no such file: {file}"):
        metadata.read(copy)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"problem": ["x"]}, r"problem is \['x'\]; expected str"),
        ({"options": 1e400}, "options is inf; expected dict"),
        ({"vocabularies": {"source": {"sha256": 3, "file": "a"}}}, "sha256 is 3; expected str"),
        ({"vocabularies": {"source": {"sha256": "3"}}}, "file is missing; expected str"),
        (None, "no JSON: "),
    ],
)
def test_metadata_that_someone_wrote(folder, tmp_path, fields, message):
    copy = copied(folder, tmp_path)
    file = copy / metadata.FILE
    text = "{" if fields is None else json.dumps(json.loads(file.read_text()) | fields)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=f"{file}: .*{message}") as error:
        metadata.read(copy)
    assert "\n" not in str(error.value)


def test_an_export_from_before_digests_is_read(folder, tmp_path):
    copy = copied(folder, tmp_path)
    file = copy / metadata.FILE
    about = json.loads(file.read_text())
    for side in about["vocabularies"].values():
        del side["sha256"], side["file"]
    file.write_text(json.dumps(about), encoding="utf-8")
    (copy / "assets" / "vocab.model").write_bytes(b"another")
    assert metadata.read(copy) == about
