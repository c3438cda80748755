"""Experiments and benchmarks: points, methods and their tuning, stored runs, progress, tables.

An :class:`Experiment` defines the methods and the points of a comparison, and ``run_experiment`` makes the runs that are not
stored yet. The paper's experiments are in :mod:`lorank.paper`. ``import lorank`` imports neither.
"""

from __future__ import annotations

from .experiment import SCALES, TUNING_SEEDS, Experiment, Instance, Method, Outcome, PlannedIterations, Point
from .progress import Progress
from .runner import run_experiment

__all__ = [
    "SCALES",
    "TUNING_SEEDS",
    "Experiment",
    "Instance",
    "Method",
    "Outcome",
    "PlannedIterations",
    "Point",
    "Progress",
    "run_experiment",
]
