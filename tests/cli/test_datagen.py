"""t2t-datagen: the data part of t2t-trainer alone."""

import os

from t2t_lite.cli import datagen


def test_a_vocabulary_is_made_once(call, tmp_path):
    for language, text in ("en", "item {} of the list"), ("de", "Punkt {} der Liste"):
        lines = "".join(f"{text.format(number)}\n" for number in range(300))
        (tmp_path / f"train.{language}").write_text(lines, encoding="utf-8")
    files = tmp_path / "train.en", tmp_path / "train.de"
    flags = [
        "--problem=text_pairs", "--train", *files, "--dev", *files, "--vocab_size=300",
        f"--data_dir={tmp_path}/data",
    ]  # fmt: skip
    code, out, err = call(datagen, *flags)
    assert (code, out) == (0, "") and "300 pairs from" in err, err
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}
    assert any(path.suffix == ".model" for path in made)
    assert call(datagen, *flags)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")} == made


def test_a_corpus_comes_through_stdin(call, refusal, tmp_path):
    text = "".join(f"two of {number}\tzwei von {number}\n" for number in range(200)).encode()
    flags = "--problem=text_pairs", "--train", "-", "--vocab_size=290", f"--data_dir={tmp_path}"
    code, _, err = call(datagen, *flags, stdin=text)
    assert code == 0 and "train: 200 pairs from /dev/stdin\n" in err, err
    model = tmp_path / "pipe"
    os.mkfifo(model)
    expected = f"{model}: a pipe or device; expected a regular file\n"
    assert refusal(datagen, *flags, "--vocab", model) == expected


def test_registry_help(call):
    code, out, _ = call(datagen, "--registry_help")
    assert code == 0 and "wmt14_ende" in out


def test_mistakes_are_one_line(refusal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "nearest: wmt14_ende" in refusal(datagen, "--problem=wmt14_end")
    assert "--problem is missing" in refusal(datagen)
    assert list(tmp_path.iterdir()) == []
