"""The dot test: do a model's forward and adjoint belong together?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.checks import POSITIVE, check, instance, optional, whole
from .problem import MatrixProblem, Problem


def dot_test(problem: MatrixProblem, *, rank: int = 2, seed: int = 0, rtol: float | None = None) -> float:
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

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.testing.dot_test(problem) < 1e-12
    True
    """
    check("problem", problem, instance(MatrixProblem, "a subclass of lorank.problems.MatrixProblem"))
    check_arguments(problem, rank, seed)
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


def check_arguments(problem: Problem, rank: int, seed: int) -> None:
    check("problem", problem, instance(Problem, "a measurement model, a subclass of lorank.Problem"))
    check("rank", rank, whole(1))
    if rank * sum(problem.shape) > 10**9:
        raise ValueError(f"rank {rank} asks for more than 10^9 random numbers: a few columns will do")
    check("seed", seed, whole(0))


def _unchanged(a: Any, before: Any, function: str, name: str) -> None:
    if not bool((a == before).all()):
        raise AssertionError(f"{function} works in place: it has changed its argument {name}, and must work on a copy")


def _precision(problem: Problem) -> float:
    return float(np.sqrt(np.finfo(problem.dtype).eps))
