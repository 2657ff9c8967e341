"""TensorFlow's threads, and from them the calls of a model side by side."""

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
