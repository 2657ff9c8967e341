"""The bracket scorer against the output of EVALB (in C), for its own samples and for others."""

import gzip

import pytest

from t2t_lite.errors import UserError
from t2t_lite.evaluation.bracketing import bracketing, report, score_lines, summaries
from t2t_lite.evaluation.evalb_parameters import COLLINS, Parameters
from t2t_lite.evaluation.evalb_reader import Unreadable

PARAMETERS = Parameters(
    delete_labels=frozenset(["TOP", "-NONE-", ".", "''"]),
    delete_labels_for_length=frozenset(["-NONE-"]),
    quote_labels=frozenset(["''", "POS"]),
    equivalent_labels=frozenset([("ADVP", "PRT"), ("PRT", "PP"), ("TOP", "ROOT")]),
    equivalent_words=frozenset([("grey", "gray")]),
    cutoff_len=3,
    max_error=100,
)
# What EVALB, compiled from its published source, printed with these parameters: name, gold,
# predicted, "length status matched gold predicted crossing words correct_tags".
CASES = (
    (
        "equal",
        "(TOP (S (NP (DT the) (NN owl)) (VP (VBZ hoots)) (. .)))",
        "(TOP (S (NP (DT the) (NN owl)) (VP (VBZ hoots)) (. .)))",
        "4 0 3 3 3 0 3 3",
    ),
    (
        "tags, function tags, other root",
        "(ROOT (S (NP-SBJ-1 (DT the) (NN owl)) (VP=2 (VBZ hoots))))",
        "(X (S (NP (DT the) (NNP owl)) (VP (VBZ hoots))))",
        "3 0 3 3 4 0 3 2",
    ),
    (
        "two equal brackets against three",
        "(S (NP (NP (NN owls))) (VP (VBP hoot)))",
        "(S (NP (NP (NP (NN owls)))) (VP (VBP hoot)))",
        "2 0 4 4 5 0 2 2",
    ),
    (
        "unary chain upside down",
        "(S (NP (QP (CD two))) (VP (VBP hoot)))",
        "(S (QP (NP (CD two))) (VP (VBP hoot)))",
        "2 0 4 4 4 0 2 2",
    ),
    (
        "crossing, once for two gold brackets",
        "(S (NP (NP (DT a) (NN b)) (NN c)) (VP (VB d) (NP (NN e))))",
        "(S (DT a) (X (X (NN b) (NN c) (VB d)) (NN e)))",
        "5 0 1 5 3 2 5 5",
    ),
    (
        "labels that are nothing but a tail",
        "(S (-LRB- (NN a)) (=X (NN b)) (- (NN c)))",
        "(S (-RRB- (NN a)) (-LRB- (NN b)) (NP (NN c)))",
        "3 0 3 4 4 0 3 3",
    ),
    (
        "equivalence is not transitive, and the first takes",
        "(S (ADVP (PP (RB up))) (NN x))",
        "(S (PRT (ADVP (RB up))) (NN x))",
        "2 0 2 3 3 0 2 2",
    ),
    (
        "equivalent to a deleted label",
        "(TOP (ROOT (NP (NN owl))))",
        "(NP (NN owl))",
        "1 0 1 1 1 0 1 1",
    ),
    (
        "tags are deleted only if they are the very label",
        "(S (ROOT owl) (.-X x) (. .))",
        "(S (ROOT owl) (.-Y x) (. .))",
        "3 0 1 1 1 0 2 1",
    ),
    ("words equivalent", "(S (JJ grey) (NN owl))", "(S (JJ gray) (NN owl))", "2 0 1 1 1 0 2 2"),
    ("words differ", "(S (JJ grey) (NN owl))", "(S (JJ Grey) (NN owl))", "2 1 0 0 0 0 0 0"),
    ("a word fewer", "(S (DT the) (NN owl))", "(S (NN owl))", "2 1 0 0 0 0 0 0"),
    (
        "traces and what they leave empty",
        "(S (NP (-NONE- *)) (VP (VB hoot) (SBAR (-NONE- 0) (S (-NONE- *T*)))))",
        "(S (VP (VB hoot)))",
        "1 0 2 2 2 0 1 1",
    ),
    (
        "quotation mark deleted in gold alone",
        "(S (NP (DT the) ('' ') (NN owl)) (VP (VBZ hoots) ('' ')))",
        "(S (NP (DT the) (POS ') (NN owl)) (VP (VBZ hoots) ('' ')))",
        "5 0 3 3 3 0 4 3",
    ),
    (
        "deleted in the prediction alone",
        "(S (NP (NN owl) (POS ')) (NP (NNS hoots)))",
        "(S (NP (NP (NN owl)) ('' ')) (NNS hoots))",
        "3 0 2 3 3 0 3 2",
    ),
    (
        "as many words, so no mark is put back",
        "(S (NN a) ('' ') (POS '))",
        "(S (NN a) (POS ') ('' '))",
        "3 0 1 1 1 0 2 2",
    ),
    (
        "punctuation with a wrong tag",
        "(S (NN owl) (. .))",
        "(S (NN owl) (NN .))",
        "2 1 0 0 0 0 0 0",
    ),
    (
        "no word is left in the prediction",
        "(S (NP (NN owl)) (. .))",
        "(S (. owl) (. .))",
        "2 2 0 0 0 0 0 0",
    ),
    ("no word is left on either side", "(S (. .))", "(S (. .))", "1 2 0 0 0 0 0 0"),
    ("no gold tree", "", "(S (NN owl))", "0 1 0 0 0 0 0 0"),
    ("no prediction", "(S (NN owl))", "  ", "1 2 0 0 0 0 0 0"),
    (
        "several trees, none needs a label",
        "( (S (NN a)) (NP(NN b)))",
        "(S (NN a)) ( (NP\t(NN b)) )",
        "2 0 2 3 3 0 2 2",
    ),
    (
        "empty brackets, empty words",
        "(S (X) () (NN ) (NN b))",
        "(S (NN ) (NN b))",
        "2 0 1 1 1 0 2 2",
    ),
    (
        "never closed",
        "(S (NP (NN a) (NN b)) (VP (VB c)))",
        "(S (NP (NN a) (NN b) (VP (VB c)))",
        "3 1 1 3 3 0 3 3",
    ),
    (
        "closed too often at the end",
        "(S (NP (NN a)) (VP (VB b)))",
        "(S (NP (NN a)) (VP (VB b))))))",
        "2 1 3 3 3 0 2 2",
    ),
    (
        "closed too early",
        "(S (NP (NN a)) (VP (VB b)))",
        "(S (NP (NN a)))) (VP (VB b))",
        "2 1 2 3 3 0 2 2",
    ),
    (
        "neither closed in gold nor of equal length",
        "(S (NN a)",
        "(S (NN a) (NN b))",
        "1 1 0 0 0 0 0 0",
    ),
    (
        "a mark put back into an open bracket",
        "(S (NP (NN a) ('' ') (NN b)",
        "(S (NP (NN a) (POS ') (NN b)",
        "3 1 0 0 2 0 3 2",
    ),
)
SUMMARY = """\
============================================================================
                 80.95  80.95     34    42    42      2     39    35    89.74
=== Summary ===

-- All --
Number of sentence        =     28
Number of Error sentence  =      9
Number of Skip  sentence  =      3
Number of Valid sentence  =     16
Bracketing Recall         =  80.95
Bracketing Precision      =  80.95
Bracketing FMeasure       =  80.95
Complete match            =  56.25
Average crossing          =   0.12
No crossing               =  93.75
2 or less crossing        = 100.00
Tagging accuracy          =  89.74

-- len<=3 --
Number of sentence        =     25
Number of Error sentence  =      9
Number of Skip  sentence  =      3
Number of Valid sentence  =     13
Bracketing Recall         =  87.10
Bracketing Precision      =  81.82
Bracketing FMeasure       =  84.37
Complete match            =  53.85
Average crossing          =   0.00
No crossing               = 100.00
2 or less crossing        = 100.00
Tagging accuracy          =  88.89
"""


@pytest.mark.parametrize("name, gold, predicted, expected", CASES, ids=[case[0] for case in CASES])
def test_as_evalb(name, gold, predicted, expected):
    assert " ".join(map(str, score_lines(gold, predicted, PARAMETERS)[:8])) == expected


def test_report_as_evalb():
    text = "".join(report((score_lines(*case[1:3], PARAMETERS) for case in CASES), PARAMETERS))
    head, *rows = text.split("\n")[2 : 3 + len(CASES)]
    assert head == "=" * 76
    assert rows[1] == "   2    3    0  100.00  75.00     3      3    4      0      3     2    66.67"
    assert text.endswith("\n".join(["", rows[-1], SUMMARY]))


def test_nothing_to_divide_by():
    text = "".join(report([score_lines("(S (NN owl))", "")]))
    assert (
        "\n      0     0     0.00\n=== Summary ===\n" in text
    )  # EVALB leaves the columns of brackets out
    assert text.count("Bracketing FMeasure       =   -nan\n") == 2
    assert summaries([])[0].f1 == summaries([])[0].complete_match == 0


@pytest.mark.parametrize("name, parameters", [("sample", "sample.prm"), ("bug", "new.prm")])
def test_samples(shared, name, parameters):
    folder = shared / "data" / "evalb"
    parameters = Parameters.read(folder / parameters)
    gold, predicted = (
        (folder / f"{name}.{side}").read_text().split("\n")[:-1] for side in ("gld", "tst")
    )
    scores = [score_lines(*pair, parameters) for pair in zip(gold, predicted, strict=True)]
    assert "".join(report(scores, parameters)) == (folder / f"{name}.expected").read_text()


def test_unlabelled():
    gold, predicted = "(S (NP (NN a) (NN b)) (VP (VB c)))", "(X (Y (Y (NN a) (NN b))) (. .) (VB c))"
    assert score_lines(gold, predicted, Parameters(delete_labels=frozenset("."), labeled=False))[
        2:5
    ] == (2, 3, 3)
    assert score_lines(gold, predicted, Parameters(delete_labels=frozenset(".")))[2:5] == (0, 3, 3)


def test_a_word_without_brackets_ends_it():
    for broken in ("(S (NN the owl))", "(S (NN owl ))", "(S (NN a) owl)", "(S (NN owl", "owl"):
        with pytest.raises(Unreadable, match=r"^there: '\w+' is not alone"):
            score_lines("(S (NN owl))", broken, names=("here", "there"))
    with pytest.raises(Unreadable, match="^here: 'owl'"):
        score_lines("owl", "owl", names=("here", "there"))


def test_errors_say_what_and_where():
    names = ("gold:7", "out:7")
    for gold, predicted, errors in (
        (
            "(S (NN a)",
            "(S (NN a))))",
            ["gold:7: opening and", "out:7: a closing bracket too many", "out:7: opening and"],
        ),
        ("(S (NN a))", "(S (NN a) (NP", ["out:7: opening and"]),
        ("(S (NN a))", "(S (NN a) (NN b))", ["out:7: 2 words after deletion; expected 1"]),
        ("(S (NN a))", "(S (NN b))", ["out:7: word 1 after deletion is 'b'; expected 'a'"]),
    ):
        found = score_lines(gold, predicted, names=names).errors
        assert len(found) == len(errors) and all(map(str.startswith, found, errors))


def test_gold_tags():
    gold, normalised = (
        "(S (NP (NN owls)) (VP (VBP hoot)) (. .))",
        "(S (NP (XX owls)) (VP (XX hoot)) (XX .))",
    )
    assert score_lines(gold, normalised).status == 1
    assert score_lines(gold, normalised, gold_tags=True) == score_lines(gold, gold)
    with_trace = "(S (NP (NN owls) (-NONE- *)) (VP (VBP hoot)) (. .))"
    assert score_lines(with_trace, normalised, gold_tags=True) == score_lines(gold, gold)
    assert score_lines(gold, "(S (XX owls) (XX .))", gold_tags=True).status == 1


def test_brackets_in_words():
    gold = "(S (NP (NN x(y)) (NN f(a)(b)c)) (VP (VBZ is) (. (?)!)))"
    assert score_lines(gold, gold) == (4, 0, 3, 3, 3, 0, 3, 3, ())


def test_no_limits():
    words = " ".join("(NP (NN word))" for _ in range(1000))
    assert score_lines(f"(S {words})", f"(S {words})")[:5] == (1000, 0, 1001, 1001, 1001)
    deep = "(X " * 5000 + "(NN a)" + ")" * 5000
    assert score_lines(deep, deep).matched == 5000


def test_bracketing():
    references = ["(TOP (S (NP (NN owls)) (VP (VBP hoot)) (. .)))"] * 2
    hypotheses = [
        "(TOP (S (NP (XX owls)) (VP (XX hoot)) (XX .)))",
        "(TOP (S (XX owls) (VP (XX hoot) (XX .))))",
    ]
    figures = bracketing(hypotheses, references)
    assert next(iter(figures)) == "f1" and figures["f1"] == figures["f1_40"] == pytest.approx(
        100 * 10 / 11
    )
    assert figures["precision"] == 100 and figures["recall"] == pytest.approx(500 / 6)
    assert figures["complete_match"] == 50 and figures["crossing"] == 0 and figures["valid"] == 100

    long = f"(S {' '.join('(NP (NN word))' for _ in range(41))})"
    figures = bracketing([*hypotheses, long, "not a tree", ""], [*references, long, *references])
    assert (
        figures["f1"] > 98
        and figures["f1_40"] == pytest.approx(100 * 10 / 11)
        and figures["valid"] == 60
    )
    assert bracketing([""], references[:1])["f1"] == 0


def test_bracketing_errors():
    with pytest.raises(UserError, match="no lines"):
        bracketing([], [])
    with pytest.raises(UserError, match="^reference 2: 'owl'"):
        bracketing(["(S (NN owl))"] * 2, ["(S (NN owl))", "owl"])


def test_real_trees_against_themselves(shared):
    with gzip.open(shared / "data" / "genia" / "dev.trees.gz", "rt", encoding="utf-8") as file:
        references = file.read().split("\n")[:-1]
    hypotheses = [line.replace("(PP", "(NP").replace("(NN ", "(XX ") for line in references]
    figures = bracketing(hypotheses, references)
    assert figures["valid"] == 100 and 80 < figures["f1"] < 90
    assert bracketing(references, references)["complete_match"] == 100


def test_collins(shared):
    assert Parameters.read(shared / "data" / "evalb" / "COLLINS.prm") == COLLINS
