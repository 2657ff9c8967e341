"""What all tests share: the backend, quiet logs, two CPU devices, and the real data where it is at hand."""

import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_finish():
    """Two logical CPU devices for tests of several replicas: TensorFlow takes them only before it has run anything."""
    if (
        "tensorflow" in sys.modules
    ):  # some test collected needs it; those that don't are not made to wait for it
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        tf.config.list_logical_devices()  # from here on no test can ask for another number


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data and reference outputs, beside the checkout; a user's clone has none."""
    if not SHARED.is_dir():
        pytest.skip(f"no real data at {SHARED}")
    return SHARED
