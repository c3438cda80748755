"""Base class of observed entries: the passes that every backend makes over them, and random hold-out."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from .normal_equations import NonnegativeSystems, RowSystems, normal_steps

Array = Any  # tall array of the backend's own kind
Vector = Any  # one number per observation, of the backend's own kind
Products = tuple[Callable[[Array], Array], Callable[[Array], Array]]


class HostEntries(NamedTuple):
    """Observed entries as NumPy arrays in row-major order.

    Attributes
    ----------
    indptr : (n1 + 1,) int64 array
    indices : (m,) int32 array
    values : (m,) array
    weights : (m,) array or None
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    weights: np.ndarray | None = None


class Observations(Protocol):
    """Observed entries y of an n1 x n2 matrix, their weights, and the passes over them.

    P is the sparse matrix with the entries of a vector p on the pattern. G is ``w (X - y)`` on the pattern, with ``w = 1``
    where there are no weights. Vectors are in row-major order. ``side`` 0 stands for rows, 1 for columns.

    Attributes
    ----------
    shape : (int, int)
    m : int
    values : vector
    weights : vector or None
        Real; None stands for ones.
    rows, cols : (m,) arrays
        Indices in row-major order: for users, and for problems in main memory.

    sweeps_up_to : int
        Rank up to which alternating least squares is fast, because the observations solve the systems in one pass.

    Notes
    -----
    Optional members: ``solve_blocks(side, factor, shift, right)``, half an iteration of alternating least squares in one pass;
    ``digest()``, a hash of pattern, values and weights.
    """

    shape: tuple[int, int]
    m: int
    values: Vector
    weights: Vector  # or None
    sweeps_up_to: ClassVar[int] = 0

    @property
    @abstractmethod
    def rows(self) -> Array: ...

    @property
    @abstractmethod
    def cols(self) -> Array: ...

    @abstractmethod
    def host(self) -> HostEntries:
        """Pattern, values and weights as NumPy arrays."""

    @abstractmethod
    def with_values(self, values: Vector) -> Observations:
        """Same pattern and weights, other values."""

    @abstractmethod
    def with_weights(self, weights: Vector | None) -> Observations:
        """Same pattern and values, other weights or none."""

    @abstractmethod
    def split(self, seed: int, share: float) -> tuple[Observations, Observations] | None:
        """Random split: all observations but about a ``share``, and these.

        The choice depends on the seed and the row-major position only. Each row and column keeps at least one observation; None
        where none can be held out.
        """

    @property
    def mixed_precision(self) -> Observations:
        """Same observations with passes of about six digits; a backend may gather factors in float32 there."""
        return self

    # -- fused passes of a gradient at X = u diag(s) v^H ------------------------------------------------------------
    @abstractmethod
    def gradient_rows(self, u: Array, s: Array, v: Array) -> tuple[Array, Array, Array]:
        """``G v``, the squared norms of the rows of G, and the sums over each row of ``w |X - y|^2``."""

    @abstractmethod
    def gradient_cols(self, u: Array, s: Array, v: Array) -> tuple[Array, Array]:
        """``G^H u`` and the squared norms of the columns of G."""

    # -- single passes -----------------------------------------------------------------------------------------------
    @abstractmethod
    def sample(self, left: Array, right: Array) -> Vector:
        """Entries of ``left right^H`` on the pattern."""

    @abstractmethod
    def residual(self, left: Array, right: Array) -> Vector:
        """``left right^H - y`` on the pattern."""

    @abstractmethod
    def line_sums(self, blocks: tuple[tuple[Array, Array], tuple[Array, Array]], p: Vector | None) -> tuple[float, float]:
        """``Re <p, z>`` (0 without p) and ``sum w |z|^2``; z is the sum of the two blocks ``left right^H`` on the pattern."""

    @abstractmethod
    def blocks(self, side: int, factor: Array) -> Array:
        """Sums of ``w f_j^H f_j`` over the columns j observed in each row (or rows in each column), an (n, r, r) array.

        ``factor``, (n, r), has the rows f_j of the other side.
        """

    def normal_equations(
        self,
        columns: bool,
        other: Array,
        prior: Array,
        shift: Array,
        *,
        moments: Array | None = None,
        weights: Vector | None = None,
        scale: Array | None = None,
        fixed: int = -1,
        noise: float = 1.0,
        covariance: bool = False,
    ) -> tuple[Array, Array | None, Array]:
        """Solve the normal equations of each row (column): half an iteration of alternating least squares.

        For a row with values r_t at columns with factors y_t of covariances S_t::

            A = sum_t w_t (y_t y_t^T + S_t),   b = sum_t w_t r_t y_t,   (noise A + scale P) x = noise b + scale h

        Parameters
        ----------
        columns : bool
            Solve for the factors of the columns instead.
        other : (n, k) array
            Factors of the other side. All arrays are real and in double precision.
        prior : (k, k) array
            P, precision of the prior.
        shift : (k,) array
            h, the precision times the mean of the prior.
        moments : (n, k (k + 1) / 2) array, optional
            S_t, packed upper triangles.
        weights : (m,) array, optional
            In place of those of the observations.
        scale : array, optional
            Factor of the prior for each row. Default 1.
        fixed : int
            Coordinate that is held at 1; -1 for none.
        noise : float
            Precision of the values.
        covariance : bool
            Return the inverses of the matrices.

        Returns
        -------
        mean : (rows, k) array
        covariance : (rows, k (k + 1) / 2) array or None
            Packed upper triangles; zero in the fixed coordinate.
        squares : (rows,) array
            Expectation of ``sum_t w_t (r_t - x y_t)^2``.
        """
        systems = RowSystems(other, prior, shift, moments, weights, scale, fixed, noise, covariance)
        return self._normal_equations(columns, systems)

    def _normal_equations(self, columns: bool, given: RowSystems) -> tuple[Array, Array | None, Array]:
        raise NotImplementedError

    def side_weights(self, rows: Array, cols: Array) -> Any:
        """Weights of the observations times ``rows_i cols_j``, for :meth:`normal_equations`; (n1,) and (n2,) arrays."""
        factor = self.sample(rows[:, None], cols[:, None])
        return factor if self.weights is None else self.weights * factor

    def normal_steps(self, columns: bool, other: Array, prior: Array, ridge: Array, start: Array, steps: int) -> Array:
        """Conjugate gradient steps for the normal equations of each row (column) with the prior ``diag(prior) + ridge I``.

        See :func:`~lorank.backends.normal_equations.normal_steps`.
        """
        return normal_steps(self, columns, other, prior, ridge, start, steps)

    def nonnegative_equations(
        self,
        columns: bool,
        other: Array,
        start: Array,
        ridge: Array,
        *,
        centre: Array | None = None,
        prior: Array | None = None,
        weights: Vector | None = None,
        cycles: int = 20,
        tolerance: float = 1e-3,
    ) -> tuple[Array, Array]:
        """Nonnegative factors of each row (column) by coordinate descent.

        For a row with values r_t at columns with factors y_t, minimize over x >= 0::

            x^T M x / 2 - h^T x,   M = sum_t w_t y_t y_t^T + P + ridge I,   h = sum_t w_t r_t y_t + ridge centre

        Parameters
        ----------
        columns : bool
            Solve for the factors of the columns instead.
        other : (n, k) array
            Factors of the other side. All arrays are in double precision.
        start : (rows, k) array
            Nonnegative.
        ridge : (rows,) array
        centre : (k,) array, optional
            Default 0.
        prior : (k, k) array, optional
            P, default 0.
        weights : (m,) array, optional
            In place of those of the observations.
        cycles, tolerance
            See :func:`~lorank.backends.normal_equations.descend`.

        Returns
        -------
        x : (rows, k) array
        squares : (rows,) array
            ``sum_t w_t (r_t - x y_t)^2``.
        """
        systems = NonnegativeSystems(other, start, ridge, centre, prior, weights, cycles, tolerance)
        return self._nonnegative_equations(columns, systems)

    def _nonnegative_equations(self, columns: bool, given: NonnegativeSystems) -> tuple[Array, Array]:
        raise NotImplementedError

    def products(self, p: Vector) -> Products:
        """``v -> P v`` and ``u -> P^H u``, for repeated use."""
        return functools.partial(self.times, p), functools.partial(self.adjoint_times, p)

    @abstractmethod
    def times(self, p: Vector, v: Array) -> Array:
        """``P v``."""

    @abstractmethod
    def adjoint_times(self, p: Vector, u: Array) -> Array:
        """``P^H u``."""

    @abstractmethod
    def gathered(self, w: Array, side: int) -> Array:
        """Sums of the (n, k) array w over the columns observed in each row (or the rows in each column)."""

    @abstractmethod
    def sums(self, p: Vector, side: int) -> Array:
        """Sums of the real entries p over each row or column, in double precision."""

    @abstractmethod
    def squares(self, p: Vector) -> tuple[Array, Array]:
        """Squared norms of the rows and of the columns of P, in double precision."""

    @abstractmethod
    def counts(self, side: int) -> Array:
        """Number of observations in each row or column."""

    @abstractmethod
    def matrix(self, p: Vector) -> Any:
        """P as a sparse matrix of the backend's kind."""

    @abstractmethod
    def outer(self, p: Vector) -> tuple[Array, Array]:
        """``P P^H`` and ``P^H P`` as dense arrays: for small problems."""


# -- random hold-out, the same for every backend ------------------------------------------------------------------------
_GOLDEN, _FIRST, _SECOND = (c - 2**64 for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def held_out(positions: Array, seed: int, share: float) -> Array:
    """Flags of about a ``share`` of the positions: one of each 1/share consecutive ones, chosen by a hash.

    Parameters
    ----------
    positions : (m,) int64 array
        0, 1, 2, ... in the row-major order of all observations.
    seed : int
    share : float
        Between 0 and 1/2, or 1 for all.
    """
    length = 1 if share >= 1 else max(2, round(1 / share))
    return positions % length == (_hash(positions // length + (seed * 0x9E3779B9) % 2**31) >> 33) % length


def _hash(x: Array) -> Array:
    """Splitmix64 of each number, by signed arithmetic with wraparound."""
    x = x * _GOLDEN
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return _shifted(x ^ _shifted(x, 31), 1)  # nonnegative


def _shifted(x: Array, bits: int) -> Array:
    """Logical right shift."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
