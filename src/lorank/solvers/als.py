"""Alternating least squares (ALS) without a penalty, for data without noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..backends import Array
from ..common.checks import POSITIVE, Checked, Expected, parameter
from ..geometry import FixedRank
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import Completion
from ..problems.capabilities import FastALS, TightFrame

BELOW_TWO = Expected("lie between 0 and 2", lambda value: POSITIVE.holds(value) and value < 2)


@dataclass(frozen=True)
class ALS(Checked, Solver):
    """Alternating least squares: fit all rows with the factor of the columns fixed, then all columns.

    An iteration costs two gradients and ``r^2`` operations per observation for the normal equations. With many observations for
    each row and column it divides the error by four or more, independently of their distribution and of the condition number of
    the matrix; with few, :class:`RCG` is faster and more reliable.

    Rows are corrected by ``- (B + damping)^-1 G V``, with B the normal equations. B is computed in single precision; the
    accuracy of the limit is that of G. For noisy data use the penalized :class:`~lorank.factorization.als.RegularizedALS`.

    Parameters
    ----------
    damping : float
        Added to the normal equations, relative to their mean diagonal.
    relaxation : float
        Factor on corrections, between 0 and 2; values above 1 overrelax. Where an iteration with factor 1 leaves a share q of
        the error, ``2 / (1 + sqrt(1 - q))`` leaves a share of that minus 1 (successive overrelaxation).

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.ALS()).converged
    True
    """

    damping: float = parameter(1e-5, POSITIVE)
    relaxation: float = parameter(1.0, BELOW_TWO)

    needs: ClassVar[tuple[type, ...]] = (FastALS, TightFrame)
    default_start: ClassVar[str] = "staged"

    def start(self, problem: Completion, state: State) -> None:
        return None

    def step(self, problem: Completion, state: State) -> State:
        return state.next(problem, self.moved(problem, state.X, state.gradient.GV), 1.0)

    def moved(self, problem: Completion, X: FixedRank, slope: Array) -> FixedRank:
        """X after one iteration; ``slope`` is ``G V`` at X."""
        backend = problem.backend
        left = X.U * X.s - self._correction(problem, 0, X.V, slope)
        U, k = backend.qr(left)
        right = backend.product(X.V, k.conj().T)  # X = U right^H
        ones = backend.asarray(np.ones(X.rank, X.real_dtype))
        slope, _ = problem.observations.gradient_cols(U, ones, right)
        V, k = backend.qr(right - self._correction(problem, 1, U, slope))
        p, s, q = backend.svd(k.conj().T)
        return FixedRank(backend.product(U, p), s, backend.product(V, q), backend)

    def _correction(self, problem: Completion, side: int, other: Array, slope: Array) -> Array:
        """``slope_i B_i^-1`` for each row i, with ``B_i = sum w f^H f`` over the observed rows f of the other factor."""
        backend, single = problem.backend, np.dtype(np.complex64 if problem.dtype.kind == "c" else np.float32)
        unit = 2.0 ** round(math.log2(backend.max_abs(slope) or 1.0))  # the range of single precision is smaller
        other, slope = (backend.astype(a, single) for a in (other, slope / unit))
        found = backend.astype(problem.solve_blocks(side, other, self.damping * problem.operator_scale, slope), problem.dtype)
        return self.relaxation * unit * found
