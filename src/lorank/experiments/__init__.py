"""The paper's experiments, one a file, behind ``lorank reproduce``.

An experiment's file holds an ``EXPERIMENT``; its name is the file's, with dashes.
"""

from __future__ import annotations

import importlib
import importlib.util

from .base import SCALES, Experiment, Instance, Method, Point

# In the order of the paper. Files are imported when asked for.
EXPERIMENTS = (
    "completion-size",
    "completion-oversampling",
    "completion-noise",
    "movielens",
    "sensing-oversampling",
    "sensing-success",
    "phase-real",
    "phase-complex",
    "theorem",
)


def names() -> list[str]:
    """The experiments that are there."""
    return [name for name in EXPERIMENTS if importlib.util.find_spec(_module(name)) is not None]


def load(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in names():
        raise ValueError(f"unknown experiment {name!r}: choose from {', '.join(names())}, or all")
    experiment: Experiment = importlib.import_module(_module(name)).EXPERIMENT
    return experiment


def _module(name: str) -> str:
    return f"{__name__}.{name.replace('-', '_')}"


__all__ = ["EXPERIMENTS", "SCALES", "Experiment", "Instance", "Method", "Point", "load", "names"]
