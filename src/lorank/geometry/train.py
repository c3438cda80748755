"""Tensors of fixed tensor-train rank: points, tangent vectors, Riemannian gradient, retraction and transport.

A tensor train of order d is ``X[i_1, ..., i_d] = A_1[i_1] A_2[i_2] ... A_d[i_d]``: the core A_k has shape (r_(k-1), n_k, r_k),
with ``r_0 = r_d = 1``. U_k are cores whose (r_(k-1) n_k, r_k) matrices have orthonormal columns, V_k cores whose
(r_(k-1), n_k r_k) matrices have orthonormal rows. Cores are small NumPy arrays for every backend.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ..backends import Array, Arrays, get_backend
from ..common.checks import ParameterError
from .manifold import WeightedManifold
from .tucker import index_arrays
from .weights import Weights

Cores = Sequence[np.ndarray]


class TensorTrain:
    """Tensor train (matrix product state): one core of order 3 for each mode.

    ``X[i, j, ..., k] = A_1[:, i, :] A_2[:, j, :] ... A_d[:, k, :]``. Its rank is a tuple of d - 1 numbers: the ranks of the
    matrices whose rows are the first k modes and whose columns are the others.

    Parameters
    ----------
    cores : sequence of arrays
        Of shapes (1, n_1, r_1), (r_1, n_2, r_2), ..., (r_(d-1), n_d, 1). They are changed to equivalent cores, all but the last
        with orthonormal columns as (r_(k-1) n_k, r_k) matrices.

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> rng = np.random.default_rng(0)
    >>> X = lr.TensorTrain([rng.standard_normal(shape) for shape in [(1, 6, 2), (2, 5, 3), (3, 4, 2), (2, 7, 1)]])
    >>> X
    TensorTrain(6 x 5 x 4 x 7, rank (2, 3, 2), float64)
    >>> bool(np.isclose(X.entries([5], [0], [2], [6])[0], X.to_dense()[5, 0, 2, 6]))
    True
    """

    def __init__(self, cores: Sequence[Any]) -> None:
        self.cores = tuple(_left_orthogonal(_checked(cores)))

    @classmethod
    def from_orthogonal(cls, cores: Cores) -> TensorTrain:
        """The point with these cores, all but the last orthogonal already."""
        X = cls.__new__(cls)
        X.cores = tuple(cores)
        return X

    @classmethod
    def from_dense(cls, a: np.ndarray, rank: int | Sequence[int]) -> TensorTrain:
        """The truncated TT-SVD of a dense tensor, a quasi-optimal approximation of that rank."""
        a = np.asarray(a, np.result_type(a, np.float32))
        if a.ndim < 3:
            raise ParameterError("a", f"must be a tensor of order 3 or more, got {a.ndim} modes")
        return cls.from_orthogonal(train_svd(a[None, ..., None], TRAIN.check_rank(rank, a.shape)))

    @property
    def manifold(self) -> TrainManifold:
        """The manifold that the point belongs to."""
        return TRAIN

    @property
    def backend(self) -> Arrays:
        """The backend of the cores, NumPy."""
        return get_backend("numpy")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(core.shape[1] for core in self.cores)

    @property
    def rank(self) -> tuple[int, ...]:
        """The tensor-train rank: one number for each pair of neighbouring modes."""
        return tuple(core.shape[2] for core in self.cores[:-1])

    @property
    def dtype(self) -> np.dtype:
        return self.cores[0].dtype

    @functools.cached_property
    def right(self) -> tuple[np.ndarray, ...]:
        """The cores V_k; the first of them, which has no use, holds the norm."""
        return self._centred[0]

    @functools.cached_property
    def centres(self) -> tuple[np.ndarray, ...]:
        """The cores C_k with ``X = U_1 ... U_(k-1) C_k V_(k+1) ... V_d``."""
        return self._centred[1]

    @functools.cached_property
    def _centred(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        right, centres, last = [], [], np.ones((1, 1), self.dtype)
        for core in reversed(self.cores):
            centre = core @ last
            v, last = _right_factor(centre)
            right.append(v)
            centres.append(centre)
        right[-1] = centres[-1]
        return tuple(right[::-1]), tuple(centres[::-1])

    def singular_values(self) -> list[np.ndarray]:
        """Singular values of the matrices whose rows are the first k modes, for k = 1, ..., d - 1."""
        return [np.linalg.svd(_tall(c), compute_uv=False)[: c.shape[2]] for c in self.centres[:-1]]

    def numpy(self) -> TensorTrain:
        """The point itself: its cores are NumPy arrays."""
        return self

    def norm(self) -> float:
        """Frobenius norm."""
        return float(np.linalg.norm(self.cores[-1]))

    def is_finite(self) -> bool:
        return all(bool(np.isfinite(core).all()) for core in self.cores)

    def padded(self, rank: Any) -> TensorTrain:
        """The point itself: its rank does not change during a run."""
        return self

    def to_dense(self) -> np.ndarray:
        """The dense tensor."""
        return dense_train(self.cores)

    def entries(self, *indices: Any) -> np.ndarray:
        """The entries at the index tuples ``(indices[0][p], ..., indices[d-1][p])``."""
        found = index_arrays(indices, self.shape)
        out = np.empty(len(found[0]), self.dtype)
        step = max(1, (1 << 22) // max(core.shape[0] * core.shape[2] for core in self.cores))
        for first in range(0, len(out), step):
            part = slice(first, first + step)
            rows = np.ones((len(out[part]), 1), self.dtype)
            for core, index in zip(self.cores, found, strict=True):
                rows = np.einsum("pa,pab->pb", rows, core.transpose(1, 0, 2)[index[part]])
            out[part] = rows[:, 0]
        return out

    def distance(self, other: TensorTrain) -> float:
        """``|X - Y|_F``, from orthogonal cores of the difference, so that squares do not cancel."""
        last = [np.concatenate([self.cores[-1], -other.cores[-1]])]
        return TensorTrain(_side_by_side(self.cores, other.cores) + last).norm()

    def __repr__(self) -> str:
        return f"TensorTrain({' x '.join(map(str, self.shape))}, rank {self.rank}, {self.dtype})"


class TrainCotangent(Protocol):
    """An ambient gradient G at a tensor train, by the products that its projection needs."""

    @property
    def cores(self) -> Cores:
        """For each mode k the (r_(k-1), n_k, r_k) products of G with ``U_1 ... U_(k-1)`` and ``V_(k+1) ... V_d``."""


class TrainTangent:
    """``xi = sum_k U_1 ... U_(k-1) D_k V_(k+1) ... V_d`` with ``U_k^T D_k = 0`` for all modes but the last."""

    def __init__(self, X: TensorTrain, cores: Cores) -> None:
        self.X, self.cores = X, tuple(cores)

    @classmethod
    def project(cls, X: TensorTrain, cores: Cores) -> TrainTangent:
        """The tangent vector of any cores: parts of D_k in the span of U_k are moved into the next one."""
        found, more = [], np.zeros((1, 1), X.dtype)
        for u, v, core in zip(X.cores, X.right, cores, strict=True):
            core = core + _times(more, v)
            more = _tall(u).T @ _tall(core)
            found.append(core - u @ more)
        return cls(X, [*found[:-1], core])

    def train(self) -> list[np.ndarray]:
        """The cores of xi as a tensor train of twice the rank."""
        return _tangent_train(self.X, self.cores, self.cores[-1])

    def __mul__(self, c: float) -> TrainTangent:
        return TrainTangent(self.X, [float(c) * core for core in self.cores])

    __rmul__ = __mul__

    def __add__(self, other: TrainTangent) -> TrainTangent:
        return TrainTangent(self.X, [a + b for a, b in zip(self.cores, other.cores, strict=True)])

    def __sub__(self, other: TrainTangent) -> TrainTangent:
        return self + -other

    def __neg__(self) -> TrainTangent:
        return -1.0 * self

    def norm(self) -> float:
        """Frobenius norm: the terms of xi are orthogonal."""
        return math.sqrt(sum(float(np.linalg.norm(core)) ** 2 for core in self.cores))

    def inner(self, G: TrainCotangent) -> float:
        """``<G, xi>``: the slope along xi where G is the gradient."""
        return sum(float(np.vdot(a, b)) for a, b in zip(G.cores, self.cores, strict=True))


class TrainProducts:
    """The products of a tensor train, given by its cores, with the point X: a :class:`TrainCotangent`."""

    def __init__(self, X: TensorTrain, train: Cores) -> None:
        left, right = [np.ones((1, 1), X.dtype)], [np.ones((1, 1), X.dtype)]
        for u, z in zip(X.cores[:-1], train, strict=False):
            left.append(_tall(u).T @ _tall(_times(left[-1], z)))
        for v, z in zip(X.right[:0:-1], train[::-1], strict=False):
            right.append(_wide(z @ right[-1]) @ _wide(v).T)
        self.cores = [_times(e, z) @ f for e, z, f in zip(left, train, reversed(right), strict=True)]


class _Transport:
    """Transport by orthogonal projection to the tangent space at X."""

    def __init__(self, old: TensorTrain, X: TensorTrain) -> None:
        self.old, self.X = old, X

    def vector(self, xi: TrainTangent) -> TrainTangent:
        return TRAIN.gradient(self.X, TrainProducts(self.X, xi.train()), Weights())

    def slope(self, xi: TrainTangent, G: TrainCotangent) -> float:
        return self.vector(xi).inner(G)


class TrainManifold(WeightedManifold):
    """Tensors of fixed tensor-train rank.

    Examples
    --------
    >>> TRAIN.check_rank(5, (3, 100, 100, 100)), TRAIN.dof((10, 10, 10, 10), (2, 3, 2), float)
    ((3, 5, 5), 143)
    """

    hermitian = False

    def check_rank(self, rank: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One rank for each pair of neighbouring modes; a single number stands for all, as far as the modes admit it."""
        d = len(shape)
        if isinstance(rank, (int, np.integer)) and not isinstance(rank, bool):
            top = max(min(math.prod(shape[:k]), math.prod(shape[k:])) for k in range(1, d))
            if not 1 <= rank <= top:
                raise ParameterError("rank", f"must lie between 1 and {top} for a train of shape {tuple(shape)}: got {rank}")
            return tuple(min(int(rank), math.prod(shape[:k]), math.prod(shape[k:])) for k in range(1, d))
        if not isinstance(rank, Sequence) or isinstance(rank, str) or len(rank) != d - 1:
            raise ParameterError(
                "rank",
                f"of a train must be an integer, or {d - 1} integers, one for each pair of neighbouring modes: got {rank!r}",
            )
        for k, r in enumerate(rank):
            if isinstance(r, bool) or not isinstance(r, (int, np.integer)) or r < 1:
                raise ParameterError("rank", f"[{k}] must be a positive integer, got {r!r}")
        sides = [1, *rank, 1]
        for k, r in enumerate(rank):
            left, right = sides[k] * shape[k], shape[k + 1] * sides[k + 2]
            if r > min(left, right):
                raise ParameterError(
                    "rank",
                    f"[{k}] = {r} is larger than {min(left, right)}: the rank before it times mode {k} is {left}, mode {k + 1} "
                    f"times the rank after it {right}",
                )
        return tuple(int(r) for r in rank)

    def dof(self, shape: tuple[int, ...], rank: Sequence[int], dtype: Any) -> int:
        sides = [1, *rank, 1]
        return sum(a * n * b for a, n, b in zip(sides, shape, sides[1:], strict=False)) - sum(r * r for r in rank)

    def zero(self, shape: tuple[int, ...], rank: Sequence[int], dtype: Any, backend: Arrays) -> TensorTrain:
        sides = [1, *rank, 1]
        cores = [np.eye(a * n, b, dtype=dtype).reshape(a, n, b) for a, n, b in zip(sides, shape, sides[1:], strict=False)]
        return TensorTrain.from_orthogonal([*cores[:-1], 0 * cores[-1]])

    def check_point(self, X: Any, shape: tuple[int, ...], rank: Sequence[int], dtype: Any, backend: Arrays) -> TensorTrain:
        if not isinstance(X, TensorTrain):
            raise ParameterError("start", f"must be a TensorTrain, got {type(X).__name__}")
        if X.shape != tuple(shape) or X.rank != tuple(rank):
            raise ParameterError("start", f"must have shape {tuple(shape)} and rank {tuple(rank)}, got {X!r}")
        if not X.is_finite():
            raise ParameterError("start", "holds nan or inf")
        return TensorTrain.from_orthogonal([core.astype(dtype) for core in X.cores])

    def gradient(self, X: TensorTrain, G: TrainCotangent, weights: Weights) -> TrainTangent:
        """The Riemannian gradient in the metric ``<Z x_1 W_1 ... x_d W_d, Y>``.

        With the Gram matrices L_k of ``U_1 ... U_k`` and R_k of ``V_k ... V_d`` in the metric it is the tangent vector of the
        cores ``((L_(k-1)^-1, W_k^-1) G_k - U_k L_k^-1 U_k^T G_k) R_(k+1)^-1``, the last one without the second term.
        """
        if not weights.modes:
            cores = [core - u @ (_tall(u).T @ _tall(core)) for u, core in zip(X.cores[:-1], G.cores, strict=False)]
            return TrainTangent(X, [*cores, G.cores[-1]])
        d, one = len(X.cores), np.ones((1, 1), X.dtype)
        left, right = [one], [one]
        for k in range(d - 1):
            u, v = X.cores[k], X.right[d - 1 - k]
            left.append(_tall(u).T @ _tall(_times(left[-1], _along(u, weights.mode(k).apply))))
            right.append(_wide(_along(v, weights.mode(d - 1 - k).apply) @ right[-1]) @ _wide(v).T)
        cores = []
        for k, (u, g) in enumerate(zip(X.cores, G.cores, strict=True)):
            core = _times(np.linalg.inv(left[k]), _along(g, weights.mode(k).solve))
            if k < d - 1:
                core = core - u @ np.linalg.solve(left[k + 1], _tall(u).T @ _tall(g))
            cores.append(core @ np.linalg.inv(right[d - 1 - k]))
        return TrainTangent.project(X, cores)

    def prepare(self, X: Any, G: Any, vectors: Sequence[Any]) -> None:
        pass

    def forget(self, xi: Any) -> None:
        pass

    def retract(self, xi: TrainTangent, alpha: float) -> TensorTrain:
        """The truncated TT-SVD of ``X + alpha xi``, which has twice the rank."""
        X, moved = xi.X, [alpha * core for core in xi.cores]
        return rounded(_tangent_train(X, moved, X.cores[-1] + moved[-1]), X.rank)

    def transport(self, old: TensorTrain, X: TensorTrain) -> _Transport:
        return _Transport(old, X)

    def arrays(self, X: TensorTrain) -> dict[str, Array]:
        return {f"A{k}": core for k, core in enumerate(X.cores)}

    def from_arrays(self, arrays: dict[str, Array], backend: Arrays) -> TensorTrain:
        return TensorTrain.from_orthogonal([np.asarray(arrays[f"A{k}"]) for k in range(len(arrays))])


TRAIN = TrainManifold()


def rounded(cores: Cores, rank: Sequence[int]) -> TensorTrain:
    """The truncated TT-SVD of a tensor train of larger rank; nan where it has nan."""
    if not all(np.isfinite(core).all() for core in cores):
        sides, shape = [1, *rank, 1], [core.shape[1] for core in cores]
        return TensorTrain.from_orthogonal([np.full(one, np.nan) for one in zip(sides, shape, sides[1:], strict=False)])
    right, last = [], np.ones((1, 1), cores[0].dtype)
    for core in reversed(cores[1:]):
        v, last = _right_factor(core @ last)
        right.append(v)
    found, current = [], cores[0] @ last
    for r, v in zip(rank, reversed(right), strict=True):
        u, s, vt = np.linalg.svd(_tall(current), full_matrices=False)
        found.append(u[:, :r].reshape(*current.shape[:2], r))
        current = _times(s[:r, None] * vt[:r], v)
    return TensorTrain.from_orthogonal([*found, current])


def train_svd(a: np.ndarray, rank: Sequence[int]) -> list[np.ndarray]:
    """Cores of the truncated TT-SVD of an array whose first and last axes are the outer sides of the train."""
    cores: list[np.ndarray] = []
    side, shape, end = a.shape[0], a.shape[1:-1], a.shape[-1]
    for r, n in zip(rank, shape, strict=False):
        u, s, vt = np.linalg.svd(a.reshape(side * n, -1), full_matrices=False)
        cores.append(u[:, :r].reshape(side, n, r))
        a, side = s[:r, None] * vt[:r], r
    return [*cores, a.reshape(side, shape[-1], end)]


def dense_train(cores: Cores) -> np.ndarray:
    """The dense tensor of a train."""
    a = cores[0]
    for core in cores[1:]:
        a = np.tensordot(a, core, 1)
    return a.reshape(a.shape[1:-1])


def _tangent_train(X: TensorTrain, changes: Cores, last: np.ndarray) -> list[np.ndarray]:
    """Cores of ``U_1 ... U_(d-1) last + sum_(k < d) U_1 ... changes_k V_(k+1) ... V_d``."""
    cores = [np.concatenate([X.cores[0], changes[0]], axis=2)]
    for u, v, change in zip(X.cores[1:-1], X.right[1:-1], changes[1:-1], strict=True):
        top, bottom = np.concatenate([u, change], axis=2), np.concatenate([0 * u, v], axis=2)
        cores.append(np.concatenate([top, bottom]))
    return [*cores, np.concatenate([last, X.right[-1]])]


def _side_by_side(a: Cores, b: Cores) -> list[np.ndarray]:
    """All but the last core of the sum of two trains."""
    cores = [np.concatenate([a[0], b[0]], axis=2)]
    for x, y in zip(a[1:-1], b[1:-1], strict=True):
        core = np.zeros((len(x) + len(y), x.shape[1], x.shape[2] + y.shape[2]), np.result_type(x, y))
        core[: len(x), :, : x.shape[2]], core[len(x) :, :, x.shape[2] :] = x, y
        cores.append(core)
    return cores


def _left_orthogonal(cores: Cores) -> Iterator[np.ndarray]:
    last = np.ones((1, 1), cores[0].dtype)
    for core in cores[:-1]:
        core = _times(last, core)
        q, last = np.linalg.qr(_tall(core))
        yield q.reshape(*core.shape[:2], -1)
    yield _times(last, cores[-1])


def _right_factor(core: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V and R with orthonormal rows of V and ``core = R V``."""
    q, r = np.linalg.qr(_wide(core).T)
    return np.ascontiguousarray(q.T).reshape(-1, *core.shape[1:]), r.T


def _times(matrix: np.ndarray, core: np.ndarray) -> np.ndarray:
    """The matrix times the first mode of a core."""
    return (matrix @ _wide(core)).reshape(-1, *core.shape[1:])


def _along(core: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A function of (n, columns) arrays along the mode of a core."""
    a, n, b = core.shape
    return function(core.transpose(1, 0, 2).reshape(n, -1)).reshape(n, a, b).transpose(1, 0, 2)


def _tall(core: np.ndarray) -> np.ndarray:
    return core.reshape(-1, core.shape[-1])


def _wide(core: np.ndarray) -> np.ndarray:
    return core.reshape(len(core), -1)


def _checked(cores: Sequence[Any]) -> list[np.ndarray]:
    """Cores as real floating-point arrays of one dtype that fit together."""
    found = [np.asarray(core) for core in cores]
    if len(found) < 3 or any(core.ndim != 3 or core.dtype.kind not in "fiu" or not core.size for core in found):
        shapes = ", ".join(f"{core.shape} of {core.dtype}" for core in found)
        raise ParameterError("cores", f"must be three real arrays or more, each with three axes (r, n, s): got {shapes}")
    sides = [1, *(core.shape[2] for core in found)]
    for k, core in enumerate(found):
        if len(core) != sides[k]:
            raise ParameterError(
                "cores", f"[{k}] has shape {core.shape}, and must begin with {sides[k]}, the end of the one before"
            )
    if sides[-1] != 1:
        raise ParameterError("cores", f"[{len(found) - 1}] has shape {found[-1].shape}, and must end with 1")
    dtype = np.result_type(np.float32, *found)
    return [core.astype(dtype) for core in found]
