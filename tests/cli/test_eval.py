"""t2t-eval on an untrained translator: files, records by line, and what it refuses."""

import json

import pytest

import t2t_lite
from t2t_lite.cli import eval as eval_command

PAIRS = [("some words", "plain text"), ("", ""), ("many more words of text", "the words")]


@pytest.fixture
def files(tmp_path):
    """The flags that name the pairs' files."""
    for name, side in ("in", 0), ("reference", 1):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    return ["--input", tmp_path / "in", "--reference", tmp_path / "reference"]


def test_files_and_records_by_line(call, run, files, tmp_path):
    (tmp_path / "records").touch(0o600)
    records = tmp_path / "lines.jsonl"
    records.symlink_to("records")
    code, out, err = call(
        eval_command, "--output_dir", run.path, *files, "--json", "--per_line", records
    )
    assert code == 0 and records.is_symlink(), err
    figures, model = json.loads(out), t2t_lite.load(run.path)
    lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    assert [line["line"] for line in lines] == [1, 2, 3]
    translations = model.translate([source for source, _ in PAIRS])
    for line, scored, [best] in zip(lines, model.score(PAIRS), translations, strict=True):
        assert line["log_prob"] == pytest.approx(scored.log_prob, abs=1e-3)
        assert line["output"] == best.text
    assert figures["tokens"] == sum(line["tokens"] for line in lines)
    loss = -sum(line["log_prob"] for line in lines) / figures["tokens"]
    assert figures["loss"] == pytest.approx(loss, rel=1e-4) and "bleu" in figures


def test_without_decoding(call, run, files, tmp_path):
    marked = b"\xef\xbb\xbf" + files[1].read_bytes().replace(b"\n", b"\r\n")
    files[1] = "-"  # a pipe, of which every line is read once
    flags = "--output_dir", run.path, *files, "--no_decode"
    code, out, _ = call(eval_command, *flags, stdin=marked)
    figures = dict(line.split() for line in out.splitlines())
    assert code == 0 and "perplexity" in figures and "bleu" not in figures


def test_mistakes_are_one_line(refusal, run, files, tmp_path):
    for flags, message in [
        (files[:2], "--input and --reference go together"),
        ([*files, "--split=dev"], "give one of them"),
        (["--split=tests"], "'train', 'dev', 'test'"),
        (["--input", tmp_path / "inn", *files[2:]], "nearest in"),
        ([*files, "--per_line", tmp_path], "a folder; expected a file"),
        ([*files, "--per_line", files[1]], f"is the input {files[1]} too"),
        ([*files, "--per_line", ""], "--per_line with an empty name"),
    ]:
        assert message in refusal(eval_command, "--output_dir", run.path, *flags)
    message = refusal(eval_command, "--output_dir", run.path, *files[:3], "-")
    assert message.startswith(f"unequal line counts: {files[1]} has 3, stdin has 0")
    for side in files[1::2]:
        side.write_text("")
    assert "empty; expected" in refusal(eval_command, "--output_dir", run.path, *files)


def test_help_needs_no_run(call, tmp_path):
    code, out, _ = call(eval_command, f"--output_dir={tmp_path}/none", "--help")
    assert not code and "--per_line" in out
