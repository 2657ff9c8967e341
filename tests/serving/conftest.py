"""The exports of untrained models, a translator and a parser, as a server loads them."""

import pytest

from t2t_lite.serving.model import ServedModel


@pytest.fixture(scope="session")
def translator(translator_export):
    """(its run, its ServedModel)."""
    return translator_export.run, ServedModel(translator_export.folder / "1", "numbers")


@pytest.fixture(scope="session")
def parser(parser_export):
    """(its run, its ServedModel)."""
    return parser_export.run, ServedModel(parser_export.folder / "1", "parser")
