"""Matrix completion: some entries of X are observed."""

from __future__ import annotations

import copy
import functools
import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..backends import Array, Backend, Observations, Vector, backend_of, get_backend
from ..common.checks import check, counted, one_of
from ..geometry import FixedRank, Tangent
from ..losses import ROBUST, Cauchy, Loss, Objective, resolve_loss
from .capabilities import RescaledProblem, SinglePrecisionProblem
from .completion_gradient import LossGradient, SampledGradient
from .gradient import Gradient
from .input_checks import (
    Duplicates,
    check_finite,
    check_merging,
    check_range,
    check_shape,
    index_array,
    merge,
    plain_array,
    value_array,
    weight_array,
    with_exposure,
)
from .problem import MatrixProblem

BLOCK_NUMBERS = 1 << 24  # of a preconditioner, 128 MB in double precision: more only up to four for each observation
Precision = Literal["auto", "double", "mixed"]
SINGLE = 100_000  # observations: with fewer, a start in single precision gains nothing that one would notice


class Completion(MatrixProblem):
    """Observed entries ``X[rows[k], cols[k]] = values[k]`` of an n1 x n2 matrix.

    Parameters
    ----------
    rows, cols : (m,) integer arrays
    values : (m,) array
        Real or complex; float32 and complex64 are computed with as they are, integers as float64. Where any of the three is a
        torch tensor, all that follows happens on its device.
    shape : (int, int), optional
        By default just large enough for the indices.
    weights : (m,) array, optional
        Of the observations, in the order of ``values``: the misfit is ``sum_k w_k |X - y|_k^2``. For noise
        of known variance, one over it is best. Observations of weight 0 are left out.
    loss : str or Loss
        How entries are compared with the values: ``"squares"``; ``"robust"``, by squares too, but for gross errors, which are
        found and left out (:class:`~lorank.robust.Robust`; ``result.outliers`` says which); ``"huber"``, ``"absolute"``,
        ``"cauchy"`` or ``"tukey"``, by which large deviations count for less; ``"logistic"`` for yes and no, ``"ordinal"``
        for stars, ``"poisson"`` for counts, where X holds logits, places on a scale, and log means. Or an object such as
        ``lorank.losses.Huber(scale=0.1)``.
    exposure : (m,) array, optional
        With ``loss="poisson"``: the mean of a count is its exposure times ``exp(X)``.
    duplicates : {"error", "mean", "last", "sum"}
        What to make of a pair that occurs more than once. With weights, "mean" is the weighted mean, which counts with the sum
        of the weights, and "sum" is refused.
    backend : {"native", "reference", "torch", "torch:cuda", "partitions:4"}, optional
        By default the C++ kernels where they were built, and torch for tensors. ``"partitions:4"`` cuts the rows into four
        blocks.
    precision : {"auto", "double", "mixed"}
        How float64 factors too large for the caches are gathered by the C++ kernels: ``"mixed"`` in float32 with sums in
        float64, up to 1.6 times as fast and good for relative residuals down to about 1e-6; ``"double"`` as they are;
        ``"auto"`` in float32 for line searches and while the relative residual is above 1e-3, so that no digit is lost.
        But for ``"double"``, starts and the first steps of ``auto`` are computed in single precision where observations are
        many.

    Notes
    -----
    Observations are kept in row-major order: ``problem.rows``, ``problem.cols`` and ``problem.y`` have that order, and so
    has every residual. Rows and columns without any observation cannot be recovered: they come back as zeros, and a
    warning says how many there are.

    Raises
    ------
    ValueError
        Where indices, values, weights, shape or loss are not what they should be: the first wrong one is named.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> X = np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 2.0])
    >>> rows, cols = [0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 0, 2]
    >>> problem = lr.Completion(rows, cols, X[rows, cols], X.shape)
    >>> result = lr.solve(problem, rank=1)
    >>> bool(abs(result.X[2, 1] - X[2, 1]) < 1e-4)
    True
    """

    frame_constant: float | None = 1.0  # sampling: A A* p = p
    robust: bool = False  # whether outliers are to be found
    row_ids: np.ndarray | None = None  # names of the rows and columns, where files have given them
    col_ids: np.ndarray | None = None
    observations: Observations

    def __init__(
        self,
        rows: Any,
        cols: Any,
        values: Any,
        shape: tuple[int, int] | None = None,
        *,
        weights: Any = None,
        loss: str | Loss = "squares",
        exposure: Any = None,
        duplicates: Duplicates = "error",
        backend: str | Backend | None = None,
        precision: Precision = "auto",
    ) -> None:
        backend = get_backend(backend, rows, cols, values)
        self.robust = isinstance(loss, str) and loss == ROBUST
        self.loss = resolve_loss("squares" if self.robust else loss)
        rows, cols, values = index_array(rows, "rows"), index_array(cols, "cols"), value_array(values)
        if not len(rows) == len(cols) == len(values):
            raise ValueError(
                f"rows, cols and values must be alike in length: got {len(rows):,}, {len(cols):,} and {len(values):,}"
            )
        check("duplicates", duplicates, one_of(("error", "mean", "last", "sum")))
        check("precision", precision, one_of(("auto", "double", "mixed")))
        self.precision = precision
        if not len(rows):
            raise ValueError("no observations: rows, cols and values are empty, so there is nothing to complete from")
        shape = check_shape(shape, rows, cols)
        check_range(rows, shape[0], "rows")
        check_range(cols, shape[1], "cols")
        check_finite(values, rows, cols)
        check_merging(self.loss, duplicates, weights is not None or exposure is not None)
        if self.loss is not None:
            if backend_of(values).is_complex(values) and not self.loss.takes_complex:
                raise ValueError(f"values are complex: loss={self.loss.name!r} takes real ones")
            values, self.loss = self.loss.prepare(values, backend_of(values))
        if exposure is not None:
            values, weights = with_exposure(self.loss, exposure, values, weights)
        self._given = GivenOrder(len(values))
        if weights is not None:
            weights = weight_array(weights, len(values))
            keep = weights > 0
            if not keep.all():
                self._given = replace(self._given, kept=backend_of(keep).to_numpy(keep))
                rows, cols, values, weights = rows[keep], cols[keep], values[keep], weights[keep]

        backend.require_room(len(rows), shape, backend_of(values).dtype(values))
        rows, cols, values = backend.asindex(rows), backend.asindex(cols), backend.asarray(values)
        indptr, indices, y, order = backend.sorted_pattern(rows, cols, values, shape)
        repeated = backend.repetitions(indptr, indices)
        if weights is not None:
            weights = backend.asarray(weights)
            weights = weights if isinstance(order, range) else weights[order]
        if len(repeated):
            places, ptr, index, data, before = (backend.to_numpy(a) for a in (repeated, indptr, indices, y, order))
            heavy = None if weights is None else backend.to_numpy(weights)
            merged = merge(duplicates, places, ptr, index, data, before, heavy)
            indptr, indices, y, weights = (None if a is None else backend.asarray(a) for a in merged)
        if self.robust:
            self._given = replace(self._given, order=backend.to_numpy(order), repeated=backend.to_numpy(repeated))
        del rows, cols, values, order
        observations = backend.make_observations(indptr, indices, y, shape[1])
        if weights is not None:
            observations = observations.with_weights(weights)
        self._observe(observations, backend)
        self._warn_about_empty()

    def _observe(self, observations: Observations, backend: Backend) -> None:
        """Take over observations."""
        self.observations, shape, weights = observations, observations.shape, observations.weights
        total = observations.m if weights is None else float(weights.sum())
        objective = Objective(weights=weights)
        if self.loss is not None:
            self.frame_constant, self.nonquadratic_at_zero = (
                None,
                self.loss.discrete,
            )  # no method that fits the values themselves
            self.average = float((observations.values if weights is None else weights * observations.values).sum().real) / total
            objective = Objective(self.loss, weights)
            total = objective.typical_curvature(observations.values, self.average)
        super().__init__(
            observations.values, shape, operator_scale=total / (shape[0] * shape[1]), backend=backend, objective=objective
        )
        self._empty_rows, self._empty_cols = (backend.places(observations.counts(side) == 0) for side in (0, 1))

    def _moved(self, backend: Backend) -> Completion:
        twin, observed = copy.copy(self), self.observations
        twin._forget()
        backend.require_room(self.m, self.shape, self.dtype)
        indptr, indices, values, weights = observed.host()
        indptr, indices, values = map(backend.asarray, (indptr, indices, values))
        moved = backend.make_observations(indptr, indices, values, self.shape[1])
        twin._observe(moved if weights is None else moved.with_weights(backend.asarray(weights)), backend)
        return twin

    @classmethod
    def from_sparse(cls, S: Any, **options: Any) -> Completion:
        """The stored entries of a SciPy sparse matrix, explicit zeros included, are observed."""
        if not hasattr(S, "tocoo"):
            raise ValueError(f"from_sparse takes a SciPy sparse matrix, got {type(S).__name__}: see also from_dense")
        coo = S.tocoo()
        if coo.ndim != 2:
            raise ValueError(f"from_sparse takes a sparse matrix of two dimensions, got shape {coo.shape}")
        return cls(coo.row, coo.col, coo.data, coo.shape, **options)

    @classmethod
    def from_dense(cls, a: Any, **options: Any) -> Completion:
        """The entries of an array that are not nan (and not masked) are observed.

        Zeros are values, not gaps: where they stand for gaps, write nan there first, or use :meth:`from_sparse`. An array
        without any nan is observed everywhere, and the result is its best approximation of the rank asked for.
        """
        mask, a = np.ma.getmaskarray(a) if np.ma.isMaskedArray(a) else False, plain_array(a, "a")
        if a.ndim != 2:
            raise ValueError(f"a matrix has two dimensions, got an array of shape {a.shape}")
        if a.dtype.kind not in "biufc":
            raise ValueError(f"from_dense takes an array of numbers with nan for the gaps, got {a.dtype}")
        rows, cols = np.nonzero(~(np.isnan(a) | mask))
        return cls(rows, cols, a[rows, cols], a.shape, **options)

    @classmethod
    def from_observations(
        cls,
        observations: Observations,
        backend: Backend,
        *,
        loss: str | Loss = "squares",
        precision: Precision = "auto",
        row_ids: np.ndarray | None = None,
        col_ids: np.ndarray | None = None,
    ) -> Completion:
        """Completion problem for observations that a backend already holds, in row-major order and without duplicates.

        ``row_ids`` and ``col_ids`` are the names of the rows and columns. ``loss="robust"`` needs arrays and is refused.
        """
        check("precision", precision, one_of(("auto", "double", "mixed")))
        problem = cls.__new__(cls)
        problem.precision, problem.loss = precision, resolve_loss(loss)
        if problem.loss is not None:
            values, problem.loss = problem.loss.prepare(observations.values, backend)
            observations = observations if values is observations.values else observations.with_values(values)
        problem.row_ids, problem.col_ids = row_ids, col_ids
        problem._observe(observations, backend)
        problem._warn_about_empty()
        return problem

    @property
    def rows(self) -> Array:
        """Row indices in row-major order."""
        return self.observations.rows

    @property
    def cols(self) -> Array:
        """Column indices in row-major order."""
        return self.observations.cols

    def forward(self, left: Array, right: Array) -> Array:
        return self.observations.sample(left, right)

    def adjoint(self, p: Array) -> Any:
        return self.observations.matrix(p)

    def gradient(self, X: FixedRank) -> Gradient:
        return SampledGradient(self, X, self.precision == "mixed") if self.loss is None else LossGradient(self, X)

    def single_precision(self) -> SinglePrecisionProblem | None:
        """The problem in single precision, where observations are many and the loss does not depend on units."""
        return self._single

    @functools.cached_property
    def _single(self) -> SinglePrecisionProblem | None:
        if self.precision == "double" or self.m < SINGLE or self.dtype not in (np.float64, np.complex128):
            return None
        if self.max_abs == 0:
            return None
        unit = 1.0 if 1e-6 < self.max_abs < 1e6 else self.max_abs
        if unit != 1 and self.loss is not None:
            return None
        half = np.dtype(np.complex64 if self.dtype.kind == "c" else np.float32)
        values = self.backend.astype(self.y if unit == 1 else self.y / unit, half)
        return SinglePrecisionProblem(self.with_observations(self.observations.with_values(values)), unit, self.dtype)

    def rank_one_point(self, rng: np.random.Generator) -> FixedRank | None:
        """By alternating least squares, which at rank 1 are sums and quotients; by other losses, the best constant."""
        observed, backend = self.observations, self.backend
        if self.loss is not None:
            return self._constant()
        weights = observed.weights
        products = observed.products(self.y if weights is None else weights * self.y)
        weighted = None if weights is None else observed.products(weights)

        def fitted(side: int, other: Array) -> Array:
            """The factor of the rows (side 0) or columns (side 1) that fits best, given the other one."""
            sizes = abs(other)
            counts = backend.astype(observed.counts(side)[:, None], backend.dtype(sizes))
            least = 0.1 * sizes.mean() ** 2 * counts  # or a row seen where ``other`` is small would blow up
            total = observed.gathered(sizes**2, side) if weighted is None else weighted[side](sizes**2)
            total = total.clip(least)
            return products[side](other) / (total + (total == 0))

        left = backend.random_normal(rng, (self.shape[0], 1), self.dtype) + 1  # data often have a mean, and are not all of it
        for _ in range(3):
            right = fitted(1, left)
            left = fitted(0, right)
        return FixedRank.from_factors(left, right, backend=backend)

    def _constant(self) -> FixedRank | None:
        """The matrix of one number that fits best, where the loss knows it; zero where nothing was observed."""
        assert self.loss is not None
        constant = self.loss.intercept(self.average)
        if not constant:
            return None
        sides = [self.backend.astype(self.backend.asarray(self.observations.counts(k) > 0), self.dtype) for k in (0, 1)]
        return FixedRank.from_factors(constant * sides[0][:, None], sides[1][:, None], backend=self.backend)

    def squared_image_norm(self, xi: Tangent) -> float:
        _ = xi.bases  # first, and kept for the retraction: a backend that puts sums off makes the blocks from them
        observations = self.observations if self.precision == "double" else self.observations.rough
        return observations.line_sums(xi.blocks(), None)[1]

    def products(self, p: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        return self.observations.products(p)

    def blocks(self, X: FixedRank) -> tuple[Array, Array] | None:
        """Sums of ``V_j^H V_j`` over the columns j observed in each row, and of ``U_i^H U_i`` over the rows in each column."""
        if sum(self.shape) * X.rank**2 > max(BLOCK_NUMBERS, 4 * self.m):
            return None
        return self.observations.blocks(0, X.V), self.observations.blocks(1, X.U)

    def solve_blocks(self, side: int, factor: Array, shift: float, right: Array) -> Array:
        """``right_i (B_i + shift I)^-1`` for each row (side 0) or column (side 1), B_i the sums of ``f^H f`` over the rows f of
        the other side's factor that were observed: half a sweep of alternating least squares.
        """
        backend, observed = self.backend, self.observations
        fused = getattr(observed, "solve_blocks", None)
        if fused is not None and backend.dtype(factor).kind == "f":
            return fused(side, factor, shift, right)
        shifts = np.diag(np.full(factor.shape[1], shift)).astype(backend.dtype(factor))
        return backend.block_solver(observed.blocks(side, factor) + backend.asarray(shifts))(right)

    def als_pays(self, rank: int) -> bool:
        if self.loss is not None or rank > getattr(self.observations, "sweeps_up_to", 0):
            return False
        counts = (self.backend.astype(self.observations.counts(side), np.float64) for side in (0, 1))
        return all(self.backend.percentiles(c, [1])[0] >= 1.5 * rank for c in counts)

    def counts(self) -> tuple[Array, Array]:
        """Observations in each row, and in each column; with weights, the sums of these."""
        observed = self.observations
        if observed.weights is None:
            return observed.counts(0), observed.counts(1)
        return observed.sums(observed.weights, 0), observed.sums(observed.weights, 1)

    def split(self, rng: np.random.Generator, share: float) -> tuple[Completion, Completion]:
        """All observations but about a ``share`` of them, and those; the last ones of a row or column are not taken away."""
        parts = self.observations.split(int(rng.integers(2**31)), share)
        if parts is None:
            raise ValueError(f"{counted(self.m, 'observation')}: too few to hold some back: give the rank as a number")
        kept, held = (self.with_observations(part) for part in parts)
        return kept, held

    def unweighted(self) -> Completion:
        return self if self.observations.weights is None else self.with_observations(self.observations.with_weights(None))

    def fingerprint(self) -> str:
        digest = getattr(self.observations, "digest", None)
        if digest is None:
            return super().fingerprint()
        return hashlib.sha256(f"{self.observations.shape} {self.loss!r} {digest()}".encode()).hexdigest()

    def _hash_operator(self, found: Any) -> None:
        entries = self.observations.host()
        for a in (entries.indptr, entries.indices, entries.weights):
            if a is not None:
                found.update(np.ascontiguousarray(a).tobytes())

    def with_observations(self, observations: Observations) -> Completion:
        """The same problem with other observations."""
        twin = copy.copy(self)
        twin._forget()
        twin._observe(observations, self.backend)
        return twin

    def squares(self, observations: Observations | None = None) -> Completion:
        """Least squares on the same observations, or on others."""
        twin = copy.copy(self)
        twin._forget()
        for name in ("frame_constant", "nonquadratic_at_zero"):
            vars(twin).pop(name, None)
        twin.loss = None
        twin._observe(self.observations if observations is None else observations, self.backend)
        return twin

    def in_given_order(self, p: Vector, missing: Any = 0) -> np.ndarray:
        """A vector, one number per observation, as a NumPy array in the order in which the observations were given; repeated
        ones have the same number, and those of weight 0 are ``missing``. Row by row where that order is not known any more.
        """
        given: GivenOrder | None = getattr(self, "_given", None)
        return self.backend.to_numpy(p) if given is None else given.restored(self.backend.to_numpy(p), missing)

    def against_outliers(self) -> Completion:
        """The same observations with a loss by which outliers count for little."""
        return self.with_loss(Cauchy())

    def with_loss(self, loss: Loss) -> Completion:
        """The same observations, which the loss must suit, with another loss than theirs."""
        twin = copy.copy(self)
        twin._forget()
        twin.loss, twin.robust = loss, False
        twin._observe(self.observations, self.backend)
        return twin

    def objective_root(self, X: FixedRank, learned: Objective | None = None) -> float:
        if self.loss is None:
            return super().objective_root(X)
        G = self.gradient(X)
        fitted = G.objective if learned is None else learned
        return self.objective.held_out_deviance(G.residual, self.y, fitted.loss) ** 0.5

    def _forget(self) -> None:
        """A copy's own answers are not those of the problem that it was copied from."""
        for name in ("_rescaled", "_single"):
            vars(self).pop(name, None)

    def project_feasible(self, X: FixedRank) -> FixedRank:
        """X with zeros in the rows and columns that were never observed."""
        if not (len(self._empty_rows) or len(self._empty_cols)):
            return X
        if not (X.U[self._empty_rows].any() or X.V[self._empty_cols].any()):
            return X
        left, right = X.U * X.s, X.backend.copy(X.V)
        left[self._empty_rows], right[self._empty_cols] = 0, 0
        return FixedRank.from_factors(left, right, backend=X.backend)

    def rescaled(self) -> RescaledProblem | None:
        """The problem with rows and columns scaled to observed entries of about unit size.

        Without noise it has the same solutions, but heavy rows no longer drown the others: where sizes differ much, few things
        help more. None where they are alike within a factor of four, or where rows or columns have fewer than five
        observations on average, too few to tell a size from.
        """
        return None if self.loss is not None else self._rescaled

    @functools.cached_property
    def _rescaled(self) -> RescaledProblem | None:
        seen = max(self.shape[0] - len(self._empty_rows), self.shape[1] - len(self._empty_cols))
        if self.m < 5 * seen:
            return None
        backend, observed = self.backend, self.observations
        at_zero = self.gradient(FixedRank.zero(self.shape, 1, self.dtype, backend))  # there G = -A* y
        left, right = (_sizes(observed.counts(k), s) for k, s in enumerate(at_zero.squared_norms))
        empty = self._empty_rows, self._empty_cols
        seen_sizes = [a[observed.counts(k) > 0] if len(empty[k]) else a for k, a in enumerate((left, right))]
        if max(_spread(sizes, backend) for sizes in seen_sizes) < 4:
            return None
        squares = backend.astype(abs(self.y), np.float64) ** 2
        for _ in range(3):  # alternately: the two sides need each other's scales
            right = _sizes(observed.counts(1), observed.adjoint_times(squares, left[:, None] ** -2)[:, 0])
            left = _sizes(observed.counts(0), observed.times(squares, right[:, None] ** -2)[:, 0])
        real = np.zeros(0, self.dtype).real.dtype
        values = backend.astype(self.y / observed.sample(left[:, None], right[:, None]), self.dtype)
        twin = self.with_observations(observed.with_values(values))
        return RescaledProblem(twin, backend.astype(left, real), backend.astype(right, real))

    def _warn_about_empty(self) -> None:
        for empty, name in ((self._empty_rows, "row"), (self._empty_cols, "column")):
            if len(empty):
                first = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
                one = len(empty) == 1
                warnings.warn(
                    f"{len(empty):,} {name}{' has' if one else 's have'} no observation ({first}) and cannot be recovered: "
                    f"{'it comes' if one else 'they come'} back as zeros",
                    stacklevel=3,
                )


@dataclass(frozen=True)
class GivenOrder:
    """The order in which a user passed observations, to undo their sorting.

    Attributes
    ----------
    m : int
        Number of observations passed.
    kept : (m,) bool array or None
        Observations of positive weight; None for all.
    order : array or range or None
        Position among those of each sorted observation.
    repeated : array or None
        Sorted observations whose successor has the same pair of indices.
    """

    m: int
    kept: np.ndarray | None = None
    order: np.ndarray | range | None = None
    repeated: np.ndarray | None = None

    def restored(self, p: np.ndarray, missing: Any) -> np.ndarray:
        """One number per sorted observation, in the order of the user; ``missing`` for those of weight 0."""
        if self.order is None:
            return p
        if self.repeated is not None and len(self.repeated):
            first = np.ones(len(self.order), bool)
            first[self.repeated + 1] = False
            p = p[np.cumsum(first) - 1]
        kept = np.empty_like(p)
        kept[np.asarray(self.order)] = p
        if self.kept is None:
            return kept
        found = np.full(self.m, missing, p.dtype)
        found[self.kept] = kept
        return found


def _sizes(count: Array, squares: Array) -> Array:
    """Root mean squares of ``count`` numbers whose squares add up to ``squares``; 1 where there are none, or all are zero."""
    mean = squares / (count + (count == 0))
    return (mean + (mean == 0)) ** 0.5


def _spread(sizes: Array, backend: Backend) -> float:
    """The ratio of large to small sizes, extremes left out."""
    low, high = backend.percentiles(sizes, [5, 95])
    return high / low
