"""A stopwatch that can stand still."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import ClassVar


class Clock:
    """Seconds since it was made, without those in which it was paused.

    Examples
    --------
    >>> clock = Clock()
    >>> with clock.paused():
    ...     before = clock.seconds
    >>> clock.seconds >= before
    True
    """

    timer: ClassVar[Callable[[], float]] = staticmethod(time.perf_counter)

    @classmethod
    @contextlib.contextmanager
    def by(cls, timer: Callable[[], float]) -> Iterator[None]:
        """Let new clocks run by another timer: :func:`time.thread_time`, say, on a machine that others use, too."""
        before, cls.timer = cls.timer, staticmethod(timer)
        try:
            yield
        finally:
            cls.timer = staticmethod(before)

    def __init__(self) -> None:
        self._now = Clock.timer
        self._begin, self._paused, self._depth = self._now(), 0.0, 0

    @property
    def seconds(self) -> float:
        """Measured so far."""
        now = self._stopped if self._depth else self._now()
        return now - self._begin - self._paused

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what happens inside."""
        if self._depth == 0:
            self._stopped = self._now()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._paused += self._now() - self._stopped
