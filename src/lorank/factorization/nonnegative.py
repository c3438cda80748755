"""Nonnegative matrix factorization of observed entries by ALS.

``X = L R^T`` with ``L, R >= 0``, so that every entry is a sum of parts. There are no biases: negative biases would turn parts
from amounts into deviations. Instead, each side's factors are shrunk to their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends import Array, backend_of
from ..common.checks import NOT_NEGATIVE, Checked, parameter, whole
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import Completion
from .als import advance, check_problem, scales
from .factors import INITIAL, Factors

TINY = 1e-9  # smallest penalty, relative to the values, so that a prior has a mean
PERTURBATION = 0.1  # of random factors, added to given initial factors, since a part that is zero stays zero


@dataclass(frozen=True)
class NonNegativeALS(Checked, Solver):
    """Minimize over nonnegative factors ``sum_t w_t (X - y)_t^2 / 2`` plus ``lambda / 2`` times::

        sum_i a_i |L_i - p|^2 + |p|^2 + sum_j b_j |R_j - q|^2 + |q|^2,

    where p and q are the learned centres of the two sides, and a and b are weights by numbers of observations
    (``count_scaling``). Rows, columns and centres are updated in turn; no step increases the objective.

    Parameters
    ----------
    regularization : float
        lambda.
    count_scaling : float
        Scale the penalty of each row and column with (its number of observations / the mean number) to this power.
    cycles : int
        Maximum number of coordinate descent cycles for each side in each iteration.
    initial : Factors, optional
        Initial factors.
    """

    regularization: float = parameter(1.0, NOT_NEGATIVE)
    count_scaling: float = parameter(0.0, NOT_NEGATIVE)
    cycles: int = parameter(20, whole(1))
    initial: Factors | None = parameter(None, INITIAL)

    def start(self, problem: Completion, state: State) -> Factors:
        check_problem(problem, self)
        return self.initial or random_start(problem, state.X.rank, np.random.default_rng(0))

    def step(self, problem: Completion, state: State) -> State:
        old: Factors = state.memory
        row_scale, col_scale = scales(problem, self.count_scaling)
        rows, row_prior, _ = self._half(problem, False, old.cols, old.rows, row_scale, centre_of(old.row_prior))
        cols, col_prior, squares = self._half(problem, True, rows, old.cols, col_scale, centre_of(old.col_prior))
        return advance(problem, state, Factors(rows, cols, row_prior, col_prior), squares)

    def _half(
        self, problem: Completion, columns: bool, other: Array, own: Array, scale: np.ndarray | None, centre: np.ndarray
    ) -> tuple[Array, tuple[np.ndarray, np.ndarray], float]:
        """Factors of one side and, given them, their centre."""
        backend, n, k = problem.backend, problem.shape[columns], other.shape[1]
        size = problem.y_norm / float(problem.m) ** 0.5 or 1.0  # the penalty has the unit of values
        penalty = max(self.regularization, TINY * size)
        share = np.ones(n) if scale is None else scale
        found, squares = problem.observations.nonnegative_equations(
            columns, other, own, backend.asarray(penalty * share), centre=backend.asarray(centre), cycles=self.cycles
        )
        # Rows without observations are at the centre and do not influence it.
        seen = backend.to_numpy(problem.observations.counts(int(columns))) > 0
        a = share * seen
        centre = backend.to_numpy(backend.gram(backend.asarray(a[:, None]), found))[0] / (a.sum() + 1)
        found = found * backend.asarray(1.0 * seen[:, None]) + backend.asarray(1.0 * ~seen[:, None]) * backend.asarray(centre)
        return found, (penalty * np.eye(k), penalty * centre), float(squares.sum())


def centre_of(prior: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Mean of a prior whose precision is a multiple of the identity."""
    return prior[1] / prior[0][0, 0]


def random_start(problem: Completion, rank: int, rng: np.random.Generator, base: Factors | None = None) -> Factors:
    """Random factors whose products have the size of the values; with a base, its factors with a perturbation."""
    backend, size = problem.backend, float(abs(problem.y).mean()) or 1.0
    scale = np.sqrt(size / rank)
    rows, cols = (scale * (0.5 + abs(backend.random_normal(rng, (n, rank), np.float64))) for n in problem.shape)
    if base is not None:
        rows, cols = base.rows + PERTURBATION * rows, base.cols + PERTURBATION * cols
    centres = [backend.to_numpy(a.mean(0)) for a in (rows, cols)]
    return Factors(rows, cols, (np.eye(rank), centres[0]), (np.eye(rank), centres[1]))


def by_size(factors: Factors) -> Factors:
    """The factors with the largest part first."""
    backend = backend_of(factors.rows)
    left, right = (np.diag(backend.gram(a, a)) for a in (factors.rows, factors.cols))
    order = np.argsort(-left * right, kind="stable")
    at = backend.asindex(order)
    priors = [(P[np.ix_(order, order)], h[order]) for P, h in (factors.row_prior, factors.col_prior)]
    return Factors(factors.rows[:, at], factors.cols[:, at], priors[0], priors[1], factors.noise)
