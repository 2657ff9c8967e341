"""Silence for what native libraries write on stderr."""

import os

import pytest

from t2t_lite.quiet import native_stderr_silenced


def test_only_the_block_is_silent(capfd):
    os.write(2, b"before ")
    with native_stderr_silenced():
        os.write(2, b"within ")
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"


def test_exceptions_pass(capfd):
    with pytest.raises(KeyError), native_stderr_silenced():
        raise KeyError("a mistake")
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"
