"""Fitted models as plain structures and arrays, and back: for model files, without pickle."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .block_gaps import Blackouts
from .columns import Column
from .factor_analysis import FactorAnalysis
from .forest import Forest, Woods
from .gaussian import Gaussian
from .kernel_ridge import Bumps
from .linear import Linear
from .margins import Margin
from .preorder import Preorder
from .series import Neighbours
from .series_model import SeriesModel
from .stacking import Calibration
from .table_model import TableModel

CLASSES: dict[str, Any] = {
    c.__name__: c
    for c in (
        Blackouts,
        Bumps,
        Calibration,
        Column,
        FactorAnalysis,
        Forest,
        Gaussian,
        Linear,
        Margin,
        Neighbours,
        Preorder,
        SeriesModel,
        TableModel,
        Woods,
    )
}


def pack(value: Any, arrays: dict[str, np.ndarray], at: str = "table") -> Any:
    """A structure for JSON; arrays go into ``arrays``, under names that begin with ``at``."""
    if isinstance(value, Forest):
        value = Preorder.of(value) or value
    if is_dataclass(value):
        entries = {f.name: pack(getattr(value, f.name), arrays, f"{at}.{f.name}") for f in fields(value)}
        return {"class": type(value).__name__, **entries}
    if isinstance(value, np.ndarray):
        arrays[at] = value
        return {"array": at}
    if isinstance(value, list):
        return [pack(entry, arrays, f"{at}.{k}") for k, entry in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a model file holds numbers and text, not {value!r}")


def unpack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """What was packed."""
    if isinstance(value, list):
        return [unpack(entry, arrays) for entry in value]
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        if "class" in value:
            entries = {name: unpack(entry, arrays) for name, entry in value.items() if name != "class"}
            found = CLASSES[value["class"]](**entries)
            return found.forest() if isinstance(found, Preorder) else found
        return None  # no trees, as files of before say it
    return value
