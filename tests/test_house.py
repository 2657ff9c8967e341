"""The rules of the house that ruff has none for: sizes, and a test file for each module."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES, FUNCTION_LINES = 350, 60
CATALOGUES = "problems", "hparams"  # they stand beside t2t_lite and install inside it
LONG = re.compile(r"# long: \S")  # and the reason, where a file or function is longer on purpose

# Modules without a test file of their own: what covers them.
COVERED = {
    "problems/toy_parsing.py": "tests/problems/test_parsing.py, with the other parsing problems",
    "t2t_lite/cli/arguments.py": "tests/cli: every command's flags are read by it",
    "t2t_lite/devices.py": "tests/decoding/test_batches.py and tests/cli/test_decoder.py",
    "t2t_lite/evaluation/evalb_reader.py": "tests/cli/test_evalb.py, beside EVALB's own output",
    "t2t_lite/export/fresh_ctranslate2.py": "tests/export/test_ctranslate2.py runs it",
    "t2t_lite/export/fresh_process.py": "tests/export/test_saved_model.py runs it",
    "t2t_lite/serving/metrics.py": "tests/serving/test_app.py",
    "t2t_lite/serving/protocol.py": "tests/serving/test_app.py",
    "t2t_lite/cli/file_decoding.py": "tests/cli/test_decoder.py: the lines' way through a file",
    "t2t_lite/cli/plan.py": "tests/cli/test_trainer.py: --dry_run prints it",
    "t2t_lite/training/dev_set.py": "tests/cli/test_resuming.py: evaluations of a training",
    "t2t_lite/training/trainer.py": "tests/cli/test_trainer.py and test_resuming.py",
}


def modules() -> list[Path]:
    """The product's modules, relative to the root."""
    files = [file for folder in ("t2t_lite", *CATALOGUES) for file in (ROOT / folder).rglob("*.py")]
    return sorted(file.relative_to(ROOT) for file in files if file.name != "__init__.py")


def mirrored(module: Path) -> Path:
    """Where a module's tests stand."""
    parts = module.parts if module.parts[0] in CATALOGUES else module.parts[1:]
    return Path("tests", *parts[:-1], f"test_{module.name}")


def too_long(text: str) -> list[str]:
    """What is too long in a file's text, without those that say why."""
    lines = text.splitlines()
    found = []
    if len(lines) > FILE_LINES and not any(map(LONG.search, lines[:10])):
        found.append(f"{len(lines)} lines; expected at most {FILE_LINES}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            head = lines[node.lineno - 1 : node.body[0].lineno - 1] or [lines[node.lineno - 1]]
            if length > FUNCTION_LINES and not any(map(LONG.search, head)):
                where = f"{node.lineno}: {node.name} has {length} lines"
                found.append(f"{where}; expected at most {FUNCTION_LINES}")
    return found


PRODUCT = [*modules(), *sorted(file.relative_to(ROOT) for file in (ROOT / "scripts").glob("*.py"))]


@pytest.mark.parametrize("file", PRODUCT, ids=str)
def test_nothing_is_too_long(file):
    assert too_long((ROOT / file).read_text(encoding="utf-8")) == []


def test_what_is_long_on_purpose_says_why():
    body = "    pass\n" * 70
    assert too_long(f"def f():\n{body}") == ["1: f has 71 lines; expected at most 60"]
    assert too_long(f"def f():  # long: one table\n{body}") == []
    assert too_long(f"def f(\n    a,  # long: one table\n):\n{body}") == []
    assert too_long(f"def f():  # long:\n{body}") != []
    assert too_long("a = 1\n" * 351) == ["351 lines; expected at most 350"]
    assert too_long('"""A table."""  # long: it has many rows\n' + "a = 1\n" * 351) == []


def test_each_module_has_a_test_file_of_its_own():
    without = {str(module) for module in modules() if not (ROOT / mirrored(module)).is_file()}
    assert without == set(COVERED)  # neither a module forgotten nor a reason that is no longer one
