"""The reader: what treebanks hold, what is broken and where, and trees on one line."""

import gzip

import pytest
from nltk.tree import Tree

from t2t_lite.errors import UserError
from t2t_lite.trees.reader import escape, format_tree, parse_tree, read_trees

CAT = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))"
DOG = "(S (NP (DT a) (NN dog)) (VP (VBZ barks)))"


@pytest.fixture
def file(tmp_path):
    """Writes a text into a file, and returns its path."""

    def write(text: str, name="some.mrg"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


def lines(path, **options) -> list[str]:
    return [format_tree(tree) for tree in read_trees(path, **options)]


INDENTED = (
    "\n( (S \n    (NP-SBJ (DT the) (NN cat) )\n    (VP (VBZ sleeps) )\n\n    (. .) ))\n"
    "( (NP\n  (NN end)))"
)


@pytest.mark.parametrize("name", ["a.mrg", "a.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "start", ["", "\ufeff", "\n\n", ";; a comment\n*x*x*x*\n%% another\n# and one\n\n"]
)
def test_trees_over_many_lines(file, name, end, start):
    expected = ["( (S (NP-SBJ (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))", "( (NP (NN end)))"]
    assert lines(file((start + INDENTED.lstrip("\n")).replace("\n", end), name)) == expected


def test_trees_on_one_line(file):
    assert lines(file(f"{CAT}\n{DOG}\n\n{CAT} {DOG}\n{CAT}{DOG}")) == [CAT, DOG] * 3
    assert lines(file("")) == lines(file("\n \n;; nothing\n")) == []


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "(S\n(NP (DT the) (NN cat))\n(VP (VBZ sleeps))\n)\n" + DOG,
            [CAT, DOG],
        ),  # nothing indented
        ("(\n(S (NN a))\n)\n(\n(S (NN b))\n)", ["( (S (NN a)))", "( (S (NN b)))"]),
        (f"{CAT}\n(S\n(NP (NN x)\n)\n)\n\n{DOG}", [CAT, "(S (NP (NN x)))", DOG]),
        ("(S\n(LST (-RRB- )))\n(NP (NN x))\n)", ["(S (LST (-RRB- -RRB-)) (NP (NN x)))"]),
        (
            "   (TOP\n  (S (NN a)))\n(TOP (S (NN b)))",
            ["(TOP (S (NN a)))", "(TOP (S (NN b)))"],
        ),  # the first line most
        (f"  {CAT}\n  {DOG}\n", [CAT, DOG]),
    ],
)
def test_indentation_is_free(file, text, expected):
    assert lines(file(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"  ;; hi\n{CAT}",
        f"{CAT} ;; hi (there\n",
        f"{CAT}\t# 1\n; hi\n// hi\n% hi",
        "(S (NP (DT the) (NN cat)) ;; the subject\n  %% in between\n  (VP (VBZ sleeps)))",
    ],
)
def test_comments(file, text):
    assert lines(file(text)) == [CAT]
    assert lines(file("(S (NN #) (NN ;) (NN //) (NN %x))")) == ["(S (NN #) (NN ;) (NN //) (NN %x))"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(S (NP (#\n#) (CD 9)) (VP (VB go)))", ["(S (NP (# #) (CD 9)) (VP (VB go)))"]),
        ("(S (%\n%) (NN x))", ["(S (% %) (NN x))"]),
        ("(S (:\n;)\n (SYM\n*) (X\n<i>) (NN\n//))", ["(S (: ;) (SYM *) (X <i>) (NN //))"]),
        ("(S (-NONE-\n*T*-1)\n (NN x))", ["(S (-NONE- *T*-1) (NN x))"]),
        (
            "(S (SYM\n  ;;) (NN x)) # (not a\n# tree)\n(S (NN y))",
            ["(S (SYM ;;) (NN x))", "(S (NN y))"],
        ),
    ],
)
def test_a_word_on_a_line_of_its_own_is_no_comment(file, text, expected):
    assert lines(file(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "()",
        "( )",
        "(())",
        "( () )",
        "(TOP)",
        "(TOP )",
        "(ROOT ())",
        "(TOP (S))",
        "(TOP (S ))",
        "(ROOT ( ))",
        "(S1 (S (NP)))",
    ],
)
def test_trees_without_words(file, text):
    """Parsers write them where they found none."""
    assert parse_tree(text).leaves() == []
    assert [tree.leaves() for tree in read_trees(file(f"{CAT}\n{text}\n{DOG} {text} {text}"))] == [
        ["the", "cat", "sleeps"],
        [],
        ["a", "dog", "barks"],
        [],
        [],
    ]


@pytest.mark.parametrize("text", ["(()", "(()))", "(TOP ))", "(S () (NN a))", "(-LRB- ())"])
def test_other_brackets_alone_are_broken(text):
    with pytest.raises(UserError):
        parse_tree(text)


def test_markup_of_the_chinese_treebank(file):
    text = "<DOC>\n<HEADLINE>\n<S ID=1>\n( (IP\n  (NP (NR 上海))\n  (VP (VV 开放))))\n</S>\n"
    text += f"<S ID=2>\n{CAT}\n</S>\n</DOC>\n"
    assert lines(file(text)) == ["( (IP (NP (NR 上海)) (VP (VV 开放))))", CAT]


@pytest.mark.parametrize(
    "text, label, words",
    [
        (CAT, "S", ["the", "cat", "sleeps"]),
        ("( (S (NN a)))", "", ["a"]),
        ("( S (NN a))", "S", ["a"]),
        ("(NN\n cat\n)", "NN", ["cat"]),
        ("(NP(DT the)(NN cat))", "NP", ["the", "cat"]),
        (
            "  (S1 (. .) (-LRB- -LRB-) (`` ``) ('' '') (: --) )\n",
            "S1",
            [".", "-LRB-", "``", "''", "--"],
        ),
        ("(TOP (FRAG (X (SYM *)) (NP (NN x(y)))))", "TOP", ["*", "x(y)"]),
        (
            "(NP (NN (2R)-butane(di(ol))) (NN f(g(h(x)))) (NN a/b) (CD 1\\/2))",
            "NP",
            ["(2R)-butane(di(ol))", "f(g(h(x)))", "a/b", "1\\/2"],
        ),
        ("(PRN (-LRB- () (NN b) (-RRB- )))", "PRN", ["-LRB-", "b", "-RRB-"]),
        (
            "(NP (CD 1\u00a0000) (NN \u2028) (NN \x85ü) (NN [x]))",
            "NP",
            ["1\u00a0000", "\u2028", "\x85ü", "[x]"],
        ),
        ("(NP-SBJ-1=2 (PRT|ADVP (RP up)) (-NONE- *T*-1))", "NP-SBJ-1=2", ["up", "*T*-1"]),
        ("(TOP)", "TOP", []),
        ("(  )", "", []),
    ],
)
def test_one_tree(text, label, words):
    tree = parse_tree(text)
    assert type(tree) is Tree
    assert (tree.label(), tree.leaves()) == (label, words)
    line = format_tree(tree)
    assert parse_tree(line).leaves() == [
        word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words
    ]
    assert "\n" not in line and format_tree(parse_tree(line)) == line
    if words and all(
        word.split() == [word] for word in words
    ):  # NLTK's reader splits at the blanks of Unicode
        assert Tree.fromstring(line) == parse_tree(line)


def test_brackets_in_words_are_written_escaped():
    tree = Tree("NP", [Tree("NN", [word]) for word in ("(", ")", "a(b", "a(b)", ")(", "(a)")])
    assert parse_tree(format_tree(tree)).leaves() == [
        "-LRB-",
        "-RRB-",
        "a-LRB-b",
        "a-LRB-b-RRB-",
        "-RRB--LRB-",
        "-LRB-a-RRB-",
    ]


def test_escapes():
    words = ["(", ")", "[", "]", "{", "}", "x(y)[z]{}", "plain", "", "-", "-LRB-"]
    assert [escape(word) for word in words] == [
        *("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-"),
        *("x-LRB-y-RRB--LSB-z-RSB--LCB--RCB-", "plain", "", "-", "-LRB-"),
    ]


@pytest.mark.parametrize(
    "text, reason",
    [
        ("(S (NP (NN a))", "closing brackets missing: 1"),
        ("(S (NN a)))", "a closing bracket too many"),
        (") (S (NN a))", "a closing bracket too many"),
        ("(TOP ))", "a closing bracket too many"),
        ("(S (NN a b))", "the word 'b' is not alone"),
        ("(S a (NN b))", "the word 'a' is not alone"),
        ("(S (NN b) a)", "the word 'a' is not alone"),
        ("(S (NP) (NN a))", "(NP) is empty"),
        ("(S (NN a) (NP (NN)))", "(NN) is empty"),
        ("(S (NN a)b))", "the word 'b' is not alone"),
        ("S (NN a)", "'S' outside of brackets"),
        ("", "no trees; expected one"),
        (CAT + DOG, "2 trees; expected one"),
        ("(NN " + "a" * 1000 + " b)", "the word 'b'"),
        (f"(NN b {'a' * 1000})", f"the word '{'a' * 40}'"),
    ],
)
def test_broken_text(text, reason):
    with pytest.raises(UserError) as error:
        parse_tree(text, "line 7")
    message = str(error.value)
    assert message.startswith(f"line 7: {reason}")
    assert "expected" in message and "\n" not in message and len(message) < 200


BROKEN = [  # a file, the line in which its broken tree starts, the trees around it
    (f"{CAT}\n(S (NP (NN a))\n{DOG}\n", 2, [CAT, DOG]),  # a bracket missing
    (f"{CAT}\n(S (NN a)))\n{DOG}\n", 2, [CAT, DOG]),  # one too many
    (f";;\n\n(S\n  (NN a)\n))\n{DOG}", 3, [DOG]),
    (
        f"{CAT}\n\n( (S\n  (NN a b)\n  (NN c))\n\n{CAT}",
        3,
        [CAT, CAT],
    ),  # what follows in the broken tree goes too
    (f"( (S\n  (NP )\n  (NN c)))\n{CAT}", 1, [CAT]),
    (f"{CAT}\nnot a tree\n{DOG}", 2, [CAT, DOG]),
    (f"not a tree\n{DOG}", 1, [DOG]),
    (f"{CAT} (S (NN a)\n{DOG}", 1, [CAT, DOG]),
    (f"{CAT} (S\n (NN a b))\n{DOG}", 1, [CAT, DOG]),
    (
        f"( (S\n  (NN a)))\n  (S\n (NN a b))\n{DOG}",
        3,
        ["( (S (NN a)))", DOG],
    ),  # a tree that is itself indented
    (f"{CAT}\n(S (NN a)", 2, [CAT]),
    (f"  {CAT}\n  (S (NN a)\n  {DOG}", 2, [CAT, DOG]),  # all is indented
    (f"{CAT}\n(TOP (NN a)\n(NP (NN b))\n{DOG}", 2, [CAT, DOG]),  # no half of it is a tree
    (f"{CAT}\n(S\n(NP (NN a b))\n(VP (VB c))\n)\n{DOG}", 2, [CAT, DOG]),
    (f"{CAT}\n(S\n(NP (NN a))\n(VP (VB c))))\n{DOG}", 2, [CAT, DOG]),
    (f"(TOP (S (NP (NN a))\n(VP (VB c))\n(TOP (X (NN d)))\n{DOG}", 1, ["(TOP (X (NN d)))", DOG]),
    (f"(TOP (NN a)\n(NP (NN b))\n{DOG}\n{DOG}\n{DOG}", 1, [DOG] * 3),
    ("(TOP (NN a)\n(NP (NN b))\n(VP (VB c))\n(NP (NN d))", 1, []),
    (f"{CAT} (S (NN a b) (VP)) {DOG}\n{CAT}", 1, [CAT, DOG, CAT]),  # its brackets pair up
    (f"{CAT} (S (VP) (NN a)\n (NN b)\n{DOG}", 1, [CAT, DOG]),
]


@pytest.mark.parametrize("text, line, rest", BROKEN)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_broken_tree_in_a_file(file, text, line, rest, end):
    path = file("\ufeff" + text.replace("\n", end))
    with pytest.raises(UserError) as error:
        lines(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(error.value)
    errors = []
    assert lines(path, skip_bad=True, on_skip=errors.append) == rest
    assert [str(skipped) for skipped in errors] == [str(error.value)]
    assert lines(path, skip_bad=True) == rest


def test_a_line_that_begins_as_the_broken_tree_before_it_is_another_tree(file):
    errors = []
    assert lines(
        file(f"( (S (NN a))\n( (S (NN b))))\n{DOG}"), skip_bad=True, on_skip=errors.append
    ) == [DOG]
    assert [str(error).split(":")[1] for error in errors] == ["1", "2"]


def test_every_broken_tree_is_counted(file):
    path = file("".join(f"{CAT}\n(S (NN a)\n" for _ in range(50)), "a.trees.gz")
    errors = []
    assert lines(path, skip_bad=True, on_skip=errors.append) == [CAT] * 50
    assert [str(error).split(":")[1] for error in errors] == [
        str(line) for line in range(2, 101, 2)
    ]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="no such file: .*none.mrg"):
        list(read_trees(tmp_path / "none.mrg"))
    (tmp_path / "latin.mrg").write_bytes(f"{CAT}\n(NN na\xefve)".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin.mrg:2: byte 0xef"):
        list(read_trees(tmp_path / "latin.mrg"))


def test_reads_as_it_goes(file):
    trees = read_trees(file(f"{CAT}\n{DOG}\n(S broken\n"))
    assert format_tree(next(trees)) == CAT


@pytest.mark.parametrize(
    "text",
    [
        "(NN " + "(a" * 20000,
        "(NN " + "a" * 200000 + " (",
        "(a" * 20000,
        "(S " + " " * 20000,
        "(NN (a)" * 20000,
    ],
)
def test_long_broken_text_is_refused(text):
    """At once: a pattern that tries one text in many ways would take hours."""
    with pytest.raises(UserError):
        parse_tree(text)


def test_deep_trees():
    text = "(S " * 5000 + "(NN a)" + ")" * 5000
    assert format_tree(parse_tree(text)) == text
