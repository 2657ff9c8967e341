"""What an export says of itself."""

import dataclasses
import json

import pytest
from untrained import SEARCH

from t2t_lite.decoding.search import Search
from t2t_lite.errors import UserError
from t2t_lite.export import metadata


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
    about = metadata.metadata(run, run.averaged, run.vocabularies(), search)
    assert about["options"] == {"vocab_size": 7, "drop_duplicates": False}
