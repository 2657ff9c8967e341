"""TensorFlow's threads, and from them the calls of a model side by side."""

import json
import os
import subprocess
import sys

import pytest
from untrained import untrained_translator

_NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}


@pytest.mark.parametrize(
    ("together", "expected"),
    [pytest.param(True, "3 3 1", marks=pytest.mark.thorough), (False, "1 3 3")],
)
def test_threads(together, expected):
    code = f"""
from t2t_lite.runtime import start_tensorflow
workers = start_tensorflow(3, together={together})
import tensorflow as tf
threads = tf.config.threading
print(threads.get_intra_op_parallelism_threads(), end=" ")
print(threads.get_inter_op_parallelism_threads(), workers)
"""
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | _NO_GPU,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == expected


def test_python_uses_the_machine_as_the_command_does(tmp_path):
    """Before TensorFlow runs, threads are set for batches side by side; then it says what to do."""
    run = untrained_translator(tmp_path / "run")
    code = f"""
import warnings, t2t_lite
{{before}}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("default")
    for _ in range(2):
        model = t2t_lite.load({str(run.path)!r}, threads=3)
import tensorflow as tf
threads = tf.config.threading
print(threads.get_intra_op_parallelism_threads(), threads.get_inter_op_parallelism_threads())
print(len(model._search._programs), sum("runs already" in str(w.message) for w in caught))
"""
    for before, expected in (
        ("", ["1 3", "3 0"]),
        ("import tensorflow as tf; tf.constant(1) + 1", ["0 0", "1 1"]),
    ):
        process = subprocess.run(
            [sys.executable, "-c", code.format(before=before)],
            env=os.environ | _NO_GPU,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert process.stdout.splitlines() == expected


@pytest.mark.parametrize(
    ("settings", "before", "expected"),
    [
        ({"floatx": "float64", "backend": "torch"}, "", "tensorflow float32"),
        pytest.param(
            {"floatx": "bfloat16"}, "", "keras.json and the variable", marks=pytest.mark.thorough
        ),
        pytest.param(
            {},
            "import keras; keras.config.set_floatx('float16')",
            "floatx is float16; expected float32",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_keras_as_another_project_has_set_it(tmp_path, settings, before, expected):
    """Its file is no obstacle, or named; what code has set is left as it is."""
    (tmp_path / "keras.json").write_text(json.dumps(settings))
    code = f"""
{before}
from t2t_lite.errors import UserError
from t2t_lite.runtime import start_tensorflow
try:
    start_tensorflow()
    import keras
    print(keras.config.backend(), keras.config.floatx())
except UserError as error:
    print(error)
"""
    environment = os.environ | _NO_GPU | {"KERAS_HOME": str(tmp_path)}
    if not before:
        environment.pop("KERAS_BACKEND", None)
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert expected in process.stdout


def test_a_library_that_does_not_fit_into_memory_is_not_kerass_fault(tmp_path):
    (tmp_path / "keras.py").write_text("raise ImportError('libbig.so: failed to map segment')")
    code = "from t2t_lite.runtime import start_tensorflow; start_tensorflow()"
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    expected = "errors.Failed: TensorFlow cannot be loaded: libbig.so: failed to map segment"
    assert process.stderr.splitlines()[-1].endswith(expected)


def test_python_without_docstrings_is_refused():
    code = "from t2t_lite.runtime import start_tensorflow; start_tensorflow()"
    process = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert "UserError: Python runs without docstrings (-OO" in process.stderr
