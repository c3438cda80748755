"""Priors whose means depend on features: the factors of a row are drawn around a linear function of what is known of it.

``x_i ~ N(c + W^T f_i, P^-1)`` with ``W ~ N(0, P^-1 / strength)``: a ridge regression of the factors on the features, whose
strength is the one that explains them best (MacKay's evidence), learned after each half of a sweep with the prior itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

WEAKEST, STRONGEST = 1e-3, 1e9
ROUNDS = 5


@dataclass(frozen=True)
class FeatureRegression:
    """How prior means depend on features.

    Attributes
    ----------
    coefficients : (d, k) array
        W.
    strength : float
        Of the ridge.
    """

    coefficients: np.ndarray
    strength: float


class Features:
    """Features of the rows (columns) of a problem, and what regressions on them need.

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

    def means(self, link: FeatureRegression | None, k: int) -> np.ndarray:
        """What features add to the prior means, (n, k)."""
        if link is None:
            return np.zeros((self.n, k))
        return np.asarray(self.numbers @ link.coefficients) - self.centre @ link.coefficients

    def affine(self, link: FeatureRegression) -> np.ndarray:
        """The coefficients with the constant below them, (d + 1, k): for features of others, which are not centred."""
        return np.vstack([link.coefficients, -self.centre @ link.coefficients])

    def regress(self, x: np.ndarray, precision: np.ndarray, link: FeatureRegression | None) -> tuple[FeatureRegression, float]:
        """The link that best explains factors, and how many degrees of freedom it takes.

        Parameters
        ----------
        x : (n, k) array
        precision : (k, k) array
            Of the factors around their means.
        link : FeatureRegression or None
            The last one, whose strength is a start.
        """
        values, vectors = self.basis
        y = vectors.T @ np.asarray(self.numbers.T @ (x - x.mean(0)))
        strength = 1.0 if link is None else link.strength
        for _ in range(ROUNDS):
            W = y / (values + strength)[:, None]
            used = float((values / (values + strength)).sum())
            size = float(np.einsum("ij,jk,ik->", W, precision, W))
            strength = float(np.clip(used * x.shape[1] / max(size, 1e-300), WEAKEST, STRONGEST))
        W = y / (values + strength)[:, None]
        return FeatureRegression(vectors @ W, strength), float((values / (values + strength)).sum())


def shifted(
    mean: np.ndarray,
    packed: np.ndarray,
    squares: np.ndarray,
    prior: tuple[np.ndarray, np.ndarray],
    means: np.ndarray,
    noise: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The solution of normal equations whose prior's mean is larger by ``means``, given the one with the common prior.

    With S the covariance and ``p = P m``, x moves by ``d = S p``, and the expected sum of squares by
    ``(2 d (h - P x) + d p - d P d) / noise``.

    Parameters
    ----------
    mean, packed, squares
        As ``normal_equations`` gives them, with the covariances.
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
    """Products of symmetric matrices, given by their upper triangles, with one vector each."""
    k = v.shape[1]
    place = np.empty((k, k), np.int64)
    a, b = np.triu_indices(k)
    place[a, b] = place[b, a] = np.arange(len(a))
    out = np.empty_like(v)
    for i in range(k):
        out[:, i] = np.einsum("ij,ij->i", packed[:, place[i]], v)
    return out
