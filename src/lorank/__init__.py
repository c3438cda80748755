"""lorank: recover a low-rank matrix from a few of its entries or from indirect measurements.

>>> import lorank as lr
>>> problem, truth = lr.datasets.random_completion(300, 200, rank=3, oversampling=6, seed=1)
>>> result = lr.solve(problem, rank=3)
>>> result.converged
True
"""

from __future__ import annotations

from . import callbacks, datasets, metrics, solvers, starts, steps, stopping, testing
from .geometry import FixedRank
from .operators import Completion, Gradient, PhaseRetrieval, Problem, Sensing, phase_distance
from .result import History, Result, Status
from .solvers import IHT, NIHT, RCG, RGD, Annealing, Auto, GaussNewton, Safeguard, solve

__version__ = "0.1.0"

__all__ = [
    "IHT",
    "NIHT",
    "RCG",
    "RGD",
    "Annealing",
    "Auto",
    "Completion",
    "FixedRank",
    "GaussNewton",
    "Gradient",
    "History",
    "PhaseRetrieval",
    "Problem",
    "Result",
    "Safeguard",
    "Sensing",
    "Status",
    "callbacks",
    "datasets",
    "metrics",
    "phase_distance",
    "solve",
    "solvers",
    "starts",
    "steps",
    "stopping",
    "testing",
]
