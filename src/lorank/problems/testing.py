"""Checks for measurement models: the dot test of an operator and its adjoint, and the order of the gradient's error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..backends import Array
from ..common.checks import POSITIVE, ParameterError, check, counted, instance, optional, whole
from ..geometry import FixedRank, FixedRankManifold, Weights, retract, riemannian_gradient
from .capabilities import missing, supports
from .problem import MatrixProblem, Problem

__all__ = ["check_gradient", "dot_test"]

MAX_NAMED = 5  # rows and columns that a warning names
FITTED = 5  # errors to which check_gradient fits a slope


def dot_test(problem: MatrixProblem, *, rank: int = 2, seed: int = 0, rtol: float | None = None) -> float:
    """Check that ``adjoint`` is the adjoint of ``forward``: ``<A(L R^H), p> = <L R^H, A* p>``.

    Parameters
    ----------
    problem : MatrixProblem
    rank : int
        Width of the random factors.
    seed : int
        Seed of the random factors.
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

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.testing.dot_test(problem) < 1e-12
    True
    """
    _check_arguments(problem, rank, seed, MatrixProblem)
    check("rtol", rtol, optional(POSITIVE))
    rng, backend = np.random.default_rng(seed), problem.backend
    n1, n2 = problem.shape
    left, right = (backend.random_normal(rng, (n, rank), problem.dtype) for n in (n1, n2))
    p = backend.random_normal(rng, (problem.m,), backend.dtype(problem.y))
    given = {name: backend.copy(a) for name, a in (("left", left), ("right", right), ("p", p))}
    image = problem.forward(left, right)
    for name, a in (("left", left), ("right", right)):
        _unchanged(a, given[name], "forward", name)
    if tuple(image.shape) != (problem.m,):
        raise AssertionError(f"forward returns an array of shape {tuple(image.shape)}, expected ({problem.m},)")
    matrix = problem.adjoint(p)
    _unchanged(p, given["p"], "adjoint", "p")
    if tuple(matrix.shape) != (n1, n2):
        raise AssertionError(f"adjoint returns a matrix of shape {tuple(matrix.shape)}, expected {(n1, n2)}")
    one = np.vdot(backend.to_numpy(p), backend.to_numpy(image))  # <p, A(L R^H)>
    other = np.vdot(backend.to_numpy(matrix @ right), backend.to_numpy(left))  # <(A* p) R, L>
    if not backend.is_complex(image):  # real measurements of a complex matrix: A is linear over the real numbers
        one, other = one.real, other.real
    scale = max(backend.norm(p) * backend.norm(image), np.finfo(float).tiny)
    off = float(abs(one - other) / scale)
    tolerance = float(np.sqrt(np.finfo(problem.dtype).eps)) if rtol is None else rtol
    if not off <= tolerance:
        raise AssertionError(f"<A X, p> = {one:.6g} but <X, A* p> = {other:.6g}: forward and adjoint do not match")
    return off


def _check_arguments(problem: Problem, rank: int, seed: int, kind: type) -> None:
    check("problem", problem, instance(Problem, "a measurement model, a subclass of lorank.Problem"))
    if not supports(problem, kind):
        raise ParameterError("problem", missing(problem, kind))
    check("rank", rank, whole(1))
    if rank * sum(problem.shape) > 10**9:
        raise ValueError(f"rank {rank} needs more than 10^9 random numbers: use a smaller one")
    check("seed", seed, whole(0))


def _unchanged(a: Any, before: Any, function: str, name: str) -> None:
    if not bool((a == before).all()):
        raise AssertionError(f"{function} changes its argument {name} in place: it must work on a copy")


def check_gradient(problem: Problem, rank: int, *, seed: int = 0) -> float:
    """Check that the error of the first-order model of the objective is of order 2.

    The objective f is compared with ``f(X) + t <grad, xi>`` along a curve through a random X. The slope of the error in a
    log-log plot is returned, at the smallest t whose errors exceed rounding: there terms of higher order are negligible.
    Parameters of a loss that are fitted to the residuals, such as a scale, are those of X.

    Parameters
    ----------
    problem : Problem
    rank : int
        Rank of the random point.
    seed : int
        Seed of the random point.

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
    _check_arguments(problem, rank, seed, FixedRankManifold)
    rng, backend = np.random.default_rng(seed), problem.backend
    n1, n2 = problem.shape

    def array(n: int) -> Array:
        return backend.random_normal(rng, (n, rank), problem.dtype)

    nearest = problem.manifold.nearest
    X = nearest(FixedRank.from_factors(array(n1), array(n2), backend=backend))
    G = problem.gradient(X)
    other = problem.gradient(nearest(FixedRank.from_factors(array(n1), X.V, backend=backend)))
    GV = other.times(X.V)
    GhU = GV if other.X.hermitian and X.hermitian else other.adjoint_times(X.U)
    seen = SimpleNamespace(GV=GV, GhU=GhU, core=backend.gram(X.U, GV))  # the other gradient, as one at X
    direction = riemannian_gradient(X, G, Weights()) + riemannian_gradient(X, seen, Weights())
    direction = (X.norm() / direction.norm()) * direction
    slope = direction.inner(G)

    def objective(Z: FixedRank) -> float:
        at_Z = problem.gradient(Z)
        if problem.objective.has_parameters:
            vars(at_Z)["objective"] = G.objective  # with the parameters fitted at X
        return float(at_Z.residual_norm**2 / 2)

    f = objective(X)
    lengths = np.logspace(-1, -3 if np.finfo(problem.dtype).bits == 32 else -5, 15)
    errors = np.array([abs(objective(retract(direction, t)) - f - t * slope) for t in lengths])
    precision = 100 * np.finfo(problem.dtype).eps * (f + abs(slope))
    usable = np.flatnonzero(errors > precision)[-FITTED:]
    if len(usable) < 3:  # the objective is linear up to rounding
        return 2.0
    order = float(np.polyfit(np.log(lengths[usable]), np.log(errors[usable]), 1)[0])
    if not abs(order - 2) < 0.1:
        raise AssertionError(f"the first-order model's error has order {order:.2f}, expected 2: the gradient is wrong")
    return order


def check_pair(problem: MatrixProblem, rank: int, sides: tuple[str, str], stacklevel: int) -> None:
    """Run the dot test on a user's operator, and warn of rows and columns that no measurement depends on.

    Parameters
    ----------
    problem : MatrixProblem
    rank : int
        Width of the random factors of the dot test.
    sides : pair of str
        Words for a row and a column in the warning; the same word twice where rows and columns are the same.
    stacklevel : int
        Of the warning.

    Raises
    ------
    ValueError
        Where forward and adjoint do not match.
    """
    try:
        dot_test(problem, rank=rank)
    except AssertionError as error:
        raise ValueError(str(error)) from None
    found = untouched(problem)
    parts = [_listed(side, places) for side, places in zip(sides, found, strict=True) if len(places)]
    if parts:
        text = " and ".join(dict.fromkeys(parts))
        warnings.warn(
            f"no measurement depends on {text}, which cannot be recovered: leave them out, or check that forward and adjoint "
            "include them",
            UserWarning,
            stacklevel=stacklevel,
        )


def untouched(problem: MatrixProblem) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the rows and columns of X that no measurement depends on: zeros of ``A* p`` for a random p.

    Found from products with thin random arrays, since ``A* p`` may be a LinearOperator.
    """
    backend, rng = problem.backend, np.random.default_rng(0)
    p = backend.random_normal(rng, (problem.m,), backend.dtype(problem.y))
    v, u = (backend.random_normal(rng, (n, 2), problem.dtype) for n in reversed(problem.shape))
    products: tuple[Callable[[Any], Any], ...] = problem.products(p)
    sizes = [np.abs(backend.to_numpy(times(a))).max(axis=1) for times, a in zip(products, (v, u), strict=True)]
    rounding = 1000 * np.finfo(problem.dtype).eps
    rows, cols = (np.flatnonzero(size <= rounding * size.max()) for size in sizes)
    return rows, cols


def _listed(side: str, places: np.ndarray) -> str:
    plural = side if len(places) == 1 else {"entry": "entries"}.get(side, f"{side}s")
    more = f" and {counted(len(places) - MAX_NAMED, 'other')}" if len(places) > MAX_NAMED else ""
    return f"{plural} {', '.join(map(str, places[:MAX_NAMED]))}{more}"
