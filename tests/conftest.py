"""What all tests share: the backend, quiet logs, and the real data where it is at hand."""

import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data and reference outputs, beside the checkout; a user's clone has none."""
    if not SHARED.is_dir():
        pytest.skip(f"no real data at {SHARED}")
    return SHARED
