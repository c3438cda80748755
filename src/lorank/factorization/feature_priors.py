"""Priors whose means are linear functions of features.

``x_i ~ N(c + W^T f_i, P^-1)`` with ``W ~ N(0, P^-1 / regularization)``: a ridge regression of the factors on the features. Its
regularization maximizes the evidence (MacKay) and is updated with the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

MIN_REGULARIZATION, MAX_REGULARIZATION = 1e-3, 1e9
EVIDENCE_MAX_ITER = 5


@dataclass(frozen=True)
class FeatureRegression:
    """Ridge regression of factors on features.

    Attributes
    ----------
    coefficients : (d, k) array
        W.
    regularization : float
    """

    coefficients: np.ndarray
    regularization: float


class Features:
    """Features of the rows (columns) of a problem, prepared for regressions.

    Parameters
    ----------
    numbers : (n, d) array or sparse array
    """

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers
        self.n, self.width = numbers.shape

    @cached_property
    def centre(self) -> np.ndarray:
        return np.asarray(self.numbers.mean(axis=0)).ravel()

    @cached_property
    def basis(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of the Gram matrix of the centred features."""
        gram = self.numbers.T @ self.numbers
        gram = np.asarray(gram.toarray() if hasattr(gram, "toarray") else gram, float)
        values, vectors = np.linalg.eigh(gram - self.n * np.outer(self.centre, self.centre))
        return np.maximum(values, 0), vectors

    def means(self, regression: FeatureRegression | None, k: int) -> np.ndarray:
        """Shifts of the prior means by features, (n, k)."""
        if regression is None:
            return np.zeros((self.n, k))
        return np.asarray(self.numbers @ regression.coefficients) - self.centre @ regression.coefficients

    def affine(self, regression: FeatureRegression) -> np.ndarray:
        """Coefficients for features that are not centred, with the intercept in the last row, (d + 1, k)."""
        return np.vstack([regression.coefficients, -self.centre @ regression.coefficients])

    def regress(
        self, x: np.ndarray, precision: np.ndarray, regression: FeatureRegression | None
    ) -> tuple[FeatureRegression, float]:
        """The regression with maximum evidence, and its number of degrees of freedom.

        Parameters
        ----------
        x : (n, k) array
        precision : (k, k) array
            Precision of the factors around their means.
        regression : FeatureRegression or None
            The last one, whose regularization is the initial value.
        """
        values, vectors = self.basis
        y = vectors.T @ np.asarray(self.numbers.T @ (x - x.mean(0)))
        regularization = 1.0 if regression is None else regression.regularization
        for _ in range(EVIDENCE_MAX_ITER):
            W = y / (values + regularization)[:, None]
            used = float((values / (values + regularization)).sum())
            size = float(np.einsum("ij,jk,ik->", W, precision, W))
            regularization = float(np.clip(used * x.shape[1] / max(size, 1e-300), MIN_REGULARIZATION, MAX_REGULARIZATION))
        W = y / (values + regularization)[:, None]
        return FeatureRegression(vectors @ W, regularization), float((values / (values + regularization)).sum())


def shifted(
    mean: np.ndarray,
    packed: np.ndarray,
    squares: np.ndarray,
    prior: tuple[np.ndarray, np.ndarray],
    means: np.ndarray,
    noise: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Solution of normal equations whose prior means are shifted by ``means``, from the solution with the common prior.

    With S the covariance and ``p = P m``, x moves by ``d = S p``, and the expected sum of squares by
    ``(2 d (h - P x) + d p - d P d) / noise``.

    Parameters
    ----------
    mean, packed, squares
        As ``normal_equations`` returns them, with the covariances.
    prior : (precision, shift)
    means : (n, k) array
    noise : float
    """
    P, h = prior
    p = means @ P
    d = symmetric_times(packed, p)
    change = np.einsum("ij,ij->i", d, 2 * (h - mean @ P) + p - d @ P) / noise
    return mean + d, np.maximum(squares + change, 0.0)


def symmetric_times(packed: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Products of symmetric matrices, given by their upper triangles, with a vector each."""
    k = v.shape[1]
    place = np.empty((k, k), np.int64)
    a, b = np.triu_indices(k)
    place[a, b] = place[b, a] = np.arange(len(a))
    out = np.empty_like(v)
    for i in range(k):
        out[:, i] = np.einsum("ij,ij->i", packed[:, place[i]], v)
    return out
