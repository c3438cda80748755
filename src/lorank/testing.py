"""Checks for a measurement model of your own: run them in your tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from .geometry import FixedRank, Weights, retract, riemannian_gradient
from .operators import Problem
from .parameter_checks import POSITIVE, check, instance, optional, whole

__all__ = ["check_gradient", "dot_test"]


def dot_test(problem: Problem, *, rank: int = 2, seed: int = 0, rtol: float | None = None) -> float:
    """Check that ``forward`` and ``adjoint`` belong together: ``<A(L R^H), p> = <L R^H, A* p>``.

    Parameters
    ----------
    problem : Problem
    rank : int
        Width of the random factors.
    seed : int
    rtol : float, optional
        By default the square root of the dtype's precision.

    Returns
    -------
    float
        The relative difference of the two sides.

    Raises
    ------
    AssertionError
        When they differ by more than ``rtol``, when a shape or dtype is off, or when one of them changes its arguments.
    """
    _check_arguments(problem, rank, seed)
    check("rtol", rtol, optional(POSITIVE))
    rng, backend = np.random.default_rng(seed), problem.backend
    n1, n2 = problem.shape
    left, right = (backend.random_normal(rng, (n, rank), problem.dtype) for n in (n1, n2))
    p = backend.random_normal(rng, (problem.m,), problem.dtype)
    given = {name: backend.copy(a) for name, a in (("left", left), ("right", right), ("p", p))}
    image = problem.forward(left, right)
    for name, a in (("left", left), ("right", right)):
        _unchanged(a, given[name], "forward", name)
    if tuple(image.shape) != (problem.m,):
        raise AssertionError(f"forward gives an array of shape {tuple(image.shape)}, expected ({problem.m},)")
    matrix = problem.adjoint(p)
    _unchanged(p, given["p"], "adjoint", "p")
    if tuple(matrix.shape) != (n1, n2):
        raise AssertionError(f"adjoint gives a matrix of shape {tuple(matrix.shape)}, expected {(n1, n2)}")
    one = np.vdot(backend.to_numpy(p), backend.to_numpy(image))  # <p, A(L R^H)>
    other = np.vdot(backend.to_numpy(matrix @ right), backend.to_numpy(left))  # <(A* p) R, L>
    scale = max(backend.norm(p) * backend.norm(image), np.finfo(float).tiny)
    off = float(abs(one - other) / scale)
    tolerance = _precision(problem) if rtol is None else rtol
    if not off <= tolerance:
        raise AssertionError(f"<A X, p> = {one:.6g} but <X, A* p> = {other:.6g}: forward and adjoint do not match")
    return off


def check_gradient(problem: Problem, rank: int, *, seed: int = 0) -> float:
    """Check the Riemannian gradient by the order of its first-order model's error, which must be 2.

    The misfit ``f(X) = |A X - y|^2 / 2`` is compared with ``f(X) + t <grad, xi>`` along a curve through a random X, for a
    range of t; the slope of the error in a log-log plot is returned.

    Raises
    ------
    AssertionError
        When the slope is not 2 within 0.1.
    """
    _check_arguments(problem, rank, seed)
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


def _check_arguments(problem: Problem, rank: int, seed: int) -> None:
    check("problem", problem, instance(Problem, "a measurement model, a subclass of lorank.Problem"))
    check("rank", rank, whole(1))
    if rank * sum(problem.shape) > 10**9:
        raise ValueError(f"rank {rank} asks for more than 10^9 random numbers: a few columns will do")
    check("seed", seed, whole(0))


class _Moved:
    def __init__(self, X: FixedRank, GV: np.ndarray, GhU: np.ndarray) -> None:
        self.GV, self.GhU, self.core = GV, GhU, X.backend.gram(X.U, GV)


def _unchanged(a: Any, before: Any, function: str, name: str) -> None:
    if not bool((a == before).all()):
        raise AssertionError(f"{function} works in place: it has changed its argument {name}, and must work on a copy")


def _precision(problem: Problem) -> float:
    return float(np.sqrt(np.finfo(problem.dtype).eps))
