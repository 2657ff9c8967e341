"""Commands as processes: with streams closed, a full disk, another locale, names of any kind."""

import os
import subprocess
import sys

import pytest

BLEU = "from t2t_lite.cli.bleu import main; main()"
# An output longer than the buffer of stdout.
LONG = """
from t2t_lite.cli import arguments
raise SystemExit(arguments.run(lambda: print("word " * 99999), "t2t-long"))
"""


@pytest.fixture
def shell(tmp_path):
    """Runs a line of the shell in a folder of its own: (exit code, stdout, stderr)."""
    (tmp_path / "text").write_text("many words of one line\n")

    def run(line: str, code: str = BLEU, **environment) -> tuple[int, bytes, bytes]:
        result = subprocess.run(
            ["bash", "-c", line.replace("COMMAND", f'"{sys.executable}" -c "$CODE"')],
            cwd=tmp_path,
            env=os.environ | {"CODE": code} | environment,
            capture_output=True,
        )
        return result.returncode, result.stdout, result.stderr

    return run


FILES = "--translation text --reference text"


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "<&- 2>&-"])
def test_closed_streams(shell, closed):
    expected = shell(f"COMMAND {FILES}")
    assert expected[0] == 0 and b"BLEU = 100.00" in expected[1]
    assert shell(f"COMMAND {FILES} {closed}") == expected


def test_what_needs_a_closed_stream_says_so(shell):
    code, out, err = shell("COMMAND --translation - --reference text <&-")
    assert (code, out) == (1, b"") and err == b"t2t-bleu: error: stdin: Bad file descriptor\n"
    code, _, err = shell(f"COMMAND {FILES} >&-")
    assert code == 1 and err == b"t2t-bleu: error: stdout: Bad file descriptor\n"


def test_tensorflows_start_is_silenced_where_stderr_is_closed(shell):
    code = "from t2t_lite.quiet import native_stderr_silenced\n"
    code += "with native_stderr_silenced(): print('done')"
    assert shell("COMMAND 2>&-", code) == (0, b"done\n", b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("code", [BLEU, LONG])
def test_a_full_disk(shell, tmp_path, code, unbuffered):
    try:
        os.mknod(tmp_path / "full", 0o600 | 0o020000, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("devices are root's to make")
    flags, environment = FILES if code == BLEU else "", {"PYTHONUNBUFFERED": unbuffered}
    number, _, err = shell(f"COMMAND {flags} >full", code, **environment)
    assert number == 1 and err.count(b"\n") == 1
    place = b"stdout: " if code == BLEU else b""
    assert err.endswith(b"error: " + place + b"No space left on device\n")


def test_a_disk_that_takes_a_part_only_is_noticed_without_buffers_too(shell, tmp_path):
    # The limit of a file's size ends a write in its middle, as the end of a disk does.
    code = """
import resource, signal
from t2t_lite.cli import arguments
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
raise SystemExit(arguments.run(lambda: print("word " * 30), "t2t-long"))
"""
    number, _, err = shell("COMMAND >text", code, PYTHONUNBUFFERED="1")
    assert (number, err) == (1, b"t2t-long: error: stdout: File too large\n")


def test_a_reader_that_has_gone(shell):
    number, _, err = shell("COMMAND | true; exit ${PIPESTATUS[0]}", LONG)
    assert (number, err) == (141, b"")


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_names_that_are_not_ascii_in_the_c_locale(shell, tmp_path):
    (tmp_path / "wörter").write_text("many words\n")
    code, out, err = shell("COMMAND --translation wörter --reference text wörter", **C_LOCALE)
    assert (code, err) == (0, b"") and b"nrefs:2" in out
    code, _, err = shell("COMMAND --translation wörter --reference wört", **C_LOCALE)
    assert code == 2 and "nearest in .: wörter" in err.decode()


def test_names_that_are_not_utf_8_are_refused(shell):
    for environment in ({}, C_LOCALE):
        code, _, err = shell(r"COMMAND --translation text --reference $'w\xf6rter'", **environment)
        assert code == 2 and rb"'w\udcf6rter': not UTF-8; expected names" in err, err


def test_errors_of_the_machine_are_one_line(call, monkeypatch, tmp_path):
    from t2t_lite.cli import bleu

    (tmp_path / "a").write_text("a\n")
    flags = "--translation", tmp_path / "a", "--reference", tmp_path / "a"
    for error, text in (
        (MemoryError(), "out of memory"),
        (OSError(5, "Input/output error", "a.txt"), "a.txt: Input/output error"),
        (UnicodeEncodeError("ascii", "ä", 0, 1, "ordinal not in range"), "'ä': ordinal not in"),
    ):

        def broken(*_, error=error):
            raise error

        monkeypatch.setattr(bleu, "read", broken)
        code, out, err = call(bleu, *flags)
        assert (code, out) == (1, "") and err.startswith(f"t2t-bleu: error: {text}"), err
