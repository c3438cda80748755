"""The C++ extension, loaded so that its threads do not wait at full speed for long.

GCC's OpenMP lets a thread that has nothing to do look again and again for some ten milliseconds before it goes to sleep. Where
another program has one of the cores, nearly every pass then waits for that program's share of time to end, and two threads take
several times as long as one. A millisecond bridges the gaps between passes as well. The runtime reads its settings when it is
loaded, so that this one is in the environment only meanwhile; who has set one of their own keeps it.
"""

from __future__ import annotations

import contextlib
import os

SPINS = "20000"  # well below a millisecond
SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def _load() -> None:
    own = not any(name in os.environ for name in SETTINGS)
    if own:
        os.environ["GOMP_SPINCOUNT"] = SPINS
    try:
        with contextlib.suppress(ImportError):  # where it was not built: said when it is first needed
            from .. import _kernels  # type: ignore[attr-defined]  # noqa: F401
    finally:
        if own:
            del os.environ["GOMP_SPINCOUNT"]


_load()
