"""Poisson factorization of complete count tables, most of whose entries are zero."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import numpy as np

from ..backends import Array, Backend, Observations, get_backend
from ..common.checks import NOT_NEGATIVE, YES_OR_NO, ParameterError, check, one_of
from ..geometry import FixedRank
from ..geometry.truncated_svd import truncated_svd
from ..losses import Objective, Poisson
from .counts_gradient import EMPTY_LOG_MEAN, CountGradient
from .input_checks import plain_array
from .problem import Problem


class CountTable(Problem):
    """Poisson factorization of a complete table: counts ``Y_ij`` with means ``exp(row_i + col_j + X_ij)``.

    For genes x cells or words x documents: a sparse matrix whose zeros are observations, unlike those of
    :class:`Completion`. Offsets of rows and columns model depth and abundance, and X has low rank. Computing time is
    proportional to the size of the table, memory to the number of nonzero counts.

    Parameters
    ----------
    counts : (n1, n2) SciPy sparse matrix or array
        Non-negative integers.
    offsets : {"totals", "columns", "rows", "none"} or a pair of arrays
        ``"totals"``, the default: logarithms of the totals of rows and columns, so that ``X = 0`` is the independence model.
        ``"columns"`` and ``"rows"``: totals of one side (the depth of cells, say) and the mean for the other. Or a pair of
        arrays of logarithms, for rows and for columns.
    intercepts : bool
        Estimate the offset of each row together with X, as GLM-PCA does, instead of from its total.
        ``learned_offsets(X)`` returns the estimates.
    ridge : float
        Penalty ``ridge X_ij^2 / 2`` for each entry, which bounds X in rows and columns with few counts.
    dtype : {"float64", "float32"}
        Precision; float32 takes about half the time.
    backend : str, optional
        As in :class:`Completion`.

    Raises
    ------
    ValueError
        For counts that are negative or not integers, and for offsets that do not fit the table.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.standard_normal(60), rng.standard_normal(40))
    >>> table = lr.CountTable(rng.poisson(2 * np.exp(X)))
    >>> result = lr.solve(table, rank=2)
    >>> result.converged, table.deviance(result.X) < 0.7 * table.deviance(table.zero(1))
    (True, True)
    """

    stationary_is_converged = True
    blas_threads = 1  # blocks of rows are distributed over threads instead

    def __init__(
        self,
        counts: Any,
        offsets: Any = "totals",
        *,
        intercepts: bool = False,
        ridge: float = 3e-2,
        dtype: Any = "float64",
        backend: str | Backend | None = None,
    ) -> None:
        check("ridge", ridge, NOT_NEGATIVE)
        check("intercepts", intercepts, YES_OR_NO)
        name = np.dtype(dtype).name if not isinstance(dtype, str) else dtype
        check("dtype", name, one_of(("float64", "float32")))
        table = _sparse(counts)
        self.ridge, self.intercepts = float(ridge), bool(intercepts)
        place = get_backend(backend)
        data = place.asarray(table.data.astype(name))
        indptr, indices = place.asindex(table.indptr.astype(np.int64)), place.asarray(table.indices.astype(np.int32))
        self.observations: Observations = place.make_observations(indptr, indices, data, table.shape[1])
        rows, cols = (np.asarray(table.sum(axis), float).ravel() for axis in (1, 0))
        self._set_offsets(*_offsets(offsets, rows, cols), place)

    def _set_offsets(self, rows: np.ndarray, cols: np.ndarray, backend: Backend) -> None:
        """Set the offsets and what depends on them and on the observations."""
        self.offsets = rows, cols
        observed, y = self.observations, self.observations.values
        self.sides = [backend.astype(backend.asarray(a[:, None]), backend.dtype(y)) for a in (rows, cols)]
        host = backend.to_numpy(y).astype(float)
        # The part of -log P that does not depend on X, such that the rest is half the deviance.
        at_offsets = float(np.asarray(backend.to_numpy(observed.sums(y, 0)), float) @ rows) + float(
            np.asarray(backend.to_numpy(observed.sums(y, 1)), float) @ cols
        )
        self.log_likelihood_constant = float((host * np.log(np.maximum(host, 1)) - host).sum()) - at_offsets
        with np.errstate(over="ignore"):
            self._null = float(np.exp(rows).sum() * np.exp(cols).sum())
        if not self._null < 1e30:
            raise ValueError("offsets must be logarithms: exp(offsets) adds up to more than 1e30 counts; take logarithms first")
        self.totals = backend.astype(backend.asarray(backend.to_numpy(observed.sums(y, 0))[:, None]), backend.dtype(y))
        shape = observed.shape
        objective = Objective(Poisson(self.ridge))
        super().__init__(y, shape, operator_scale=self._null / (shape[0] * shape[1]), backend=backend, objective=objective)

    @functools.cached_property
    def y_norm(self) -> float:
        """Root of the deviance at ``X = 0``."""
        return math.sqrt(2 * max(self._null + self.log_likelihood_constant, 1e-12))

    @property
    def m(self) -> int:
        """Number of entries, all of which are observed."""
        return self.shape[0] * self.shape[1]

    def gradient(self, X: FixedRank) -> CountGradient:
        return CountGradient(self, X)

    def counts(self) -> tuple[Array, Array]:
        """The expected totals of rows and columns at ``X = 0``, the Fisher information of their offsets."""
        rows, cols = (np.exp(a) for a in self.offsets)
        asarray = self.backend.asarray
        return asarray(rows * cols.sum()), asarray(cols * rows.sum())

    def deviance(self, X: FixedRank) -> float:
        """The Poisson deviance, without the penalty."""
        return self.objective_root(X) ** 2

    def objective_root(self, X: FixedRank, learned: Any = None) -> float:
        return math.sqrt(max(2 * self.gradient(X).half_deviance, 0.0))

    def learned_offsets(self, X: FixedRank) -> np.ndarray:
        """The (n1,) offsets of the rows at X: the given ones, or with ``intercepts=True`` their estimates."""
        shifts = self.gradient(X).shifts
        return self.offsets[0] if shifts is None else self.offsets[0] + self.backend.to_numpy(shifts)[:, 0]

    def means(self, X: FixedRank, rows: Any, cols: Any) -> np.ndarray:
        """The expected counts at index pairs."""
        offsets = self.learned_offsets(X) if self.intercepts else self.offsets[0]
        z = X.backend.to_numpy(X.entries(rows, cols)) + offsets[np.asarray(rows)] + self.offsets[1][np.asarray(cols)]
        return Poisson().mean(z)

    def dof(self, rank: Any) -> int:
        return super().dof(rank) + (self.shape[0] if self.intercepts else 0)

    def split(self, rng: np.random.Generator, share: float) -> tuple[CountTable, CountTable]:
        """Binomial thinning: independent tables with about ``1 - share`` and ``share`` of the counts."""
        host = self.observations.host()
        taken = rng.binomial(host.values.astype(np.int64), share)
        parts = []
        for values, part in ((host.values - taken, 1 - share), (taken, share)):
            kept = self.observations.with_values(self.backend.asarray(values.astype(host.values.dtype)))
            parts.append(self._twin(kept, self.offsets[0] + math.log(part), self.backend))
        return parts[0], parts[1]

    def initial_point(self, rank: int, rng: np.random.Generator) -> FixedRank:
        """Correspondence analysis: the best fit of that rank to the quadratic model of the objective at ``X = 0``.

        With the means ``mu = D D'`` there, that is ``D^-1/2 H_r((Y - mu) / mu^1/2) D'^-1/2``. Rows and columns with few counts
        are damped.
        """
        backend, observed = self.backend, self.observations
        scales = [backend.astype(backend.asarray(np.exp(a / 2)[:, None]), self.dtype) for a in self.offsets]
        damped = []
        for own, other in (self.offsets, self.offsets[::-1]):
            total = np.exp(own) * np.exp(other).sum()  # expected total of the row
            held = np.exp(own / 2) / (np.exp(own) + np.exp(own) / np.maximum(total, 1e-30) * 10 * rank + 1e-30)
            damped.append(backend.astype(backend.asarray(held[:, None]), self.dtype))
        times, adjoint_times = observed.products(self.y)
        inverse = [1 / (s + 1e-15) * (s > 1e-15) for s in scales]

        def product(v: Array) -> Array:
            v = backend.asarray(v)
            return inverse[0] * times(inverse[1] * v) - backend.product(scales[0], backend.gram(scales[1], v))

        def adjoint_product(u: Array) -> Array:
            u = backend.asarray(u)
            return inverse[1] * adjoint_times(inverse[0] * u) - backend.product(scales[1], backend.gram(scales[0], u))

        start = adjoint_product(backend.random_normal(rng, (self.shape[0], min(rank + 5, *self.shape)), self.dtype))
        found = truncated_svd(product, adjoint_product, start, rank, backend, tol=1e-2, restarts=4)
        left, right = backend.asarray(found.U * found.s) * damped[0], backend.asarray(found.V) * damped[1]
        X = FixedRank.from_factors(left, right, backend=backend)
        G = self.gradient(FixedRank.zero(self.shape, 1, self.dtype, backend))
        return FixedRank(X.U, X.s * min(G.exact_step(X.U * X.s, X.V), 1.0), X.V, backend)

    def _hash_operator(self, found: Any) -> None:
        entries = self.observations.host()
        for a in (entries.indptr, entries.indices, *self.offsets, np.array([self.intercepts])):
            found.update(np.ascontiguousarray(a).tobytes())

    def _moved(self, backend: Backend) -> CountTable:
        indptr, indices, values = map(backend.asarray, self.observations.host()[:3])
        return self._twin(backend.make_observations(indptr, indices, values, self.shape[1]), self.offsets[0], backend)

    def _twin(self, observations: Observations, row_offsets: np.ndarray, backend: Backend) -> CountTable:
        twin = copy.copy(self)
        twin.observations = observations
        twin._set_offsets(row_offsets, self.offsets[1], backend)
        return twin


def _sparse(counts: Any) -> Any:
    """Checked counts in CSR format."""
    import scipy.sparse

    if not hasattr(counts, "tocsr"):
        a = plain_array(counts, "counts")
        if a.ndim != 2 or a.dtype.kind not in "biuf":
            raise ParameterError("counts", f"must be a table of numbers, got an array of shape {a.shape} and {a.dtype}")
        if not np.isfinite(a).all():
            i, j = np.argwhere(~np.isfinite(a))[0]
            raise ValueError(
                f"counts[{i}, {j}] = {a[i, j]}: a complete table has no missing values; for an incomplete one use "
                "Completion(rows, cols, counts, loss='poisson')"
            )
        counts = scipy.sparse.csr_array(a)
    table = scipy.sparse.csr_array(counts)
    if table.ndim != 2 or not min(table.shape):
        raise ParameterError("counts", f"must be a table, got shape {table.shape}")
    table.sum_duplicates()
    table.eliminate_zeros()
    coo = table.tocoo()
    for bad, words in ((~(table.data >= 0), "counts are 0, 1, 2, ..."), (table.data % 1 != 0, "counts are whole numbers")):
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"counts[{coo.row[k]}, {coo.col[k]}] = {table.data[k]:g}: {words}; pass raw counts (and depths as offsets), or "
                "use Completion.from_dense for measurements"
            )
    if not table.nnz:
        raise ValueError(f"all {table.shape[0]:,} x {table.shape[1]:,} counts are zero")
    return table


def _offsets(offsets: Any, rows: np.ndarray, cols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = rows.sum()
    if isinstance(offsets, str):
        check("offsets", offsets, one_of(("totals", "columns", "rows", "none")))
        left = rows if offsets in ("totals", "rows") else np.full(len(rows), total / len(rows))
        right = cols if offsets in ("totals", "columns") else np.full(len(cols), total / len(cols))
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(left) - np.log(total), EMPTY_LOG_MEAN), np.maximum(np.log(right), EMPTY_LOG_MEAN)
    if not isinstance(offsets, (tuple, list)) or len(offsets) != 2:
        raise ParameterError("offsets", "must be 'totals', 'columns', 'rows', 'none', or a pair of arrays of logarithms")
    found = []
    for name, a, n in (("rows", offsets[0], len(rows)), ("columns", offsets[1], len(cols))):
        a = np.asarray(a, float)
        if a.shape != (n,) or not np.isfinite(a).all():
            raise ValueError(f"offsets of {name} must be {n:,} finite logarithms, got an array of shape {a.shape}")
        found.append(a)
    return found[0], found[1]
