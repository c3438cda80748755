"""What a backend is: where arrays live, what can be done with them, and who passes over the observed entries.

Everything above this room is written in the operations that stand here, and in what NumPy-like arrays share (``+ - * / **``,
``abs``, comparisons, slicing of tall arrays, ``.conj()``, ``.T``, ``.real``, ``.sum()``, ``.max()``, ``.any()``, ``.all()``,
``.reshape()``).

- A *tall* array (n x r, n large) and a *vector* (one number per observation) belong to their backend. A tall array may be a
  combination of others that is computed when somebody needs it: :meth:`Arrays.asarray` makes an array of it. A vector is never
  indexed above this room: it is added, scaled and handed on.
- A *small* array (r x r, as Gram products give them) is NumPy's for every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = Any  # a tall array of the backend's own kind
Vector = Any  # one number per observation, of the backend's own kind
Products = tuple[Callable[[Array], Array], Callable[[Array], Array]]


class HostEntries(NamedTuple):
    """Observed entries as NumPy arrays in main memory, row by row.

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


class Arrays(Protocol):
    """Operations on arrays: what the geometry and the starts ask for."""

    @property
    def name(self) -> str: ...

    @property
    def in_main_memory(self) -> bool:
        """Whether NumPy can read the arrays without a transfer."""
        ...

    # -- making arrays ---------------------------------------------------------------------------------------------
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        """As a contiguous array of this kind; itself where it is one."""
        ...

    def asarrays(self, *arrays: Array) -> tuple[Array, ...]:
        """:meth:`asarray` of several tall arrays: those that were put off are computed together."""
        ...

    def asmatrix(self, matrix: Any) -> Any:
        """A dense or SciPy sparse matrix as this kind of array is multiplied with it."""
        ...

    def asindex(self, a: Array) -> Array:
        """As this kind of array takes indices."""
        ...

    def detached(self, a: Array) -> Array:
        """Without a history that the owner may keep (gradients of its own)."""
        ...

    def to_numpy(self, a: Array) -> np.ndarray: ...

    def dtype(self, a: Array) -> np.dtype:
        """The dtype as NumPy names it."""
        ...

    def astype(self, a: Array, dtype: Any) -> Array:
        """In that dtype; no copy where it has it."""
        ...

    def is_complex(self, a: Array) -> bool: ...

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array: ...

    def eye(self, n: int, dtype: Any, width: int | None = None) -> Array:
        """The first ``width`` (by default all) columns of the identity."""
        ...

    def copy(self, a: Array) -> Array:
        """A contiguous copy that shares no memory."""
        ...

    def random_normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """Standard normal entries (complex: both parts)."""
        ...

    def release(self) -> None:
        """Give back memory kept from one pass to the next; called when a run ends."""
        ...

    # -- entries -----------------------------------------------------------------------------------------------------
    def all_finite(self, a: Array) -> bool: ...

    def largest(self, a: Array) -> float:
        """The largest entry in size."""
        ...

    def first(self, flags: Array) -> int:
        """The place of the first true flag."""
        ...

    def places(self, flags: Array) -> Array:
        """Where the flags are true."""
        ...

    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        """Percentiles of a vector, interpolated linearly."""
        ...

    def median(self, a: Array) -> float: ...

    def top(self, block: Array, n: int, hidden: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values of the n largest entries in each row of a dense block, largest first, of equal ones the smaller
        column: NumPy arrays. Entries at the index pairs ``hidden`` count as -inf, and so they are after that.
        """
        ...

    def squares(self, matrix: Any, axis: int) -> Array:
        """Squared norms of the rows (axis 1) or columns (axis 0) of a dense or sparse matrix, in double precision."""
        ...

    def fft(self, a: Array, axes: tuple[int, ...]) -> Array:
        """Discrete Fourier transform; may overwrite its argument."""
        ...

    def inverse_fft(self, a: Array, axes: tuple[int, ...], *, adjoint: bool = False) -> Array:
        """Its inverse; the adjoint is the same without the division by the number of entries."""
        ...

    def hermitian_eigen(self, a: Array) -> tuple[Array, Array]:
        """Eigenvalues, none below zero, and eigenvectors of a positive semidefinite matrix of any size."""
        ...

    def tanh(self, a: Array) -> Array: ...

    def bessel_ratio(self, a: Array) -> Array:
        """``I_1(a) / I_0(a)`` for a real array that is not negative."""
        ...

    # -- tall arrays -------------------------------------------------------------------------------------------------
    def product(self, u: Array, a: Array) -> Array:
        """``u a`` for a tall u and a small a."""
        ...

    def minus(self, y: Array, u: Array, a: Array) -> Array:
        """``y - u a`` for tall y, u and a small a."""
        ...

    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        """``u a + v b`` for tall u, v and small a, b."""
        ...

    def gram(self, a: Array, b: Array) -> np.ndarray:
        """``a^H b``, a small array."""
        ...

    def gram_pairs(self, pairs: Sequence[tuple[Array, Array]]) -> list[Array]:
        """:meth:`gram` of several pairs: some backends make them together."""
        ...

    def prepare(self, *sides: Sequence[Array]) -> None:
        """Says that Gram products among the tall arrays of each side will be asked for: a backend may make them together."""
        ...

    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        """Columns side by side."""
        ...

    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        """The entries of ``left right^H`` at index pairs."""
        ...

    def column_means(self, a: Array) -> Array:
        """The means of the columns of a tall array."""
        ...

    def variances(self, x: Array, S: Array, y: Array, T: Array, rows: Array, cols: Array) -> Array:
        """The variances of ``x_i . y_j`` at index pairs, where x_i and y_j have the covariances S_i and T_j."""
        ...

    def norm(self, a: Array) -> float:
        """Euclidean (Frobenius) norm, in double precision."""
        ...

    def norms(self, arrays: Sequence[Array]) -> list[float]:
        """Several norms at once: where arrays live on a device, in one transfer."""
        ...

    def squared_norm(self, a: Array) -> float:
        """The squared norm in the precision of the array, for large ones."""
        ...

    def inner(self, a: Array, b: Array) -> float:
        """``Re <a, b>``, in double precision."""
        ...

    def inners(self, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        """Several inner products at once."""
        ...

    def row_squares(self, a: Array) -> Array:
        """Squared norms of the rows, in the precision of the array."""
        ...

    def without(self, basis: Array, y: Array) -> tuple[Array, np.ndarray]:
        """``y`` without its part in the span of an orthonormal basis, and the coefficients of that part."""
        ...

    def qr(self, a: Array) -> tuple[Array, np.ndarray]:
        """Thin QR, safe for dependent columns."""
        ...

    def qrs(self, arrays: Sequence[Array]) -> list[tuple[Array, np.ndarray]]:
        """:meth:`qr` of several arrays: a backend may make them together."""
        ...

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, np.ndarray] | None:
        """Orthonormal ``q`` with ``y = q k`` and ``u^H q = 0``, for orthonormal u and ``u^H y = 0``; None where the columns of
        y are too close to dependent for a fast way.
        """
        ...

    def extend_bases(self, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, np.ndarray]] | None:
        """:meth:`extend_basis` of several pairs (u, y); None where one of them cannot be had."""
        ...

    def basis(self, n: int, width: int, dtype: Any) -> Any:
        """An orthonormal basis that will grow to ``width`` columns of length n (see :class:`~lorank.backends.basis.Basis`)."""
        ...

    def orthonormalize(self, y: Array) -> Array:
        """An orthonormal basis whose span holds the columns of ``y``."""
        ...

    # -- small arrays ------------------------------------------------------------------------------------------------
    def small(self, a: Array) -> np.ndarray:
        """A small array (singular values, say) as NumPy has it."""
        ...

    def values(self, s: Array) -> Array:
        """Singular values as a point keeps them: where its factors are."""
        ...

    def svd(self, a: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``a = u diag(s) v^H``; returns u, s, v. Never raises: a failure comes back as nan."""
        ...

    def eigh(self, a: Array) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues, in decreasing order, and eigenvectors of a small Hermitian matrix; nan where that fails."""
        ...

    def inverse(self, m: Array) -> np.ndarray:
        """``m^-1`` for a small Hermitian positive definite m; nan where it is singular."""
        ...

    def inverses(self, stack: Array) -> Array:
        """The inverses of a stack of small matrices, an (n, r, r) array that stays where it is."""
        ...

    def block_solver(self, stack: Array) -> Callable[[Array], Array]:
        """``a -> x`` with ``x_i B_i = a_i`` for each row, B_i the Hermitian definite matrices of an (n, r, r) stack."""
        ...

    def add_diagonal(self, m: Array, d: Array) -> np.ndarray:
        """``m + diag(d)``, in place."""
        ...


class Observations(Protocol):
    """Observed entries y of an n1 x n2 matrix, their weights, and the passes that solvers make over them.

    P stands for the sparse matrix with the entries of a vector p on the pattern. G is ``w (X - y)`` on the pattern, with
    ``w = 1`` where there are no weights.

    Attributes
    ----------
    shape : (int, int)
    m : int
    values : vector
    weights : vector or None
        Real; None stands for ones.
    rows, cols : (m,) arrays
        Indices row by row: for users, and for a look at problems in main memory.

    Notes
    -----
    Some backends do more in one pass, and those who ask for it do without elsewhere: ``solve_blocks(side, factor, shift,
    right)``, half a sweep of alternating least squares (``sweeps_up_to`` is the rank up to which sweeps are fast by it), and
    ``side_weights(rows, cols)``, weights for :meth:`normal_equations` that are products of one for each row and column.
    Observations in blocks have ``digest()``, a hash of pattern, values and weights for the fingerprint of a problem.
    """

    shape: tuple[int, int]
    m: int
    values: Vector
    weights: Vector | None

    @property
    def rows(self) -> Array: ...

    @property
    def cols(self) -> Array: ...

    def host(self) -> HostEntries:
        """Everything in main memory."""
        ...

    def with_values(self, values: Vector) -> Observations:
        """The same pattern and weights with other values."""
        ...

    def with_weights(self, weights: Vector | None) -> Observations:
        """The same pattern and values with other weights, or with none."""
        ...

    def split(self, seed: int, share: float) -> tuple[Observations, Observations] | None:
        """All but about a ``share``, and those; which ones depends on the seed and on the place of an observation in the
        row-major order alone. The last ones of a row or column are not taken away; None where none can be taken.
        """
        ...

    @property
    def rough(self) -> Observations:
        """The same for passes that six digits suffice for: a backend may gather factors in float32 there."""
        ...

    # -- the fused passes of a gradient at X = u diag(s) v^H ---------------------------------------------------------
    def gradient_rows(self, u: Array, s: Array, v: Array) -> tuple[Array, Array, Array]:
        """``G v``, the squared norms of the rows of G, and the sums over each row of ``w |X - y|^2``."""
        ...

    def gradient_cols(self, u: Array, s: Array, v: Array) -> tuple[Array, Array]:
        """``G^H u`` and the squared norms of the columns of G."""
        ...

    # -- single passes -----------------------------------------------------------------------------------------------
    def sample(self, left: Array, right: Array) -> Vector:
        """The entries of ``left right^H`` on the pattern."""
        ...

    def residual(self, left: Array, right: Array) -> Vector:
        """``left right^H - y`` on the pattern."""
        ...

    def line_sums(self, blocks: tuple[tuple[Array, Array], tuple[Array, Array]], p: Vector | None) -> tuple[float, float]:
        """``Re <p, z>`` (0 without p) and ``sum w |z|^2`` for z the sampled sum of the two blocks ``left right^H``."""
        ...

    def blocks(self, side: int, factor: Array) -> Array:
        """Sums of ``w f_j^H f_j`` over the columns j observed in each row (side 0), or over the rows in each column (side 1):
        (n, r, r), f_j the rows of the other side's factor.
        """
        ...

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
        """The normal equations of each row (column), solved: one half of a sweep of alternating least squares. What they are
        is said in :meth:`~lorank.backends.numpy_backend.ReferenceObservations.normal_equations`.
        """
        ...

    def normal_steps(self, columns: bool, other: Array, prior: Array, ridge: Array, start: Array, steps: int) -> Array:
        """Steps of conjugate gradients towards the solutions of the normal equations of each row (column) with the prior
        ``diag(prior) + ridge I``, ridge being one number for each: what they are is said in
        :func:`~lorank.backends.normal_equations.normal_steps`. Factors are in the dtype of the values.
        """
        ...

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
        """The same with solutions that are not negative, by coordinate descent from a start: what they are is said in
        :func:`~lorank.backends.nonnegative.nonnegative_equations`.
        """
        ...

    def products(self, p: Vector) -> Products:
        """``v -> P v`` and ``u -> P^H u``: for many products with the same P."""
        ...

    def times(self, p: Vector, v: Array) -> Array:
        """``P v``."""
        ...

    def adjoint_times(self, p: Vector, u: Array) -> Array:
        """``P^H u``."""
        ...

    def gathered(self, w: Array, side: int) -> Array:
        """Sums over each row (side 0) of what the (n, 1) array w has for its observed columns, or the other way round."""
        ...

    def sums(self, p: Vector, side: int) -> Array:
        """The sums of the real entries p over each row (side 0) or column (side 1), in double precision."""
        ...

    def squares(self, p: Vector) -> tuple[Array, Array]:
        """Squared norms of the rows and of the columns of P, in double precision."""
        ...

    def counts(self, side: int) -> Array:
        """Observations in each row (side 0) or column (side 1)."""
        ...

    def matrix(self, p: Vector) -> Any:
        """P as a sparse matrix of the backend's kind."""
        ...

    def outer(self, p: Vector) -> tuple[Array, Array]:
        """``P P^H`` and ``P^H P`` as dense arrays: for metrics that ask for them on small problems."""
        ...


class Backend(Arrays, Protocol):
    """Arrays, and the making of observations."""

    def require_room(self, m: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """A MemoryError where m observations of such a matrix cannot fit where this backend computes."""
        ...

    def require_bytes(self, needed: int, what: str) -> None:
        """A MemoryError where so much cannot be had where this backend computes."""
        ...

    def sorted_pattern(
        self, rows: Array, cols: Array, values: Array, shape: tuple[int, int]
    ) -> tuple[Array, Array, Array, Array]:
        """Observations in row-major order: indptr, column indices, values, and the places where they stood before."""
        ...

    def repetitions(self, indptr: Array, indices: Array) -> Array:
        """The places k at which observation k + 1 is of the same entry."""
        ...

    def make_observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> Observations:
        """The observed entries in CSR order, with the passes over them."""
        ...
