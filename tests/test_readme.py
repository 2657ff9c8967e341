"""The README's own examples, run as they stand there, and a plugin from a separately built wheel."""

import re
import subprocess
import sys

import pytest
from readme import examples, python_example

from t2t_lite import registry
from t2t_lite.cli import arguments, trainer


@pytest.fixture
def fresh_registry(monkeypatch):
    """Leaves the registry as it was."""
    registry.load_plugins()
    for table in ("_problems", "_hparams", "_loaded"):
        monkeypatch.setattr(registry, table, getattr(registry, table).copy())


def test_registering_takes_ten_lines_and_works(fresh_registry, tmp_path):
    code = python_example("NewsEnde")
    assert (
        len(code.strip().splitlines()) <= 10
        and len(python_example("narrow").strip().splitlines()) <= 10
    )
    (tmp_path / "news.py").write_text(code + "\n" + python_example("narrow"), encoding="utf-8")
    for language in ("en", "de"):
        (tmp_path / f"news.train.{language}").write_text(f"hello {language}\n", encoding="utf-8")
    registry.load_plugins(str(tmp_path / "news.py"))
    assert registry.hparams("narrow").d_model == 256
    assert (
        "News, English to German." in registry.describe()
        and "base at half its width." in registry.describe()
    )
    problem = registry.problem("news_ende", raw_dir=str(tmp_path))
    assert list(problem.source("train").pairs()) == [("hello en", "hello de")]
    reverse = registry.problem("news_ende_rev", raw_dir=str(tmp_path))
    assert list(reverse.source("train").pairs()) == [("hello de", "hello en")]


def test_python_example_on_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = [
        "--set=d_model=16",
        "--set=d_ff=32",
        "--set=d_k=4",
        "--set=d_v=4",
        "--set=num_encoder_layers=1",
    ]
    steps = ["--set=train_steps=2", "--set=batch_tokens=256", "--set=num_buckets=2"]
    flags = [
        "--problem=spelled_numbers_ende",
        "--hparams=tiny",
        "--output_dir=runs/demo",
        *sizes,
        *steps,
    ]
    monkeypatch.setattr(sys, "argv", ["t2t-trainer", *flags])
    assert arguments.run(trainer.train, "t2t-trainer") == 0
    capsys.readouterr()
    exec(python_example("t2t_lite.load"), {})
    *translations, log_prob = capsys.readouterr().out.splitlines()
    assert len(translations) == 2 and float(log_prob) < 0


def test_a_plugin_from_a_separately_built_wheel(tmp_path):
    """Built and installed into a folder of its own; a command in a new process finds what it registers."""
    project, site = tmp_path / "project", tmp_path / "site"
    (project / "my_package").mkdir(parents=True)
    (project / "my_package" / "__init__.py").write_text("")
    (project / "my_package" / "news.py").write_text(python_example("NewsEnde"), encoding="utf-8")
    [entry_point] = [text for text in examples("toml") if "t2t_lite.plugins" in text]
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "my_package"\nversion = "1"\n{entry_point}[tool.setuptools]\npackages = ["my_package"]\n'
    )
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp_path, project], check=True
    )
    [wheel] = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True)
    code = (
        f"import sys; sys.path.append({str(site)!r}); from t2t_lite.cli.trainer import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "--registry_help"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"news_ende +News, English to German\.", result.stdout)
    assert "tensorflow" not in result.stderr
