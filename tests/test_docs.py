"""The examples of README.md and docs/, run as they stand there; one also from a wheel of its own.

Their models are untrained, but for one that trains for two updates.
"""

import contextlib
import importlib
import io
import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from readme import PAGES, ROOT, commands, examples, python_example
from untrained import untrained_parser, untrained_run, untrained_translator

import t2t_lite
from t2t_lite import registry
from t2t_lite.cli import arguments, trainer
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary
from t2t_lite.run import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a reader works: with the files that the docs tell one to write, and some data."""
    folder = tmp_path_factory.mktemp("docs")
    news = python_example("class NewsEnde") + python_example("class LongNewsEnde")
    (folder / "news.py").write_text(news, encoding="utf-8")
    mine = "".join(example.code for example in examples("python", "extending.md"))
    (folder / "mine.py").write_text(mine, encoding="utf-8")
    for split in "train", "dev", "test":
        for language in "en", "de":
            text = f"hello {language}\nthis is {language} text, plainly written\n"
            (folder / f"news.{split}.{language}").write_text(text, encoding="utf-8")
    for split in "train", "dev", "test":
        (folder / f"{split}.tsv").write_text("the old map\tDT JJ NN\n" * 3, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def plugins(folder):
    """The registry with what the examples register, for this file's tests only."""
    with pytest.MonkeyPatch.context() as patch:
        registry.load_plugins()
        for table in "_problems", "_hparams", "_loaded":
            patch.setattr(registry, table, getattr(registry, table).copy())
        registry.load_plugins(str(folder / "news.py"))
        registry.load_plugins(str(folder / "mine.py"))
        yield


@pytest.fixture(scope="module")
def runs(folder, plugins):
    """The runs that the examples read: of a translator, a parser and a tagger."""
    demo = untrained_translator(folder / "runs" / "demo")
    entry = {"kind": "train", "step": 1, "loss": 2.0, "target_tokens_per_s": 9.0}
    (demo.path / "log.jsonl").write_text(json.dumps(entry) + '\n{"kind": "dev"}\n')
    parser = untrained_parser(folder / "runs" / "toy_parsing-parsing_tiny")
    tags = Vocabulary.train(["DT JJ NN"], None, model_type="word")
    tagger = untrained_run(
        folder / "runs" / "tagging",
        registry.problem("tagging", raw_dir=str(folder)),
        Vocabularies(demo.vocabularies().source, tags, shared=False),
    )
    for name, run in ("RUN", demo), ("PARSER", parser), ("TAGGER", tagger):
        (folder / name).symlink_to(run.path)
    return folder


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    """Every test works in the folder."""
    monkeypatch.chdir(folder)


def printed(code: str) -> list[str]:
    """The lines that the code prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})
    return out.getvalue().splitlines()


def test_the_readme_is_short_and_every_page_is_named_in_it():
    text = PAGES[0].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name}" not in text] == []


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        if not link.startswith("https://"):
            target = page.parent / name if name else page
            assert target.exists(), link
            assert not anchor or anchor in headings(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_ours_are_there(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w/])(?:t2t_lite|problems|hparams|scripts|tests)/[\w./]*\w", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_python_example_says_what_runs_it():
    missing = [example for example in examples("python") if not example.test]
    assert missing == []
    for test in {example.test for example in examples("python")}:
        assert (ROOT / test).is_file()


@pytest.mark.parametrize(
    ("page", "words"), commands(), ids=lambda part: part if isinstance(part, str) else part[0]
)
def test_every_command_line_is_understood(page, words, runs, capsys):
    [entry] = entry_points(group="console_scripts", name=words[0])
    about = []
    if words[0] == "t2t-eval":  # its flags depend on the run
        [run] = [word.partition("=")[2] for word in words if word.startswith("--output_dir=")]
        about = [Run.open(run).problem.metric]
    try:
        importlib.import_module(entry.module).parser(*about).parse_args(words[1:])
    except SystemExit as end:  # --help and the like
        assert not end.code
        assert capsys.readouterr().out


def test_every_flag_is_one(plugins, capsys):
    """Each that stands between backticks is known to a command or a problem."""
    known = {
        "--hparams_set",
        "--tags",
        "--name",
        "--no_name",
    }  # tensor2tensor's, of a metric, of none
    for entry in entry_points(group="console_scripts"):
        if entry.name.startswith("t2t-"):
            parser = importlib.import_module(entry.module).parser()
            known |= flags_in(parser.format_help())
    for name in re.findall(r"^  (\w+)", registry.describe(), flags=re.MULTILINE):
        with contextlib.suppress(t2t_lite.UserError):  # a set's name
            known |= {f"--{option}" for option in registry.problem(name).options()}
    for page in PAGES:
        if page.name != "results.md":  # which names the scripts' flags
            text = page.read_text(encoding="utf-8")
            text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
            used = set().union(*map(flags_in, re.findall(r"`[^`\n]*`", text)))
            assert used - known == set(), page.name


def flags_in(text: str) -> set[str]:
    """What looks like a flag."""
    return set(re.findall(r"(?<![\w-])--\w+", text))


def test_registering_takes_few_lines(plugins, folder):
    assert len(python_example("class NewsEnde").strip().splitlines()) <= 10
    assert len(python_example("def narrow").strip().splitlines()) <= 10
    assert registry.hparams("narrow").d_model == 256
    about = registry.describe()
    assert "News, English to German." in about and "base at half its width." in about
    problem = registry.problem("news_ende", raw_dir=str(folder))
    assert list(problem.source("train").pairs())[0] == ("hello en", "hello de")
    reverse = registry.problem("news_ende_rev", raw_dir=str(folder))
    assert list(reverse.source("train").pairs())[0] == ("hello de", "hello en")


def test_a_field_of_a_problem_is_a_flag(plugins, folder, monkeypatch, capsys):
    """The README's command, of a smaller model."""
    [words] = [
        words for page, words in commands() if page == "README.md" and "--min_words=3" in words
    ]
    words = [f"--raw_dir={folder}" if word == "--raw_dir=DIR" else word for word in words]
    sizes = "d_model=16", "d_ff=32", "d_k=8", "d_v=8", "num_heads=2", "num_encoder_layers=1"
    steps = "train_steps=2", "batch_tokens=256", "num_buckets=2", "num_decoder_layers=1"
    fields = [f"--set={field}" for field in (*sizes, *steps)]

    def call(*flags):
        monkeypatch.setattr(sys, "argv", [*words, "--vocab_size=280", *fields, *flags])
        return arguments.run(trainer.train, "t2t-trainer"), capsys.readouterr().err

    code, error = call("--output_dir=long")
    assert code == 0, error
    run = Run.open("long")
    assert run.problem.min_words == 3
    assert [*run.problem.source("train").pairs()] == [
        ("this is en text, plainly written", "this is de text, plainly written")
    ]
    assert len([*run.problem.source("dev").pairs()]) == 2
    assert call("--output_dir=long")[0] == 0  # resumed
    words[words.index("--min_words=3")] = "--min_words=many"
    code, error = call("--output_dir=other")
    assert code == 2 and "--min_words=many: expected" in error


def test_the_readmes_python_example(runs):
    lines = printed(python_example("t2t_lite.load", "README.md"))
    assert len(lines) == 2


def test_the_log_from_python(runs):
    assert printed(python_example("log.jsonl")) == ["1 2.0 9.0"]


def test_translate_score_and_evaluate(runs):
    first, second, log_prob, figures = printed(python_example("model.evaluate"))
    assert float(first.split(" ")[-1]) < 0 and float(log_prob) < 0
    assert {"loss", "perplexity", "exact_match"} <= eval(figures).keys()


def test_attention(runs):
    shape, *rows = printed(python_example("model.attention"))
    layers, heads, target, source = eval(shape)
    assert (layers, heads) == (2, 2) and len(rows) == target
    assert all(" looked most at " in row for row in rows)


def test_a_parser_from_python(runs):
    tree, *drawn, well_formed = printed(python_example("toy_parsing-parsing_tiny"))
    assert tree.startswith("(TOP ") and len(drawn) > 1 and well_formed == "True"


def test_a_saved_model(translator_export, folder):
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "ende").symlink_to(translator_export.folder)
    [text] = printed(python_example("serving_default"))
    assert text.startswith("tf.Tensor([b'")


def test_a_parsers_export(parser_export, folder):
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "parser").symlink_to(parser_export.folder)
    [tree] = printed(python_example("metadata.read"))
    assert tree == "(TOP (S (NP (XX birds)) (VP (XX sing))))"


def test_text_that_the_model_sees_differently(plugins, folder):
    import tensorflow as tf

    line = "“Yes”, he said, «no»."
    for quotes, wanted in ("kept", line), ("straight", '"Yes", he said, "no".'):
        problem = registry.problem("quoted_subtitles_enfr", raw_dir=str(folder), quotes=quotes)
        assert problem.example(line, "Oui") == (wanted, "Oui")
        assert problem.input_text_in_graph(tf.constant([line])).numpy()[0].decode() == wanted
    with pytest.raises(t2t_lite.UserError, match="quotes.*straight"):
        registry.problem("quoted_subtitles_enfr", quotes="none")
    pairs = registry.problem("subtitles_enfr", raw_dir=str(folder)).source("test").pairs()
    assert next(iter(pairs)) == ("the old map", "DT JJ NN")


def test_another_kind_of_task(runs):
    model = t2t_lite.load("TAGGER")
    [[best], [empty]] = model.translate(["the old map faded", ""])
    assert len(best.text.split()) == 4 and empty.text == ""
    figures = model.evaluate(list(model.problem.source("test").pairs())).figures
    assert 0 <= figures["tag_accuracy"] <= 100
    metric = type(model.problem).metric
    outputs, references = ["DT NNS ?"], ["DT NN NN"]
    assert metric()(outputs, references) == {"tag_accuracy": pytest.approx(100 / 3)}
    assert metric(coarse=True)(outputs, references) == {"tag_accuracy": pytest.approx(200 / 3)}


def test_a_plugin_from_a_separately_built_wheel(tmp_path):
    """Built and installed into a folder of its own; a command in a new process finds it."""
    project, site = tmp_path / "project", tmp_path / "site"
    (project / "my_package").mkdir(parents=True)
    (project / "my_package" / "__init__.py").write_text("")
    code = python_example("class NewsEnde")
    (project / "my_package" / "news.py").write_text(code, encoding="utf-8")
    [entry_point] = [example.code for example in examples("toml")]
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "my_package"\nversion = "1"\n{entry_point}'
        '[tool.setuptools]\npackages = ["my_package"]\n'
    )
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp_path, project]
    subprocess.run(wheel, check=True)
    [wheel] = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True)
    code = f"import sys; sys.path.append({str(site)!r}); from t2t_lite.cli import trainer"
    command = [sys.executable, "-c", f"{code}; trainer.main()", "--registry_help"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert re.search(r"news_ende +News, English to German\.", result.stdout)
    assert "tensorflow" not in result.stderr
