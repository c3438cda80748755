"""Interfaces of a backend: operations on arrays, and the making of observations.

The rest of the package uses these operations, and those that NumPy-like arrays share (``+ - * / **``, ``abs``, comparisons,
slices of tall arrays, ``.conj()``, ``.T``, ``.real``, ``.sum()``, ``.max()``, ``.any()``, ``.all()``, ``.reshape()``).

- *Tall* arrays (n x r, n large) and *vectors* (one number per observation) are arrays of the backend's own kind. A tall array
  may be a linear combination that is evaluated lazily: :meth:`Creation.asarray` evaluates it. Vectors are added, scaled and
  passed on, and never indexed outside the backend.
- *Small* arrays (r x r, such as Gram matrices) are NumPy arrays for every backend.

:class:`~lorank.backends.base.BackendBase` supplies the members that follow from others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .observations import Array, Observations
from .tensor_observations import TensorObservations


class Creation(Protocol):
    """Creation and conversion of arrays."""

    @property
    def name(self) -> str: ...

    @property
    def in_main_memory(self) -> bool:
        """NumPy can read the arrays without a transfer."""
        ...

    def asarray(self, a: Array, dtype: Any = None) -> Array:
        """Contiguous array of this kind; the argument itself where it is one."""
        ...

    def asarrays(self, *arrays: Array) -> tuple[Array, ...]:
        """:meth:`asarray` of several tall arrays; lazy ones are evaluated together."""
        ...

    def asmatrix(self, matrix: Any) -> Any:
        """Dense or SciPy sparse matrix in a form that multiplies arrays of this kind."""
        ...

    def asindex(self, a: Array) -> Array:
        """Array in a form that indexes arrays of this kind."""
        ...

    def detached(self, a: Array) -> Array:
        """Array without the history of automatic differentiation."""
        ...

    def to_numpy(self, a: Array) -> np.ndarray: ...

    def dtype(self, a: Array) -> np.dtype:
        """NumPy dtype."""
        ...

    def astype(self, a: Array, dtype: Any) -> Array:
        """Conversion to a NumPy dtype; no copy where nothing changes."""
        ...

    def is_complex(self, a: Array) -> bool: ...

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array: ...

    def eye(self, n: int, dtype: Any, width: int | None = None) -> Array:
        """The first ``width`` (default: all) columns of the identity."""
        ...

    def copy(self, a: Array) -> Array:
        """Contiguous copy that shares no memory."""
        ...

    def random_normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """Standard normal entries; both parts of complex ones."""
        ...

    def release(self) -> None:
        """Free the memory that is kept from one pass to the next; called at the end of a run."""
        ...


class Reductions(Protocol):
    """Norms, inner products, order statistics."""

    def norm(self, a: Array) -> float:
        """Euclidean (Frobenius) norm in double precision."""
        ...

    def norms(self, arrays: Sequence[Array]) -> list[float]:
        """Several norms; from a device in one transfer."""
        ...

    def squared_norm(self, a: Array) -> float:
        """Squared norm in the precision of the array; for large arrays."""
        ...

    def inner(self, a: Array, b: Array) -> float:
        """``Re <a, b>`` in double precision."""
        ...

    def inners(self, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        """Several inner products; from a device in one transfer."""
        ...

    def row_squares(self, a: Array) -> Array:
        """Squared norms of the rows, in the precision of the array."""
        ...

    def squared_norms(self, matrix: Any, axis: int) -> Array:
        """Squared norms of the rows (axis 1) or columns (axis 0) of a dense or sparse matrix, in double precision."""
        ...

    def column_means(self, a: Array) -> Array: ...

    def all_finite(self, a: Array) -> bool: ...

    def max_abs(self, a: Array) -> float:
        """Largest absolute value."""
        ...

    def first_true(self, flags: Array) -> int:
        """Position of the first true flag."""
        ...

    def flatnonzero(self, flags: Array) -> Array:
        """Positions of the true flags."""
        ...

    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        """Percentiles of a vector, interpolated linearly."""
        ...

    def median(self, a: Array) -> float: ...

    def top_k(self, block: Array, n: int, hidden: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values of the n largest entries in each row of a dense block, as NumPy arrays.

        Largest first; the smaller column first among equal ones. Entries at the index pairs ``hidden`` are set to -inf.
        """
        ...


class TallAlgebra(Protocol):
    """Linear algebra of tall arrays. ``u a`` is a tall array u times a small array a."""

    def product(self, u: Array, a: Array) -> Array:
        """``u a``."""
        ...

    def minus(self, y: Array, u: Array, a: Array) -> Array:
        """``y - u a``."""
        ...

    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        """``u a + v b``."""
        ...

    def gram(self, a: Array, b: Array) -> np.ndarray:
        """``a^H b``, a small array."""
        ...

    def gram_pairs(self, pairs: Sequence[tuple[Array, Array]]) -> list[Array]:
        """:meth:`gram` of several pairs."""
        ...

    def prepare_grams(self, *sides: Sequence[Array]) -> None:
        """Announce Gram products among the tall arrays of each side; a backend may compute them together."""
        ...

    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        """Concatenation, by default of columns."""
        ...

    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        """Entries of ``left right^H`` at index pairs."""
        ...

    def variances(self, x: Array, S: Array, y: Array, T: Array, rows: Array, cols: Array) -> Array:
        """Variances of ``x_i . y_j`` at index pairs; x_i and y_j have the covariances S_i and T_j (packed upper triangles)."""
        ...

    def project_out(self, basis: Array, y: Array) -> tuple[Array, np.ndarray]:
        """``y`` minus its projection on the span of an orthonormal basis, and the coefficients of the projection."""
        ...

    def qr(self, a: Array) -> tuple[Array, np.ndarray]:
        """Thin QR, safe for dependent columns."""
        ...

    def qrs(self, arrays: Sequence[Array]) -> list[tuple[Array, np.ndarray]]:
        """:meth:`qr` of several arrays."""
        ...

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, np.ndarray] | None:
        """Orthonormal ``q`` with ``y = q k`` and ``u^H q = 0``, for orthonormal u and ``u^H y = 0``.

        None where the columns of y are too close to dependent; the caller then computes :meth:`qr` of ``[u, y]``.
        """
        ...

    def extend_bases(self, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, np.ndarray]] | None:
        """:meth:`extend_basis` of several pairs (u, y); None where one of them is None."""
        ...

    def basis(self, n: int, width: int, dtype: Any) -> Any:
        """Empty orthonormal basis for up to ``width`` columns of length n (see :class:`~lorank.backends.base.Basis`)."""
        ...

    def orthonormalize(self, y: Array) -> Array:
        """Orthonormal basis whose span contains the columns of ``y``."""
        ...


class SmallAlgebra(Protocol):
    """Linear algebra of small arrays, and of stacks of small matrices."""

    def small(self, a: Array) -> np.ndarray:
        """Small array, such as the singular values of a point, as a NumPy array."""
        ...

    def values(self, s: Array) -> Array:
        """Singular values as a point stores them: on the device of its factors."""
        ...

    def svd(self, a: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u, s, v with ``a = u diag(s) v^H``. Never raises: failures are nan."""
        ...

    def eigh(self, a: Array) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues in decreasing order and eigenvectors of a Hermitian matrix. Never raises: failures are nan."""
        ...

    def inverse(self, m: Array) -> np.ndarray:
        """``m^-1`` of a Hermitian positive definite m; nan for a singular one."""
        ...

    def inverses(self, stack: Array) -> Array:
        """Inverses of an (n, r, r) stack, of the backend's own kind."""
        ...

    def block_solver(self, stack: Array) -> Callable[[Array], Array]:
        """``a -> x`` with ``x_i B_i = a_i`` for each row; B_i are the Hermitian definite matrices of an (n, r, r) stack."""
        ...

    def add_diagonal(self, m: Array, d: Array) -> np.ndarray:
        """``m + diag(d)``, in place."""
        ...


class Transforms(Protocol):
    """Functions that phase retrieval needs."""

    def fft(self, a: Array, axes: tuple[int, ...]) -> Array:
        """Discrete Fourier transform; may overwrite its argument."""
        ...

    def inverse_fft(self, a: Array, axes: tuple[int, ...], *, adjoint: bool = False) -> Array:
        """Inverse transform; the adjoint is not divided by the number of entries."""
        ...

    def hermitian_eigen(self, a: Array) -> tuple[Array, Array]:
        """Eigenvalues, clipped at zero, and eigenvectors of a positive semidefinite matrix of any size."""
        ...

    def tanh(self, a: Array) -> Array: ...

    def bessel_ratio(self, a: Array) -> Array:
        """``I_1(a) / I_0(a)`` of a nonnegative array."""
        ...


class Arrays(Creation, Reductions, TallAlgebra, SmallAlgebra, Transforms, Protocol):
    """Operations on arrays."""


class ObservationFactory(Protocol):
    """Creation of observations."""

    def check_memory(self, m: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Raise MemoryError where m observations of such a matrix do not fit on the device."""
        ...

    def check_bytes(self, needed: int, what: str) -> None:
        """Raise MemoryError where that many bytes are not available; ``what`` names their purpose."""
        ...

    def sorted_pattern(
        self, rows: Array, cols: Array, values: Array, shape: tuple[int, int]
    ) -> tuple[Array, Array, Array, Array]:
        """Observations in row-major order: indptr, column indices, values, and the permutation."""
        ...

    def repetitions(self, indptr: Array, indices: Array) -> Array:
        """Positions k at which the observations k and k + 1 are of the same entry."""
        ...

    def make_observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> Observations:
        """Observed entries in CSR order."""
        ...

    def make_tensor_observations(self, indices: np.ndarray, shape: Sequence[int]) -> TensorObservations:
        """Observed entries of a tensor, sorted by slice; indices are an (m, d) array."""
        ...


class Backend(Arrays, ObservationFactory, Protocol):
    """Array library and device that problems are computed with."""
