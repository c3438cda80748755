"""Pausable timer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import ClassVar


class Timer:
    """Seconds since construction, without pauses.

    Examples
    --------
    >>> timer = Timer()
    >>> with timer.paused():
    ...     before = timer.seconds
    >>> timer.seconds >= before
    True
    """

    clock: ClassVar[Callable[[], float]] = staticmethod(time.perf_counter)

    @classmethod
    @contextlib.contextmanager
    def by(cls, clock: Callable[[], float]) -> Iterator[None]:
        """Use another clock for new timers, such as :func:`time.thread_time` on a shared machine."""
        before, cls.clock = cls.clock, staticmethod(clock)
        try:
            yield
        finally:
            cls.clock = staticmethod(before)

    def __init__(self) -> None:
        self._now = Timer.clock
        self._begin, self._paused, self._depth = self._now(), 0.0, 0

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        now = self._stopped if self._depth else self._now()
        return now - self._begin - self._paused

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the timer inside the context."""
        if self._depth == 0:
            self._stopped = self._now()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._paused += self._now() - self._stopped
