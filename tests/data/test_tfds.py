"""TensorFlow Datasets as a source: what is asked of it, and what is said where it cannot be had."""

import subprocess
import sys
import textwrap

import pytest

from t2t_lite.data.tfds import TfdsTranslation
from t2t_lite.errors import UserError


def test_tfds():
    tf = pytest.importorskip("tensorflow")
    tfds = pytest.importorskip("tensorflow_datasets")
    asked = []

    def as_dataset(builder, split, **_):
        asked.append((builder.info.full_name, split))
        examples = {"en": [f"n {n}" for n in range(5)], "de": [f"z {n}" for n in range(5)]}
        return tf.data.Dataset.from_tensor_slices(examples)

    with tfds.testing.mock_data(as_dataset_fn=as_dataset):
        source = TfdsTranslation("wmt14_translate/de-en", "validation", "en", "de")
        expected = [(f"n {n}", f"z {n}") for n in range(5)]
        assert source.check() == 5
        assert list(source.pairs()) == expected
    assert set(asked) == {("wmt14_translate/de-en/1.0.0", "validation")}


def test_tfds_that_cannot_be_had(monkeypatch):
    tfds = pytest.importorskip("tensorflow_datasets")

    def load(*_, **__):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(tfds, "load", load)
    with pytest.raises(UserError, match=r"TFDS wmt14.*no route\); give --raw_dir"):
        TfdsTranslation("wmt14_translate/de-en", "train", "en", "de").check()


OWN_PROCESS = """
    import sys, types

    class Set:
        def batch(self, size):
            return self

        def as_numpy_iterator(self):
            import tensorflow
            import numpy
            for n in range(3):
                yield {"en": numpy.array([b"one", b"two"]), "de": numpy.array([b"eins", b"zwei"])}

    def load(name, **_):
        if name == "broken":
            raise ConnectionError("no route")
        return Set()

    sys.modules["tensorflow_datasets"] = types.SimpleNamespace(load=load)
    from t2t_lite.data.tfds import TfdsTranslation
    from t2t_lite.errors import UserError

    pairs = list(TfdsTranslation("set", "train", "en", "de").pairs())
    assert pairs == [("one", "eins"), ("two", "zwei")] * 3, pairs
    try:
        TfdsTranslation("broken", "train", "en", "de").check()
    except UserError as error:
        assert "no route); give --raw_dir" in str(error)
    else:
        raise AssertionError
    assert "tensorflow" not in sys.modules
"""


def test_tensorflow_does_not_run_afterwards():
    subprocess.run([sys.executable, "-c", textwrap.dedent(OWN_PROCESS)], check=True)
