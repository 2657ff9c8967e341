"""t2t-decoder on an untrained run: every line of a file full of traps gets its line."""

import functools
import gzip
import json
import os
import re
import subprocess
import sys
import threading

import pytest
from untrained import untrained_run

from t2t_lite.cli import decoder, file_decoding
from t2t_lite.decoding import batches

LINES = [
    "plain text", "", "   ", "carriage return\r", "a\ttab", "line\u2028separator",
    "an emoji \U0001f600", "\u0085 \x0b \x0c", " ".join(["many"] * 2000), "no final newline",
]  # fmt: skip

_NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}


@pytest.fixture
def command(call, run):
    """Runs t2t-decoder on the run with the given flags and stdin: (exit code, stdout, stderr)."""
    return functools.partial(call, decoder, "--output_dir", run.path)


def test_exactly_one_line_for_each_whatever_it_holds(command, run, tmp_path):
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_bytes("\n".join(LINES).encode())
    code, out, err = command(
        "--input", source, "--output", output, "--beam_size", 2, "--extra_length", 3
    )
    assert (code, out) == (0, "")
    assert f"weights     {run.averaged} (step 0)\n" in err
    speed = r"[\d.]+ sentences/s, [1-9][\d,]* source sub-words/s"
    assert re.search(rf"10 sentences in [\d.]+ s, the first after [\d.]+ s; {speed}\n", err)
    written = output.read_bytes()
    assert written.endswith(b"\n") and written.count(b"\n") == len(LINES) and b"\r" not in written
    for line, text in zip(LINES, written.decode().split("\n")):
        assert bool(text) == bool(line.strip())
    assert [path.name for path in tmp_path.iterdir() if path not in (source, output)] == []


def test_ten_megabytes_without_a_space(command):
    flags = "--beam_size", 1, "--extra_length", 2
    with pytest.warns(UserWarning, match="line 2: 10,.* sub-words, and this model reads at most"):
        _, out, _ = command(*flags, stdin=b"some\n" + b"x" * 10_000_000 + b"\nwords\n")
    assert out.replace("\n\n", "\n") == command(*flags, stdin=b"some\nwords\n")[1]


def test_a_pipe_gives_the_same_as_a_file(command, tmp_path):
    source = tmp_path / "in.gz"
    source.write_bytes(gzip.compress(b"some text\r\nmany words\n"))
    code, from_file, _ = command("--input", source)
    assert code == 0 and from_file.count("\n") == 2
    assert command(stdin=b"some text\nmany words")[:2] == (0, from_file)
    assert command(stdin=b"")[:2] == (0, "")


def test_formats(command):
    stdin = b"some words\n\n"
    _, scored, _ = command("--scores", stdin=stdin)
    _, n_best, _ = command("--n_best", 3, stdin=stdin)
    _, jsonl, _ = command("--n_best", 3, "--format", "jsonl", stdin=stdin)
    score, _, text = scored.split("\n")[0].partition("\t")
    assert float(score) < 0 and scored.split("\n")[1] == "0.000000\t"
    first, *_, last = n_best.splitlines()
    assert (
        n_best.count("\n") == 4
        and first == f"0 ||| {text} ||| {score}"
        and last == "1 |||  ||| 0.000000"
    )
    records = [json.loads(line) for line in jsonl.splitlines()]
    assert [record["line"] for record in records] == [0, 1] and records[0]["input"] == "some words"
    assert [len(record["hypotheses"]) for record in records] == [3, 1]
    assert records[0]["hypotheses"][0]["text"] == text
    assert records[1]["hypotheses"] == [{"text": "", "score": 0.0, "log_prob": 0.0}]


def test_a_folder_without_a_run(refusal, tmp_path):
    assert "no run there" in refusal(decoder, "--output_dir", tmp_path / "nothing")


def test_prefixes(command, tmp_path):
    source, prefix = tmp_path / "in", tmp_path / "prefix"
    source.write_text("some words\nmore words\nmany\n")
    prefix.write_text("the text\n\nof\n")
    code, out, _ = command("--input", source, "--prefix", prefix)
    assert (
        code == 0
        and out.split("\n")[0].startswith("the text")
        and out.split("\n")[2].startswith("of")
    )
    prefix.write_text("the text\n")
    assert command("--input", source, "--prefix", prefix) == (
        2,
        "",
        f"t2t-decoder: error: unequal line counts: {source} has 3, {prefix} has 1; "
        "expected line-aligned files\n",
    )
    code, _, err = command("--prefix", prefix, stdin=b"some words\nmore words\n")
    assert code == 2 and f"unequal line counts: stdin has 2, {prefix} has 1" in err


def test_sampling_and_interactive(command):
    flags = "--sampling", "--temperature", "2", "--top_k", "20"
    drawn = command(*flags, stdin=b"some words\n")[1]
    assert command(*flags, "--seed", "1", stdin=b"some words\n")[1] == drawn
    code, out, err = command(
        "--interactive", "--beam_size", "1", stdin=b"some words\n\nb\xc3\xa9d \xff\nmore"
    )
    assert code == 0 and out.count("\n") == 3 and out.split("\n")[1] == ""
    assert err.endswith(
        "error: stdin:3: byte 0xff at position 6 is not UTF-8; expected UTF-8 text\n"
    )


def test_mistakes_are_one_line_and_write_nothing(command, run, tmp_path):
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"good\nbad \xff\n")
    for flags, message in [
        (
            ["--input", source, "--output", output],
            f"{source}:2: byte 0xff at position 5 is not UTF-8; expected UTF-8 text",
        ),
        (
            ["--input", tmp_path / "inn"],
            f"no such file: {tmp_path / 'inn'}; nearest in {tmp_path}: in",
        ),
        (["--n_best", "5", "--output", output], "n_best=5: expected at most beam_size=4"),
        (["--beam_size", "0"], "beam_size=0: expected at least 1"),
        (["--beam_size", "two"], "--beam_size: invalid int value: 'two'"),
        (["--top_k", "5"], "--top_k=5 says how to sample; expected --sampling with it"),
        (["--seed", "-1", "--sampling"], "--seed=-1: expected at least 0"),
        (["--threads", "0"], "threads=0: expected at least 1"),
        (["--batch_tokens", "0"], "--batch_tokens=0: expected at least 1"),
        (["--interactive", "--input", source], "--interactive reads and writes the terminal"),
        (["--beams", "2"], "unknown flag --beams"),
        (["--decode_hparams=beam_size=4"], "tensor2tensor's; here it is --beam_size=N"),
        (["--output_dir", tmp_path / "nothing"], "--output_dir given twice; expected once"),
    ]:
        code, out, err = command(*flags, stdin=b"good\n")
        last = err.rstrip("\n").split("\n")[-1]
        assert (
            (code, out) == (2, "") and message in last and last.startswith("t2t-decoder: error: ")
        ), err
    code, out, err = command(stdin=b"good\nbad \xff\n")
    assert (code, out) == (2, "") and "stdin:2: byte 0xff" in err
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.thorough
def test_several_threads_in_a_process_of_its_own(command, run, tmp_path):
    source = tmp_path / "in"
    source.write_text("some words\n\nmany more words\nwords\n" * 3, encoding="utf-8")
    flags = ["--output_dir", run.path, "--input", source, "--threads", "2"]
    process = subprocess.run(
        [sys.executable, "-c", "from t2t_lite.cli.decoder import main; main()", *flags],
        env=os.environ | _NO_GPU, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    assert process.stdout == command("--input", source)[1]


def test_precision(command):
    lines = b"some words\nmany more words of text\n"
    code, out, _ = command("--precision=bfloat16", "--scores", stdin=lines)
    assert code == 0
    _, exact, _ = command("--scores", stdin=lines)
    scores = [[float(line.split("\t")[0]) for line in text.splitlines()] for text in (out, exact)]
    assert scores[0] != scores[1] and scores[0] == pytest.approx(scores[1], rel=0.05)


@pytest.fixture
def interrupted_at(command, monkeypatch):
    """Runs t2t-decoder, interrupted as it writes a line; lines are decoded two at a time."""
    monkeypatch.setattr(batches, "_WINDOW", 2)

    def run(number: int, *flags) -> tuple[int, str, str]:
        def write(output, line, *rest):
            if line == number:
                output.write("the beginning of a li")
                raise KeyboardInterrupt
            return write_entry(output, line, *rest)

        with monkeypatch.context() as patch:
            write_entry = file_decoding.write_entry
            patch.setattr(file_decoding, "write_entry", write)
            return command(*flags)

    return run


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("out.gz", ["--n_best", 3, "--beam_size", 3]),
        pytest.param("out", ["--sampling", "--seed", 4, "--scores"], marks=pytest.mark.thorough),
        pytest.param("out", ["--format", "jsonl"], marks=pytest.mark.thorough),
    ],
)
def test_a_killed_start_is_resumed(command, interrupted_at, tmp_path, name, flags):
    """The output is that of an uninterrupted one, byte for byte; of a window cut off, nothing."""
    source, output, whole = (tmp_path / part for part in ("in", name, f"whole.{name}"))
    source.write_text("some words\n\nmore words of text\nmany\nplain\nwords\nthe\n")
    flags = [*flags, "--input", source, "--extra_length", 4, "--output"]
    assert command(*flags, whole)[0] == 0
    code, _, err = interrupted_at(5, *flags, output)
    partial = output.with_name(f"{name}.partial")
    assert code == 130 and f"written so far is kept as {partial}" in err and not output.exists()
    code, _, err = command(*flags, output, "--resume")
    assert code == 0 and "resuming after 4 lines" in err and "\n3 sentences in" in err
    assert output.read_bytes() == whole.read_bytes() and not partial.exists()


def test_what_is_not_resumed(command, refusal, run, interrupted_at, tmp_path):
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("some words\nmore\n" * 2)
    flags = "--input", source, "--output", output, "--extra_length", 2
    assert interrupted_at(2, *flags)[0] == 130
    source.write_text("some words\nless\n" * 2)
    flags = *flags, "--resume"
    code, _, err = command(*flags)
    assert code == 2 and "the first 2 lines of" in err and "have changed since" in err
    assert "beam_size: None -> 2" in command(*flags, "--beam_size", 2)[2]
    flags = "--output_dir", run.path, "--resume"
    assert "stdout is no regular file" in refusal(decoder, *flags)
    assert "--interactive reads" in refusal(decoder, *flags, "--interactive")


def test_input_and_output_of_every_kind(command, tmp_path):
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"\xef\xbb\xbfsome text\r\nmany\rwords\n")
    expected = command("--input", source)[1]
    assert command(stdin=b"some text\nmany\rwords")[1] == expected
    assert command("--input", "/dev/stdin", stdin=source.read_bytes())[1] == expected
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=[gzip.compress(source.read_bytes())])
    writer.start()
    assert command("--input", fifo, "--output", f"{output}.gz")[:2] == (0, "")
    writer.join()
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == expected
    interactive = command("--interactive", stdin=source.read_bytes())
    assert interactive[:2] == (0, expected)


def test_names_are_looked_at_before_the_model_is_loaded(refusal, run, tmp_path, monkeypatch):
    monkeypatch.setattr(decoder, "start_tensorflow", lambda *_, **__: 1 / 0)
    source, folder = tmp_path / "in", tmp_path / "folder"
    source.write_text("some words\n")
    folder.mkdir()
    flags = "--output_dir", run.path, "--input", source
    for more, message in (
        (["--output", folder], "a folder; expected a file"),
        (["--output", source / "x"], "no such folder"),
        (["--output", tmp_path / "no" / "x"], "no such folder"),
        (["--output", source], f"{source} is the input {source} too; expected another"),
        (["--output", ""], "--output with an empty name; expected FILE"),
        (["--prefix", ""], "--prefix with an empty name; expected FILE"),
        (["--prefix", "-", "--output", source], f"is the input {source} too"),
    ):
        assert message in refusal(decoder, *flags, *more)
    assert "stdin given twice" in refusal(
        decoder, "--output_dir", run.path, "--input", "-", "--prefix", "-"
    )
    assert sorted(os.listdir(tmp_path)) == ["folder", "in"] and source.read_text() == "some words\n"


def test_tensorflow_starts_after_the_names_are_looked_at(run, tmp_path):
    """It does so by `start_tensorflow` alone: quietly, and whatever another project has set."""
    source = tmp_path / "in"
    source.write_text("some words\n")
    code = f"""
import sys
from t2t_lite.cli import arguments, decoder
decoder.start_tensorflow = lambda *_, **__: sys.exit("tensorflow" in sys.modules)
sys.argv += ["--output_dir", {str(run.path)!r}, "--input", {str(source)!r}, "--output=out"]
arguments.run(decoder.decode, "t2t-decoder")
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert (result.returncode, result.stderr) == (0, b"")


def test_several_runs_decode_together(call, command, run, tmp_path):
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("some words\n\nmany more words of text\n")
    other = untrained_run(
        tmp_path / "other", run.problem, run.vocabularies(), num_decoder_layers=1, d_model=24
    )
    flags = "--input", source, "--scores"
    alone = command(*flags)[1]
    both = functools.partial(call, decoder, *flags, "--output_dir", run.path)
    code, out, err = both(other.path)
    assert code == 0 and out.count("\n") == 3 and out != alone
    for path in run.averaged, other.averaged:
        assert f"weights     {path} (step 0)\n" in err
    code, out, _ = both(run.path)
    for twice, once in zip(out.splitlines(), alone.splitlines(), strict=True):
        (score, text), (expected, wanted) = twice.split("\t"), once.split("\t")
        assert text == wanted and float(score) == pytest.approx(float(expected), abs=1e-5)
    code, _, err = both(tmp_path / "none", "--output", output)
    assert code == 2 and f"--output_dir {tmp_path / 'none'}: no run there" in err
