"""Metric for unevenly sampled rows and columns: weights by their numbers of observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends import Array
from ..common.checks import NOT_NEGATIVE, POSITIVE, Checked, parameter
from ..geometry import DiagonalWeight, Weights
from ..problems import Gradient, Problem
from ..problems.capabilities import HasCounts, supports


@dataclass(frozen=True)
class Counts(Checked):
    """``L = diag(l)`` with ``l = c + floor median(c)`` divided by its mean, c the numbers of observations of rows; R likewise.

    Where m entries are drawn with frequencies ``p_i q_j``, ``E |A Z|^2 = m <P Z Q, Z>``: in this metric the objective has the
    same expected curvature in all directions. The floor bounds the steps of rows with few observations.

    Weights are the identity for models without counts (:class:`~lorank.problems.capabilities.HasCounts`) and for nearly equal
    counts. On uniform patterns, whose counts differ by chance, they save about a tenth of the iterations.

    Parameters
    ----------
    floor : float
        Added to the counts, in units of their median.
    uneven : float
        Squared coefficient of variation of the counts of either side below which no weights are used.

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> rng = np.random.default_rng(0)
    >>> rows, cols = np.nonzero(rng.random((300, 200)) < np.geomspace(0.05, 0.8, 200))  # uneven columns
    >>> truth = lr.FixedRank.from_factors(rng.standard_normal((300, 2)), rng.standard_normal((200, 2)))
    >>> problem = lr.Completion(rows, cols, truth.entries(rows, cols), (300, 200))
    >>> metrics = lr.metrics.Canonical(), lr.metrics.Counts()
    >>> plain, counted = (lr.solve(problem, 2, lr.solvers.RCG(metric)) for metric in metrics)
    >>> counted.n_iter < plain.n_iter
    True
    """

    floor: float = parameter(0.5, POSITIVE)
    uneven: float = parameter(0.0125, NOT_NEGATIVE)

    def start(self, G: Gradient) -> Weights:
        return count_weights(G.problem, self.floor, self.uneven)

    def weights(self, G: Gradient, memory: Weights) -> tuple[Weights, Weights]:
        return memory, memory


def count_weights(problem: Problem, floor: float = 0.5, uneven: float = 0.0125) -> Weights:
    """The weights of a problem, in its precision: they do not depend on the point."""
    counts = problem.counts() if supports(problem, HasCounts) else None
    if counts is None or max(map(_variation, counts)) < uneven:
        return Weights()
    backend, dtype = problem.backend, np.zeros(0, problem.dtype).real.dtype
    modes, low, high = [], 1.0, 1.0
    for c in counts:
        w = backend.astype(c, np.float64)
        w = w + floor * max(backend.median(w), 1.0)
        w = w / float(w.mean())
        modes.append(DiagonalWeight(backend.astype(w, dtype)))
        low, high = low * float(w.min()), high * float(w.max())
    return Weights(tuple(modes), low, high)


def _variation(c: Array) -> float:
    """The squared coefficient of variation."""
    mean, square = float(c.sum()) / len(c), float((c * c).sum()) / len(c)
    return square / mean**2 - 1 if mean > 0 else 0.0
