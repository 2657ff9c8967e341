"""What the machine refuses, in one line."""

import errno
import os

import pytest

from t2t_lite.errors import machine_errors, reason


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "out.txt"), "out.txt: No space left"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "Input/output error"),
        (OSError("no number"), "no number"),
        (MemoryError(), "out of memory"),
        (
            UnicodeEncodeError("utf-8", "a\udce4", 1, 2, "surrogates not allowed"),
            r"'a\udce4': surr",
        ),
        (MemoryError("1 GiB\nwanted"), "out of memory 1 GiB\nwanted"),
    ],
)
def test_reasons(error, text):
    assert isinstance(error, machine_errors()) and reason(error).startswith(text)


def test_tensorflows_errors():
    import tensorflow as tf

    full = tf.errors.ResourceExhaustedError(None, None, "no memory for [9,9]\n[[node a]]")
    assert isinstance(full, machine_errors()) and reason(full) == "no memory for [9,9]"
    node = "{{function_node __wrapped__Save_device_/job:localhost/device:CPU:0}} "
    full = tf.errors.ResourceExhaustedError(None, None, f"{node}a.data; disk full [Op:Save] name: ")
    assert reason(full) == "a.data; disk full"
    assert not isinstance(tf.errors.InvalidArgumentError(None, None, "x"), machine_errors())
