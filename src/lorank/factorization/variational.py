"""Variational Bayes for factor models: ALS with priors and noise estimated from the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from ..backends import Array, Arrays
from ..common.checks import NOT_NEGATIVE, YES_OR_NO, Checked, instance, one_of, optional, parameter
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import Completion, Problem
from .als import advance, check_problem, total_weight
from .factors import INITIAL, Factors, factors_of_point, fixed_coordinate
from .feature_priors import FeatureRegression, Features, shifted


@dataclass(frozen=True)
class VariationalALS(Checked, Solver):
    """Variational Bayes for ``y = X + noise`` with normal priors of the factors of rows and of columns.

    ALS with two changes. The covariance of one side's factors enters the equations of the other side, so that uncertain
    factors have less influence. And after each update of a side, its prior (mean and full covariance, biases included) and
    the variance of the noise are set to their maximum-likelihood estimates (empirical Bayes): there is no regularization
    parameter, and components without support in the data vanish.

    Parameters
    ----------
    biases : bool
        Fit biases of rows and columns.
    prior_weight : float
        Pseudo-observations of a diagonal covariance in each estimate of a prior, in units of the number of coordinates.
    noise : {"one", "columns", "both", "unit"}
        Variance of the noise: one for all values; one for each column, as in factor analysis; one for each row times one for
        each column; or the inverse weights of the observations (working responses of classes and counts).
    initial : Factors, optional
        Initial factors.
    row_features, col_features : Features, optional
        Features of rows and columns, in main memory, on which the prior means depend
        (:mod:`lorank.factorization.feature_priors`).

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> result = lr.solve(problem, rank=2, solver=VariationalALS(), stop=lr.stopping.RelativeChange(1e-3))
    >>> result.residual < 0.1
    True
    """

    biases: bool = parameter(False, YES_OR_NO)
    prior_weight: float = parameter(1.0, NOT_NEGATIVE)
    noise: Literal["one", "columns", "both", "unit"] = parameter("one", one_of(("one", "columns", "both", "unit")))
    initial: Factors | None = parameter(None, INITIAL)
    row_features: Features | None = parameter(None, optional(instance(Features, "Features")))
    col_features: Features | None = parameter(None, optional(instance(Features, "Features")))

    def start(self, problem: Completion, state: State) -> Factors:
        check_problem(problem, self)
        if self.initial is not None:
            return self.initial
        return self.uninformed(problem, factors_of_point(problem, state.X, self.biases))

    def uninformed(self, problem: Problem, factors: Factors) -> Factors:
        """The same factors with initial priors."""
        k, scale = factors.rows.shape[1], problem.y_norm / np.sqrt(total_weight(problem)) or 1.0
        # Factors of size sqrt(scale) make values of size scale; initially, most of it may be noise.
        P = np.eye(k) * (5.0 / scale)
        if self.biases:
            P[[k - 2, k - 1], [k - 2, k - 1]] = 5.0 / scale**2
        prior = (P, np.zeros(k))
        return Factors(factors.rows, factors.cols, prior, prior, noise=1.0 if self.noise == "unit" else 1.5 / scale**2)

    def step(self, problem: Completion, state: State) -> State:
        new, squares = self.sweep(problem, state.memory)
        return advance(problem, state, new, squares)

    def sweep(self, problem: Completion, old: Factors) -> tuple[Factors, float]:
        """One iteration; returns the new factors and the expected sum of the weighted squared residuals."""
        weights = self._weights(problem, old)
        rows, row_cov, by_row = self._half(problem, False, old.cols, old.col_cov, old, weights)
        row_prior, row_regression = self._prior(problem.backend, rows, row_cov, False, old)
        row_noise = self._sizes(problem, by_row, False, old)
        cols, col_cov, by_col = self._half(problem, True, rows, row_cov, old, weights)
        col_prior, col_regression = self._prior(problem.backend, cols, col_cov, True, old)
        col_noise = self._sizes(problem, by_col, True, old)
        count = total_weight(problem)
        unit = problem.y_norm**2 / count or 1.0
        squares = float(by_col.sum())
        noise = count / max(squares, 1e-10 * count * unit)  # bounded for data without noise
        noise = 1.0 if self.noise == "unit" else noise
        covs, sizes = (row_cov, col_cov), (row_noise, col_noise)
        return Factors(rows, cols, row_prior, col_prior, noise, *covs, *sizes, row_regression, col_regression), squares

    def _weights(self, problem: Completion, old: Factors) -> Any:
        """Weights of the observations, multiplied with the precisions of their rows and columns."""
        given = problem.observations.weights
        if old.row_noise is None and old.col_noise is None:
            return given
        rows, cols = (
            problem.backend.asarray(np.ones(n) if noise is None else noise)
            for noise, n in zip((old.row_noise, old.col_noise), problem.shape, strict=True)
        )
        return problem.observations.side_weights(rows, cols)

    def _sizes(self, problem: Completion, squares: Array, columns: bool, old: Factors) -> np.ndarray | None:
        """Precisions of rows (columns) relative to the mean, shrunk towards it for few observations."""
        if self.noise in ("one", "unit") or (self.noise == "columns" and not columns):
            return None
        passes, side = problem.observations, int(columns)
        given = passes.weights
        count = problem.backend.to_numpy(passes.counts(side) if given is None else passes.sums(given, side))
        squares = np.maximum(problem.backend.to_numpy(squares), 0.0)  # rounding may make them negative
        before = old.col_noise if columns else old.row_noise
        squares = squares if before is None else squares / before  # the pass weighted them
        mean, belief = squares.sum() / count.sum(), 20.0
        if mean == 0:  # fitted exactly
            return np.ones(len(squares))
        own = np.log((squares + 1e-3 * mean) / (count + 1e-3))
        middle = np.average(own, weights=count)
        size = np.exp(
            -(count * own + belief * middle) / (count + belief)
        )  # in logarithms: sizes may differ by orders of magnitude
        return np.asarray(size / np.average(size, weights=count))

    def _half(
        self,
        problem: Completion,
        columns: bool,
        other: Array,
        moments: Array | None,
        old: Factors,
        weights: Any,
    ) -> tuple[Array, Array, Array]:
        fixed, prior = fixed_coordinate(other.shape[1], columns, self.biases), old.col_prior if columns else old.row_prior
        mean, cov, squares = problem.observations.normal_equations(
            columns, other, *prior, moments=moments, weights=weights, fixed=fixed, noise=old.noise, covariance=True
        )
        features, link = (self.col_features, old.col_regression) if columns else (self.row_features, old.row_regression)
        if features is not None and link is not None and cov is not None:
            mean, squares = shifted(mean, cov, squares, prior, features.means(link, mean.shape[1]), old.noise)
        return mean, cov, squares

    def _prior(
        self, backend: Arrays, mean: Array, cov: Array, columns: bool, old: Factors
    ) -> tuple[tuple[np.ndarray, np.ndarray], FeatureRegression | None]:
        """The prior of one side, and the regression of its mean on features."""
        features, link = (self.col_features, old.col_regression) if columns else (self.row_features, old.row_regression)
        if features is None:
            return self.learn(backend, mean, cov, columns), None
        P = (old.col_prior if columns else old.row_prior)[0]
        link, used = features.regress(mean, P, link)
        rest = mean - features.means(link, mean.shape[1])  # features are centred, so that the mean of the factors stays
        return self.learn(backend, rest, cov, columns, used), link

    def learn(
        self, backend: Arrays, mean: Array, cov: Array | None, columns: bool, used: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """The maximum-likelihood prior of factors, given with or without their covariances.

        ``used`` is the number of degrees of freedom of a regression on features.
        """
        n, k = mean.shape
        free = np.arange(k) != fixed_coordinate(k, columns, self.biases)
        spread = np.zeros((k, k))
        if cov is not None:
            above, below = _triangles(k)
            spread.flat[above] = spread.flat[below] = backend.to_numpy(backend.column_means(cov))
        centre = backend.column_means(mean)
        off = mean - centre
        spread += backend.gram(off, off) / n
        centre = backend.to_numpy(centre)
        inside = np.ix_(free, free)
        S, belief = spread[inside] * (n / max(n - used, 1.0)), self.prior_weight * len(spread)
        S = (n * S + belief * np.diag(np.diag(S))) / (n + belief)
        P = np.zeros((k, k))
        least = max(1e-12 * np.trace(S) / max(len(S), 1), 1e-200)
        P[inside] = np.linalg.inv(S + least * np.eye(len(S)))
        return P, P @ np.where(free, centre, 0.0)


@cache
def _triangles(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Flat indices of an upper triangle in a (k, k) array, row by row, and of its transpose."""
    a, d = np.triu_indices(k)
    return a * k + d, d * k + a
