"""Words of raw text: typography is set apart or kept in words as people expect, characters stay."""

import pytest

from t2t_lite.trees.tokenization import tokenize


@pytest.mark.parametrize(
    "text, words",
    [
        ("It didn't (really) rain.", "It did n't ( really ) rain ."),
        ('"No," he said, "no."', "`` No , '' he said , `` no . ''"),
        ("“Stay,” he said: “please…”", "“ Stay , ” he said : “ please … ”"),
        ("We don’t, can’t and won’t.", "We do n’t , ca n’t and wo n’t ."),
        (
            "I’ll see Ann’s cat; they’ve seen it, I'd say",
            "I ’ll see Ann ’s cat ; they ’ve seen it , I 'd say",
        ),
        ("The dogs’ bones", "The dogs ’ bones"),
        ("‘Well’, she said, ‘isn’t it?’", "‘ Well ’ , she said , ‘ is n’t it ? ’"),
        ("« Oui », dit-il : «non»", "« Oui » , dit-il : « non »"),
        ("„Ja“, sagte er, ‚wohl‘. »Doch« ‹ach›", "„ Ja “ , sagte er , ‚ wohl ‘ . » Doch « ‹ ach ›"),
        ("late—very late – or never -- 1990–2000", "late — very late – or never -- 1990 – 2000"),
        ("…and…so on…", "… and … so on …"),
        ("wait... what", "wait ... what"),
        ("aujourd’hui l’eau", "aujourd’hui l’eau"),
        ("well-known 1/2 $3.50 50% 3:30", "well-known 1/2 $ 3.50 50 % 3:30"),
        ("one\u00a0two\ta  b", "one two a b"),
        ("``old'' and ''older''", "`` old '' and `` older ''"),
        ("", ""),
        (" \u3000", ""),
        ('"', "``"),
    ],
)
def test_words(text, words):
    assert " ".join(tokenize(text)) == words
