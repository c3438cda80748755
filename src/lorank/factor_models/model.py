"""A fitted factor model: predictions, their spread, and rows that were not there when it was fitted."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..backends import get_backend
from ..geometry import FixedRank
from ..solvers.alternating import Factors, held

BLOCK = 1 << 15


@dataclass(frozen=True)
class FactorModel:
    """``X[i, j] = mean + rows[i] . cols[j]``, with offsets among the factors (see :mod:`lorank.solvers.alternating`).

    Rows and columns that were never observed have the factors of their prior, those of an average row or column; so have
    indices beyond the shape.

    Attributes
    ----------
    mean : float
    offsets : bool
        Whether the last two coordinates are (row offset, 1) and (1, column offset).
    rows, cols : (n1, k) and (n2, k) arrays
    row_precision, col_precision : (k, k) arrays
        Of the priors.
    row_shift, col_shift : (k,) arrays
        The precision times the prior's mean.
    noise : float
        One over the variance of the noise.
    row_cov, col_cov : arrays of k (k + 1) / 2 columns, or None
        Upper triangles of the factors' covariances.
    row_noise, col_noise : arrays or None
        Factors on the noise's precision.
    row_counts, col_counts : integer arrays
        Observations of each row and each column.
    """

    mean: float
    offsets: bool
    rows: np.ndarray
    cols: np.ndarray
    row_precision: np.ndarray
    row_shift: np.ndarray
    col_precision: np.ndarray
    col_shift: np.ndarray
    noise: float
    row_counts: np.ndarray
    col_counts: np.ndarray
    row_cov: np.ndarray | None = None
    col_cov: np.ndarray | None = None
    row_noise: np.ndarray | None = None
    col_noise: np.ndarray | None = None

    @classmethod
    def of(
        cls, factors: Factors, mean: float, offsets: bool, noise: float, counts: tuple[np.ndarray, np.ndarray]
    ) -> FactorModel:
        """The model of fitted factors."""
        return cls(
            mean,
            offsets,
            factors.rows,
            factors.cols,
            *factors.row_prior,
            *factors.col_prior,
            noise,
            *counts,
            factors.row_cov,
            factors.col_cov,
            factors.row_noise,
            factors.col_noise,
        )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.cols)

    @property
    def rank(self) -> int:
        return self.rows.shape[1] - 2 * self.offsets

    def known(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Whether both the row and the column of each pair were observed."""
        return _known(rows, self.row_counts) & _known(cols, self.col_counts)

    def predict(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """The entries at index pairs."""
        left, right = self._sides()
        out = np.empty(len(rows))
        for part in _blocks(len(rows)):
            out[part] = np.einsum("ij,ij->i", left[_clip(rows[part], left)], right[_clip(cols[part], right)])
        return self.mean + out

    def block(self, rows: np.ndarray) -> np.ndarray:
        """Whole rows, all columns: a (len(rows), n2) array."""
        left, _ = self._sides()
        return self.mean + left[_clip(rows, left)] @ self.cols.T

    def spread(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """The standard deviation of what would be observed at index pairs: noise, and what is not known of the factors."""
        left, right = self._sides()
        row_noise, col_noise = (
            np.ones(n + 1) if a is None else np.append(a, 1.0)
            for a, n in zip((self.row_noise, self.col_noise), self.shape, strict=True)
        )
        out = np.empty(len(rows))
        S_left, S_right = self._covariance(self.row_cov, False), self._covariance(self.col_cov, True)
        for part in _blocks(len(rows)):
            i, j = _clip(rows[part], left), _clip(cols[part], right)
            out[part] = 1 / (self.noise * row_noise[i] * col_noise[j])
            if S_left is not None and S_right is not None:
                x, y, Sx, Sy = left[i], right[j], S_left[i], S_right[j]
                out[part] += _quadratic(y, Sx) + _quadratic(x, Sy) + _traces(Sx, Sy, x.shape[1])
        return np.sqrt(out)

    def fold_in(self, indptr: np.ndarray, cols: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Factors of new rows, given some of their entries: a small ridge regression each.

        Parameters
        ----------
        indptr : (n + 1,) int64 array
            Row i has the entries ``indptr[i]`` to ``indptr[i + 1]``.
        cols : (m,) integer array
            Strictly increasing within each row.
        values : (m,) array

        Returns
        -------
        (n, k) array
        """
        backend = get_backend()
        passes = backend.make_observations(indptr.astype(np.int64), cols.astype(np.int32), values - self.mean, len(self.cols))
        weights = None if self.col_noise is None else self.col_noise[cols]
        mean, _, _ = passes.normal_equations(
            False,
            self.cols,
            self.row_precision,
            self.row_shift,
            moments=self.col_cov,
            weights=weights,
            fixed=held(self.cols.shape[1], False, self.offsets),
            noise=self.noise,
        )
        return np.asarray(mean)

    def row_offset(self) -> np.ndarray:
        """What a row adds in all its columns; zeros without offsets."""
        return self.rows[:, -2].copy() if self.offsets else np.zeros(len(self.rows))

    def col_offset(self) -> np.ndarray:
        return self.cols[:, -1].copy() if self.offsets else np.zeros(len(self.cols))

    def point(self) -> FixedRank | None:
        """The factors without offsets as a point ``U diag(s) V^T``; None at rank 0."""
        if not self.rank:
            return None
        return FixedRank.from_factors(self.rows[:, : self.rank], self.cols[:, : self.rank])

    def arrays(self) -> dict[str, Any]:
        """Everything, by name; None left out."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def without_covariance(self) -> FactorModel:
        return replace(self, row_cov=None, col_cov=None)

    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors of rows and columns, the default ones at the end."""
        left = np.vstack([self.rows, self._default(self.row_precision, self.row_shift, False)])
        return left, np.vstack([self.cols, self._default(self.col_precision, self.col_shift, True)])

    def _default(self, precision: np.ndarray, shift: np.ndarray, columns: bool) -> np.ndarray:
        """The prior's mean."""
        k = len(shift)
        fixed = held(k, columns, self.offsets)
        free = np.arange(k) != fixed
        out = np.ones(k)
        out[free] = np.linalg.solve(precision[np.ix_(free, free)], shift[free])
        return out

    def _covariance(self, packed: np.ndarray | None, columns: bool) -> np.ndarray | None:
        """Covariances, the prior's at the end."""
        if packed is None:
            return None
        precision = self.col_precision if columns else self.row_precision
        k = len(precision)
        free = np.arange(k) != held(k, columns, self.offsets)
        S = np.zeros((k, k))
        S[np.ix_(free, free)] = np.linalg.inv(precision[np.ix_(free, free)])
        return np.vstack([packed, S[np.triu_indices(k)]])


def _known(index: np.ndarray, counts: np.ndarray) -> np.ndarray:
    inside = index < len(counts)
    return np.asarray(inside & (counts[np.where(inside, index, 0)] > 0))


def _clip(index: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Indices beyond the shape lead to the last row of the table, the default."""
    return np.minimum(index, len(table) - 1)


def _blocks(n: int) -> list[slice]:
    return [slice(k, min(k + BLOCK, n)) for k in range(0, n, BLOCK)]


def _quadratic(x: np.ndarray, S: np.ndarray) -> np.ndarray:
    """``x^T S x`` for upper triangles S."""
    a, b = np.triu_indices(x.shape[1])
    return np.asarray(((x[:, a] * x[:, b]) * S) @ np.where(a == b, 1.0, 2.0))


def _traces(S: np.ndarray, T: np.ndarray, k: int) -> np.ndarray:
    """``trace(S T)`` for upper triangles."""
    a, b = np.triu_indices(k)
    return np.asarray((S * T) @ np.where(a == b, 1.0, 2.0))
