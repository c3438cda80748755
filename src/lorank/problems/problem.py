"""Measurement models: the abstract base classes ``Problem`` (any manifold) and ``MatrixProblem``."""

from __future__ import annotations

import functools
import hashlib
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import Array, Backend, Vector, device_backend, get_backend
from ..common.checks import counted
from ..geometry import FIXED_RANK, FixedRank, FixedRankManifold, Tangent
from ..losses import Objective
from .gradient import Gradient, adjoint_product


class Problem(ABC):
    """Find a low-rank X with ``A X = y``.

    This base class fixes no representation of X: a subclass names a :attr:`manifold` and has a method :meth:`gradient`.
    Models of matrices derive from :class:`MatrixProblem`. Everything optional is a protocol in
    :mod:`lorank.problems.capabilities`.

    Parameters
    ----------
    y : (m,) array
        The measurements.
    shape : tuple of int
        The shape of X.
    operator_scale : float
        About ``|A Z|^2 / |Z|_F^2`` for a typical Z of low rank: m / (n1 n2) for completion, m for Gaussian matrices of unit
        variance, 1 for an operator with the restricted isometry property. Constant steps are in units of 1 / operator_scale.
    backend : str, backend or None
        By default the backend of y.
    objective : Objective, optional
        The loss between ``A X`` and y, and weights; by default least squares.

    Attributes
    ----------
    manifold : Manifold
        The set that contains X.
    blas_threads : int or None
        BLAS threads while a solver runs; None leaves the number unchanged.
    isotropic : bool
        Whether ``A* y / operator_scale`` estimates X equally well in all directions: the spectral start needs no stages.
    stationary_is_converged : bool
        Whether a stationary objective counts as convergence, without a test of the residual for noise.
    nonquadratic_at_zero : bool
        Whether the objective is far from quadratic at ``X = 0``, so that starts avoid zero.
    rank_step : int
        Ranks by which ``rank="auto"`` grows.
    default_rank : int or None
        Rank of ``solve`` where none is given; None where a rank is needed.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> problem.m, problem.dof(2)
    (1296, 216)
    """

    manifold: Any = FIXED_RANK  # a Manifold
    blas_threads: int | None = 1
    isotropic: bool = False
    stationary_is_converged: bool = False
    nonquadratic_at_zero: bool = False
    rank_step: int = 1
    default_rank: int | None = None

    def __init__(
        self,
        y: Array,
        shape: tuple[int, ...],
        *,
        operator_scale: float = 1.0,
        backend: str | Backend | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.backend = get_backend(backend, y)
        y = np.asarray(y) if isinstance(y, (list, tuple)) else y
        checked = y is vars(self).get("y")  # a copy with other weights
        if not checked and not self.backend.all_finite(y):
            first = int(np.flatnonzero(~np.isfinite(self.backend.to_numpy(y)))[0])
            raise ValueError(f"y[{first}] is not finite: leave out missing measurements")
        self.y = y
        self.shape = tuple(int(n) for n in shape)
        self.operator_scale = float(operator_scale)
        self.objective = Objective() if objective is None else objective
        for name in ("max_abs", "y_norm"):  # cached values of the original
            vars(self).pop(name, None)
        if not checked:
            _ = self.y_norm  # outside the measured time of a run

    @abstractmethod
    def gradient(self, X: Any) -> Any:
        """The gradient of the objective at X: :class:`~lorank.problems.Gradient`, or an object with what the manifold uses.

        Every gradient has ``problem``, ``X``, ``residual_norm``, ``at(X)`` and ``squared_image_norm(xi)``.
        """

    @property
    def m(self) -> int:
        """Number of measurements."""
        return int(self.y.shape[0])

    @functools.cached_property
    def y_norm(self) -> float:
        """``|y|``, the unit of relative residuals; for other losses the root of twice the objective at ``X = 0``."""
        return math.sqrt(2 * self.objective.at_zero(self.y, self.backend))

    @functools.cached_property
    def max_abs(self) -> float:
        """The largest absolute value of a measurement."""
        return self.backend.max_abs(self.y) if self.m else 0.0

    @property
    def dtype(self) -> Any:
        """NumPy dtype of X: that of y, unless the model overrides it (a complex X with real measurements)."""
        return self.backend.dtype(self.y)

    def to(self, device: Any) -> Problem:
        """The problem as PyTorch tensors on a device such as ``"cuda"``; itself where it is there already."""
        backend = device_backend(device)
        return self if self.backend is backend else self._moved(backend)

    def _moved(self, backend: Backend) -> Problem:
        raise ValueError(
            f"{type(self).__name__} cannot be moved to another device: build it from tensors on that device, with functions "
            "that compute with tensors"
        )

    def dof(self, rank: Any) -> int:
        """Degrees of freedom of a point of that rank, in measurements: a complex measurement is two real numbers."""
        return self._dof(self.shape, rank)

    def _dof(self, shape: tuple[int, ...], rank: Any) -> int:
        real = self.manifold.dof(shape, rank, self.dtype)
        return -(-real // 2) if self.backend.dtype(self.y).kind == "c" else real

    def zero(self, rank: Any) -> Any:
        """The point zero."""
        return self.manifold.zero(self.shape, rank, self.dtype, self.backend)

    def check_rank(self, rank: Any) -> Any:
        """The rank as the manifold stores it, or a ValueError; warns where measurements are fewer than degrees of freedom."""
        rank = self.manifold.check_rank(rank, self.shape)
        if self.m < self.dof(rank):
            are = "is" if self.m == 1 else "are"
            warnings.warn(
                f"{counted(self.m, 'measurement')} {are} fewer than the {self.dof(rank):,} degrees of freedom of rank "
                f"{rank}: the solution is not unique; lower the rank or measure more",
                stacklevel=3,
            )
        return rank

    def check_scale(self) -> None:
        """Raise a ValueError where squares of the measurements leave the range of their dtype."""
        top = self.max_abs
        low, high = (1e-15, 1e15) if np.finfo(self.dtype).bits == 32 else (1e-120, 1e120)
        if top and not low <= top <= high:
            raise ValueError(
                f"the largest measurement has absolute value {top:.1e}, outside of {low:.0e} to {high:.0e}, the "
                f"safe range of {self.dtype}: divide the measurements by {top:.0e}, and multiply the result by it"
            )

    def noise_is_testable(self, rank: Any, residual: float) -> bool:
        """Whether the residual of a stationary point shows if it is a fit to noise, rather than a local minimum or a fit of too
        low a rank: with three measurements per degree of freedom, and two at the next rank.

        ``residual`` is the relative residual.
        """
        following = self.dof(rank + 1) if isinstance(rank, int) else 0
        return self.m >= max(3 * self.dof(rank), 2 * following)

    def objective_root(self, X: Any, learned: Objective | None = None) -> float:
        """``sqrt(2 f)`` at X without any penalty, by which fits are compared; ``|A X - y|`` in plain least squares.

        ``learned`` is the objective of a fit to other data, with the parameters that were estimated there.
        """
        return float(self.gradient(X).residual_norm)

    def project_feasible(self, X: Any) -> Any:
        """The projection of X onto the points that the model admits; by default X itself.

        Completion sets rows and columns without observations to zero; models of semidefinite matrices take the nearest one.
        """
        return X

    def remark(self) -> str:
        """A sentence on the measurements for results, such as entries that none of them determines; empty by default."""
        return ""

    def fingerprint(self) -> str:
        """A hash of the measurements and of the operator, by which checkpoints recognise their problem."""
        found = hashlib.sha256()
        found.update(f"{type(self).__name__} {self.shape} {self.dtype} {self.objective!r}".encode())
        found.update(np.ascontiguousarray(self.backend.to_numpy(self.y)).tobytes())
        self._hash_operator(found)
        return found.hexdigest()

    def _hash_operator(self, found: Any) -> None:  # noqa: B027  (optional)
        """Add what identifies A to a hash."""

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        return f"{type(self).__name__}({size}, {counted(self.m, 'measurement')}, {self.dtype}, {self.backend.name})"


class MatrixProblem(Problem):
    """Find an n1 x n2 matrix X of low rank with ``A X = y``.

    A model is a subclass with two methods, :meth:`forward` and :meth:`adjoint`. A fast one also overrides :meth:`gradient`,
    :meth:`squared_image_norm` and :meth:`products`. Parameters are those of :class:`~lorank.Problem`.

    Attributes
    ----------
    frame_constant : float or None
        c where ``A A* = c I``; None where there is no such c, or it is unknown.

    Examples
    --------
    Measure the diagonal and the row sums of X:

    >>> import numpy as np
    >>> import lorank as lr
    >>> class Sums(lr.problems.MatrixProblem):
    ...     def forward(self, left, right):
    ...         return np.concatenate([(left * right.conj()).sum(1), left @ right.sum(0).conj()])
    ...     def adjoint(self, p):
    ...         diagonal, rows = p.reshape(2, -1)
    ...         return np.diag(diagonal) + rows[:, None] * np.ones(len(rows))
    >>> problem = Sums(np.ones(10), (5, 5))
    >>> lr.testing.dot_test(problem) < 1e-12
    True
    """

    shape: tuple[int, int]
    frame_constant: float | None = None
    manifold: FixedRankManifold = FIXED_RANK

    @abstractmethod
    def forward(self, left: Array, right: Array) -> Array:
        """``A (left right^H)``, an (m,) array, for thin factors left (n1 x k) and right (n2 x k)."""

    @abstractmethod
    def adjoint(self, p: Array) -> Any:
        """``A* p``: a dense or SciPy sparse n1 x n2 matrix, or a :class:`scipy.sparse.linalg.LinearOperator`."""

    def gradient(self, X: FixedRank) -> Gradient:
        """``G = A*(A X - y)``."""
        return Gradient(self, X)

    def project_feasible(self, X: FixedRank) -> FixedRank:
        return self.manifold.nearest(X)

    def squared_image_norm(self, xi: Tangent) -> float:
        """``|A xi|^2``."""
        return self.backend.norm(self.forward(*xi.factors())) ** 2

    def products(self, p: Vector) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """The functions ``v -> (A* p) v`` and ``u -> (A* p)^H u`` of thin arrays."""
        g = self.adjoint(p)
        return (lambda v: g @ v), (lambda u: adjoint_product(g, u))

    def normal_products(
        self, left: Array, right: Array, curvature: Vector | None
    ) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """The products of ``A* C A (left right^H)`` with C the curvature of the objective, for second order methods."""
        image = self.forward(left, right)
        if self.backend.is_complex(image) and not self.backend.is_complex(self.y):
            image = image.real
        return self.products(image if curvature is None else curvature * image)

    def _hash_operator(self, found: Any) -> None:
        rng, backend = np.random.default_rng(0), self.backend
        left, right = (backend.random_normal(rng, (n, 1), self.dtype) for n in self.shape)
        image = self.forward(left, right)
        p = backend.random_normal(rng, (self.m,), backend.dtype(image))
        size, angle = backend.norm(image), backend.inner(p, image) / (backend.norm(p) * backend.norm(image) or 1.0)
        digits = 3 if np.finfo(self.dtype).bits == 32 else 8  # rounded: the last bits may differ from machine to machine
        found.update(f"{size:.{digits}e} {angle:.{digits}f}".encode())
