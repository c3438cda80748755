"""Loads the C++ extension with a short spin time of idle threads.

By default, idle threads of GCC's OpenMP spin for about ten milliseconds before they sleep. On a machine with other load, two
threads then take several times as long as one. Less than a millisecond suffices for the gaps between passes. The runtime reads
its settings when it is loaded: the variable is set for that time only, unless the user has set one.
"""

from __future__ import annotations

import contextlib
import os

SPIN_COUNT = "20000"  # less than a millisecond
SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def _load() -> None:
    own = not any(name in os.environ for name in SETTINGS)
    if own:
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    try:
        with contextlib.suppress(ImportError):  # reported when it is first needed
            from .. import _kernels  # type: ignore[attr-defined]  # noqa: F401
    finally:
        if own:
            del os.environ["GOMP_SPINCOUNT"]


_load()
