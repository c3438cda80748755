"""Policies for the paper's epsilon_t, which bounds the weights of rows with a small gradient from below.

All policies but ``Fixed`` are scale-invariant: if y is multiplied by c, epsilon is multiplied by c^2 and the iterates by c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..common.checks import POSITIVE, Checked, parameter, with_methods
from ..problems import Gradient


class Epsilon(Protocol):
    """A policy: a number from the first gradient, and epsilon in each iteration from that number and the current gradient.

    Examples
    --------
    >>> import lorank as lr
    >>> lr.metrics.RowColumn(epsilon=lr.metrics.Fixed(1e-3))
    RowColumn(epsilon=Fixed(value=0.001))
    """

    def start(self, G: Gradient) -> float:
        """The number from the first gradient."""

    def at(self, G: Gradient, start: float) -> float:
        """epsilon_t at the gradient G."""


POLICY = with_methods("start", "at", what="a policy such as lorank.metrics.Median()")


class ConstantEpsilon(Checked):
    """Base of policies with the same epsilon in all iterations."""

    def at(self, G: Gradient, start: float) -> float:
        return start


@dataclass(frozen=True)
class Fixed(ConstantEpsilon):
    """A constant epsilon.

    Parameters
    ----------
    value : float
        Positive, in units of squared gradient entries.

    Examples
    --------
    >>> import lorank as lr
    >>> lr.metrics.Fixed(1e-3)
    Fixed(value=0.001)
    """

    value: float = parameter(expected=POSITIVE)

    def start(self, G: Gradient) -> float:
        return self.value


@dataclass(frozen=True)
class Median(ConstantEpsilon):
    """The median of the nonzero squared row and column norms of the first gradient.

    Parameters
    ----------
    factor : float
        Factor on the median.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> metric = lr.metrics.RowColumn(lr.metrics.Median(factor=0.5))
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(metric, lr.steps.Exact())).converged
    True
    """

    factor: float = parameter(1.0, POSITIVE)

    def start(self, G: Gradient) -> float:
        backend = G.X.backend
        norms = backend.concat(list(G.squared_norms), axis=0)
        norms = norms[norms > 0]
        return _positive(self.factor * backend.median(norms)) if len(norms) else 1.0


@dataclass(frozen=True)
class RelativeMax(ConstantEpsilon):
    """``factor |G_0|_v^2``: relative to the largest squared row or column norm of the first gradient.

    Parameters
    ----------
    factor : float
        Positive.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> metric = lr.metrics.RowColumn(lr.metrics.RelativeMax(1e-2))
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(metric, lr.steps.Exact())).converged
    True
    """

    factor: float = parameter(1e-3, POSITIVE)

    def start(self, G: Gradient) -> float:
        return _positive(self.factor * max_norm(G) ** 2)


@dataclass(frozen=True)
class Theory:
    """``epsilon_t = |G_t|_v^2``, the choice in the proof of Theorem 1: the weights then differ by at most sqrt(2).

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RGD(lr.metrics.RowColumn(lr.metrics.Theory()), lr.steps.Exact())).converged
    True
    """

    def start(self, G: Gradient) -> float:
        return 0.0

    def at(self, G: Gradient, start: float) -> float:
        return _positive(max_norm(G) ** 2)


def max_norm(G: Gradient) -> float:
    """The paper's ``|G|_v``: the largest norm of a row or column."""
    return math.sqrt(max(float(squares.max()) for squares in G.squared_norms))


def _positive(value: float) -> float:
    return max(value, float(np.finfo(np.float64).tiny))
