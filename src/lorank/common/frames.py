"""Data frames of pandas or polars from arrays."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from typing import Any


def frame_of(columns: Mapping[str, Any]) -> Any:
    """A data frame of pandas, or of polars where pandas is not installed, from columns by their names."""
    for package in ("pandas", "polars"):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(package).DataFrame(dict(columns))
    raise ImportError('data frames need pandas or polars: pip install pandas, or pip install "lorank[files]"')
