"""Parsing problems: files, the texts a model sees, what becomes of its outputs, the grammar."""

import gzip
from collections import Counter

import numpy as np
import pytest
from t2t_lite.problems import toy_parsing

from t2t_lite import registry
from t2t_lite.data.prepare import prepare_corpora, prepare_vocabularies
from t2t_lite.data.sources import MissingSplit
from t2t_lite.errors import UserError
from t2t_lite.evaluation.metrics import Bracketing
from t2t_lite.problem import Constrained, Drawing, Tokenizing
from t2t_lite.trees.treebank import TreebankFiles

registry.load_plugins()

TREE = (
    "( (S (NP-SBJ (NN Rain)) (VP (VBD fell)\n      (PP (IN on) (NP (DT the) (NN sea)))) (. .)))\n"
)
CLEANED = "(TOP (S (NP (NN Rain)) (VP (VBD fell) (PP (IN on) (NP (DT the) (NN sea)))) (. .)))"
SENTENCE = "Rain fell on the sea ."
SYMBOLS = "(S (NP XX )NP (VP XX (PP XX (NP XX XX )NP )PP )VP XX )S"


@pytest.fixture
def wsj(tmp_path):
    for section in (*range(2, 24), 0):
        folder = tmp_path / "parsed" / "mrg" / "wsj" / f"{section:02}"
        folder.mkdir(parents=True)
        for number in (1, 2):
            (folder / f"wsj_{section:02}{number:02}.mrg").write_text(
                TREE.replace("Rain", f"Rain{section}.{number}")
            )
    return tmp_path


def sentences(problem, split):
    return [sentence.split()[0] for sentence, _ in problem.source(split).pairs()]


def test_wsj_sections(wsj):
    problem = registry.problem("wsj_parsing", raw_dir=str(wsj))
    assert sentences(problem, "train") == [
        f"Rain{section}.{number}" for section in range(2, 22) for number in (1, 2)
    ]
    assert (sentences(problem, "dev"), sentences(problem, "test")) == (
        ["Rain22.1", "Rain22.2"],
        ["Rain23.1", "Rain23.2"],
    )
    upper = wsj / "PARSED"
    (wsj / "parsed").rename(upper)
    for file in upper.rglob("*.mrg"):
        file.rename(file.with_name(file.name.upper()))
    assert sentences(problem, "dev") == ["Rain22.1", "Rain22.2"]  # as older disks have it
    direct = registry.problem("wsj_parsing", raw_dir=str(upper / "mrg" / "wsj"))
    assert sentences(direct, "dev") == ["Rain22.1", "Rain22.2"]
    assert (
        problem.subwords() == 16_000
        and registry.problem("wsj_parsing_semisup").subwords() == 32_000
    )
    assert vars(problem.decoding) == {"beam_size": 21, "alpha": 0.3, "extra_length": 300}


def test_wsj_sections_in_a_file_each(tmp_path):
    for section in range(2, 24):
        (tmp_path / f"{section:02}.trees").write_text(
            CLEANED.replace("Rain", f"Rain{section}") + "\n"
        )
    problem = registry.problem("wsj_parsing", raw_dir=str(tmp_path))
    assert (sentences(problem, "train")[-1], sentences(problem, "test")) == ("Rain21", ["Rain23"])
    (tmp_path / "22.trees").unlink()
    with pytest.raises(UserError, match="no such file: .*22; nearest"):
        sentences(problem, "dev")


def test_wsj_says_what_is_missing(tmp_path):
    with pytest.raises(UserError, match="wsj_parsing needs --raw_dir"):
        registry.problem("wsj_parsing").source("dev")
    with pytest.raises(UserError, match=f"{tmp_path}: holds no folders 02 to 23"):
        registry.problem("wsj_parsing", raw_dir=str(tmp_path)).source("dev")
    with pytest.raises(UserError, match="needs --silver"):
        registry.problem("wsj_parsing_semisup", raw_dir=str(tmp_path)).source("train")
    with pytest.raises(UserError, match="unknown split 'valid'"):
        registry.problem("wsj_parsing", raw_dir=str(tmp_path)).source("valid")


@pytest.mark.parametrize("silver_per_gold, golds", [(2, 45), (10, 40)])
def test_silver_is_mixed_in_by_the_stated_rule(wsj, tmp_path, silver_per_gold, golds):
    """An epoch holds all 40 gold and 90 silver trees, the side that has too few more than once."""
    silver = wsj / "silver.trees.gz"
    with gzip.open(silver, "wt") as file:
        file.writelines(f"(S (NP (NN silver{i})))\n" for i in range(90))
    problem = registry.problem(
        "wsj_parsing_semisup",
        raw_dir=str(wsj),
        silver=[silver],
        silver_per_gold=silver_per_gold,
        data_dir=tmp_path / "data",
    )
    mix = prepare_corpora(problem, print).train
    drawn = Counter(text.decode().split()[0] for text, _ in mix.texts(mix.order(1, 0)))
    assert len(drawn) == 40 + 90 and min(drawn.values()) == 1
    assert sum(n for word, n in drawn.items() if word.startswith("Rain")) == golds
    assert (
        sum(n for word, n in drawn.items() if word.startswith("silver")) == golds * silver_per_gold
    )
    assert sentences(problem, "dev") == ["Rain22.1", "Rain22.2"]


def test_silver_with_weights(wsj, tmp_path):
    """Twice as often means twice as often among the silver trees."""
    for name in "ab":
        (tmp_path / f"{name}.trees").write_text(f"(S (NN {name}))\n" * 60)
    silver = [[tmp_path / "a.trees"], [f"{tmp_path / 'b.trees'}@2"]]
    problem = registry.problem(
        "wsj_parsing_semisup", raw_dir=str(wsj), silver=silver, data_dir=tmp_path / "data"
    )
    mix = prepare_corpora(problem, print).train
    drawn = Counter(text.decode() for text, _ in mix.texts(mix.order(1, 0)))
    assert (drawn["a"], drawn["b"]) == (133, 267)  # 400 for 40 gold ones


def test_silver_that_is_wrong(wsj, tmp_path):
    (tmp_path / "none.trees").write_text("")
    options = {"raw_dir": str(wsj), "data_dir": tmp_path / "data"}
    problem = registry.problem("wsj_parsing_semisup", silver=[tmp_path / "none.trees"], **options)
    with pytest.raises(UserError, match="none.trees.*: the corpus is empty"):
        prepare_corpora(problem, print)
    with pytest.raises(UserError, match="silver_per_gold=0"):
        registry.problem("wsj_parsing_semisup", silver_per_gold=0)


def test_own_files(tmp_path):
    (tmp_path / "a.trees").write_text(CLEANED + "\n" + "(TOP (S (NP (NN Rain)\n" + CLEANED + "\n")
    (tmp_path / "notes.txt").write_text("no trees")
    bad = registry.problem("treebank", train=(str(tmp_path),))
    with pytest.raises(UserError, match=r"a\.trees:2: "):
        bad.source("train").check()
    source = registry.problem("treebank", train=(str(tmp_path),), skip_bad_trees=True).source(
        "train"
    )
    assert isinstance(source, TreebankFiles)
    assert list(source.pairs()) == [(SENTENCE, CLEANED)] * 2
    assert str(source) == f"{tmp_path} (others left out: 1, notes.txt)"
    (tmp_path / "deep.trees").write_text("(S " * 3000 + "(NN a)" + ")" * 3000)
    [(sentence, tree)] = (
        registry.problem("treebank", train=(str(tmp_path / "deep.trees"),)).source("train").pairs()
    )
    assert sentence == "a" and tree.count("(S ") == 3000
    (tmp_path / "deep.trees").unlink()
    with pytest.raises(MissingSplit, match="treebank has no dev split; give --dev"):
        bad.source("dev")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty: no \.mrg, \.trees, \.ptb or \.psd files"):
        registry.problem("treebank", train=(str(tmp_path / "empty"),)).source("train").check()
    with pytest.raises(UserError, match="no such file"):
        registry.problem("treebank", train=(str(tmp_path / "a.tree"),)).source("train").check()


def test_texts_and_outputs():
    tags = "(S (NP NN )NP (VP VBD (PP IN (NP DT NN )NP )PP )VP . )S"
    assert registry.problem("toy_parsing").example(SENTENCE, CLEANED) == (SENTENCE, tags)
    problem = registry.problem("toy_parsing", tags="normalised")
    assert problem.example(SENTENCE, CLEANED) == (SENTENCE, SYMBOLS)
    assert (
        problem.target_text(CLEANED.removeprefix("(TOP ").removesuffix(")")) == SYMBOLS
    )  # a tree without TOP
    kept = registry.problem("toy_parsing", tags="kept", closing="plain")
    assert kept.example(SENTENCE, CLEANED)[1] == "(S (NP NN ) (VP VBD (PP IN (NP DT NN ) ) ) . )"
    assert kept.output_text(kept.target_text(CLEANED), SENTENCE) == CLEANED
    assert problem.output_text(SYMBOLS, SENTENCE).replace("XX", "T") == (
        "(TOP (S (NP (T Rain)) (VP (T fell) (PP (T on) (NP (T the) (T sea)))) (T .)))"
    )
    assert problem.output_details(SYMBOLS, SENTENCE) == {
        "well_formed": True,
        "repairs": [],
        "words": SENTENCE.split(),
    }
    assert problem.output_details("(S XX XX )S", SENTENCE) == {
        "well_formed": False,
        "repairs": ["4 words added"],
        "words": SENTENCE.split(),
    }
    with pytest.raises(UserError, match="unknown value of --tags 'keep'; nearest: kept"):
        registry.problem("toy_parsing", tags="keep")


@pytest.mark.parametrize(
    "line", ["( a )", "a  b\t c", "one\u00a0token \u2581 x", "([{", "-LRB- )", "f(x) [y]"]
)
def test_words_stay_intact(line):
    from t2t_lite.trees.reader import escape, parse_tree

    problem = registry.problem("toy_parsing")
    leaves = parse_tree(problem.output_text("(S XX )S", line)).leaves()
    assert [escape(leaf) for leaf in leaves] == [
        escape(word) for word in line.replace("\t", " ").split(" ") if word
    ]
    assert not set("()[]{}\u2581") & set(problem.input_text(line))


@pytest.mark.parametrize(
    "typed, escaped",
    [
        ("1/2", r"1\/2"),
        ("*", r"\*"),
        ("( b )", "-LRB- b -RRB-"),
        ("a/b*c", r"a\/b\*c"),
        ("[", "-LSB-"),
    ],
)
def test_what_treebanks_escape_is_what_people_type(typed, escaped):
    import tensorflow as tf

    problem = registry.problem("treebank")
    assert problem.input_text(typed) == problem.input_text(escaped)
    in_graph = problem.input_text_in_graph(tf.constant([typed, escaped])).numpy()
    assert {text.decode() for text in in_graph} == {problem.input_text(typed)}
    # Outputs have the words as they were given, and are scored whichever way they are written.
    outputs = [problem.output_text("(S XX )S", words) for words in (typed, escaped)]
    references = [problem.reference_text(output) for output in outputs[::-1]]
    assert Bracketing()(outputs, references)["valid"] == 100
    given = [problem.output_details("", words)["words"] for words in (typed, escaped)]
    assert given == [typed.split(), escaped.split()]


def test_references_in_the_form_of_corpussearch():
    problem = registry.problem("treebank")
    text = "( (IP-MAT (CODE <P_1>) (NP-SBJ *pro*) (VB go)) (ID A,1))"
    assert problem.reference_text(text) == "(TOP (IP (VB go)))"
    assert problem.target_text(text) == "(IP VB )IP"
    for empty in ("(())", "(TOP)", "", "( (CODE <P_1>) (ID A,1))"):
        assert problem.reference_text(empty) == problem.target_text(empty) == ""


def test_raw_text_is_split_by_the_treebanks_rules():
    assert (
        registry.problem("toy_parsing").tokenize("It didn't (really) rain.")
        == "It did n't -LRB- really -RRB- rain ."
    )


def test_what_only_a_parser_can_do():
    parser, translator = map(registry.problem, ("treebank", "text_pairs"))
    for capability in (Constrained, Drawing, Tokenizing):
        assert isinstance(parser, capability) and not isinstance(translator, capability)
    assert parser.metric is Bracketing


def test_drawings():
    problem = registry.problem("toy_parsing")
    assert "Rain" in problem.pretty(CLEANED) and problem.svg(CLEANED).startswith("<svg")
    assert problem.pretty("") == problem.svg("") == ""


@pytest.mark.parametrize(
    "options",
    [{}, {"closing": "plain"}, {"tags": "normalised"}, {"tags": "normalised", "closing": "plain"}],
)
def test_every_gold_tree_obeys_the_grammar(tmp_path, monkeypatch, options):
    """The mask never forbids the next symbol of a right tree, and counts the tree's words."""
    import tensorflow as tf

    monkeypatch.setitem(toy_parsing.SIZES, "train", 60)
    problem = registry.problem("toy_parsing", data_dir=str(tmp_path), vocab_size=420, **options)
    train = prepare_corpora(problem, print).train
    vocabularies = prepare_vocabularies(problem, train, print)
    assert not vocabularies.shared
    assert all(
        symbol in vocabularies.target.pieces(range(vocabularies.target.size))
        for symbol in ["\u2581(S", "\u2581(NP"]
    )
    sources, targets = zip(*problem.examples("train").pairs())
    inputs = tf.constant(_padded(vocabularies.source.encode_lines(sources)))
    symbols = _padded(vocabularies.target.encode_lines(targets))
    assert not (symbols == 2).any()  # UNK
    limits = tf.constant([symbols.shape[1]] * len(symbols))
    allow, grammar = problem.grammar(vocabularies).start(inputs, limits, 1)
    last = np.zeros(len(symbols), np.int32)
    for position, column in enumerate(symbols.T):
        allowed, grammar = allow(tf.constant(last[:, None]), tf.constant(position), grammar)
        right = allowed.numpy()[np.arange(len(symbols)), 0, column]
        assert right[column != 0].all()
        last = column
    assert (grammar["words"].numpy() == 0).all() and (grammar["depth"].numpy() == 0).all()


def _padded(rows):
    table = np.zeros([len(rows), max(map(len, rows))], np.int32)
    for row, ids in zip(table, rows):
        row[: len(ids)] = ids
    return table


def test_toy_splits_are_apart_and_the_same_each_time(monkeypatch):
    monkeypatch.setattr(toy_parsing, "SIZES", {"train": 300, "dev": 50, "test": 100})
    splits = {split: dict(toy_parsing.generate(split)) for split in toy_parsing.SIZES}
    assert {split: len(pairs) for split, pairs in splits.items()} == toy_parsing.SIZES
    assert sum(map(len, splits.values())) == len(splits["train"] | splits["dev"] | splits["test"])
    assert splits["dev"] == dict(toy_parsing.generate("dev"))
    from t2t_lite.trees.cleaning import clean
    from t2t_lite.trees.reader import format_tree, parse_tree

    for sentence, text in splits["dev"].items():
        tree = parse_tree(text)
        assert format_tree(clean(tree)) == text and " ".join(tree.leaves()) == sentence
