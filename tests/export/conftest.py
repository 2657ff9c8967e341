"""The SavedModel of the untrained translator, and what it is compared with."""

import pytest
import tensorflow as tf

import t2t_lite


@pytest.fixture(scope="session")
def run(translator_export):
    return translator_export.run


@pytest.fixture(scope="session")
def folder(translator_export):
    return translator_export.folder / "1"


@pytest.fixture(scope="session")
def loaded(folder):
    return tf.saved_model.load(folder)


@pytest.fixture(scope="session")
def model(run):
    return t2t_lite.load(run.path)
