"""What a served model's outputs are as JSON; what it answers is tested with the application."""

import numpy as np

from t2t_lite.serving.model import json_value


def test_no_number_that_json_does_not_have():
    assert json_value(np.float32(np.nan)) is None
    assert json_value(np.float32(-np.inf)) is None
    assert json_value(np.float32(0.5)) == 0.5
    assert json_value(np.array([[1.5, np.inf], [0, 1]], np.float32)) == [[1.5, None], [0, 1]]


def test_bytes_are_text():
    pieces = np.array(["\u6f22".encode(), b""], object)
    assert json_value(pieces) == ["\u6f22", ""] and json_value(b"roofs") == "roofs"
