"""What a measurement model is, and the gradient it gives."""

from __future__ import annotations

import functools
import hashlib
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array, Backend, device_backend, get_backend
from ..common.checks import counted
from ..geometry import FIXED_RANK, FixedRank, Manifold, Tangent
from ..losses import Datafit, Quadratic
from .gradient import Gradient


class Problem(ABC):
    """Find X of low rank with ``A X = y``.

    A measurement model is a subclass with two methods, :meth:`forward` and :meth:`adjoint`; a fast one also overrides
    :meth:`gradient` and :meth:`energy`.

    Parameters
    ----------
    y : (m,) array
        The measurements.
    shape : (int, int)
        The shape of X.
    gain : float
        About ``|A Z|^2 / |Z|_F^2`` for a typical Z of low rank: m / (n1 n2) for completion, m for Gaussian matrices of
        unit variance, 1 for an operator with the restricted isometry property. Constant steps are measured in 1 / gain.
    backend : str, backend or None
    datafit : Datafit, optional
        How ``A X`` is compared with y; by default least squares, :class:`~lorank.losses.Quadratic`.

    Examples
    --------
    The diagonal and the sums of the rows of X:

    >>> import numpy as np
    >>> import lorank as lr
    >>> class Sums(lr.Problem):
    ...     def forward(self, left, right):
    ...         return np.concatenate([(left * right.conj()).sum(1), left @ right.sum(0).conj()])
    ...     def adjoint(self, p):
    ...         diagonal, rows = p.reshape(2, -1)
    ...         return np.diag(diagonal) + rows[:, None] * np.ones(len(rows))
    >>> problem = Sums(np.ones(10), (5, 5))
    >>> lr.testing.dot_test(problem) < 1e-12
    True
    """

    manifold: Manifold = FIXED_RANK  # where solutions are looked for
    blas_threads: int | None = 1  # while a solver runs; None leaves them alone
    isotropic: bool = False  # whether A* y / gain is a fair picture of X in all directions, so that no start needs stages
    rests: bool = False  # whether a misfit that has come to rest is all one can ask for: more is not known of what is left
    curved: bool = False  # whether the misfit is far from a parabola at zero, so that starts had better begin elsewhere
    tight_frame: float | None = None  # c where A A* = c I; None where there is no such c, or nobody knows

    def __init__(
        self,
        y: Array,
        shape: tuple[int, ...],
        *,
        gain: float = 1.0,
        backend: str | Backend | None = None,
        datafit: Datafit | None = None,
    ) -> None:
        self.backend = get_backend(backend, y)
        y = np.asarray(y) if isinstance(y, (list, tuple)) else y
        again = y is vars(self).get("y")  # a copy with other weights: its data have been looked at
        if not again and not self.backend.all_finite(y):
            first = int(np.flatnonzero(~np.isfinite(self.backend.to_numpy(y)))[0])
            raise ValueError(f"y[{first}] is not finite: leave out what was not measured")
        self.y = y
        self.shape = tuple(int(n) for n in shape)
        self.gain = float(gain)
        self.datafit: Datafit = Quadratic() if datafit is None else datafit
        for name in ("largest", "y_norm"):  # a copy's
            vars(self).pop(name, None)
        if not again:
            _ = self.y_norm  # once, and not in the middle of a run

    @property
    def m(self) -> int:
        """Number of measurements."""
        return int(self.y.shape[0])

    @functools.cached_property
    def y_norm(self) -> float:
        """``|y|``, in units of which residuals are given; of other losses the root of twice the loss of ``X = 0``."""
        return math.sqrt(2 * self.datafit.at_zero(self.y, self.backend))

    @functools.cached_property
    def largest(self) -> float:
        """The largest measurement in size."""
        return self.backend.largest(self.y) if self.m else 0.0

    @property
    def dtype(self) -> Any:
        """Of X and of the measurements, as NumPy names it."""
        return self.backend.dtype(self.y)

    def to(self, device: Any) -> Problem:
        """The same problem as PyTorch tensors on a device, such as ``"cuda"``; itself where it is there already."""
        backend = device_backend(device)
        return self if self.backend is backend else self._moved(backend)

    def _moved(self, backend: Backend) -> Problem:
        raise ValueError(
            f"{type(self).__name__} cannot be moved to another device: build it from tensors that are there, with functions "
            "that compute with tensors"
        )

    @abstractmethod
    def forward(self, left: Array, right: Array) -> Array:
        """``A (left right^H)``, an (m,) array."""

    @abstractmethod
    def adjoint(self, p: Array) -> Any:
        """``A* p``: a dense or SciPy sparse n1 x n2 matrix, or a :class:`scipy.sparse.linalg.LinearOperator`."""

    def gradient(self, X: FixedRank) -> Gradient:
        """``G = A*(A X - y)``, as far as solvers need it."""
        return Gradient(self, X)

    def single(self) -> tuple[Problem, float]:
        """The same problem in single precision, for work that a few digits suffice for, and the unit its matrix is in; the
        problem itself and 1 where there is none.
        """
        return self, 1.0

    def rank_one(self, rng: np.random.Generator) -> FixedRank | None:
        """A matrix of rank 1 near the data, to start from, where a model finds one cheaper than a solver does; else None."""
        return None

    def own_start(self, rank: int, rng: np.random.Generator) -> FixedRank | None:
        """A start of that rank, where a model knows a better one than any that does for all models; else None."""
        return None

    def energy(self, xi: Tangent) -> float:
        """``|A xi|^2``."""
        return self.backend.norm(self.forward(*xi.factors())) ** 2

    def products(self, p: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """The functions ``v -> (A* p) v`` and ``u -> (A* p)^H u`` of thin arrays."""
        g = self.adjoint(p)
        return (lambda v: g @ v), (lambda u: g.rmatmat(u) if hasattr(g, "rmatmat") else g.conj().T @ u)

    def blocks(self, X: FixedRank) -> tuple[Array, Array] | None:
        """What A*A does to a row of L in ``L V^H`` and to a row of R in ``U R^H``: n1 and n2 small Hermitian matrices.

        Returns arrays of shapes (n1, r, r) and (n2, r, r), to be multiplied from the right: they precondition second order
        methods. None where there is nothing cheap to say.
        """
        return None

    def sweeps_pay(self, rank: int) -> bool:
        """Whether sweeps of alternating least squares are the fast way at that rank: they cost little more than a step of
        descent, and nearly all rows and columns were seen often enough to be fitted on their own.
        """
        return False

    def counts(self) -> tuple[Array, Array] | None:
        """How many measurements see each row and each column of X, where a measurement sees one of each; else None.

        They say how much a solver may trust each row: see :class:`~lorank.metrics.Counts`.
        """
        return None

    def split(self, rng: np.random.Generator, share: float) -> tuple[Problem, Problem]:
        """The problem on all measurements but a random ``share`` of them, and the problem on those."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot hold measurements back (it has no method split): give the rank as a number"
        )

    def dof(self, rank: Any) -> int:
        """Degrees of freedom of a rank-``rank`` matrix of this shape."""
        return self.manifold.dof(self.shape, rank)

    def zero(self, rank: Any) -> FixedRank:
        """The point zero."""
        return self.manifold.zero(self.shape, rank, self.dtype, self.backend)

    def check_rank(self, rank: Any) -> Any:
        """The rank as an int, or a ValueError that says what is wrong with it; warns when data are too few for it."""
        rank = self.manifold.check_rank(rank, self.shape)
        if self.m < self.dof(rank):
            are = "is" if self.m == 1 else "are"
            warnings.warn(
                f"{counted(self.m, 'measurement')} {are} fewer than the {self.dof(rank):,} degrees of freedom of a rank-{rank} "
                f"matrix of this shape: many matrices fit; lower the rank or measure more",
                stacklevel=3,
            )
        return rank

    def check_scale(self) -> None:
        """A ValueError where the squares of the measurements would leave the range of their dtype."""
        top = self.largest
        low, high = (1e-15, 1e15) if np.finfo(self.dtype).bits == 32 else (1e-120, 1e120)
        if top and not low <= top <= high:
            raise ValueError(
                f"the largest measurement is {top:.1e} in size, and {self.dtype} computes safely from {low:.0e} to {high:.0e}: "
                f"divide the measurements by {top:.0e} first, and multiply the result by it"
            )

    def misfit(self, X: FixedRank, learned: Datafit | None = None) -> float:
        """``sqrt(2 f)`` at X, without any penalty: what fits are compared by, ``|A X - y|`` in plain least squares.

        ``learned`` is the datafit of a fit to other data, with what it learned there.
        """
        return self.gradient(X).residual_norm

    def unweighted(self) -> Problem:
        """The same measurements without weights: what can be fitted exactly does not depend on them."""
        return self

    def restrict(self, X: FixedRank) -> FixedRank:
        """X without what the measurements cannot see at all (nothing, unless a model says otherwise)."""
        return X

    def signal(self, X: FixedRank) -> Array | None:
        """What X stands for, where a model looks for something else than a matrix; None otherwise."""
        return None

    def balanced(self) -> Balanced | None:
        """The problem in units in which rows and columns are alike in size; None where there is no such thing, or no need."""
        return None

    def fingerprint(self) -> str:
        """A number that differs where problems differ: of the measurements, and of what a probe measures."""
        found = hashlib.sha256()
        found.update(f"{type(self).__name__} {self.shape} {self.dtype} {self.datafit!r}".encode())
        found.update(np.ascontiguousarray(self.backend.to_numpy(self.y)).tobytes())
        self._add_pattern(found)
        return found.hexdigest()

    def _add_pattern(self, found: Any) -> None:
        """What A is, as far as one can tell from outside."""
        if len(self.shape) == 2:
            rng = np.random.default_rng(0)
            left, right = (self.backend.random_normal(rng, (n, 1), self.dtype) for n in self.shape)
            size = self.backend.norm(self.forward(left, right))
            found.update(f"{size:.6e}".encode())  # rounded: the last bits may differ from machine to machine

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        return f"{type(self).__name__}({size}, {counted(self.m, 'measurement')}, {self.dtype}, {self.backend.name})"


@dataclass(frozen=True)
class Single:
    """A problem for ``X / unit`` in single precision, which has the same solutions to about seven digits."""

    problem: Problem
    unit: float

    def into(self, X: FixedRank) -> FixedRank:
        """X in single precision, in the unit of that problem."""
        return X.astype(self.problem.dtype, 1 / self.unit)

    def back(self, X: FixedRank, dtype: Any) -> FixedRank:
        """X in the unit of the data and in their dtype."""
        return X.astype(dtype, self.unit)


@dataclass(frozen=True)
class Balanced:
    """A problem for ``diag(rows)^-1 X diag(cols)^-1`` that has the same exact solutions."""

    problem: Problem
    rows: Array
    cols: Array

    def into(self, X: FixedRank) -> FixedRank:
        """X in the balanced problem's units."""
        return X.scaled(1 / self.rows, 1 / self.cols)

    def back(self, X: FixedRank) -> FixedRank:
        """X in the units of the data."""
        return X.scaled(self.rows, self.cols)
