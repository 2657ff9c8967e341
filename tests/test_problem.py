"""Problem: its hooks, its fields, and what it says that it cannot do."""

import dataclasses
import sys

import pytest

from t2t_lite.data.sources import Generated, Mapped
from t2t_lite.errors import UserError
from t2t_lite.evaluation.metrics import Bleu
from t2t_lite.problem import Constrained, Drawing, Problem, Tokenizing, is_default


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairs(Problem):
    """Pairs."""

    mark: str = "!"  # what targets end in
    fixed: int = 0  # said by the name

    @classmethod
    def variants(cls):
        return {"": {"fixed": 0}, "_one": {"fixed": 1}}

    def source(self, split):
        return Generated(lambda: iter([("a", "b")]), "one")


class Marked(Pairs):
    """Pairs with marks."""

    def target_text(self, reference):
        return reference + self.mark


HOOKS = ("input_text", "target_text", "reference_text", "output_text")


def test_hooks_that_are_overridden_are_told():
    plain, marked = Pairs(), Marked()
    assert all(is_default(getattr(plain, hook)) for hook in HOOKS)
    assert [hook for hook in HOOKS if not is_default(getattr(marked, hook))] == ["target_text"]
    assert plain.target_text(" a ") == plain.output_text(" a ", "line") == " a "


def test_blanks_at_both_ends_of_inputs_are_left_out():
    blanks = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    lines = [f"{blank}a{blank}b{blank}" for blank in blanks] + ["  \u3000", "\u200ba\ufeff", ""]
    wanted = [f"a{blank}b" for blank in blanks] + ["", "\u200ba\ufeff", ""]
    assert [Pairs().input_text(line) for line in lines] == wanted
    graph = Pairs().input_text_in_graph(lines).numpy()
    assert [text.decode() for text in graph] == wanted
    assert Pairs().example(" a ", " b ") == ("a", " b ")


def test_examples_are_what_the_hooks_make_of_them():
    marked = Marked(mark="?")
    examples = marked.examples("train")
    assert isinstance(examples, Mapped) and list(examples.pairs()) == [("a", "b?")]
    assert examples.fingerprint() != Marked(mark="!").examples("train").fingerprint()


def test_options_are_the_fields_that_no_name_fixes():
    assert Pairs.fixed_fields() == {"name", "fixed"}
    problem = Pairs(name="pairs", vocab="a.model")
    assert set(problem.options()) == {"data_dir", "raw_dir", "vocab_size", "vocab", "mark"}
    assert Pairs(name="pairs", **problem.options()) == problem


def test_vocabulary_sizes():
    assert Problem().subwords() == 8_000 and Problem(vocab_size=5).subwords() == 5
    for size in (0, -1):
        with pytest.raises(UserError, match=f"--vocab_size={size}: expected more than 0"):
            Problem(vocab_size=size)


def test_an_input_text_in_python_only_cannot_be_exported():
    class Shouting(Problem):
        """Shouts."""

        def input_text(self, line):
            return line.upper()

    class Both(Shouting):
        """Shouts in the graph too."""

        def input_text_in_graph(self, lines):
            import tensorflow as tf

            return tf.strings.upper(super().input_text_in_graph(lines))

    assert Both().input_text_in_graph([" a "]).numpy() == [b"A"]
    with pytest.raises(UserError, match="problem shouting has input_text in Python only"):
        Shouting(name="shouting").input_text_in_graph("lines")


def test_a_problem_can_do_nothing_special_by_itself():
    problem = Problem()
    assert not any(isinstance(problem, kind) for kind in (Constrained, Drawing, Tokenizing))
    assert problem.metric is Bleu and problem.category("line") is None
    assert problem.output_details("text", "line") == {}
    assert Pairs.describe("pairs") == "Pairs."
    with pytest.raises(NotImplementedError):
        problem.source("train")
