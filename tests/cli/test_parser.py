"""The commands on an untrained parser: a tree a line over exactly the line's words."""

import json

import pytest
from untrained import untrained_run

from t2t_lite import registry
from t2t_lite.cli import decoder
from t2t_lite.cli import eval as eval_command
from t2t_lite.data.tokenizer import Vocabularies, Vocabulary
from t2t_lite.trees.reader import escape, parse_tree

SENTENCE = "the old map of Rome faded ."
TREE = (
    "(TOP (S (NP (NP (DT the) (JJ old) (NN map)) (PP (IN of) (NP (NNP Rome)))) "
    "(VP (VBD faded)) (. .)))"
)
LINES = [
    SENTENCE,
    "",
    "word",
    "   ",
    "( [ ) ]",
    "x(y) \U0001f600 \u6f22\u5b57 \u2581 a\u00a0b",
    " ".join(["many"] * 300),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "untrained"
    registry.load_plugins()
    problem = registry.problem("treebank", test=(str(path / "gold.trees"),))
    words = Vocabulary.train([SENTENCE] * 2, 285)
    symbols = Vocabulary.train([problem.target_text(TREE)], None, model_type="word")
    path.mkdir()
    (path / "gold.trees").write_text(f"{TREE}\n" * 3)
    return untrained_run(path, problem, Vocabularies(words, symbols, shared=False))


@pytest.fixture
def command(call, run):
    """Runs a command on the run, the lines on stdin: its stdout."""

    def run_on(main, *flags, lines=LINES):
        code, out, err = call(
            main, "--output_dir", run.path, *flags, stdin="\n".join(lines).encode()
        )
        assert code == 0, err
        return out

    return run_on


@pytest.mark.parametrize(
    "flags", [["--beam_size=3"], ["--unconstrained", "--beam_size=2", "--extra_length=20"]]
)
def test_one_tree_a_line_over_its_words(command, flags):
    out = command(decoder, *flags)
    trees = out.split("\n")
    assert trees.pop() == "" and len(trees) == len(LINES)
    for line, tree in zip(LINES, trees):
        words = [word for word in line.split(" ") if word]
        assert bool(tree) == bool(words)
        if words:
            leaves = parse_tree(tree).leaves()
            assert list(map(escape, leaves)) == list(map(escape, words))


def test_jsonl_says_what_was_repaired(command):
    flags = "--format=jsonl", "--beam_size=2", "--n_best=2"
    [line] = command(decoder, *flags, lines=[SENTENCE]).splitlines()
    outputs = json.loads(line)["hypotheses"]
    assert len(outputs) == 2 and all(
        output["well_formed"] and not output["repairs"] for output in outputs
    )
    [line] = command(decoder, *flags, lines=["", ""]).splitlines()  # one empty line
    empty = {"text": "", "score": 0.0, "log_prob": 0.0, "well_formed": True, "repairs": []}
    empty["words"] = []
    assert json.loads(line)["hypotheses"] == [empty]
    [line] = command(
        decoder, *flags, "--unconstrained", "--extra_length=0", lines=[SENTENCE]
    ).splitlines()
    assert not any(
        output["well_formed"] or not output["repairs"] for output in json.loads(line)["hypotheses"]
    )


def test_drawings_and_raw_text(command, tmp_path):
    flags = "--tokenize", "--beam_size=2", "--format=pretty", f"--svg_dir={tmp_path}/pictures"
    out = command(decoder, *flags, lines=["It didn't rain.", "", "Why?"])
    assert "TOP" in out and "n't" in out and len(out.splitlines()) > 4
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["1.svg", "3.svg"]
    assert ">n't</text>" in (tmp_path / "pictures" / "1.svg").read_text()


def test_eval_gives_f1_of_the_test_split(command):
    figures = json.loads(command(eval_command, "--split=test", "--beam_size=2", "--json"))
    assert (
        figures["well_formed"] == figures["valid"] == 100
        and 0 <= figures["f1"] < 100
        and figures["perplexity"] > 1
    )
    assert figures["tags"] == "gold" and "tagging_accuracy" not in figures


def test_eval_of_files_cleans_the_references(command, tmp_path):
    """As they are cleaned in a split: other roots, traces and function tags change nothing.

    An empty line is one without tree.
    """
    (tmp_path / "in").write_text(f"\n{SENTENCE}\n" * 2)
    raw = (
        TREE.replace("TOP", "S1")
        .replace("(NP (NP", "(NP-SBJ-1 (NP")
        .replace("(. .)", "(NP (-NONE- *)) (. .)")
    )
    problem = registry.problem("treebank")
    assert [problem.reference_text(text) for text in (raw, "", "(TOP)")] == [TREE, "", ""]
    figures = []
    for reference in TREE, raw:
        (tmp_path / "reference").write_text(f"\n{reference}\n(TOP)\n{reference}\n")
        files = f"--input={tmp_path}/in", f"--reference={tmp_path}/reference"
        out = command(eval_command, *files, "--tags=own", "--beam_size=2")
        figures.append(dict(line.split() for line in out.splitlines()))
    assert (
        figures[0] == figures[1]
        and figures[0]["tags"] == "own"
        and "tagging_accuracy" in figures[0]
    )
    assert figures[0]["well_formed"] == "100.0000"
    (tmp_path / "reference").write_text(f"\n{TREE}\n(TOP)\n(S (NN a)\n")
    with pytest.raises(
        AssertionError, match=rf"{tmp_path}/reference:4: tree: closing brackets missing: 1"
    ):
        command(eval_command, *files)
