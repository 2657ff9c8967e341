"""t2t-attention: a page and figures of an untrained run's attention."""

import json
import re
import sys

import numpy as np
import pytest
from untrained import untrained_run

from t2t_lite.cli import attention

LINE = "many plain words"


@pytest.fixture(scope="module")
def translator(run):
    return run.translator()


def data_of(page: str) -> dict:
    return json.loads(re.search('id="data">(.*?)</script>', page, re.DOTALL)[1])


def assert_holds(page: str, found):
    """The page's weights are those of an Attention."""
    for kind, expected in zip(data_of(page)["kinds"], found.kinds().values(), strict=True):
        weights = np.reshape(kind["weights"], expected.weights.shape)
        np.testing.assert_allclose(weights / 10_000, expected.weights, atol=6e-5)


def test_a_page_of_its_own_translation(call, run, translator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(attention, "--output_dir", run.path, "--text", LINE)
    assert (code, out) == (0, "attention.html\n")
    [[best]] = translator.translate([LINE])
    assert err == (f"weights     {translator.weights[0]} (step 0)\noutput      {best.text}\n")
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert_holds(page, translator.attention(LINE))
    data = data_of(page)
    assert data["facts"][:2] == [["Input", LINE], ["Output", best.text]]
    assert data["start"] == {"kind": 0, "layer": 0, "heads": [0, 1]}


def test_a_page_of_a_given_output_on_stdout(call, run, translator):
    flags = "--target", "more text", "--output", "-", "--kind", "cross", "--layer", 1, "--heads", 2
    code, out, err = call(attention, "--output_dir", run.path, "--text", LINE, *flags)
    assert code == 0 and err.endswith("output      more text\n")
    assert_holds(out, translator.attention(LINE, "more text"))
    assert data_of(out)["start"] == {"kind": 2, "layer": 0, "heads": [1]}


def test_an_ensemble_has_the_heads_of_all(call, run):
    flags = "--target", "more text", "--output", "-"
    code, out, _ = call(attention, "--output_dir", run.path, run.path, "--text", LINE, *flags)
    assert code == 0 and len(data_of(out)["kinds"][0]["colours"]) == 2 * run.hparams.num_heads


def test_figures_alone(call, run, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="no matplotlib")
    monkeypatch.chdir(tmp_path)
    flags = "--target", "more text", "--svg", "a.svg", "--png", "a.png", "--words", "plain"
    code, out, _ = call(attention, "--output_dir", run.path, "--text", LINE, *flags)
    assert (code, out) == (0, "a.png\na.svg\n")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "a.svg"]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    shown = re.sub("[\u00b7\u2581]", "", "".join(re.findall(">([^<>]+)</text>", svg)))
    assert shown.startswith("manyplainwords&lt;/s&gt;") and "layer 1 of 1, all 2 heads" in svg


def test_an_export_gives_what_its_run_does(call, translator_export):
    text = "a slow train"
    folder, flags = translator_export.folder, ("--text", text, "--output", "-")
    code, out, err = call(attention, "--export_dir", folder, *flags)
    assert code == 0 and err.startswith(f"export      {folder}/1\noutput      ")
    target = data_of(out)["facts"][1][1]
    assert_holds(out, translator_export.run.translator().attention(text, target))
    code, same, _ = call(attention, "--export_dir", folder / "1", *flags, "--target", target)
    assert (code, data_of(same)["kinds"]) == (0, data_of(out)["kinds"])


@pytest.mark.thorough
def test_a_parsers_export(call, parser_export):
    tree, flags = "(S (NN snow) (VP (VB melts)))", ("--text", "snow melts", "--output", "-")
    code, out, _ = call(attention, "--export_dir", parser_export.folder, *flags, "--target", tree)
    assert code == 0
    assert_holds(out, parser_export.run.translator().attention("snow melts", tree))


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--layer", 9], "--layer=9: expected 1 to 1"),
        (["--layer", 0], "--layer=0: expected 1 to 1"),
        (["--kind", "cross", "--layer", 3], "--layer=3: expected 1 to 2"),
        (["--heads", 1, 3], "--heads=3: expected 1 to 2"),
        (["--words", "plain"], "--words chooses what figures draw; expected --png or --svg"),
        (["--svg", "a", "--png", "./a"], "./a, a: the same file; expected"),
        (["--svg", "a", "--words", "plane"], "--words: no 'plane' looks there; nearest: .*plain"),
        (["--kind", "crss"], "argument --kind: invalid choice: 'crss'"),
        (["--output", "no/such/a.html"], "no/such/a.html: no such folder"),
        (["--text", "a\nb"], "--text given twice"),
        (["--export_dir", "a"], "expected either --output_dir RUN or --export_dir DIR"),
    ],
)
def test_refusals(refusal, run, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    if "--svg" in flags:
        pytest.importorskip("matplotlib", reason="no matplotlib")
    common = "--output_dir", run.path, "--text", LINE, "--target", "text"
    error = refusal(attention, *common, *flags).splitlines()[-1]
    assert re.match(message, error), error
    assert list(tmp_path.iterdir()) == []


def test_two_lines_are_refused(refusal, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = "--output_dir", run.path, "--target", "text"
    assert "--text: a line ends at character 2" in refusal(attention, *common, "--text", "a\nb")


def test_an_encoder_without_attention(call, refusal, run, tmp_path):
    path, vocabularies = tmp_path / "recurrent", run.vocabularies()
    untrained_run(path, run.problem, vocabularies, encoder_layer="recurrent")
    common = "--output_dir", path, "--text", LINE, "--target", "text", "--output", "-"
    code, out, _ = call(attention, *common)
    assert code == 0
    titles = [kind["title"] for kind in data_of(out)["kinds"]]
    assert titles == ["Decoder self-attention", "Decoder-encoder attention"]
    message = "--kind=encoder: this model has none; expected one of decoder, cross\n"
    assert refusal(attention, *common, "--kind", "encoder") == message


def test_what_no_page_holds_leaves_no_file(refusal, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("t2t_lite.visualization.page.MOST", 10)
    common = "--output_dir", run.path, "--text", LINE, "--target", "text"
    message = refusal(attention, *common).splitlines()[-1]
    assert "a page holds at most 10" in message and list(tmp_path.iterdir()) == []


def test_without_matplotlib(refusal, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refusal(attention, "--output_dir", run.path, "--text", LINE, "--png", "a.png")
    assert 'pip install "t2t_lite[figures]"' in message
