"""Regularized alternating least squares (ALS) for noisy data: rows given columns, then columns given rows.

Biases are factors with one coordinate fixed at 1, see :mod:`lorank.factorization.factors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..backends import Array
from ..common.checks import NOT_NEGATIVE, YES_OR_NO, Checked, ParameterError, one_of, parameter
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import Completion, Problem
from ..problems.capabilities import HasObservations, missing, supports
from .factors import INITIAL, Factors, factors_of_point, fixed_coordinate

TINY = 1e-9  # smallest penalty, relative to the values, so that equations have one solution
Penalty = Literal["nuclear", "frobenius"]


@dataclass(frozen=True)
class RegularizedALS(Checked, Solver):
    """Minimize ``sum_t w_t (X - y)_t^2 / 2`` plus a penalty by alternating least squares.

    Parameters
    ----------
    regularization : float
        lambda.
    penalty : {"nuclear", "frobenius"}
        ``lambda (|U|_F^2 + |V|_F^2) / 2``, whose minimum over all factors of X is the nuclear norm ``lambda sum(s)``; or
        ``lambda |X|_F^2 / 2``.
    biases : bool
        Fit biases of rows and columns.
    shrinkage : float
        Penalty of the biases, ``shrinkage (|b|^2 + |c|^2) / 2``: equivalent to that many observations of zero for each.
    count_scaling : float
        Scale the penalty of each row and column with (its number of observations / the mean number) to this power. At 1/2,
        with the nuclear norm, this is the weighted trace norm, for unevenly sampled data.
    initial : Factors, optional
        Initial factors.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> ridge = RegularizedALS(regularization=0.1)
    >>> result = lr.solve(problem, rank=2, solver=ridge, stop=lr.stopping.RelativeChange(1e-3))
    >>> result.residual < 0.1
    True
    """

    regularization: float = parameter(1.0, NOT_NEGATIVE)
    penalty: Penalty = parameter("nuclear", one_of(("nuclear", "frobenius")))
    biases: bool = parameter(False, YES_OR_NO)
    shrinkage: float = parameter(5.0, NOT_NEGATIVE)
    count_scaling: float = parameter(0.0, NOT_NEGATIVE)
    initial: Factors | None = parameter(None, INITIAL)

    def start(self, problem: Completion, state: State) -> Factors:
        check_problem(problem, self)
        return self.initial or factors_of_point(problem, state.X, self.biases)

    def step(self, problem: Completion, state: State) -> State:
        old: Factors = state.memory
        row_scale, col_scale = scales(problem, self.count_scaling)
        row_prior = self._prior(problem, old.cols, col_scale, 1)
        rows, _, _ = self._half(problem, False, old.cols, row_prior, row_scale)
        col_prior = self._prior(problem, rows, row_scale, 0)
        cols, _, squares = self._half(problem, True, rows, col_prior, col_scale)
        return advance(problem, state, Factors(rows, cols, row_prior, col_prior), float(squares.sum()))

    def _half(self, problem: Completion, columns: bool, other: Array, prior: Any, scale: Any) -> Any:
        fixed = fixed_coordinate(other.shape[1], columns, self.biases)
        return problem.observations.normal_equations(columns, other, *prior, scale=scale, fixed=fixed)

    def _prior(self, problem: Problem, other: Array, scale: np.ndarray | None, bias: int) -> tuple[np.ndarray, np.ndarray]:
        """The penalty of one side's factors as a prior: ``lambda I``, or ``lambda V^T V``."""
        backend, k = problem.backend, other.shape[1]
        rank, size = k - 2 * self.biases, problem.y_norm / float(problem.m) ** 0.5 or 1.0  # penalties have the unit of values
        P = np.zeros((k, k))
        if self.penalty == "nuclear":
            P[:rank, :rank] = max(self.regularization, TINY * size) * np.eye(rank)
        else:
            v = other[:, :rank] if scale is None else other[:, :rank] * backend.asarray(np.sqrt(scale))[:, None]
            P[:rank, :rank] = self.regularization * backend.gram(v, v)
            P[:rank, :rank] += TINY * max(size, float(np.trace(P)) / max(rank, 1)) * np.eye(rank)
        if self.biases:  # [U, b, 1] and [V, 1, c]
            at = rank if bias else rank + 1
            P[at, at] = max(self.shrinkage, TINY)
        return P, np.zeros(k)


def check_problem(problem: Problem, solver: object) -> None:
    """Alternating solvers fit real entries: a ValueError for anything else."""
    name = type(solver).__name__
    if not supports(problem, Completion):
        raise ParameterError("solver", f"{name} {missing(problem, Completion)}; use solver='auto'")
    if problem.dtype.kind == "c":
        raise ValueError(
            f"{name} fits real entries, and these are complex: use solver='auto' or lorank.solvers.RCG(), or fit real and "
            "imaginary parts each on their own"
        )


def total_weight(problem: Problem) -> float:
    """Sum of the weights of the observations; their number without weights."""
    weights = problem.observations.weights if supports(problem, HasObservations) else None
    return float(problem.m if weights is None else weights.sum())


def scales(problem: Completion, power: float) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Scales of the penalties of rows and of columns."""
    if power == 0:
        return None, None
    counts = (problem.backend.to_numpy(problem.observations.counts(side)) for side in (0, 1))
    rows, cols = ((np.maximum(c, 1) / max(c[c > 0].mean(), 1)) ** power for c in counts)
    return rows, cols


def advance(problem: Problem, state: State, factors: Factors, squares: float) -> State:
    """State at new factors; ``squares`` is the sum of the squared residuals, the step is the change of X."""
    residual = float(np.sqrt(max(squares, 0.0))) / (problem.y_norm or 1.0)
    X, moved = factors.point(problem.backend), factors.distance(state.memory, problem.backend)
    return State(state.iteration + 1, X, problem.gradient(X), residual, moved, state.X, factors)
