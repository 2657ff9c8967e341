"""The README's examples, for the tests that run them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def examples(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def python_example(word):
    """The one that holds the word."""
    [code] = [code for code in examples("python") if word in code]
    return code
