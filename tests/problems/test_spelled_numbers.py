"""The generated task: its grammar against hand-written forms, and what its test set holds out."""

import re

import pytest
from t2t_lite.problems.spelled_numbers import (
    CATEGORIES,
    PAIRS,
    SpelledNumbersEnde,
    amount,
    calendar_day,
    clock_time,
    english,
    english_ordinal,
    english_year,
    examples,
    german,
    german_ordinal,
    german_year,
    held_out,
)

from t2t_lite import registry
from t2t_lite.evaluation.metrics import ExactMatch


@pytest.fixture(scope="module")
def splits():
    return {split: list(examples(split)) for split in PAIRS}


@pytest.mark.parametrize(
    "n, en, de",
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (6, "six", "sechs"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (40, "forty", "vierzig"),
        (60, "sixty", "sechzig"),
        (76, "seventy-six", "sechsundsiebzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred one", "einhunderteins"),
        (111, "one hundred eleven", "einhundertelf"),
        (142, "one hundred forty-two", "einhundertzweiundvierzig"),
        (777, "seven hundred seventy-seven", "siebenhundertsiebenundsiebzig"),
        (1000, "one thousand", "eintausend"),
        (1001, "one thousand one", "eintausendeins"),
        (2316, "two thousand three hundred sixteen", "zweitausenddreihundertsechzehn"),
        (
            121_021,
            "one hundred twenty-one thousand twenty-one",
            "einhunderteinundzwanzigtausendeinundzwanzig",
        ),
    ],
)
def test_numbers(n, en, de):
    assert (english(n), german(n)) == (en, de)


@pytest.mark.parametrize(
    "n, en, de",
    [
        (1, "first", "erste"),
        (2, "second", "zweite"),
        (3, "third", "dritte"),
        (5, "fifth", "fünfte"),
        (7, "seventh", "siebte"),
        (8, "eighth", "achte"),
        (9, "ninth", "neunte"),
        (12, "twelfth", "zwölfte"),
        (16, "sixteenth", "sechzehnte"),
        (19, "nineteenth", "neunzehnte"),
        (20, "twentieth", "zwanzigste"),
        (21, "twenty-first", "einundzwanzigste"),
        (30, "thirtieth", "dreißigste"),
        (43, "forty-third", "dreiundvierzigste"),
        (100, "one hundredth", "einhundertste"),
        (101, "one hundred first", "einhunderterste"),
        (107, "one hundred seventh", "einhundertsiebte"),
        (112, "one hundred twelfth", "einhundertzwölfte"),
        (142, "one hundred forty-second", "einhundertzweiundvierzigste"),
        (1000, "one thousandth", "eintausendste"),
    ],
)
def test_ordinals(n, en, de):
    assert (english_ordinal(n), german_ordinal(n)) == (en, de)


@pytest.mark.parametrize(
    "year, en, de",
    [
        (1700, "seventeen hundred", "siebzehnhundert"),
        (1901, "nineteen oh one", "neunzehnhunderteins"),
        (1910, "nineteen ten", "neunzehnhundertzehn"),
        (1984, "nineteen eighty-four", "neunzehnhundertvierundachtzig"),
        (2000, "two thousand", "zweitausend"),
        (2005, "two thousand five", "zweitausendfünf"),
        (2014, "twenty fourteen", "zweitausendvierzehn"),
    ],
)
def test_years(year, en, de):
    assert (english_year(year), german_year(year)) == (en, de)


@pytest.mark.parametrize(
    "pair, en, de",
    [
        (calendar_day(21, "March"), "the twenty-first of March", "der einundzwanzigste März"),
        (
            calendar_day(3, "May", 2007),
            "the third of May two thousand seven",
            "der dritte Mai zweitausendsieben",
        ),
        (clock_time(1, 0), "one o'clock", "ein Uhr"),
        (clock_time(3, 15), "three fifteen", "drei Uhr fünfzehn"),
        (clock_time(1, 1), "one oh one", "ein Uhr eins"),
        (clock_time(1, 15, told=True), "a quarter past one", "Viertel nach eins"),
        (clock_time(3, 15, told=True), "a quarter past three", "Viertel nach drei"),
        (clock_time(3, 30, told=True), "half past three", "halb vier"),
        (clock_time(12, 30, told=True), "half past twelve", "halb eins"),
        (clock_time(12, 50, told=True), "ten to one", "zehn vor eins"),
        (amount(1, 0, "euro"), "one euro", "ein Euro"),
        (amount(3, 50, "euro"), "three euros fifty", "drei Euro fünfzig"),
        (amount(1, 20, "pound"), "one pound twenty", "ein Pfund zwanzig"),
        (
            amount(101, 1, "dollar"),
            "one hundred one dollars and one cent",
            "einhundertein Dollar und ein Cent",
        ),
    ],
)
def test_phrases(pair, en, de):
    assert pair == (en, de)


@pytest.mark.parametrize(
    "en, de",
    [
        ("the first week", "die erste Woche"),
        ("the third house", "das dritte Haus"),
        ("the twentieth day", "der zwanzigste Tag"),
        ("at one o'clock", "um ein Uhr"),
        ("at half past twelve at night", "um halb eins nachts"),
        ("until a quarter past one in the afternoon", "bis Viertel nach eins nachmittags"),
    ],
)
def test_examples(splits, en, de):
    pairs = {e.english: e.german for split in splits.values() for e in split}
    assert pairs[en] == de


def test_pairs_are_distinct_and_one_to_one(splits):
    assert {split: len(pairs) for split, pairs in splits.items()} == {
        "train": 25_000,
        "dev": 500,
        "test": 1000,
    }
    everything = [e for pairs in splits.values() for e in pairs]
    assert (
        len({e.english for e in everything})
        == len({e.german for e in everything})
        == len(everything)
    )


def test_compositions_are_unseen(splits):
    known = {c for e in splits["train"] for c in e.compositions}
    for split in ("dev", "test"):
        assert all({held_out(c) for c in e.compositions} <= {split, "train"} for e in splits[split])
        kept = {c for e in splits[split] for c in e.compositions if held_out(c) == split}
        assert kept and not kept & known
        assert all(kept.intersection(e.compositions) for e in splits[split])


def test_phrases_of_unseen_numbers_occur_nowhere_in_training(splits):
    """The same as a reader would check it, on the text itself."""
    training = "\n".join(e.english for e in splits["train"])
    problem = SpelledNumbersEnde()
    # A phrase such as "two hundred" also begins longer numbers; all others name one value.
    lines = [e.english for e in splits["test"] if problem.category(e.english) == "numbers"]
    numbers = [line for line in lines if "hundred " in line]
    assert len(numbers) > 100
    for phrase in numbers:
        if phrase in training:  # maybe as the beginning of "... forty-two" or "... five hundred"
            assert not re.search(rf"(?<![\w-]){phrase}(?! hundred)(?![\w-])", training), phrase


@pytest.mark.parametrize("side", ["english", "german"])
def test_every_word_of_a_test_line_is_known(splits, side):
    german_parts = re.compile(
        r"und(?=[zdvfsan])|tausend|hundert|(?<=[a-zß])(?:ste|te)\b"  # the joints of a compound
    )

    def words(split):
        text = " ".join(getattr(e, side) for e in splits[split])
        if side == "german":
            text = german_parts.sub(lambda m: f" {m[0]} ", text)
        return set(re.findall(r"[\w']+", text))

    assert words("dev") | words("test") <= words("train")
    assert len(words("train")) < 200


def test_same_seed_same_examples(splits):
    assert list(examples("test")) == splits["test"]
    assert list(examples("test", seed=2)) != splits["test"]


@pytest.mark.parametrize("name", ["spelled_numbers_ende", "spelled_numbers_ende_rev"])
def test_problem(name):
    registry.load_plugins()
    problem = registry.problem(name)
    assert problem.metric is ExactMatch and problem.subwords() < 1000
    counts = dict.fromkeys(CATEGORIES, 0)
    for line, target in problem.source("test").pairs():
        assert problem.category(line) == problem.category(target)
        counts[problem.category(line)] += 1
    assert counts == dict.fromkeys(CATEGORIES, PAIRS["test"])
    assert problem.source("test").fingerprint() != problem.source("train").fingerprint()
