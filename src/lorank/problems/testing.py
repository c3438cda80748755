"""Checks for a measurement model of your own: run them in your tests."""

from __future__ import annotations

import numpy as np

from ..geometry import FixedRank, Weights, retract, riemannian_gradient
from .dot_test import check_arguments, dot_test
from .problem import Problem

__all__ = ["check_gradient", "dot_test"]


def check_gradient(problem: Problem, rank: int, *, seed: int = 0) -> float:
    """Check the Riemannian gradient by the order of its first-order model's error, which must be 2.

    The misfit ``f(X) = |A X - y|^2 / 2`` is compared with ``f(X) + t <grad, xi>`` along a curve through a random X, for a
    range of t; the slope of the error in a log-log plot is returned.

    Parameters
    ----------
    problem : Problem
    rank : int
        Of the point where it is checked.
    seed : int
        Of that point.

    Returns
    -------
    float
        The slope.

    Raises
    ------
    AssertionError
        When the slope is not 2 within 0.1.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> abs(lr.testing.check_gradient(problem, rank=2) - 2) < 0.1
    True
    """
    check_arguments(problem, rank, seed)
    rng, backend = np.random.default_rng(seed), problem.backend
    n1, n2 = problem.shape
    X = FixedRank.from_factors(
        backend.random_normal(rng, (n1, rank), problem.dtype),
        backend.random_normal(rng, (n2, rank), problem.dtype),
        backend=backend,
    )
    G = problem.gradient(X)
    gradient = riemannian_gradient(X, G, Weights())
    other = problem.gradient(
        FixedRank.from_factors(backend.random_normal(rng, (n1, rank), problem.dtype), X.V, backend=backend)
    )
    direction = gradient + riemannian_gradient(X, _Moved(X, other.times(X.V), other.adjoint_times(X.U)), Weights())
    direction = (X.norm() / direction.norm()) * direction
    slope = direction.inner(G)
    f = G.residual_norm**2 / 2
    lengths = np.logspace(-1, -3 if np.finfo(problem.dtype).bits == 32 else -5, 15)
    errors = np.array([abs(problem.gradient(retract(direction, t)).residual_norm ** 2 / 2 - f - t * slope) for t in lengths])
    precision = 100 * np.finfo(problem.dtype).eps * (f + abs(slope))
    usable = errors > precision
    if usable.sum() < 3:  # linear to rounding
        return 2.0
    order = float(np.polyfit(np.log(lengths[usable]), np.log(errors[usable]), 1)[0])
    if not abs(order - 2) < 0.1:
        raise AssertionError(f"the first-order model's error falls with order {order:.2f}, expected 2: the gradient is wrong")
    return order


class _Moved:
    def __init__(self, X: FixedRank, GV: np.ndarray, GhU: np.ndarray) -> None:
        self.GV, self.GhU, self.core = GV, GhU, X.backend.gram(X.U, GV)
