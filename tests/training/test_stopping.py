"""StopSignals and Standing: what ends a training before its last update."""

import os
import signal

import pytest

from t2t_lite.errors import Stopped
from t2t_lite.training.stopping import Standing, StopSignals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noted(number):
    with StopSignals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), number)
        assert signals.received == number
        with pytest.raises(Stopped, match=number.name), signals.at_once():
            raise AssertionError("it begins although a signal came before")


def test_at_once_it_raises():
    with StopSignals() as signals:
        with pytest.raises(Stopped) as stop, signals.at_once():
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.value.number == signals.received == signal.SIGTERM
        assert isinstance(stop.value, KeyboardInterrupt)


def test_one_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.received is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_one_ends_the_process():
    child = os.fork()
    if child == 0:
        with StopSignals():
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def test_standing():
    standing = Standing()
    for step, value, best, since in (4, 2.0, 2.0, 0), (8, 1.5, 2.0, 1), (12, 2.0, 2.0, 2):
        standing = standing.after(step, "bleu", value)
        assert (standing.step, standing.best, standing.since_best) == (step, best, since)
    assert standing.after(16, "bleu", 2.1) == Standing(16, "bleu", 2.1, 0)
    loss = standing.after(16, "loss", 3.0)  # another figure: it starts anew
    assert loss == Standing(16, "loss", 3.0, 0)
    assert loss.after(20, "loss", 2.9).since_best == 0
    assert loss.after(20, "loss", 3.1).since_best == 1
    assert Standing(**standing.to_json()) == standing
