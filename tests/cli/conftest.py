"""What tests of several commands share: how they run one, and a run that they can read."""

import contextlib
import os
import sys
import tempfile

import pytest
from untrained import untrained_run

from t2t_lite import registry
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary


@contextlib.contextmanager
def standard_input(content: bytes):
    """File descriptor 0 is a file that holds `content` while the block runs."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        kept = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(kept, 0)
            os.close(kept)


@pytest.fixture
def call(monkeypatch, capsys):
    """Runs a command in this process: (its module, flags, stdin) -> (exit code, stdout, stderr)."""

    def run(command, *flags, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [command.__name__, *map(str, flags)])
        monkeypatch.setattr(sys, "stdin", open(0, closefd=False))
        capsys.readouterr()  # what earlier steps of the test have said
        with standard_input(stdin), pytest.raises(SystemExit) as end:
            command.main()
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def refusal(call):
    """Runs a command that must refuse its flags in one line, and returns what follows "error: "."""

    def run(command, *flags) -> str:
        code, out, err = call(command, *flags)
        name = "t2t-" + command.__name__.rpartition(".")[2].replace("_", "-")
        assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith(f"{name}: error: "), (
            err
        )
        return err.removeprefix(f"{name}: error: ")

    return run


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """An untrained translator."""
    path = tmp_path_factory.mktemp("runs") / "untrained"
    registry.load_plugins()
    vocabulary = Vocabulary.train(["many plain words of text", "some more of the many words"], 290)
    problem = registry.problem("spelled_numbers_ende")
    return untrained_run(path, problem, Vocabularies(vocabulary, vocabulary, shared=True))
