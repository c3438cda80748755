"""Tensor completion from observed entries, and the gradient of its objective."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..backends import Array, Backend, Vector, backend_of, get_backend
from ..backends.tensor_observations import slice_order
from ..common.checks import ParameterError, check, one_of
from ..geometry import TRAIN, TUCKER, Tucker, TuckerTangent
from ..losses import Loss, Objective, resolve_loss
from ..problems import GradientBase, Problem
from .train import TrainGradient
from .unfolding import Unfolding

MIN_OVERSAMPLING = 4.0  # observations per degree of freedom for the noise test


@dataclass(frozen=True)
class Format:
    """What a representation of tensors brings to the model."""

    manifold: Any  # a Manifold
    gradient: Callable[[TensorCompletion, Any], GradientBase]
    observations: Callable[[Backend, np.ndarray, Sequence[int]], Any]
    start: Callable[[], Any]
    unfoldings: Callable[[int], list[tuple[int, ...]]]  # the modes of the rows of each unfolding of low rank


class TensorCompletion(Problem):
    """Tensor completion: observed entries of a tensor of order 3 or more and low rank.

    X is a :class:`~lorank.Tucker` tensor of low multilinear rank or, with ``format="train"``, a :class:`~lorank.TensorTrain`,
    whose number of parameters grows linearly in the order: trains are for orders of four and more. Nothing of the size of the
    whole tensor is formed: a pass costs about ``r^2`` multiplications per observation, and for trains as many for each mode.

    Parameters
    ----------
    indices : (m, d) integer array, or d arrays of length m
        Indices of the observed entries, from 0: one column or array per mode.
    values : (m,) array
        Real. float32 keeps its precision, integers become float64. A torch tensor selects its device.
    shape : tuple of int, optional
        Shape of X; by default just large enough for the indices.
    weights : (m,) array, optional
        Nonnegative weights of the observations, for example inverse variances.
    loss : str or Loss
        As in :class:`~lorank.Completion`, without ``"robust"``.
    format : {"tucker", "train"}
        The rank in :func:`~lorank.solve` is a number, or one per mode (Tucker), or one for each pair of neighbouring modes
        (train).
    backend : {"native", "numpy", "torch", "torch:cuda"}, optional
        Trains have no PyTorch backend.

    Attributes
    ----------
    indices : (m, d) array
        Of the observations in the order of ``y``, which is not the given one.

    Raises
    ------
    ParameterError
        For indices, values, shape or weights that are invalid, and for repeated indices; the message names the first one.

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> problem, truth = lr.datasets.random_tensor((20, 18, 16), rank=2, oversampling=15)
    >>> result = lr.solve(problem, rank=2)
    >>> result.converged, truth.distance(result.X) < 1e-4 * truth.norm()
    (True, True)

    A tensor train of order 5:

    >>> problem, truth = lr.datasets.random_tensor((8,) * 5, rank=2, oversampling=8, factors="uniform", format="train")
    >>> lr.solve(problem, rank=2).X
    TensorTrain(8 x 8 x 8 x 8 x 8, rank (2, 2, 2, 2), float64)
    """

    def __init__(
        self,
        indices: Any,
        values: Any,
        shape: Sequence[int] | None = None,
        *,
        weights: Any = None,
        loss: str | Loss = "squares",
        format: Literal["tucker", "train"] = "tucker",
        backend: str | Backend | None = None,
    ) -> None:
        check("format", format, one_of(tuple(FORMATS)))
        found = get_backend(backend, values)
        index, y = _index_array(indices), _values(values, "values")
        if len(index) != len(y):
            raise ParameterError("values", f"must have one number per observation: got {len(y):,} for {len(index):,} indices")
        shape = _shape(shape, index)
        w = None if weights is None else _values(weights, "weights")
        if w is not None and (len(w) != len(y) or (w < 0).any() or not w.any()):
            raise ParameterError("weights", "must be one nonnegative number per observation, not all zero")
        order = slice_order(index, shape)
        index = index[order]
        same = np.flatnonzero((index[1:] == index[:-1]).all(1))
        if len(same):
            k = int(same[0])
            raise ParameterError("indices", f"repeat {tuple(index[k].tolist())}, observations {order[k]} and {order[k + 1]}")
        self.indices, self.loss = index, resolve_loss(loss)
        self.format: Literal["tucker", "train"] = format
        self._format = FORMATS[format]
        self.manifold = self._format.manifold
        y = y[order]
        if self.loss is not None:
            y, self.loss = self.loss.prepare(y, get_backend("numpy"))
        w = None if w is None else found.asarray(w[order])
        objective = Objective(weights=w) if self.loss is None else Objective(self.loss, w)
        super().__init__(found.asarray(y), shape, operator_scale=len(y) / math.prod(shape), backend=found, objective=objective)
        self.observations = self._format.observations(found, index, shape)

    @classmethod
    def from_dense(cls, a: Any, **options: Any) -> TensorCompletion:
        """The problem whose observations are the entries of a dense tensor that are not nan; options as in the class.

        Examples
        --------
        >>> import numpy as np, lorank as lr
        >>> a = np.einsum("i,j,k->ijk", *(np.arange(1.0, n + 1) for n in (6, 5, 4)))
        >>> a[::2, ::2, ::2] = np.nan
        >>> result = lr.solve(lr.TensorCompletion.from_dense(a), rank=1)
        >>> bool(abs(result.X.to_dense()[4, 2, 2] - 5 * 3 * 3) < 1e-3)
        True
        """
        a = np.asarray(a)
        if a.dtype.kind not in "fiu":
            raise ParameterError("a", f"must hold real numbers, got {a.dtype}")
        observed = np.argwhere(~np.isnan(a))
        return cls(observed, a[tuple(observed.T)], a.shape, **options)

    def gradient(self, X: Any) -> Any:
        return self._format.gradient(self, X)

    def remark(self) -> str:
        """Which indices have no observations: their entries of X are 0."""
        empty = [np.flatnonzero(self.backend.to_numpy(c) == 0) for c in self.counts()]
        parts = [f"{len(k):,} of mode {mode} (the first is {k[0]})" for mode, k in enumerate(empty) if len(k)]
        return f"Indices without observations, whose entries are 0: {', '.join(parts)}." if parts else ""

    def counts(self) -> tuple[Array, ...]:
        """Numbers of observations of each index, one array per mode."""
        ones = self.y * 0 + 1
        return tuple(self.observations.mode_sums(k, ones) for k in range(len(self.shape)))

    def split(self, rng: np.random.Generator, share: float) -> tuple[TensorCompletion, TensorCompletion]:
        held = rng.random(self.m) < share
        return self._rebuilt(~held, self.backend), self._rebuilt(held, self.backend)

    def initial_point(self, rank: Sequence[int], rng: np.random.Generator) -> Any:
        """The point of :class:`~lorank.tensors.TensorStart` or :class:`~lorank.tensors.TrainStart`."""
        return self._format.start()(self, rank, rng)

    @functools.cached_property
    def unfoldings(self) -> list[Unfolding]:
        """The unfoldings of ``A* p`` for spectral initial points and the noise test: one per mode, or per split of them."""
        return [Unfolding(self, modes) for modes in self._format.unfoldings(len(self.shape))]

    def spectral_norm(self, p: Vector) -> float:
        """The largest spectral norm of the unfoldings of ``A* p``, by their Gram matrices without diagonals."""
        largest = [float(one.leading(p, 1)[0][0]) for one in self.unfoldings]
        return math.sqrt(max(0.0, *largest))

    def noise_is_testable(self, rank: Any, residual: float) -> bool:
        """With four observations per degree of freedom; with three, residuals of too low a rank looked like noise."""
        return self.m >= MIN_OVERSAMPLING * self.dof(rank)

    def _rebuilt(self, flags: Any, backend: Backend) -> TensorCompletion:
        """The problem on these observations, on that backend."""
        to_numpy, w = self.backend.to_numpy, self.objective.weights
        return TensorCompletion(
            self.indices[flags],
            to_numpy(self.y)[flags],
            self.shape,
            weights=None if w is None else to_numpy(w)[flags],
            loss="squares" if self.loss is None else self.loss,
            format=self.format,
            backend=backend,
        )

    def _moved(self, backend: Backend) -> TensorCompletion:
        return self._rebuilt(slice(None), backend)

    def _hash_operator(self, found: Any) -> None:
        found.update(np.ascontiguousarray(self.indices, np.int64).tobytes())


class TensorGradient(GradientBase):
    """``G = A* slope`` at a Tucker point by its products with the factors, computed on first use."""

    problem: TensorCompletion
    X: Tucker

    # -- the forward map ---------------------------------------------------------------------------------------------------
    @functools.cached_property
    def outer(self) -> Array:
        """Kronecker products of the rows of the outer factors, one row per slice."""
        return self.problem.observations.outer_products(self._of(self.X.factors, self.problem.observations.outer))

    @functools.cached_property
    def slices(self) -> Array:
        """The core times the outer factors: one matrix of the inner modes per slice."""
        backend = self.problem.backend
        return backend.asarray(backend.product(self.outer, self._core(self.X.core).T))

    @functools.cached_property
    def residual(self) -> Vector:
        U, V = self._of(self.X.factors, self.problem.observations.inner)
        return self.problem.observations.values(U, V, self.slices) - self.problem.y

    def image(self, xi: TuckerTangent) -> Vector:
        """``A xi`` for a tangent vector at X: one pass with the factors [U, dU] and [V, dV]."""
        observations, backend = self.problem.observations, self.problem.backend
        factors, changes = self._of(self.X.factors, observations.outer), self._of(xi.factors, observations.outer)
        moved = backend.product(self.outer, self._core(xi.core).T)
        for k in range(len(factors)):
            products = observations.outer_products([*factors[:k], changes[k], *factors[k + 1 :]])
            moved = moved + backend.product(products, self._core(self.X.core).T)
        moved = backend.asarray(moved)
        pairs = zip(self._of(self.X.factors, observations.inner), self._of(xi.factors, observations.inner), strict=True)
        (U, dU), (V, dV) = (backend.asarrays(*pair) for pair in pairs)
        a, b, n = U.shape[1], V.shape[1], len(moved)
        still = self.slices.reshape(n, a, b)
        top = backend.concat([moved.reshape(n, a, b), still], axis=2)
        bottom = backend.concat([still, 0 * still], axis=2)
        both = backend.concat([top, bottom], axis=1).reshape(n, -1)
        return observations.values(backend.concat([U, dU]), backend.concat([V, dV]), both)

    # -- products of G -------------------------------------------------------------------------------------------------------
    @functools.cached_property
    def _adjoint(self) -> tuple[Array, Array, Array]:
        return self._adjoint_of(self.dual)

    @functools.cached_property
    def core(self) -> np.ndarray:
        """``G x_1 U_1^T ... x_d U_d^T``."""
        return self._core_of(self._adjoint[2])

    def adjoint_core(self, p: Vector) -> np.ndarray:
        """``(A* p) x_1 U_1^T ... x_d U_d^T``."""
        return self._core_of(self._adjoint_of(p)[2])

    def _adjoint_of(self, p: Vector) -> tuple[Array, Array, Array]:
        U, V = self._of(self.X.factors, self.problem.observations.inner)
        return self.problem.observations.adjoint(p, U, V, self.slices)

    def _core_of(self, of_slices: Array) -> np.ndarray:
        found = self.problem.backend.gram(of_slices, self.outer)  # (a b, product of the outer ranks)
        order = (*self.problem.observations.inner, *self.problem.observations.outer)
        return found.reshape([self.X.rank[k] for k in order]).transpose(np.argsort(order))

    @functools.cached_property
    def modes(self) -> list[Array]:
        """For each mode k ``unfold(G x_(j != k) U_j^T, k) unfold(C, k)^T``."""
        observations = self.problem.observations
        of_i, of_j, of_slices = self._adjoint
        found: dict[int, Array] = dict(zip(observations.inner, (of_i, of_j), strict=True))
        backend = self.problem.backend
        changes = backend.asarray(backend.product(of_slices, self._core(self.X.core)))
        of_outer = observations.outer_adjoint(changes, self._of(self.X.factors, observations.outer))
        found |= dict(zip(observations.outer, of_outer, strict=True))
        return [found[k] for k in range(len(self.X.factors))]

    @functools.cached_property
    def squared_norms(self) -> tuple[Array, ...]:
        """For each mode the squared norms of the slices of G."""
        squares = self.dual * self.dual
        return tuple(self.problem.observations.mode_sums(k, squares) for k in range(len(self.X.factors)))

    def _core(self, core: np.ndarray) -> np.ndarray:
        """A core as a matrix: inner modes as rows, outer modes as columns."""
        observations = self.problem.observations
        inner = math.prod(core.shape[k] for k in observations.inner)
        return core.transpose((*observations.inner, *observations.outer)).reshape(inner, -1)

    @staticmethod
    def _of(factors: Sequence[Array], modes: Sequence[int]) -> list[Array]:
        return [factors[k] for k in modes]


def _tensor_start() -> Any:
    from .start import TensorStart  # circular import

    return TensorStart()


def _train_start() -> Any:
    from .train_start import TrainStart  # circular import

    return TrainStart()


FORMATS = {
    "tucker": Format(
        TUCKER,
        TensorGradient,
        lambda backend, index, shape: backend.make_tensor_observations(index, shape),
        _tensor_start,
        lambda d: [(k,) for k in range(d)],
    ),
    "train": Format(
        TRAIN,
        TrainGradient,
        lambda backend, index, shape: backend.make_train_observations(index, shape),
        _train_start,
        lambda d: [tuple(range(k)) for k in range(1, d)],
    ),
}


def _index_array(indices: Any) -> np.ndarray:
    """Indices as an (m, d) array of int64."""
    if isinstance(indices, (list, tuple)) and indices and all(np.ndim(_host(one)) == 1 for one in indices):
        lengths = {len(one) for one in indices}
        if len(lengths) == 1 and len(indices) != next(iter(lengths)):
            indices = np.stack([_host(one) for one in indices], axis=1)
    index = np.asarray(_host(indices))
    if index.ndim != 2 or index.shape[1] < 3:
        raise ParameterError(
            "indices", f"must have three columns or more, one per mode (matrices: lorank.Completion), got shape {index.shape}"
        )
    if not len(index):
        raise ParameterError("indices", "must not be empty")
    if index.dtype.kind not in "iu":
        raise ParameterError("indices", f"must be integers, got {index.dtype}")
    return index.astype(np.int64)


def _values(a: Any, name: str) -> np.ndarray:
    a = np.asarray(_host(a))
    if a.ndim != 1 or a.dtype.kind not in "fiu":
        raise ParameterError(name, f"must be a vector of real numbers, got shape {a.shape} of {a.dtype}")
    bad = np.flatnonzero(~np.isfinite(a))
    if len(bad):
        raise ParameterError(name, f"[{bad[0]}] = {a[bad[0]]} is not finite: leave out missing entries")
    return a if a.dtype in (np.float32, np.float64) else a.astype(np.float64)


def _shape(shape: Sequence[int] | None, index: np.ndarray) -> tuple[int, ...]:
    low, high = index.min(0), index.max(0)
    if shape is None:
        found = tuple(int(n) + 1 for n in high)
    else:
        found = tuple(int(n) for n in shape)
        if len(found) != index.shape[1]:
            raise ParameterError("shape", f"must have {index.shape[1]} modes as the indices have, got {shape!r}")
    for k, n in enumerate(found):
        if low[k] < 0 or high[k] >= n:
            at = int(np.flatnonzero((index[:, k] < 0) | (index[:, k] >= n))[0])
            raise ParameterError("indices", f"[{at}, {k}] = {index[at, k]} is outside 0 .. {n - 1}")
    return found


def _host(a: Any) -> Any:
    """A tensor of torch as a NumPy array."""
    return backend_of(a).to_numpy(a) if hasattr(a, "detach") else a
