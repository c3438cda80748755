"""Factors of rows and columns with their priors: the state of the ALS solvers.

X is a product of factors, ``X = L R^T``. With biases, ``L = [U, b, 1]`` and ``R = [V, 1, c]``, so that
``X = U V^T + b 1^T + 1 c^T``: biases are factors like any other, with one coordinate of the other side fixed at 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends import Array, Arrays, backend_of
from ..common.checks import instance, optional
from ..geometry import FixedRank
from ..geometry.factored_point import FactoredPoint
from ..problems import Completion, Problem
from .feature_priors import FeatureRegression


@dataclass(frozen=True)
class Factors:
    """Factors, covariances and priors: the state of the ALS solvers.

    Attributes
    ----------
    rows, cols : (n1, k) and (n2, k) arrays
        L and R; with biases, k is the rank + 2. These and the covariances are on the backend of the data, the rest are NumPy
        arrays.
    row_cov, col_cov : arrays of k (k + 1) / 2 columns, or None
        Upper triangles of the covariances, where the solver computes them.
    row_prior, col_prior : (precision, shift)
        Precision matrix of the prior, (k, k), and its product with the prior mean.
    noise : float
        Precision of the values: one over the variance of the noise.
    row_noise, col_noise : arrays or None
        Relative precision of each row and column, where the solver estimates them.
    row_regression, col_regression : FeatureRegression or None
        Regression of the prior means on features, where there are any.
    """

    rows: Array
    cols: Array
    row_prior: tuple[np.ndarray, np.ndarray]
    col_prior: tuple[np.ndarray, np.ndarray]
    noise: float = 1.0
    row_cov: Array | None = None
    col_cov: Array | None = None
    row_noise: np.ndarray | None = None
    col_noise: np.ndarray | None = None
    row_regression: FeatureRegression | None = None
    col_regression: FeatureRegression | None = None

    def point(self, backend: Arrays | None = None) -> FixedRank:
        """``L R^T``."""
        return FactoredPoint(self.rows, self.cols, backend or backend_of(self.rows))

    def distance(self, other: Factors, backend: Arrays) -> float:
        """``|L R^T - L' R'^T|_F`` by Gram products: accurate to about eight digits of the larger one."""
        mixed = np.sum(backend.gram(self.rows, other.rows) * backend.gram(self.cols, other.cols))
        return float(np.sqrt(max(self._square(backend) + other._square(backend) - 2 * mixed, 0.0)))

    def _square(self, backend: Arrays) -> float:
        """``|L R^T|_F^2``, cached: each point is used in two steps."""
        found: float | None = vars(self).get("_squared")
        if found is None:
            found = float(np.sum(backend.gram(self.rows, self.rows) * backend.gram(self.cols, self.cols)))
            vars(self)["_squared"] = found
        return found


INITIAL = optional(instance(Factors, "the Factors of another fit"))


def with_unit_priors(rows: Array, cols: Array) -> Factors:
    """Factors with standard normal priors."""
    k = rows.shape[1]
    return Factors(rows, cols, (np.eye(k), np.zeros(k)), (np.eye(k), np.zeros(k)))


def factors_of_point(problem: Problem, X: FixedRank, biases: bool) -> Factors:
    """Balanced factors of a point ``U diag(s) V^T``, with biases of zero appended where ``biases`` is True."""
    backend = problem.backend
    root = backend.astype(X.s, np.float64) ** 0.5
    rows, cols = (backend.astype(a, np.float64) * root for a in (X.U, X.V))
    if biases:
        zeros, ones = ([backend.zeros((n, 1), np.float64) + one for n in X.shape] for one in (0.0, 1.0))
        rows = backend.concat([rows, zeros[0], ones[0]])
        cols = backend.concat([cols, ones[1], zeros[1]])
    return with_unit_priors(rows, cols)


def zero_factors(problem: Completion, rank: int, biases: bool) -> Factors:
    """Factors that are zero, with the coordinates of the biases appended where ``biases`` is True."""
    k = rank + 2 * biases
    rows, cols = (problem.backend.zeros((n, k), np.float64) for n in problem.shape)
    if biases:
        rows[:, k - 1] = cols[:, k - 2] = 1
    return with_unit_priors(rows, cols)


def fixed_coordinate(width: int, columns: bool, biases: bool) -> int:
    """Index of the coordinate of a row (column) that is fixed at 1; -1 without biases."""
    return -1 if not biases else width - 2 if columns else width - 1
