"""Matrix sensing: inner products of X with given matrices or functions."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import Array, Backend, backend_of, get_backend
from ..common.checks import NUMBER, POSITIVE, ParameterError, counted, shown
from .gradient import Gradient, ProductOperator, is_operator
from .input_checks import as_shape, check_function, finite_array, functions_of_numpy, measurement_vector
from .problem import MatrixProblem
from .testing import check_pair

BLOCK_BYTES = 8 << 20  # of A: read once from memory and used twice from the cache


class GivenOperator(MatrixProblem):
    """Base of models whose operator is given by a user."""

    blas_threads: int | None = None  # products with A are large: use all BLAS threads

    def check_scale(self) -> None:
        """Also raise a ValueError where ``A* y`` or ``A A* y`` would leave the range of the dtype.

        They are about ``operator_scale^(1/2)`` and ``operator_scale`` times as large as the measurements. The square of the
        first must also stay in range while it shrinks as a run converges.
        """
        super().check_scale()
        if not self.max_abs or not self.operator_scale > 0:
            return
        small, large, top = (-10, 17, 30) if np.finfo(self.dtype).bits == 32 else (-100, 140, 140)
        y, root = math.log10(self.max_abs), math.log10(self.operator_scale) / 2
        if not (small <= y + root <= large and small <= y - root <= large and abs(y + 2 * root) <= top):
            raise ValueError(
                f"|A Z|^2 is about {self.operator_scale:.0e} |Z|^2 and the largest measurement {self.max_abs:.0e}: their "
                f"products leave the range of {self.dtype}. Divide A by a constant, so that its entries are about 1, and the "
                "measurements accordingly"
            )


class Sensing(GivenOperator):
    """Measurements ``y_i = <A_i, X>``, that is ``sum(conj(A_i) * X)``.

    Parameters
    ----------
    A : (m, n1, n2) or (m, n1 n2) array
        The measurement matrices, real or complex; contiguous arrays are not copied.
    y : (m,) array
        The measurements.
    shape : (int, int), optional
        The shape of X; required for flattened matrices.
    operator_scale : float, optional
        About ``|A Z|^2 / |Z|_F^2``: by default the mean over all directions, ``|A|_F^2 / (n1 n2)``.
    backend : str or backend, optional

    Notes
    -----
    For large structured operators use a pair of functions (:meth:`from_functions`) or a subclass of
    :class:`~lorank.problems.MatrixProblem`.

    Raises
    ------
    ValueError
        Where A, y and the shape do not match, or A or y are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.standard_normal(8), rng.standard_normal(6))
    >>> A = rng.standard_normal((60, 8, 6))
    >>> result = lr.solve(lr.Sensing(A, np.tensordot(A, X)), rank=1)
    >>> bool(abs(result.X.to_dense() - X).max() < 1e-4)
    True
    """

    isotropic = True

    def __init__(
        self,
        A: Any,
        y: Any,
        shape: tuple[int, int] | None = None,
        *,
        operator_scale: float | None = None,
        backend: str | Backend | None = None,
    ) -> None:
        backend = get_backend(backend, A, y)
        A = finite_array(A, "A")
        y = measurement_vector(y)
        if A.ndim == 3:
            if shape is not None and as_shape(shape) != tuple(A.shape[1:]):
                raise ParameterError("A", f"holds {A.shape[1]} x {A.shape[2]} matrices, and shape is {shape!r}")
            shape = (A.shape[1], A.shape[2])
        elif A.ndim != 2:
            raise ParameterError("A", f"must be an (m, n1, n2) or (m, n1 n2) array, got shape {tuple(A.shape)}")
        elif shape is None:
            raise ParameterError("A", f"has shape {tuple(A.shape)}, one flattened matrix per row: pass shape=(n1, n2)")
        n1, n2 = as_shape(shape)
        if A.ndim == 2 and A.shape[1] != n1 * n2:
            raise ValueError(f"a row of A has {counted(A.shape[1], 'entry', 'entries')}, a {n1} x {n2} matrix has {n1 * n2:,}")
        if len(A) != len(y):
            raise ParameterError(
                "A",
                f"holds {counted(len(A), 'matrix', 'matrices')} and y {counted(len(y), 'measurement')}: "
                "their numbers must agree",
            )
        dtype = np.result_type(backend_of(A).dtype(A), backend_of(y).dtype(y))
        self.A = backend.asarray(A, dtype).reshape(len(A), n1 * n2)
        if operator_scale is None:
            with np.errstate(over="ignore"):
                operator_scale = sum(backend.squared_norm(part) for part in self._blocks()) / (n1 * n2)
            if not math.isfinite(operator_scale):
                raise ParameterError("A", "holds numbers whose squares overflow: divide A and y by a constant")
        super().__init__(backend.asarray(y, dtype), (n1, n2), operator_scale=_positive(operator_scale), backend=backend)

    @classmethod
    def from_functions(
        cls,
        forward: Callable[[Array, Array], Array],
        adjoint: Callable[[Array], Any],
        y: Any,
        shape: tuple[int, int],
        *,
        operator_scale: float | None = None,
        check: bool = False,
        backend: str | Backend | None = None,
    ) -> FunctionSensing:
        """Sensing by a pair of functions of NumPy arrays, or of tensors where y is a tensor.

        Parameters
        ----------
        forward : callable
            ``forward(left, right)`` returns ``A(left right^H)``, an (m,) array, for thin factors left (n1 x k), right (n2 x k).
        adjoint : callable
            ``adjoint(p)`` returns ``A* p``: an n1 x n2 array, SciPy sparse matrix or LinearOperator.
        y : (m,) array
            The measurements.
        shape : (int, int)
            The shape of X.
        operator_scale : float, optional
            By default estimated from a few random matrices of rank 1.
        check : bool
            Run the dot test, and raise a ValueError where it fails; warn of rows and columns that no measurement depends on.

        Examples
        --------
        The sums over the rows and over the columns of X, and its diagonal:

        >>> import numpy as np, scipy.sparse as sp, lorank as lr
        >>> n, rng = 40, np.random.default_rng(0)
        >>> def forward(left, right):
        ...     rows, cols = left @ right.sum(0).conj(), right.conj() @ left.sum(0)
        ...     return np.concatenate([rows, cols, (left * right.conj()).sum(1)])
        >>> def adjoint(p):
        ...     rows, cols, diagonal = p.reshape(3, n)
        ...     return rows[:, None] + cols[None, :] + np.diag(diagonal)
        >>> u = rng.random((n, 1))
        >>> problem = lr.Sensing.from_functions(forward, adjoint, forward(u, u), (n, n), check=True)
        """
        return FunctionSensing(forward, adjoint, y, shape, operator_scale=operator_scale, check=check, backend=backend)

    def _moved(self, backend: Backend) -> Sensing:
        twin = copy.copy(self)
        twin.A = backend.asarray(self.backend.to_numpy(self.A))
        MatrixProblem.__init__(
            twin,
            backend.asarray(self.backend.to_numpy(self.y)),
            self.shape,
            operator_scale=self.operator_scale,
            backend=backend,
        )
        return twin

    def forward(self, left: Array, right: Array) -> Array:
        left, right = self.backend.asarrays(left, right)
        return self._apply(self.A, (left @ right.conj().T).ravel())

    def adjoint(self, p: Array) -> Array:
        return (self.backend.asarray(p) @ self.A).reshape(self.shape)

    def gradient(self, X: Any) -> Gradient:
        return SensingGradient(self, X)

    def _apply(self, A: Array, x: Array) -> Array:
        """``conj(A) x`` for rows of A."""
        return (A @ x.conj()).conj() if self.dtype.kind == "c" else A @ x

    def _blocks(self) -> Any:
        step = max(1, BLOCK_BYTES // max(self.A.shape[1] * self.A.itemsize, 1))
        return (self.A[k : k + step] for k in range(0, len(self.A), step))

    def residual_and_adjoint(self, x: Array) -> tuple[Array, Array]:
        """``A x - y`` and ``A*(A x - y)`` in one pass over A."""
        if not self.backend.in_main_memory:  # on a device two large products are faster than many small ones
            residual = self._apply(self.A, x) - self.y
            return residual, (residual @ self.A).reshape(self.shape)
        residuals: list[Array] = []
        g: Any = 0
        k = 0
        for part in self._blocks():
            stop = k + len(part)
            residuals.append(self._apply(part, x) - self.y[k:stop])
            g = residuals[-1] @ part + g
            k = stop
        return self.backend.concat(residuals, axis=0), g.reshape(self.shape)


class SensingGradient(Gradient):
    """Gradient of dense sensing: the residual and the n1 x n2 matrix G from one pass over A."""

    problem: Sensing

    @functools.cached_property
    def _pass(self) -> tuple[Array, Array]:
        X = self.X
        return self.problem.residual_and_adjoint(((X.U * X.s) @ X.V.conj().T).ravel())

    @property
    def residual(self) -> Array:  # type: ignore[override]
        return self._pass[0]

    @property
    def matrix(self) -> Array:  # type: ignore[override]
        return self._pass[1]


class FunctionSensing(GivenOperator):
    """Sensing by a pair of functions; see :meth:`Sensing.from_functions`."""

    def __init__(
        self,
        forward: Callable[[Array, Array], Array],
        adjoint: Callable[[Array], Any],
        y: Any,
        shape: tuple[int, int],
        *,
        operator_scale: float | None = None,
        check: bool = False,
        backend: str | Backend | None = None,
    ) -> None:
        check_function("forward", forward, ("left", "right"), "A(left right^H), one number for each measurement")
        check_function("adjoint", adjoint, ("p",), "A* p, an n1 x n2 matrix")
        self._forward, self._adjoint = forward, adjoint
        y = measurement_vector(y)
        backend = get_backend(backend, y)
        self._of_numpy = functions_of_numpy(y, backend)
        super().__init__(backend.asarray(y), as_shape(shape), operator_scale=1.0, backend=backend)
        self.operator_scale = self._estimate() if operator_scale is None else _positive(operator_scale)
        if check:
            check_pair(self, min(2, *self.shape), ("row", "column"), stacklevel=4)  # of the caller of from_functions

    def forward(self, left: Array, right: Array) -> Array:
        image = self.backend.asarray(self._forward(*map(self._given, self.backend.asarrays(left, right))))
        if image.shape != self.y.shape:
            raise ValueError(f"forward returns an array of shape {tuple(image.shape)}, and y has shape {tuple(self.y.shape)}")
        return self._cast(image, "forward")

    def adjoint(self, p: Array) -> Any:
        matrix = self._adjoint(self._given(p))
        if tuple(getattr(matrix, "shape", ())) != self.shape:
            raise ValueError(f"adjoint returns a {type(matrix).__name__} of shape {np.shape(matrix)}, expected {self.shape}")
        if is_operator(matrix):  # it has no entries to cast
            to, back = self.backend.to_numpy, self.backend.asarray
            products = (lambda v: back(matrix @ to(v))), (lambda u: back(matrix.rmatmat(to(u))))
            return ProductOperator(self.shape, self.dtype, *products) if self._of_numpy else matrix
        return self._cast(self.backend.asmatrix(matrix), "adjoint")

    def _given(self, a: Array) -> Array:
        """A copy in the kind of array that the functions take; a copy because they may work in place."""
        a = self.backend.copy(a)
        return self.backend.to_numpy(a) if self._of_numpy else a

    def _cast(self, a: Any, name: str) -> Any:
        """The array in the precision of the problem."""
        if self.backend.is_complex(a) and self.dtype.kind != "c":
            raise ParameterError(name, "returns complex numbers, and y is real: take the real part, or pass y.astype(complex)")
        return a if self.backend.dtype(a) == self.dtype else self.backend.astype(a, self.dtype)

    def _estimate(self, trials: int = 8) -> float:
        """The mean of ``|A Z|^2 / |Z|_F^2`` over random Z of rank 1."""
        rng, total = np.random.default_rng(0), 0.0
        for _ in range(trials):
            left, right = (self.backend.random_normal(rng, (n, 1), self.dtype) for n in self.shape)
            total += (self.backend.norm(self.forward(left, right)) / self.backend.norm(left) / self.backend.norm(right)) ** 2
        if not (math.isfinite(total) and total > 0):
            raise ValueError(f"forward returns {'zero' if total == 0 else 'nan or inf'} for random matrices")
        return total / trials


def _positive(operator_scale: float) -> float:
    if not POSITIVE.holds(operator_scale):
        hint = ": is A zero?" if NUMBER.holds(operator_scale) and operator_scale == 0 else ""
        raise ParameterError("operator_scale", f"must be a positive number, got {shown(operator_scale)}{hint}")
    return float(operator_scale)
