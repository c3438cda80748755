"""Matrix completion from observed entries."""

from __future__ import annotations

import copy
import functools
import hashlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..backends import Array, Backend, Observations, Vector, backend_of, get_backend
from ..common.checks import check, counted, one_of
from ..common.fingerprint import fingerprint
from ..geometry import FixedRank, Tangent
from ..losses import ROBUST, Loss, Objective, resolve_loss
from . import units
from .completion_gradient import LossGradient, SampledGradient
from .gradient import Gradient
from .input_checks import (
    Duplicates,
    GivenOrder,
    check_finite,
    check_merging,
    check_range,
    check_shape,
    index_array,
    plain_array,
    sorted_observations,
    value_array,
    weight_array,
    with_exposure,
)
from .observed_core import ObservedCore
from .problem import MatrixProblem

MAX_BLOCK_ENTRIES = 1 << 24  # of a preconditioner, 128 MB in double precision; or four for each observation
Precision = Literal["auto", "double", "mixed"]
CORE_OBSERVATIONS = 2  # per rank, of each row and column of a core
CORE_MIN_REMOVED = 0.01  # share of the rows or columns with fewer, from which a core is worthwhile
CORE_MIN_SHARE = 0.4  # share of the observations in a core


class Completion(MatrixProblem):
    """Matrix completion: observed entries ``X[rows[k], cols[k]] = values[k]`` of an n1 x n2 matrix.

    Parameters
    ----------
    rows, cols : (m,) integer arrays
        Indices of the observed entries, from 0.
    values : (m,) array
        Real or complex. float32 and complex64 keep their precision, integers become float64. If any of the three arrays is a
        torch tensor, all computations are done on its device.
    shape : (int, int), optional
        Shape of X; by default just large enough for the indices.
    weights : (m,) array, optional
        Non-negative weights of the observations: the objective is ``sum_k w_k |X - y|_k^2 / 2``. For noise of known variance
        use the inverse variances. Observations of weight 0 are left out.
    loss : str or Loss
        Loss between entries and values. ``"squares"``, the default; ``"robust"``, least squares without outliers, which are
        detected (:class:`~lorank.robust.Robust`, ``result.outliers``); ``"huber"``, ``"absolute"``, ``"cauchy"`` or
        ``"tukey"`` for data with outliers; ``"logistic"`` for binary data (X holds logits), ``"ordinal"`` for ratings (X holds
        a latent scale), ``"poisson"`` for counts (X holds log means). Or an object such as ``lorank.losses.Huber(scale=0.1)``.
    exposure : (m,) array, optional
        For ``loss="poisson"``: the mean of a count is its exposure times ``exp(X)``.
    duplicates : {"error", "mean", "last", "sum"}
        Treatment of repeated pairs of indices. With weights, ``"mean"`` is the weighted mean and its weight the sum of the
        weights; ``"sum"`` is refused.
    backend : {"native", "numpy", "torch", "torch:cuda", "partitions:4"}, optional
        By default the C++ kernels if they were built, and torch for tensors. ``"partitions:4"`` divides the rows into four
        blocks.
    precision : {"auto", "double", "mixed"}
        Precision in which the C++ kernels gather float64 factors that exceed the caches. ``"mixed"``: float32 with sums in
        float64, up to 1.6 times as fast, for relative residuals down to about 1e-6. ``"double"``: float64. ``"auto"``, the
        default: float32 in line searches and while the relative residual is above 1e-3. Unless ``"double"``, starts and first
        iterations on many observations are computed in single precision.

    Attributes
    ----------
    observations : Observations
        The observed entries in row-major order, as are ``rows``, ``cols``, ``y`` and all residuals.
    loss : Loss or None
        None for least squares.
    robust : bool
        Whether outliers are to be detected.
    empty_rows, empty_cols : arrays
        Indices of the rows and columns without observations. They cannot be recovered and are zero in results; a warning
        reports their number.

    Raises
    ------
    ValueError
        For invalid indices, values, weights, shape or loss; the message names the first invalid one.

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
    robust: bool = False
    column_names: tuple[str | None, ...] | None = None  # of the columns of rows, columns and values in the files
    row_ids: np.ndarray | None = None  # names of rows and columns, from files
    col_ids: np.ndarray | None = None
    observations: Observations
    _given = GivenOrder()

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
                f"rows, cols and values must have the same length: got {len(rows):,}, {len(cols):,} and {len(values):,}"
            )
        check("duplicates", duplicates, one_of(("error", "mean", "last", "sum")))
        check("precision", precision, one_of(("auto", "double", "mixed")))
        self.precision = precision
        if not len(rows):
            raise ValueError("no observations: rows, cols and values are empty")
        shape = check_shape(shape, rows, cols)
        check_range(rows, shape[0], "rows")
        check_range(cols, shape[1], "cols")
        check_finite(values, rows, cols)
        check_merging(self.loss, duplicates, weights is not None or exposure is not None)
        if self.loss is not None:
            if backend_of(values).is_complex(values) and not self.loss.takes_complex:
                raise ValueError(f"values are complex: loss={self.loss.name!r} takes real values")
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

        observations, order, repeated = sorted_observations(rows, cols, values, weights, shape, duplicates, backend)
        if self.robust:
            self._given = replace(self._given, order=backend.to_numpy(order), repeated=backend.to_numpy(repeated))
        del rows, cols, values, order
        self._observe(observations, backend)
        self._warn_about_empty()

    @np.errstate(over="ignore", invalid="ignore")  # of values that solve refuses, with their range
    def _observe(self, observations: Observations, backend: Backend) -> None:
        """Set the observations and what depends on them."""
        self.observations, shape, weights = observations, observations.shape, observations.weights
        total = observations.m if weights is None else float(weights.sum())
        objective = Objective(weights=weights)
        if self.loss is not None:
            self.frame_constant, self.nonquadratic_at_zero = None, self.loss.discrete
            self.average = float((observations.values if weights is None else weights * observations.values).sum().real) / total
            objective = Objective(self.loss, weights)
            total = objective.typical_curvature(observations.values, self.average)
        scale = total / (shape[0] * shape[1])
        super().__init__(observations.values, shape, operator_scale=scale, backend=backend, objective=objective)
        self.empty_rows, self.empty_cols = (backend.flatnonzero(observations.counts(side) == 0) for side in (0, 1))

    def _copy(self, observations: Observations, backend: Backend | None = None, **changes: Any) -> Completion:
        """A copy with other observations and attributes, without cached results."""
        twin = copy.copy(self)
        for name in ("_rescaled", "_single", "frame_constant", "nonquadratic_at_zero"):
            vars(twin).pop(name, None)
        vars(twin).update(changes)
        twin._observe(observations, self.backend if backend is None else backend)
        return twin

    def _moved(self, backend: Backend) -> Completion:
        backend.check_memory(self.m, self.shape, self.dtype)
        indptr, indices, values, weights = self.observations.host()
        indptr, indices, values = map(backend.asarray, (indptr, indices, values))
        moved = backend.make_observations(indptr, indices, values, self.shape[1])
        return self._copy(moved if weights is None else moved.with_weights(backend.asarray(weights)), backend)

    @classmethod
    def from_sparse(cls, S: Any, **options: Any) -> Completion:
        """A problem whose observations are the stored entries of a SciPy sparse matrix, explicit zeros included."""
        if not hasattr(S, "tocoo"):
            raise ValueError(f"from_sparse takes a SciPy sparse matrix, got {type(S).__name__}: see also from_dense")
        coo = S.tocoo()
        if coo.ndim != 2:
            raise ValueError(f"from_sparse takes a sparse matrix of two dimensions, got shape {coo.shape}")
        return cls(coo.row, coo.col, coo.data, coo.shape, **options)

    @classmethod
    def from_dense(cls, a: Any, **options: Any) -> Completion:
        """A problem whose observations are the entries of an array that are neither nan nor masked.

        Zeros are observed values: where they mean missing values, replace them by nan, or use :meth:`from_sparse`. For an array
        without nan the solution is its best approximation of the given rank.
        """
        mask, a = np.ma.getmaskarray(a) if np.ma.isMaskedArray(a) else False, plain_array(a, "a")
        if a.ndim != 2:
            raise ValueError(f"a matrix has two dimensions, got an array of shape {a.shape}")
        if a.dtype.kind not in "biufc":
            raise ValueError(f"from_dense takes an array of numbers with nan for missing values, got {a.dtype}")
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

    def single_precision(self) -> units.Units | None:
        """The problem in single precision, where observations are many and the loss does not depend on units."""
        return self._single

    @functools.cached_property
    def _single(self) -> units.Units | None:
        return units.single_precision(self)

    def rank_one_point(self, rng: np.random.Generator) -> FixedRank | None:
        """Three iterations of alternating least squares at rank 1; for other losses the best constant matrix."""
        observed, backend = self.observations, self.backend
        if self.loss is not None:
            return self._constant()
        weights = observed.weights
        products = observed.products(self.y if weights is None else weights * self.y)
        weighted = None if weights is None else observed.products(weights)

        def fitted(side: int, other: Array) -> Array:
            """The least squares factor of the rows (side 0) or columns (side 1) for a fixed other factor."""
            sizes = abs(other)
            counts = backend.astype(observed.counts(side)[:, None], backend.dtype(sizes))
            least = 0.1 * sizes.mean() ** 2 * counts  # bounds rows observed only where ``other`` is small
            total = observed.gathered(sizes**2, side) if weighted is None else weighted[side](sizes**2)
            total = total.clip(least)
            return products[side](other) / (total + (total == 0))

        left = backend.random_normal(rng, (self.shape[0], 1), self.dtype) + 1  # data often have a nonzero mean
        for _ in range(3):
            right = fitted(1, left)
            left = fitted(0, right)
        return FixedRank.from_factors(left, right, backend=backend)

    def _constant(self) -> FixedRank | None:
        """The best constant matrix, zero in empty rows and columns; None for losses without an intercept."""
        assert self.loss is not None
        constant = self.loss.intercept(self.average)
        if not constant:
            return None
        sides = [self.backend.astype(self.backend.asarray(self.observations.counts(k) > 0), self.dtype) for k in (0, 1)]
        return FixedRank.from_factors(constant * sides[0][:, None], sides[1][:, None], backend=self.backend)

    def squared_image_norm(self, xi: Tangent) -> float:
        _ = xi.bases  # cached for the retraction; lazy backends build the blocks from them
        observations = self.observations if self.precision == "double" else self.observations.mixed_precision
        return observations.line_sums(xi.blocks(), None)[1]

    def products(self, p: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        return self.observations.products(p)

    def blocks(self, X: FixedRank) -> tuple[Array, Array] | None:
        """Sums of ``V_j^H V_j`` over the columns j observed in each row, and of ``U_i^H U_i`` over the rows in each column."""
        if sum(self.shape) * X.rank**2 > max(MAX_BLOCK_ENTRIES, 4 * self.m):
            return None
        return self.observations.blocks(0, X.V), self.observations.blocks(1, X.U)

    def solve_blocks(self, side: int, factor: Array, shift: float, right: Array) -> Array:
        """``right_i (B_i + shift I)^-1`` for each row (side 0) or column (side 1): half an iteration of ALS.

        B_i is the sum of ``f^H f`` over the rows f of the other factor that row i was observed with.
        """
        backend, observed = self.backend, self.observations
        fused = getattr(observed, "solve_blocks", None)
        if fused is not None and backend.dtype(factor).kind == "f":
            return fused(side, factor, shift, right)
        shifts = np.diag(np.full(factor.shape[1], shift)).astype(backend.dtype(factor))
        return backend.block_solver(observed.blocks(side, factor) + backend.asarray(shifts))(right)

    def als_pays(self, rank: int) -> bool:
        if self.loss is not None or rank > self.observations.sweeps_up_to:
            return False
        counts = (self.backend.astype(self.observations.counts(side), np.float64) for side in (0, 1))
        return all(self.backend.percentiles(c, [1])[0] >= 1.5 * rank for c in counts)

    def counts(self) -> tuple[Array, Array]:
        """Numbers of observations of rows and of columns; with weights, the sums of the weights."""
        observed = self.observations
        if observed.weights is None:
            return observed.counts(0), observed.counts(1)
        return observed.sums(observed.weights, 0), observed.sums(observed.weights, 1)

    def observed_core(self, rank: int) -> ObservedCore | None:
        """The rows and columns with at least ``2 rank`` observations of each other, where descent is faster without the others.

        None where they are nearly all or have too few of the observations, for losses other than least squares, and on devices
        and partitions, where the extension costs more than the iterations that it saves.
        """
        if self.frame_constant is None or not isinstance(self.observations.values, np.ndarray):
            return None
        least = CORE_OBSERVATIONS * rank
        counts = [self.observations.counts(side) for side in (0, 1)]
        if all(float((c < least).sum()) < CORE_MIN_REMOVED * len(c) for c in counts):  # before any pass is made
            return None
        core = ObservedCore.of(self, least)
        return core if core.problem.m > CORE_MIN_SHARE * self.m else None

    def dof(self, rank: Any) -> int:
        """Degrees of freedom of the rows and columns that have observations."""
        n1, n2 = (int((self.observations.counts(side) > 0).sum()) for side in (0, 1))
        return self._dof((max(n1, rank), max(n2, rank)), rank)

    def split(self, rng: np.random.Generator, share: float) -> tuple[Completion, Completion]:
        """The problem without a random ``share`` of its observations, and the problem on those.

        Every row and column keeps at least one observation.
        """
        parts = self.observations.split(int(rng.integers(2**31)), share)
        if parts is None:
            raise ValueError(f"{counted(self.m, 'observation')}: too few for a split: give the rank as a number")
        kept, held = (self.with_observations(part) for part in parts)
        return kept, held

    def unweighted(self) -> Completion:
        return self if self.observations.weights is None else self.with_observations(self.observations.with_weights(None))

    def fingerprint(self) -> str:
        digest = getattr(self.observations, "digest", None)
        if digest is None:
            return super().fingerprint()
        settings = fingerprint([self.observations.shape, str(self.dtype), self.loss, self.precision, self.robust])
        return hashlib.sha256(f"{settings} {digest()}".encode()).hexdigest()

    def _hash_operator(self, found: Any) -> None:
        entries = self.observations.host()
        for a in (entries.indptr, entries.indices, entries.weights):
            if a is not None:
                found.update(np.ascontiguousarray(a).tobytes())

    def with_observations(self, observations: Observations) -> Completion:
        """The problem with other observations."""
        return self._copy(observations)

    def with_loss(self, loss: Loss | None) -> Completion:
        """The problem with another loss, which must accept the values; None for least squares."""
        return self._copy(self.observations, loss=loss, robust=False)

    def squares(self, observations: Observations | None = None) -> Completion:
        """Least squares on the same observations, or on others."""
        return self._copy(self.observations if observations is None else observations, loss=None)

    def in_given_order(self, p: Vector, missing: Any = 0) -> np.ndarray:
        """One number per observation as a NumPy array in the order of the user's arrays; row-major if that order is unknown.

        Repeated observations have the same number, and observations of weight 0 the value ``missing``.
        """
        return self._given.restored(self.backend.to_numpy(p), missing)

    def objective_root(self, X: FixedRank, learned: Objective | None = None) -> float:
        if self.loss is None:
            return super().objective_root(X)
        G = self.gradient(X)
        fitted = G.objective if learned is None else learned
        return self.objective.held_out_deviance(G.residual, self.y, fitted.loss) ** 0.5

    def project_feasible(self, X: FixedRank) -> FixedRank:
        """X with zeros in the rows and columns without observations."""
        if not (len(self.empty_rows) or len(self.empty_cols)):
            return X
        if not (X.U[self.empty_rows].any() or X.V[self.empty_cols].any()):
            return X
        left, right = X.U * X.s, X.backend.copy(X.V)
        left[self.empty_rows], right[self.empty_cols] = 0, 0
        return FixedRank.from_factors(left, right, backend=X.backend)

    def rescaled(self) -> units.Units | None:
        """The problem with rows and columns of similar size (:func:`~lorank.problems.units.rescaled`), for least squares."""
        return None if self.loss is not None else self._rescaled

    @functools.cached_property
    def _rescaled(self) -> units.Units | None:
        return units.rescaled(self)

    def _warn_about_empty(self) -> None:
        for empty, name in ((self.empty_rows, "row"), (self.empty_cols, "column")):
            if len(empty):
                first = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
                one = len(empty) == 1
                warnings.warn(
                    f"{len(empty):,} {name}{' has' if one else 's have'} no observation ({first}) and cannot be recovered: "
                    f"{'it is' if one else 'they are'} zero in the result",
                    stacklevel=3,
                )
