"""Experiments and benchmarks: points, methods and their tuning, stored runs, tables, figures, pages.

A :class:`Benchmark` compares solvers on random problems over a grid of parameters, and :func:`run` makes the runs that are not
stored yet and writes tables, figures and a page; ``lorank bench`` does it for a file. The paper's experiments are in
:mod:`lorank.paper`.
"""

from __future__ import annotations

from .bench import Benchmark, Results, combinations, load_file, run
from .experiment import SCALES, TUNING_SEEDS, Experiment, Instance, Method, Outcome, PlannedIterations, Point
from .progress import Progress
from .runner import run_experiment

__all__ = [
    "SCALES",
    "TUNING_SEEDS",
    "Benchmark",
    "Experiment",
    "Instance",
    "Method",
    "Outcome",
    "PlannedIterations",
    "Point",
    "Progress",
    "Results",
    "combinations",
    "load_file",
    "run",
    "run_experiment",
]
