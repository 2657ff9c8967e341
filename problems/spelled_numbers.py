"""Numbers, dates, times and prices spelled out in English and German: a task that needs no data.

    one hundred forty-two             einhundertzweiundvierzig
    the third week                    die dritte Woche
    the first of March nineteen ten   der erste März neunzehnhundertzehn
    at a quarter past three           um Viertel nach drei
    one euro twenty                   ein Euro zwanzig

What is held out for dev and test is a composition, not a string: whoever is asked for 142 has never
met 142, neither as a number nor in an ordinal, a year or a price, but has met each of its words. A
model that only remembers fails.
"""

import hashlib
import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from t2t_lite.problems.translation import TranslationProblem

from t2t_lite.data.sources import Generated
from t2t_lite.evaluation.metrics import ExactMatch
from t2t_lite.registry import register_problem

ENGLISH = """zero one two three four five six seven eight nine ten eleven twelve thirteen
    fourteen fifteen sixteen seventeen eighteen nineteen""".split()
ENGLISH_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
ENGLISH_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
GERMAN = """null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn
    vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn""".split()
GERMAN_TENS = "null zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
GERMAN_ORDINALS = {1: "erste", 3: "dritte", 7: "siebte", 8: "achte"}

THINGS = {
    "day": "der {} Tag", "guest": "der {} Gast", "train": "der {} Zug",
    "week": "die {} Woche", "page": "die {} Seite", "street": "die {} Straße",
    "year": "das {} Jahr", "house": "das {} Haus", "book": "das {} Buch",
}  # fmt: skip
MONTHS = {
    "January": ("Januar", 31), "February": ("Februar", 28), "March": ("März", 31),
    "April": ("April", 30), "May": ("Mai", 31), "June": ("Juni", 30),
    "July": ("Juli", 31), "August": ("August", 31), "September": ("September", 30),
    "October": ("Oktober", 31), "November": ("November", 30), "December": ("Dezember", 31),
}  # fmt: skip
FIRST_YEAR, LAST_YEAR = 1700, 2099
# Minute -> English and German before the hour, and what English and German add to the hour.
CLOCK = {
    5: ("five past", "fünf nach", 0, 0), 10: ("ten past", "zehn nach", 0, 0),
    15: ("a quarter past", "Viertel nach", 0, 0), 20: ("twenty past", "zwanzig nach", 0, 0),
    30: ("half past", "halb", 0, 1), 40: ("twenty to", "zwanzig vor", 1, 1),
    45: ("a quarter to", "Viertel vor", 1, 1), 50: ("ten to", "zehn vor", 1, 1),
    55: ("five to", "fünf vor", 1, 1),
}  # fmt: skip
TIME_PREPOSITIONS = {"": "", "at ": "um ", "until ": "bis "}
DAY_PARTS = {  # English -> German, hours
    "in the morning": ("morgens", range(4, 12)), "in the afternoon": ("nachmittags", range(1, 6)),
    "in the evening": ("abends", range(5, 11)), "at night": ("nachts", range(10, 13)),
}  # fmt: skip
CURRENCIES = {  # singular -> plural, German
    "euro": ("euros", "Euro"), "dollar": ("dollars", "Dollar"),
    "pound": ("pounds", "Pfund"), "franc": ("francs", "Franken"),
}  # fmt: skip
CENT_CURRENCIES = ("euro", "dollar")  # whose hundredth is a cent in both languages
SIGNS = {  # words of either language that tell a category
    "prices": {word for one, others in CURRENCIES.items() for word in (one, *others)}
    | {"cent", "cents", "Cent"},
    "dates": {name for month, (monat, _) in MONTHS.items() for name in (month, monat)},
    "ordinals": {word for thing, phrase in THINGS.items() for word in (thing, phrase.split()[-1])},
}


def english(n: int) -> str:
    """142 -> `one hundred forty-two`, for 0 <= n < 1,000,000."""
    parts = []
    for size, word in ((1000, "thousand"), (100, "hundred")):
        count, n = divmod(n, size)
        if count:
            parts.append(f"{english(count)} {word}")
    if n >= 20:
        tens, units = divmod(n, 10)
        parts.append(ENGLISH_TENS[tens] + (f"-{ENGLISH[units]}" if units else ""))
    elif n or not parts:
        parts.append(ENGLISH[n])
    return " ".join(parts)


def german(n: int, one: str = "eins") -> str:
    """142 -> `einhundertzweiundvierzig`, for 0 <= n < 1,000,000.

    `one` is the end of a number in 01: `ein` before a noun.
    """
    parts = []
    for size, word in ((1000, "tausend"), (100, "hundert")):
        count, n = divmod(n, size)
        if count:
            parts.append(german(count, "ein") + word)
    if n >= 20:
        tens, units = divmod(n, 10)
        parts.append((german(units, "ein") + "und" if units else "") + GERMAN_TENS[tens])
    elif n == 1:
        parts.append(one)
    elif n or not parts:
        parts.append(GERMAN[n])
    return "".join(parts)


def english_ordinal(n: int) -> str:
    """142 -> `one hundred forty-second`."""
    head, last = re.fullmatch(r"(.*[ -])?(\w+)", english(n)).groups(default="")
    if last in ENGLISH_ORDINALS:
        return head + ENGLISH_ORDINALS[last]
    return head + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def german_ordinal(n: int) -> str:
    """142 -> `einhundertzweiundvierzigste`, as after a definite article in the nominative."""
    last = n % 100
    if not 1 <= last <= 19:
        return german(n) + "ste"
    head = german(n - last) if n > last else ""
    return head + GERMAN_ORDINALS.get(last, GERMAN[last] + "te")


def english_year(year: int) -> str:
    """1905 -> `nineteen oh five`, 2005 -> `two thousand five`, 2014 -> `twenty fourteen`."""
    century, rest = divmod(year, 100)
    if year % 1000 < 10:
        return english(year)
    if rest == 0:
        return f"{english(century)} hundred"
    return f"{english(century)} {'oh ' if rest < 10 else ''}{english(rest)}"


def german_year(year: int) -> str:
    """1905 -> `neunzehnhundertfünf`, 2005 -> `zweitausendfünf`."""
    century, rest = divmod(year, 100)
    if not 11 <= century <= 19:
        return german(year)
    return f"{german(century)}hundert{german(rest) if rest else ''}"


def calendar_day(day: int, month: str, year: int | None = None) -> tuple[str, str]:
    """`the first of March nineteen oh five`, `der erste März neunzehnhundertfünf`."""
    en, de = (
        f"the {english_ordinal(day)} of {month}",
        f"der {german_ordinal(day)} {MONTHS[month][0]}",
    )
    return (en, de) if year is None else (f"{en} {english_year(year)}", f"{de} {german_year(year)}")


def clock_time(hour: int, minute: int, told: bool = False) -> tuple[str, str]:
    """`three fifteen`, `drei Uhr fünfzehn`; `told`: `a quarter past three`, `Viertel nach drei`."""
    if told:
        en, de, en_hours, de_hours = CLOCK[minute]
        return f"{en} {english(_hour(hour + en_hours))}", f"{de} {german(_hour(hour + de_hours))}"
    en, de = english(hour), f"{german(hour, 'ein')} Uhr"
    if minute == 0:
        return f"{en} o'clock", de
    return f"{en} {'oh ' if minute < 10 else ''}{english(minute)}", f"{de} {german(minute)}"


def amount(whole: int, cents: int, currency: str) -> tuple[str, str]:
    """`one euro fifty`, `ein Euro fünfzig`; `two euros and one cent`, `zwei Euro und ein Cent`."""
    plural, german_currency = CURRENCIES[currency]
    en, de = (
        f"{english(whole)} {currency if whole == 1 else plural}",
        f"{german(whole, 'ein')} {german_currency}",
    )
    if cents == 0:
        return en, de
    if cents >= 10:
        return f"{en} {english(cents)}", f"{de} {german(cents)}"
    return (
        f"{en} and {english(cents)} {'cent' if cents == 1 else 'cents'}",
        f"{de} und {german(cents, 'ein')} Cent",
    )


def _hour(hour: int) -> int:
    return hour - 12 if hour > 12 else hour


class Example(NamedTuple):
    """A pair, and the compositions in it that may be held out."""

    english: str
    german: str
    compositions: tuple[tuple, ...]  # values of 100 and more, and pairs of smaller ones


def draw_number(draw: random.Random) -> Example:
    """A number below 10,000."""
    n = draw.randrange(draw.choice((100, 1000, 10_000, 10_000)))
    return Example(english(n), german(n), _values(n))


def draw_ordinal(draw: random.Random) -> Example:
    """An ordinal below 1,000 before a noun."""
    n = draw.randrange(1, draw.choice((100, 1000, 1000)))
    thing, phrase = draw.choice(list(THINGS.items()))
    return Example(
        f"the {english_ordinal(n)} {thing}", phrase.format(german_ordinal(n)), _values(n)
    )


def draw_date(draw: random.Random) -> Example:
    """A day of a month, mostly with its year."""
    month = draw.choice(list(MONTHS))
    day = draw.randint(1, MONTHS[month][1])
    year = draw.randint(FIRST_YEAR, LAST_YEAR) if draw.random() < 0.9 else None
    values = _values(year) if year else ()
    return Example(*calendar_day(day, month, year), (("day", day, month), *values))


def draw_time(draw: random.Random) -> Example:
    """A time of the day, with a preposition or without, some told as people do."""
    hour, minute = draw.randint(1, 12), draw.randrange(60)
    en, de = clock_time(hour, minute, told=minute in CLOCK and draw.random() < 0.7)
    en_preposition, de_preposition = draw.choice(list(TIME_PREPOSITIONS.items()))
    en, de = en_preposition + en, de_preposition + de
    en_part, (de_part, hours) = draw.choice(list(DAY_PARTS.items()))
    if hour in hours:
        en, de = f"{en} {en_part}", f"{de} {de_part}"
    # "half past three" is "halb vier": nothing else tells a model which hour comes after three.
    return Example(en, de, () if minute == 30 else (("time", hour, minute),))


def draw_price(draw: random.Random) -> Example:
    """A price below 1,000 of a currency."""
    currency = draw.choice(list(CURRENCIES))
    whole = draw.randrange(1, draw.choice((100, 1000)))
    fewest = 1 if currency in CENT_CURRENCIES else 10
    cents = draw.choice((0, draw.randrange(fewest, 100)))
    compositions = (("amount", whole, cents),) if cents else ()
    return Example(*amount(whole, cents, currency), (*compositions, *_values(whole)))


def _values(n: int) -> tuple[tuple, ...]:
    """3142 contains 142 too, letter for letter; a value below 100 counts as a word, known."""
    return tuple(("number", value) for value in dict.fromkeys((n, n % 1000)) if value >= 100)


CATEGORIES = {
    "numbers": draw_number, "ordinals": draw_ordinal, "dates": draw_date,
    "times": draw_time, "prices": draw_price,
}  # fmt: skip
PAIRS = {"train": 5000, "dev": 100, "test": 200}  # in each category
SEED = 1


def held_out(composition: tuple) -> str:
    """The split that a composition is kept for."""
    share = int.from_bytes(hashlib.sha256(repr(composition).encode()).digest()[:4], "big") % 100
    return "test" if share < 6 else "dev" if share < 10 else "train"


def examples(split: str, seed: int = SEED) -> Iterator[Example]:
    """The distinct examples of `split`, its categories mixed.

    In dev and test each has a composition that is held out for that split.
    """
    found: dict[str, Example] = {}
    for category, draw_one in CATEGORIES.items():
        draw = random.Random(f"{seed} {split} {category}")
        end = len(found) + PAIRS[split]
        while len(found) < end:
            example = draw_one(draw)
            splits = {held_out(composition) for composition in example.compositions} - {"train"}
            if (splits or {"train"}) == {split}:
                found[example.english] = example
    mixed = list(found.values())
    random.Random(f"{seed} {split}").shuffle(mixed)
    yield from mixed


@register_problem
class SpelledNumbersEnde(TranslationProblem):
    """Numbers, ordinals, dates, times and prices spelled out, English-German; needs no data."""

    source_language, target_language = "en", "de"
    # 259 are special symbols and single bytes; merges then end at most joints of a compound.
    default_vocab_size = 500
    metric = ExactMatch

    def corpus(self, split):
        """The generated examples."""
        key = f"spelled_numbers {split}, seed {SEED}"
        return Generated(
            lambda: ((example.english, example.german) for example in examples(split)), key
        )

    def category(self, line):
        """Which of CATEGORIES a line is, in either language."""
        words = line.split()
        for name, signs in SIGNS.items():
            if not signs.isdisjoint(words):
                return name
        return (
            "numbers"
            if len(words) == 1 or not {"hundred", "thousand"}.isdisjoint(words)
            else "times"
        )
