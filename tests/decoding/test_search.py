"""How to decode: a task's own way, but for what is given, and what is no way."""

import pytest

from t2t_lite.decoding.search import Sampling, Search
from t2t_lite.errors import UserError
from t2t_lite.problem import Decoding

DEFAULTS = Decoding(beam_size=5, alpha=0.4, extra_length=7)


def test_a_tasks_own_way_but_for_what_is_given():
    own = Search.of(DEFAULTS)
    assert (own.beam_size, own.alpha, own.extra_length, own.n_best) == (5, 0.4, 7, 1)
    given = Search.of(DEFAULTS, beam_size=2, alpha=0.0, extra_length=0)
    assert (given.beam_size, given.alpha, given.extra_length) == (2, 0.0, 0)
    assert Search.of(DEFAULTS, n_best=None).n_best == 5
    assert Search.of(DEFAULTS, beam_size=2, n_best=None).n_best == 2


def test_what_a_row_takes():
    assert Search.of(DEFAULTS).row_tokens(10) == 5 * (10 + 10 + 7)
    assert Search.of(DEFAULTS, n_best=9, sampling=Sampling()).row_tokens(10) == 9 * (10 + 10 + 7)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(beam_size=0), "beam_size=0: expected at least 1"),
        (dict(beam_size=2, n_best=3), "n_best=3: expected at most beam_size=2"),
        (dict(alpha=-1.0), "alpha=-1.0: expected at least 0"),
        (dict(alpha=float("nan")), "alpha=nan: expected at least 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(UserError, match=message):
        Search.of(DEFAULTS, **options)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(temperature=0.0), "temperature=0.0: expected more than 0"),
        (dict(top_k=0), "top_k=0: expected at least 1"),
    ],
)
def test_bad_sampling_is_named(options, message):
    with pytest.raises(UserError, match=message):
        Sampling(**options)
