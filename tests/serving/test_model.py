"""What a served model's outputs are as JSON; what it answers is tested with the application."""

import copy

import numpy as np
import pytest

from t2t_lite.errors import UserError
from t2t_lite.serving.model import json_value


def test_no_number_that_json_does_not_have():
    assert json_value(np.float32(np.nan)) is None
    assert json_value(np.float32(-np.inf)) is None
    assert json_value(np.float32(0.5)) == 0.5
    assert json_value(np.array([[1.5, np.inf], [0, 1]], np.float32)) == [[1.5, None], [0, 1]]


def test_bytes_are_text():
    pieces = np.array(["\u6f22".encode(), b""], object)
    assert json_value(pieces) == ["\u6f22", ""] and json_value(b"roofs") == "roofs"


def test_attention_is_that_of_the_run(translator):
    run, model = translator
    found = model.attention("a slow train", "far roofs")
    wanted = run.translator().attention("a slow train", "far roofs")
    for one, other in zip(found.kinds().values(), wanted.kinds().values(), strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)
        assert (one.rows, one.columns) == (other.rows, other.columns)


def test_an_earlier_export_has_no_such_attention(translator):
    earlier = copy.copy(translator[1])
    earlier.signatures = {"attention": {}}
    with pytest.raises(UserError, match="/1: no signature attention_heads; expected an export of"):
        earlier.attention("a slow train", "far roofs")


def test_an_attention_that_is_too_large(translator, monkeypatch):
    monkeypatch.setattr("t2t_lite.attention.MOST", 100)
    with pytest.raises(UserError, match="weights; expected at most 100"):
        translator[1].attention("a slow train " * 5, "far roofs")
