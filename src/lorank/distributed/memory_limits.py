"""Memory sizes: parsing, formatting, physical memory, settings of the C allocator."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from typing import Any

from ..common.checks import ParameterError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
MIN_MEMORY = 50 * 10**6  # bytes; the interpreter and its libraries alone take more
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h


def parse_size(size: Any) -> int | None:
    """Bytes of a number or a string such as ``"2GB"``; None for None."""
    if size is None:
        return None
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", str(size)) if not isinstance(size, bool) else None
    unit = "" if found is None else found[2].upper()
    if unit in ("K", "M", "G", "T"):
        unit += "B"
    if found is None or unit not in UNITS:
        raise ParameterError("max_memory", f"must be a number of bytes or a size like '2GB' or '512 MiB', got {size!r}")
    count = int(float(found[1]) * UNITS[unit])
    if count < MIN_MEMORY:
        raise ParameterError("max_memory", f"must be at least {format_bytes(MIN_MEMORY)}, got {size}")
    return count


def format_bytes(count: float) -> str:
    """A number of bytes with its unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def physical_memory() -> int:
    """Bytes of main memory of this machine; 4 GB if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * 10**9


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for reuse, as it does by default.

    Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_=65536``. With that setting every array of more than 128 kB is
    requested from the system and returned to it, page by page.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, 1 << 25), (M_TRIM_THRESHOLD, 1 << 29)):
            mallopt(parameter, value)
