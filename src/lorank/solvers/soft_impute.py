"""Soft-thresholded imputation for the nuclear norm: softImpute and softImpute-ALS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..common.checks import NOT_NEGATIVE, POSITIVE, SHARE, YES_OR_NO, Checked, parameter
from ..geometry import FixedRank
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import MatrixProblem
from ..problems.capabilities import TightFrame
from .iht import hard_threshold
from .least_squares import imputation_step, imputed, require_two_factors

EMPTY = 100  # units of rounding: singular values of directions that vanish, so that the rank is kept


class Penalty(NamedTuple):
    """The current lambda and the last one of the path."""

    now: float
    last: float


@dataclass(frozen=True)
class SoftImpute(Checked, Solver):
    """Minimize ``|A X - y|^2 / 2 + lambda |X|_*`` over matrices of rank at most r: the convex baseline.

    softImpute (Mazumder, Hastie and Tibshirani) replaces X by the soft-thresholded singular values of the imputed matrix Z.
    softImpute-ALS (Hastie, Mazumder, Lee and Zadeh) alternates ridge regressions of Z on the singular vectors of either side,
    without singular value decompositions of large matrices. Both lower lambda where X changes by less than lambda (warm
    starts), and keep it below half of the smallest singular value. For exact data the limit 0 gives the matrix of least nuclear
    norm, if its rank is at most r.

    Directions that vanish have singular values of the size of rounding. With weights, Z is that of a quadratic majorizer. An
    iteration costs one gradient and a truncated SVD, or two gradients.

    Parameters
    ----------
    regularization : float
        The last lambda, relative to the largest singular value of the initial point.
    rate : float
        Factor on lambda.
    alternating : bool
        softImpute-ALS.
    accuracy : float
        Accuracy of the truncated SVD, relative to the length of the step.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.SoftImpute()).converged
    True
    """

    regularization: float = parameter(0.0, NOT_NEGATIVE)
    rate: float = parameter(0.5, SHARE)
    alternating: bool = parameter(False, YES_OR_NO)
    accuracy: float = parameter(1e-4, POSITIVE)

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem, TightFrame)

    def start(self, problem: MatrixProblem, state: State) -> Penalty:
        require_two_factors(self, problem, state)
        s = state.X.backend.small(state.X.s)
        last = self.regularization * float(s[0])
        return Penalty(max(float(s[-1]) / 2, last), last)

    def step(self, problem: MatrixProblem, state: State) -> State:
        new, penalty = (self._alternate if self.alternating else self._threshold)(problem, state)
        last = state.memory.last
        return new.with_memory(Penalty(max(self.rate * penalty, last) if new.X.distance(state.X) <= penalty else penalty, last))

    def _threshold(self, problem: MatrixProblem, state: State) -> tuple[State, float]:
        step = imputation_step(problem, state.gradient)
        found = hard_threshold(state.X, state.gradient, step, step * state.gradient.residual_norm, self.accuracy)
        s = found.backend.small(found.s)
        penalty = _tolerable(state.memory, s)
        return state.next(problem, _with_values(found, s - penalty), penalty), penalty

    def _alternate(self, problem: MatrixProblem, state: State) -> tuple[State, float]:
        penalty = _tolerable(state.memory, state.X.backend.small(state.X.s))
        half = state.next(problem, self._ridge(problem, state, penalty), penalty)
        new = half.next(problem, self._ridge(problem, half, penalty, rows=False), penalty)
        return State(state.iteration + 1, new.X, new.gradient, new.residual, penalty, state.X), penalty

    def _ridge(self, problem: MatrixProblem, state: State, penalty: float, rows: bool = True) -> FixedRank:
        """``U diag(s / (s + lambda)) U^H Z``, or the same for V on the right."""
        Z, X, backend = imputed(problem, state), state.X, problem.backend
        s = backend.small(X.s)
        shrink = backend.values(np.divide(s, s + penalty, out=np.ones_like(s), where=s + penalty > 0))
        factors = (X.U, Z.adjoint_times(X.U) * shrink) if rows else (Z.times(X.V) * shrink, X.V)
        found = FixedRank.from_factors(*factors, backend=backend)
        return _with_values(found, backend.small(found.s))


def _with_values(X: FixedRank, s: np.ndarray) -> FixedRank:
    """The point with these singular values, and directions that vanish at the size of rounding."""
    least = EMPTY * float(np.finfo(X.real_dtype).eps) * float(s[0])
    return FixedRank(X.U, np.maximum(s, least).astype(X.real_dtype), X.V, X.backend)


def _tolerable(penalty: Penalty, s: np.ndarray) -> float:
    """The current lambda, or half of the smallest of these singular values: no direction vanishes before the last lambda."""
    return max(min(penalty.now, float(s[-1]) / 2), penalty.last)
