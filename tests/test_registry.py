"""The registry: names, what fills it, and what a user is told who is wrong about them."""

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest

from t2t_lite import registry
from t2t_lite.errors import UserError

PLUGIN = """
from t2t_lite import Problem, register_hparams, register_problem
from t2t_lite.data.sources import TsvFile
from t2t_lite.registry import hparams

@register_problem
class MyPairs(Problem):
    '''My own pairs.'''
    def source(self, split):
        return TsvFile(f"{self.raw_dir}/{split}.tsv")

@register_hparams
def my_tiny():
    '''Tiny, but wider.'''
    return hparams("tiny").replace(d_ff=768)
"""


@pytest.fixture(autouse=True)
def clean_registry():
    """Each test starts with the installed plugins alone."""
    registry.load_plugins()
    kept = dict(registry._problems), dict(registry._hparams), set(registry._loaded)
    yield
    for table, before in zip((registry._problems, registry._hparams, registry._loaded), kept):
        table.clear()
        table.update(before)


@pytest.fixture
def write(tmp_path):
    def write(text, name="my_plugin.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


def error_of(function, *arguments) -> str:
    with pytest.raises(UserError) as error:
        function(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "class_name, name",
    [
        ("Wmt14Ende", "wmt14_ende"),
        ("Multi30kEnfr", "multi30k_enfr"),
        ("SpelledNumbersEnde", "spelled_numbers_ende"),
    ],
)
def test_snake_case(class_name, name):
    assert registry.snake_case(class_name) == name


def test_catalogue():
    text = registry.describe()
    for name in (
        "wmt14_ende",
        "wmt14_ende_rev",
        "wmt14_enfr",
        "multi30k_ende",
        "multi30k_enfr",
        "text_pairs",
    ):
        assert f"  {name} " in text
    for name in (
        "spelled_numbers_ende",
        "spelled_numbers_ende_rev",
        "base",
        "big",
        "big_enfr",
        "small",
        "tiny",
    ):
        assert f"  {name} " in text
    entries = [line for line in text.splitlines() if line.startswith("  ")]
    assert all(len(line.split(None, 1)) == 2 for line in entries)  # each says what it is


def test_nearest_names():
    assert error_of(registry.problem, "wmt14_edne").startswith(
        "unknown problem 'wmt14_edne'; nearest: wmt14_en"
    )
    assert (
        error_of(registry.hparams, "bigg") == "unknown hparams set 'bigg'; nearest: big, big_enfr"
    )
    assert "base" in error_of(registry.hparams, "transformer")  # nothing is near: some of them


def test_options():
    problem = registry.problem("text_pairs_rev", train=("a.en", "a.de"), vocab_size=100)
    assert problem.reverse and problem.subwords() == 100
    again = registry.problem(problem.name, **problem.options())
    assert again == problem
    from_json = registry.problem(problem.name, **json.loads(json.dumps(problem.options())))
    assert from_json == problem


@pytest.mark.parametrize(
    ("name", "option", "takes"),
    [
        ("multi30k_ende", "train", "--raw_dir, --vocab,"),
        ("text_pairs", "reverse", "--test, --train,"),  # the name says it
        ("text_pairs", "name", "--test, --train,"),
        ("treebank", "max_length_ratio", "--silver, --silver_per_gold, --skip_bad_trees, --tags,"),
    ],
)
def test_an_option_that_a_problem_has_not(name, option, takes):
    message = error_of(lambda: registry.problem(name, **{option: "x"}))
    assert (
        message.startswith(f"problem {name} takes no --{option}; it takes --") and takes in message
    )


def test_takers_of_an_option():
    assert registry.takers("silver_per_gold") == [
        "toy_parsing", "treebank", "wsj_parsing", "wsj_parsing_semisup"
    ]  # fmt: skip
    assert registry.takers("reverse") == registry.takers("nothing") == []
    assert "text_pairs_rev" in registry.takers("vocab")


def test_options_of_runs_made_before_flags_came_from_fields():
    base = {"data_dir": "/d", "raw_dir": None, "vocab_size": 300, "vocab": None}
    cleaning = {"max_length_ratio": 2.0, "drop_duplicates": True}
    splits = {"train": ["/a.en", "/a.de"], "dev": ["/dev.tsv"], "test": None}
    trees = {"tags": "kept", "closing": "plain", "skip_bad_trees": True}
    silver = {"silver": ["/s.trees"], "silver_per_gold": 3}
    for name, stored in (
        ("text_pairs_rev", base | cleaning | splits),
        ("spelled_numbers_ende", base | cleaning),
        ("treebank", base | trees | silver | splits),
        ("toy_parsing", base | trees | silver),
    ):
        problem = registry.problem(name, **stored)
        # Those that are repeatable since are lists of one.
        lists = {key: stored.get(key) for key in ("silver", "train")}
        now = stored | {key: [value] for key, value in lists.items() if value}
        assert json.loads(json.dumps(problem.options())) == now
        assert registry.problem(name, **now) == problem


def register(write, body: str, decorator="@dataclasses.dataclass(frozen=True, kw_only=True)"):
    return write(
        f"import dataclasses\nfrom typing import ClassVar\n"
        "from t2t_lite import Problem, register_problem\n"
        f"@register_problem\n{decorator}\n"
        f"class Mine(Problem):\n    'Mine.'\n    {body}\n"
    )


@pytest.mark.parametrize("name", ["hparams", "set", "seed", "output_dir", "help", "registry_help"])
def test_a_field_named_like_a_flag_of_the_engine_is_refused(write, name):
    path = register(write, f"{name}: int = 1  # of mine")
    assert error_of(registry.load_plugins, path) == (
        f"--usr_dir {path}: field {name} of Mine is named like a flag of t2t-trainer; "
        "choose another name"
    )
    assert "unknown problem 'mine'" in error_of(registry.problem, "mine")


def test_fields_that_would_be_none_are_refused(write):
    path = register(write, "min_words: int = 1", decorator="")
    assert "field min_words of Mine: expected min_words: TYPE = DEFAULT, and @dataclasses" in (
        error_of(registry.load_plugins, path)
    )
    path = register(write, "vocab_size = 3")
    assert "field vocab_size of Mine: expected vocab_size: TYPE" in (
        error_of(registry.load_plugins, path)
    )
    path = register(write, "words: dict = None")
    assert "field words of Mine cannot be an option; expected int" in (
        error_of(registry.load_plugins, path)
    )
    path = register(write, "kinds: ClassVar[int] = 3\n    default_vocab_size = 3", decorator="")
    registry.load_plugins(path)
    assert registry.problem("mine").subwords() == 3


def test_options_are_checked_whatever_the_class_does_after(write):
    body = "size: int = 1\n    def __post_init__(self): pass"
    registry.load_plugins(register(write, body))
    assert error_of(lambda: registry.problem("mine", size="x")) == "--size=x: expected int"
    assert registry.problem("mine", vocab="a").vocab == os.path.abspath("a")


def test_a_field_without_a_default_has_to_be_given(write):
    registry.load_plugins(register(write, "topic: str  # what the texts are about"))
    assert registry.problem("mine", topic="news").topic == "news"
    assert error_of(registry.problem, "mine") == (
        "problem mine needs --topic: what the texts are about"
    )


def test_plugin_file(write):
    registry.load_plugins(write(PLUGIN))
    assert registry.problem("my_pairs", raw_dir="x").describe("my_pairs") == "My own pairs."
    assert registry.hparams("my_tiny").d_ff == 768
    assert "my_tiny" in registry.describe()


def test_loaded_twice_registers_once(write):
    path = write(PLUGIN)
    registry.load_plugins(path)
    registry.load_plugins(path)
    assert registry.hparams("my_tiny").d_ff == 768


def test_taken_name_names_both_and_registers_nothing(write):
    path = write(
        """
        from t2t_lite import HParams, register_hparams

        @register_hparams
        def before():
            "Registered before the mistake."
            return HParams()

        @register_hparams
        def big():
            "Not mine to take."
            return HParams()
        """
    )
    message = error_of(registry.load_plugins, path)
    assert message.startswith(
        f"--usr_dir {path}: t2t_lite_usr_my_plugin registers hparams set 'big'"
    )
    assert "t2t_lite.hparams.transformer has registered" in message
    assert "unknown hparams set 'before'" in error_of(registry.hparams, "before")
    assert registry.hparams("big").d_model == 1024


def test_taken_problem(write):
    path = write(
        """
        from t2t_lite import Problem, register_problem

        @register_problem
        class TextPairs(Problem):
            "Taken."
        """
    )
    message = error_of(registry.load_plugins, path)
    assert "registers problem 'text_pairs', which t2t_lite.problems.translation has" in message


def test_registry_imports_no_tensorflow():
    code = """
import sys
from t2t_lite import registry
registry.load_plugins()
registry.problem("wmt14_ende"), registry.hparams("big"), registry.describe()
heavy = {"tensorflow", "keras", "numpy", "sentencepiece", "sacrebleu", "nltk"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "body, message",
    [
        ("    grammar: str | None = None", "field grammar of Odd is named like a method"),
        ("    options: int = 1", "field options of Odd is named like a method"),
        ("    metric = 'bleu'", "metric of Odd is 'bleu'; expected a subclass of .*Metric"),
        ("    def texts(self, line, reference): ...", "defines texts, .* now called example"),
        ("    def input_texts(self, lines): ...", "now called input_text_in_graph"),
    ],
)
def test_what_would_break_later_is_refused_at_registration(write, body, message):
    """Also what earlier versions took, whose meaning would be lost in silence."""
    path = write(
        "import dataclasses, t2t_lite\n"
        "@t2t_lite.register_problem\n"
        "@dataclasses.dataclass(frozen=True, kw_only=True)\n"
        f"class Odd(t2t_lite.Problem):\n{body}\n"
    )
    assert re.search(message, error_of(registry.load_plugins, path))


def test_the_fields_of_a_base_class_are_not_lost_in_silence(write):
    path = write(
        "import t2t_lite\n"
        "class Base(t2t_lite.Problem):\n    min_words: int = 1\n"
        "@t2t_lite.register_problem\nclass Derived(Base): ...\n"
    )
    assert "field min_words of Base: expected" in error_of(registry.load_plugins, path)


def test_a_class_without_a_docstring_is_listed(write):
    registry.load_plugins(
        write(
            "import t2t_lite\n@t2t_lite.register_problem\nclass Wordless(t2t_lite.Problem): ...\n"
            "@t2t_lite.register_hparams\ndef wordless(): return t2t_lite.HParams()\n",
            "wordless.py",
        )
    )
    assert registry.describe().count("wordless") == 2
