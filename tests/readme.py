"""The examples of README.md and docs/, for the tests that run them."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(
    r"^(?:<!-- (?P<test>\S+) runs this -->\n)?```(?P<language>\w+)\n(?P<code>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)


class Example(NamedTuple):
    """A block of code.

    Attributes:
        page: the file's name.
        test: the test file that runs it, as the comment above the block says; None without one.
        language: sh, python, toml, ...
        code: what stands in it.
    """

    page: str
    test: str | None
    language: str
    code: str


def examples(language: str, page: str | None = None) -> list[Example]:
    """The blocks in a language, of all pages or of one, in order."""
    found = [
        Example(path.name, *match.group("test", "language", "code"))
        for path in PAGES
        for match in _BLOCK.finditer(path.read_text(encoding="utf-8"))
    ]
    return [
        example
        for example in found
        if example.language == language and page in (None, example.page)
    ]


def python_example(word: str, page: str | None = None) -> str:
    """The Python code that holds the word."""
    [code] = [example.code for example in examples("python", page) if word in example.code]
    return code


def commands() -> list[tuple[str, list[str]]]:
    """(page, words) of each command line of t2t_lite, in blocks of shell and between backticks."""
    found = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        code = "".join(example.code for example in examples("sh", path.name))
        lines = code.replace("\\\n", " ").splitlines()
        lines += re.findall(r"`(t2t-[\w-]+ -[^`]*)`", text)
        found += [(path.name, shlex.split(line, comments=True)) for line in lines]
    return [(page, words) for page, words in found if words and words[0].startswith("t2t-")]
