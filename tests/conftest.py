"""What all tests share: backend, quiet logs, two CPU devices, real data, a browser, two exports."""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

# A shell's background jobs, and what they start, ignore Ctrl-C, which tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_finish():
    """Two logical CPU devices for tests of several replicas.

    TensorFlow takes them only before it has run anything.
    """
    # Some test collected needs it; those that don't are not made to wait for it.
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        tf.config.list_logical_devices()  # from here on no test can ask for another number


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data and reference outputs beside the checkout; a clone has none."""
    if not SHARED.is_dir():
        pytest.skip(f"no real data at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no chromium with its chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--window-size=1100,1000",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield browser
    browser.quit()


class Exported(NamedTuple):
    """An untrained run and its SavedModel, `folder`/1, with which it was compared."""

    run: Any  # a Run, which would import TensorFlow
    folder: Path


@pytest.fixture(scope="session")
def translator_export(tmp_path_factory) -> Exported:
    from untrained import untrained_translator

    return exported(untrained_translator, tmp_path_factory.mktemp("translator"), "numbers")


@pytest.fixture(scope="session")
def parser_export(tmp_path_factory) -> Exported:
    from untrained import untrained_parser

    return exported(untrained_parser, tmp_path_factory.mktemp("parser"), "parser")


def exported(make_run, folder: Path, name: str) -> Exported:
    """Makes a run as `folder`/run and exports it as `folder`/`name`/1."""
    from untrained import SEARCH

    from t2t_lite.export import saved_model

    run = make_run(folder / "run")
    saved_model.export(run, folder / name, **SEARCH)
    return Exported(run, folder / name)
