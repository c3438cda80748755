"""Log messages of the logger ``lorank``, and ``verbose=`` of estimators."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

LOG = logging.getLogger("lorank")
LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}  # by verbose=

T = TypeVar("T", bound=Callable[..., Any])


@contextlib.contextmanager
def verbosity(verbose: int) -> Iterator[None]:
    """Log fits and selections (1), or iterations as well (2): to the handlers of the logger, or to standard error without."""
    if not verbose:
        yield
        return
    level, handler = LOG.level, None if LOG.hasHandlers() else logging.StreamHandler()
    LOG.setLevel(LEVELS[min(int(verbose), 2)])
    if handler is not None:
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.setLevel(level)
        if handler is not None:
            LOG.removeHandler(handler)


def verbose_fit(fit: T) -> T:
    """Decorate a ``fit`` that logs by the parameter ``verbose`` of its estimator."""

    @functools.wraps(fit)
    def logged(self: Any, *arguments: Any, **options: Any) -> Any:
        with verbosity(getattr(self, "verbose", 0)):
            return fit(self, *arguments, **options)

    return logged  # type: ignore[return-value]
