"""Cleaning: which pairs are left out, in whatever script they are written."""

from collections import Counter

import pytest

from t2t_lite.data.cleaning import cleaned, length
from t2t_lite.data.sources import Generated

PAIRS = [
    ("a b", "x"),
    ("a b c", "x"),
    ("a b", "y"),
    ("", "y"),
    (" \u3000", "y"),
]


def kept(pairs, ratio):
    source, counts = cleaned(Generated(lambda: iter(pairs), "pairs"), ratio, False), Counter()
    return [p for part in source.parts() for p in source.read(part, counts)], counts


def test_leaves_out_and_counts():
    assert kept(PAIRS, None) == (PAIRS[:3], {"with an empty side": 2})
    assert kept(PAIRS, 2.0) == (
        [PAIRS[0], PAIRS[2]],
        {"with an empty side": 2, "over max_length_ratio 2": 1},
    )
    assert kept(PAIRS[:3], 1.0)[0] == []


def test_duplicates_are_for_the_writer():
    source = Generated(lambda: iter(PAIRS), "pairs")
    assert cleaned(source, None, True).distinct and not cleaned(source, None, False).distinct


@pytest.mark.parametrize(
    "text, words",
    [
        ("two words", 2),
        ("one-word", 1),
        ("- a dash is a word", 6),
        ("今日は雨です。", 5),  # three Han, three kana: 3 + 1.5
        ("วันนี้ฝนตก", 3),  # eight letters of ten signs
        ("IBM 在北京", 4),
        ("오늘 비가 온다", 3),  # Korean has spaces
        ("", 0),
    ],
)
def test_length_in_words(text, words):
    assert length(text) == words


@pytest.mark.parametrize(
    "foreign",
    [
        "明天早上我们乘火车去海边。",
        "明日の朝、私たちは電車で海へ行きます。",
        "พรุ่งนี้เช้าเราจะนั่งรถไฟไปทะเล",
    ],
)
def test_scripts_without_spaces_stay(foreign):
    english = "tomorrow morning we take the train to the sea ."
    pairs = [(english, foreign), (foreign, english), (english, "Morgen früh fahren wir ans Meer .")]
    assert kept(pairs, 2.0)[0] == pairs
    assert not kept([(english, foreign[:2]), (foreign * 4, english)], 2.0)[0]
