"""What ends a training before its last update: signals, and a dev set that gets no better."""

import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self

from t2t_lite.errors import Stopped

# Ctrl-C; what schedulers send before they kill; the terminal has gone.
_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


class StopSignals:
    """Notes SIGINT, SIGTERM and SIGHUP while its block runs, but for those that are ignored.

    (nohup ignores SIGHUP.) A second one ends the process at once.

    Attributes:
        received: the first one's number, or None.
    """

    def __init__(self):
        self.received: int | None = None
        self._at_once = False

    def __enter__(self) -> Self:
        self._before = {}
        if threading.current_thread() is threading.main_thread():  # others may set no handler
            for number in _SIGNALS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _) -> None:
        if self.received is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.received = number
        if self._at_once:
            raise Stopped(number)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """While its block runs, which changes nothing that is saved, a signal raises Stopped."""
        if self.received is not None:
            raise Stopped(self.received)
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False


@dataclasses.dataclass(frozen=True)
class Standing:
    """How the evaluations on the dev set have gone so far.

    Attributes:
        step: of the last one; 0: there was none.
        figure: the name of what they are compared by; the higher, the better, but for a loss.
        best: its best value.
        since_best: evaluations since then.
    """

    step: int = 0
    figure: str | None = None
    best: float | None = None
    since_best: int = 0

    def after(self, step: int, figure: str, value: float) -> Self:
        """With one more evaluation."""
        sign = -1 if figure == "loss" else 1
        if figure != self.figure or sign * value > sign * self.best:
            return Standing(step, figure, value)
        return dataclasses.replace(self, step=step, since_best=self.since_best + 1)

    def to_json(self) -> dict[str, Any]:
        """JSON values, by the names of the fields."""
        return dataclasses.asdict(self)
