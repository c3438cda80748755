"""Fitted factor model: predictions, their standard deviations, and fold-in of new rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..backends import Array, Arrays, backend_of, get_backend
from ..geometry import FixedRank
from .factors import fixed_coordinate

EXACT = {"cycles": 1000, "tolerance": 1e-9}  # coordinate descent for rows that are solved once


class Side(NamedTuple):
    """The rows (columns) of a :class:`FactorModel`.

    Attributes
    ----------
    factors : (n, k) array
    fixed : int
        Index of the coordinate that is 1 for the biases of the other side; -1 without biases.
    precision, shift : (k, k) and (k,) arrays
        Precision of the prior, and precision times mean.
    counts : integer array
        Number of observations of each row (column).
    cov : array of k (k + 1) / 2 columns, or None
        Upper triangles of the factors' covariances.
    noise : array or None
        Relative precision of the noise in each row (column).
    coefficients : (d + 1, k) array or None
        Coefficients of features, and the intercept, in the prior means.
    means : (n, k) array or None
        Shifts of the prior means by features.
    unseen : (k,) array or None
        Shift of rows (columns) without observations from the prior mean.
    """

    factors: Array
    fixed: int
    precision: np.ndarray
    shift: np.ndarray
    counts: np.ndarray
    cov: Array | None
    noise: np.ndarray | None
    coefficients: np.ndarray | None
    means: np.ndarray | None
    unseen: np.ndarray | None

    @property
    def free(self) -> np.ndarray:
        """Flags of the other coordinates."""
        return np.arange(len(self.shift)) != self.fixed

    @property
    def prior_mean(self) -> np.ndarray:
        free, out = self.free, np.ones(len(self.shift))
        out[free] = np.linalg.solve(self.precision[np.ix_(free, free)], self.shift[free])
        return out

    @property
    def prior_covariance(self) -> np.ndarray:
        """Prior covariance; zero in the fixed coordinate."""
        inside, S = np.ix_(self.free, self.free), np.zeros(self.precision.shape)
        S[inside] = np.linalg.inv(self.precision[inside])
        return S

    @property
    def unseen_factors(self) -> np.ndarray:
        """Factors of a row (column) without observations and features."""
        return self.prior_mean if self.unseen is None else self.prior_mean + self.unseen

    def with_unknown_features(self) -> Side:
        """With the prior of a row (column) of unknown features: the variance of the shifts is added to its covariance."""
        if self.means is None or not (self.counts > 0).any():
            return self
        seen, inside = self.means[self.counts > 0], np.ix_(self.free, self.free)
        off = seen - seen.mean(axis=0)
        S, Q = self.prior_covariance + off.T @ off / len(off), np.zeros_like(self.precision)
        Q[inside] = np.linalg.inv(S[inside])
        return self._replace(precision=Q, shift=Q @ np.where(self.free, self.prior_mean, 0.0))

    def is_known(self, index: np.ndarray) -> np.ndarray:
        """Whether rows (columns), some beyond the last, have observations."""
        inside = index < len(self.counts)
        return np.asarray(inside & (self.counts[np.where(inside, index, 0)] > 0))


@dataclass(frozen=True)
class FactorModel:
    """``X[i, j] = mean + rows[i] . cols[j]``, with biases among the factors (see :mod:`lorank.factorization.factors`).

    Rows and columns without observations, and indices beyond the shape, have the mean of their prior, shifted by ``row_unseen``
    and ``col_unseen`` (:func:`~lorank.factorization.update.add_unseen`).

    Factors and covariances are on the backend of the fit; :meth:`host` copies all but the covariances into main memory.

    Attributes
    ----------
    mean : float
    biases : bool
        Whether the last two coordinates are (row bias, 1) and (1, column bias).
    rows, cols : (n1, k) and (n2, k) arrays
    noise : float
        Precision of the noise, one over its variance.
    nonnegative : bool
        Whether factors are nonnegative. Prior precisions are then multiples of the identity, and ``mean`` is 0.
    row_precision, col_precision, row_shift, col_shift, ...
        The arrays of each :class:`Side`.
    """

    mean: float
    biases: bool
    rows: Array
    cols: Array
    row_precision: np.ndarray
    row_shift: np.ndarray
    col_precision: np.ndarray
    col_shift: np.ndarray
    noise: float
    row_counts: np.ndarray
    col_counts: np.ndarray
    row_cov: Array | None = None
    col_cov: Array | None = None
    row_noise: np.ndarray | None = None
    col_noise: np.ndarray | None = None
    row_coefficients: np.ndarray | None = None
    col_coefficients: np.ndarray | None = None
    row_means: np.ndarray | None = None
    col_means: np.ndarray | None = None
    nonnegative: bool = False
    row_unseen: np.ndarray | None = None
    col_unseen: np.ndarray | None = None

    @property
    def sides(self) -> tuple[Side, Side]:
        """The rows and the columns."""
        return self._side("row", False), self._side("col", True)

    def _side(self, name: str, columns: bool) -> Side:
        parts = (getattr(self, f"{name}_{part}") for part in Side._fields[2:])
        return Side(getattr(self, f"{name}s"), fixed_coordinate(self.rows.shape[1], columns, self.biases), *parts)

    @cached_property
    def _with_unknown_features(self) -> tuple[Side, Side]:
        rows, cols = self.sides
        return rows.with_unknown_features(), cols.with_unknown_features()

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.cols)

    @property
    def rank(self) -> int:
        return self.rows.shape[1] - 2 * self.biases

    def known(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Whether both the row and the column of each pair have observations."""
        return self.sides[0].is_known(rows) & self.sides[1].is_known(cols)

    def predict(self, rows: Array, cols: Array) -> Array:
        """Entries at index pairs, on the backend of the factors."""
        left, right = self.padded_factors()
        return self.mean + get_backend(None, left).entries(left, right, _clip(rows, left), _clip(cols, right))

    def spread(self, rows: Array, cols: Array) -> Array:
        """Predictive standard deviation at index pairs: noise and uncertainty of the factors."""
        backend = get_backend(None, self.rows if self.row_cov is None else self.row_cov)
        left, right = map(backend.asarray, self.padded_factors())
        i, j = (_clip(backend.asindex(index), side) for index, side in ((rows, left), (cols, right)))
        by_row, by_col = (
            backend.asarray(np.ones(n + 1) if a is None else np.append(a, 1.0))[:, None]
            for a, n in zip((self.row_noise, self.col_noise), self.shape, strict=True)
        )
        variance = 1 / (self.noise * backend.entries(by_row, by_col, i, j))
        if self.row_cov is not None and self.col_cov is not None:
            S, left = _with_prior(backend, left, self._with_unknown_features[0], i)
            T, right = _with_prior(backend, right, self._with_unknown_features[1], j)
            variance = variance + backend.variances(left, S, right, T, i, j)
        found = variance**0.5
        return found if type(found) is type(self.rows) else backend.to_numpy(found)

    def fold_in(
        self,
        indptr: np.ndarray,
        cols: np.ndarray,
        values: np.ndarray,
        weights: np.ndarray | None = None,
        means: np.ndarray | None = None,
    ) -> np.ndarray:
        """Factors of new rows from some of their entries, by a ridge regression each.

        Parameters
        ----------
        indptr : (n + 1,) int64 array
            Row pointers.
        cols : (m,) integer array
            Strictly increasing within each row.
        values : (m,) array
        weights : (m,) array, optional
        means : (k,) array, optional
            Shift of the prior mean by features, the same for all rows; by default the features are unknown.

        Returns
        -------
        (n, k) array
        """
        own, backend = self.sides[0] if means is not None else self._with_unknown_features[0], get_backend()
        shift = own.shift if means is None else own.shift + own.precision @ means
        passes = backend.make_observations(indptr.astype(np.int64), cols.astype(np.int32), values - self.mean, len(self.cols))
        if self.col_noise is not None:
            weights = self.col_noise[cols] * (1.0 if weights is None else weights)
        if self.nonnegative:
            return self.solve_nonnegative(passes, False, weights)
        moments = None if self.col_cov is None else backend_of(self.col_cov).to_numpy(self.col_cov)
        mean, _, _ = passes.normal_equations(
            False,
            self.cols,
            own.precision,
            shift,
            moments=moments,
            weights=weights,
            fixed=own.fixed,
            noise=self.noise,
        )
        return np.asarray(mean)

    def solve_nonnegative(
        self, passes: Any, columns: bool, weights: np.ndarray | None, scale: np.ndarray | float = 1.0
    ) -> np.ndarray:
        """Nonnegative factors of rows (columns), given those of the other side, solved to high accuracy.

        Parameters
        ----------
        passes : Observations
            Observations of the rows (or of the columns, transposed), in main memory.
        columns : bool
        weights : (m,) array or None
        scale : (n,) array or float
            Scale of the penalties.
        """
        own, other, n = self.sides[columns], self.sides[not columns].factors, passes.shape[0]
        centre, ridge = own.prior_mean, np.full(n, own.precision[0, 0] / self.noise) * scale
        found, _ = passes.nonnegative_equations(
            False, other, np.tile(centre, (n, 1)), ridge, centre=centre, weights=weights, **EXACT
        )
        return np.asarray(found)

    def grown(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> FactorModel:
        """A copy in main memory with more rows and columns, which have the factors of unseen ones.

        Parameters
        ----------
        rows, cols : (n1,) and (n2,) integer arrays
            Positions of the old rows and columns in the new shape.
        shape : (int, int)
        """
        own = self.arrays()
        for prefix, side, at, n in zip(("row", "col"), self.sides, (rows, cols), shape, strict=True):
            typical: dict[str, Any] = {f"{prefix}s": side.unseen_factors, f"{prefix}_counts": 0, f"{prefix}_noise": 1.0}
            typical |= {f"{prefix}_means": 0.0, f"{prefix}_cov": _packed(side.prior_covariance)}
            for name, value in typical.items():
                if name in own:
                    a = np.empty((n, *own[name].shape[1:]), own[name].dtype)
                    if n > len(at):
                        a[:] = value
                    a[at] = own[name]
                    own[name] = a
        return FactorModel(**own)

    @property
    def row_biases(self) -> np.ndarray:
        """Biases of rows; zeros without biases."""
        return self.rows[:, -2].copy() if self.biases else np.zeros(len(self.rows))

    @property
    def col_biases(self) -> np.ndarray:
        return self.cols[:, -1].copy() if self.biases else np.zeros(len(self.cols))

    @property
    def row_factors(self) -> Array:
        """Factors of rows without biases."""
        return self.rows[:, : self.rank]

    @property
    def col_factors(self) -> Array:
        return self.cols[:, : self.rank]

    def point(self) -> FixedRank | None:
        """The factors without biases as a point ``U diag(s) V^T``; None at rank 0."""
        if not self.rank:
            return None
        return FixedRank.from_factors(self.row_factors, self.col_factors, backend=get_backend(None, self.rows))

    def arrays(self) -> dict[str, Any]:
        """All fields in main memory by name, without those that are None."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        for name in ("rows", "cols", "row_cov", "col_cov"):
            if name in found:
                found[name] = backend_of(found[name]).to_numpy(found[name])
        return found

    def __reduce__(self) -> Any:  # other processes have no device
        return functools.partial(FactorModel, **self.arrays()), ()

    def host(self) -> FactorModel:
        """The same with factors in main memory."""
        rows, cols = (backend_of(a).to_numpy(a) for a in (self.rows, self.cols))
        return replace(self, rows=rows, cols=cols)

    def padded_factors(self) -> tuple[Array, Array]:
        """Factors of rows and columns, with those of unseen ones at the end."""
        backend = backend_of(self.rows)
        left, right = (backend.asarray(side.unseen_factors[None, :]) for side in self.sides)
        return backend.concat([self.rows, left], axis=0), backend.concat([self.cols, right], axis=0)


def _with_prior(backend: Arrays, x: Array, side: Side, index: Array) -> tuple[Array, Array]:
    """Covariances, with the prior covariance at the end where indices are beyond the shape, and as many factors."""
    n = len(side.factors)
    if not len(index) or int(index.max()) < n:
        return side.cov, x[:n]
    return backend.concat([side.cov, backend.asarray(_packed(side.prior_covariance)[None, :])], axis=0), x


def _packed(S: np.ndarray) -> np.ndarray:
    """The upper triangle, row by row."""
    return S[np.triu_indices(len(S))]


def _clip(index: Array, table: Array) -> Array:
    """Indices beyond the shape become that of the last row of the table, which is the unseen one."""
    return index.clip(max=len(table) - 1)
