"""Base classes of a backend: operations on arrays, and the making of observations.

The rest of the package uses these operations, and those that NumPy-like arrays share (``+ - * / **``, ``abs``, comparisons,
slices of tall arrays, ``.conj()``, ``.T``, ``.real``, ``.sum()``, ``.max()``, ``.any()``, ``.all()``, ``.reshape()``).

- *Tall* arrays (n x r, n large) and *vectors* (one number per observation) are arrays of the backend's own kind. A tall array
  may be a linear combination that is evaluated lazily: :meth:`Creation.asarray` evaluates it. Vectors are added, scaled and
  passed on, and never indexed outside the backend.
- *Small* arrays (r x r, such as Gram matrices) are NumPy arrays for every backend.

A backend defines the abstract members. It overrides the others, which follow from these, where it has something faster.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..common.checks import ParameterError
from .observations import Array, Observations
from .orthonormal import Basis, at_large_angles, first_pass, in_double, second_pass
from .pauli_sums import ArrayPauliSums, PauliSums
from .tensor_observations import TensorObservations
from .train_observations import TrainObservations

GATHERED = 1 << 22  # numbers of covariances that are gathered at a time


class Creation(Protocol):
    """Creation and conversion of arrays.

    Attributes
    ----------
    name : str
    in_main_memory : bool
        NumPy can read the arrays without a transfer.
    """

    name: str
    in_main_memory: bool

    @abstractmethod
    def asarray(self, a: Array, dtype: Any = None) -> Array:
        """Contiguous array of this kind; the argument itself where it is one."""

    def asarrays(self, *arrays: Array) -> tuple[Array, ...]:
        """:meth:`asarray` of several tall arrays; lazy ones are evaluated together."""
        return arrays

    def asmatrix(self, matrix: Any) -> Any:
        """Dense or SciPy sparse matrix in a form that multiplies arrays of this kind."""
        return matrix

    def asindex(self, a: Array) -> Array:
        """Array in a form that indexes arrays of this kind."""
        return a

    def detached(self, a: Array) -> Array:
        """Array without the history of automatic differentiation."""
        return a

    @abstractmethod
    def to_numpy(self, a: Array) -> np.ndarray: ...

    @abstractmethod
    def dtype(self, a: Array) -> np.dtype:
        """NumPy dtype."""

    @abstractmethod
    def astype(self, a: Array, dtype: Any) -> Array:
        """Conversion to a NumPy dtype; no copy where nothing changes."""

    def is_complex(self, a: Array) -> bool:
        return self.dtype(a).kind == "c"

    @abstractmethod
    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array: ...

    @abstractmethod
    def eye(self, n: int, dtype: Any, width: int | None = None) -> Array:
        """The first ``width`` (default: all) columns of the identity."""

    @abstractmethod
    def copy(self, a: Array) -> Array:
        """Contiguous copy that shares no memory."""

    @abstractmethod
    def random_normal(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
        """Standard normal entries; both parts of complex ones."""

    def release(self) -> None:
        """Free the memory that is kept from one pass to the next; called at the end of a run."""
        return


class Reductions(Protocol):
    """Norms, inner products, order statistics."""

    @abstractmethod
    def norm(self, a: Array) -> float:
        """Euclidean (Frobenius) norm in double precision."""

    def norms(self, arrays: Sequence[Array]) -> list[float]:
        """Several norms; from a device in one transfer."""
        return [self.norm(a) for a in arrays]

    def squared_norm(self, a: Array) -> float:
        """Squared norm in the precision of the array; for large arrays."""
        return self.norm(a) ** 2

    @abstractmethod
    def inner(self, a: Array, b: Array) -> float:
        """``Re <a, b>`` in double precision."""

    def inners(self, pairs: Sequence[tuple[Array, Array]]) -> list[float]:
        """Several inner products; from a device in one transfer."""
        return [self.inner(a, b) for a, b in pairs]

    @abstractmethod
    def row_squares(self, a: Array) -> Array:
        """Squared norms of the rows, in the precision of the array."""

    @abstractmethod
    def squared_norms(self, matrix: Any, axis: int) -> Array:
        """Squared norms of the rows (axis 1) or columns (axis 0) of a dense or sparse matrix, in double precision."""

    def column_means(self, a: Array) -> Array:
        return a.mean(0)

    @abstractmethod
    def all_finite(self, a: Array) -> bool: ...

    @abstractmethod
    def max_abs(self, a: Array) -> float:
        """Largest absolute value."""

    def first_true(self, flags: Array) -> int:
        """Position of the first true flag."""
        return int(self.flatnonzero(flags)[0])

    @abstractmethod
    def flatnonzero(self, flags: Array) -> Array:
        """Positions of the true flags."""

    @abstractmethod
    def percentiles(self, a: Array, at: Sequence[float]) -> list[float]:
        """Percentiles of a vector, interpolated linearly."""

    def median(self, a: Array) -> float:
        return self.percentiles(a, [50])[0]

    @abstractmethod
    def top_k(self, block: Array, n: int, hidden: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values of the n largest entries in each row of a dense block, as NumPy arrays.

        Largest first; the smaller column first among equal ones. Entries at the index pairs ``hidden`` are set to -inf.
        """


class TallAlgebra(Protocol):
    """Linear algebra of tall arrays. ``u a`` is a tall array u times a small array a."""

    @abstractmethod
    def product(self, u: Array, a: Array) -> Array:
        """``u a``."""

    @abstractmethod
    def minus(self, y: Array, u: Array, a: Array) -> Array:
        """``y - u a``."""

    @abstractmethod
    def plus(self, u: Array, a: Array, v: Array, b: Array) -> Array:
        """``u a + v b``."""

    @abstractmethod
    def gram(self, a: Array, b: Array) -> np.ndarray:
        """``a^H b``, a small array."""

    def gram_pairs(self, pairs: Sequence[tuple[Array, Array]]) -> list[Array]:
        """:meth:`gram` of several pairs."""
        return [self.gram(a, b) for a, b in pairs]

    def prepare_grams(self, *sides: Sequence[Array]) -> None:
        """Announce Gram products among the tall arrays of each side; a backend may compute them together."""
        return

    @abstractmethod
    def concat(self, blocks: Sequence[Array], axis: int = 1) -> Array:
        """Concatenation, by default of columns."""

    @abstractmethod
    def entries(self, left: Array, right: Array, rows: Array, cols: Array) -> Array:
        """Entries of ``left right^H`` at index pairs."""

    def variances(self: Arrays, x: Array, S: Array, y: Array, T: Array, rows: Array, cols: Array) -> Array:
        """Variances of ``x_i . y_j`` at index pairs; x_i and y_j have the covariances S_i and T_j (packed upper triangles)."""
        # y^T S y + x^T T x + trace(S T) is trace((S + x x^T) (T + y y^T)) - (x y)^2: entries of products of tall arrays.
        a, b = np.triu_indices(x.shape[1])
        twice = self.asarray(np.where(a == b, 1.0, np.sqrt(2.0)))  # entries off the diagonal count twice
        left, right = ((packed + z[:, a] * z[:, b]) * twice for z, packed in ((x, S), (y, T)))
        step = max(1, GATHERED // len(a))
        starts = range(0, max(len(rows), 1), step)
        parts = [self.entries(left, right, rows[at : at + step], cols[at : at + step]) for at in starts]
        return (self.concat(parts, axis=0) - self.entries(x, y, rows, cols) ** 2).clip(0)

    def project_out(self, basis: Array, y: Array) -> tuple[Array, np.ndarray]:
        """``y`` minus its projection on the span of an orthonormal basis, and the coefficients of the projection."""
        first = self.gram(basis, y)
        y = self.minus(y, basis, first)
        second = self.gram(basis, y)  # a second projection removes the rounding errors of the first
        return self.minus(y, basis, second), first + second

    @abstractmethod
    def qr(self, a: Array) -> tuple[Array, np.ndarray]:
        """Thin QR, safe for dependent columns."""

    def qrs(self, arrays: Sequence[Array]) -> list[tuple[Array, np.ndarray]]:
        """:meth:`qr` of several arrays."""
        return [self.qr(a) for a in arrays]

    def extend_basis(self, u: Array, y: Array) -> tuple[Array, np.ndarray] | None:
        """Orthonormal ``q`` with ``y = q k`` and ``u^H q = 0``, for orthonormal u and ``u^H y = 0``.

        None where the columns of y are too close to dependent; the caller then computes :meth:`qr` of ``[u, y]``.
        """
        # Two Gram/Cholesky passes, several times faster than Householder reflections; one if the columns are at large angles.
        overlap = in_double(self.gram(u, y))
        first = first_pass(in_double(self.gram(y, y)) - overlap.conj().T @ overlap)
        if first is None:
            return None
        k, inverse = first
        overlap = overlap @ inverse
        a, b = inverse.astype(y.dtype), -overlap.astype(y.dtype)
        q = self.plus(y, a, u, b) if len(b) else self.product(y, a)
        if at_large_angles(k, inverse, y) and abs(overlap).max(initial=0) < 0.1:
            return q, k.astype(y.dtype)
        q = self.minus(q, u, self.gram(u, q))
        second = second_pass(self.gram(q, q))
        if second is None:
            return None
        return self.product(q, second[1].astype(y.dtype)), (second[0] @ k).astype(y.dtype)

    def extend_bases(self, pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, np.ndarray]] | None:
        """:meth:`extend_basis` of several pairs (u, y); None where one of them is None."""
        found = []
        for u, y in pairs:
            one = self.extend_basis(u, y)
            if one is None:
                return None
            found.append(one)
        return found

    def basis(self: Arrays, n: int, width: int, dtype: Any) -> Any:
        """Empty orthonormal basis for up to ``width`` columns of length n (see :class:`~lorank.backends.orthonormal.Basis`)."""
        return Basis(self, n, width, dtype)

    def orthonormalize(self, y: Array) -> Array:
        """Orthonormal basis whose span contains the columns of ``y``."""
        extended = self.extend_basis(y[:, :0], y)
        return self.qr(y)[0] if extended is None else extended[0]


class SmallAlgebra(Protocol):
    """Linear algebra of small arrays, and of stacks of small matrices."""

    def small(self, a: Array) -> np.ndarray:
        """Small array, such as the singular values of a point, as a NumPy array."""
        return a

    def values(self, s: Array) -> Array:
        """Singular values as a point stores them: on the device of its factors."""
        return s

    def svd(self: Arrays, a: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u, s, v with ``a = u diag(s) v^H``. Never raises: failures are nan."""
        a = self.to_numpy(a)
        if not np.isfinite(a).all():
            return _nan_svd(a)
        try:
            u, s, vh = np.linalg.svd(a, full_matrices=False)
        except np.linalg.LinAlgError:  # gesdd failed; gesvd is slower and more reliable
            import scipy.linalg

            try:
                u, s, vh = scipy.linalg.svd(a, full_matrices=False, lapack_driver="gesvd")
            except np.linalg.LinAlgError:
                return _nan_svd(a)
        return u, s, vh.conj().T

    def eigh(self: Arrays, a: Array) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues in decreasing order and eigenvectors of a Hermitian matrix. Never raises: failures are nan."""
        a = self.to_numpy(a)
        try:
            values, vectors = np.linalg.eigh(a)
        except np.linalg.LinAlgError:
            return np.full(len(a), np.nan, a.real.dtype), np.full_like(a, np.nan)
        return values[::-1], vectors[:, ::-1]

    def inverse(self: Arrays, m: Array) -> np.ndarray:
        """``m^-1`` of a Hermitian positive definite m; nan for a singular one."""
        m = self.to_numpy(m)
        try:
            return np.linalg.inv(m)
        except np.linalg.LinAlgError:
            return np.full_like(m, np.nan)

    @abstractmethod
    def inverses(self, stack: Array) -> Array:
        """Inverses of an (n, r, r) stack, of the backend's own kind."""

    def block_solver(self, stack: Array) -> Callable[[Array], Array]:
        """``a -> x`` with ``x_i B_i = a_i`` for each row; B_i are the Hermitian definite matrices of an (n, r, r) stack."""
        inverses = self.inverses(stack)
        return lambda a: (a[:, None, :] @ inverses)[:, 0, :]

    def add_diagonal(self, m: Array, d: Array) -> np.ndarray:
        """``m + diag(d)``, in place."""
        m[np.diag_indices(len(d))] += d
        return m


class Transforms(Protocol):
    """Functions that phase retrieval needs."""

    @abstractmethod
    def fft(self, a: Array, axes: tuple[int, ...]) -> Array:
        """Discrete Fourier transform; may overwrite its argument."""

    @abstractmethod
    def inverse_fft(self, a: Array, axes: tuple[int, ...], *, adjoint: bool = False) -> Array:
        """Inverse transform; the adjoint is not divided by the number of entries."""

    @abstractmethod
    def hermitian_eigen(self, a: Array) -> tuple[Array, Array]:
        """Eigenvalues, clipped at zero, and eigenvectors of a positive semidefinite matrix of any size."""

    @abstractmethod
    def tanh(self, a: Array) -> Array: ...

    @abstractmethod
    def bessel_ratio(self, a: Array) -> Array:
        """``I_1(a) / I_0(a)`` of a nonnegative array."""


class Arrays(Creation, Reductions, TallAlgebra, SmallAlgebra, Transforms, Protocol):
    """Operations on arrays."""


class ObservationFactory(Protocol):
    """Creation of observations."""

    def check_memory(self, m: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Raise MemoryError where m observations of such a matrix do not fit on the device."""
        return

    def check_bytes(self, needed: int, what: str) -> None:
        """Raise MemoryError where that many bytes are not available; ``what`` names their purpose."""
        return

    @abstractmethod
    def sorted_pattern(
        self, rows: Array, cols: Array, values: Array, shape: tuple[int, int]
    ) -> tuple[Array, Array, Array, Array]:
        """Observations in row-major order: indptr, column indices, values, and the permutation."""

    @abstractmethod
    def repetitions(self, indptr: Array, indices: Array) -> Array:
        """Positions k at which the observations k and k + 1 are of the same entry."""

    @abstractmethod
    def make_observations(self, indptr: Array, indices: Array, values: Array, n2: int) -> Observations:
        """Observed entries in CSR order."""

    @abstractmethod
    def make_tensor_observations(self, indices: np.ndarray, shape: Sequence[int]) -> TensorObservations:
        """Observed entries of a tensor, sorted by slice; indices are an (m, d) array."""

    def make_train_observations(self, indices: np.ndarray, shape: Sequence[int]) -> TrainObservations:
        """Observed entries of a tensor, for tensor trains."""
        raise ParameterError("format", "'train' computes with NumPy on the CPU: pass NumPy arrays, without device or backend")

    def make_pauli_sums(self, flips: np.ndarray, signs: np.ndarray, qubits: int) -> PauliSums:
        """Pauli matrices by their bit flips and signs, (m,) arrays of bit masks."""
        return ArrayPauliSums(flips, signs, qubits, self)


class Backend(Arrays, ObservationFactory, Protocol):
    """Array library and device that problems are computed with."""


def _nan_svd(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k, shape = min(a.shape), a.shape
    return np.full((shape[0], k), np.nan, a.dtype), np.full(k, np.nan, a.real.dtype), np.full((shape[1], k), np.nan, a.dtype)
