"""Initial points of tensor trains: growing ranks, and a spectral one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from ..common.checks import Checked, parameter, whole
from ..geometry import TRAIN, TensorTrain, TrainManifold
from ..geometry.train import train_svd
from ..loop.runner import Run, run
from ..loop.stopping import Iterations
from .problem import TensorCompletion
from .train_als import TrainALS

FAST = 0.6  # ratio of the residuals after and before a block of sweeps below which a point is on its way to the solution
BLOCKS = 6  # blocks of sweeps before the next point is tried
PERTURBATION = 0.1  # norm of the random part of a core of higher rank, relative to the core
SHRINKAGE = 2.0  # observations of the mean that are added to those of each index
MAX_SIDE = 100_000  # rows or columns of an unfolding of a spectral point, or the number of observations


@dataclass(frozen=True)
class TrainStart(Checked):
    """A train of growing ranks or a spectral one: the first whose residual falls fast, or the best after an extrapolation.

    Growing ranks begin with the product of the means of each index, and add small random parts to the cores. They recover
    trains with a dominant direction from few observations. The spectral train has the leading singular vectors of the most
    balanced unfolding, from a Gram matrix without its diagonal, which holds the noise of the sampling; it is better for cores
    with zero mean. It is left out where the unfolding has many more columns than there are observations.

    Parameters
    ----------
    sweeps : int
        Sweeps of :class:`~lorank.tensors.TrainALS` at each rank.
    attempts : int
        Trains of growing ranks, with different random parts.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_tensor((8, 7, 6, 9), rank=2, oversampling=8, format="train")
    >>> result = lr.solve(problem, rank=2, start=lr.tensors.TrainStart(sweeps=8))
    >>> result.converged
    True
    """

    sweeps: int = parameter(5, whole(1))
    attempts: int = parameter(4, whole(1))

    needs: ClassVar[tuple[type, ...]] = (TrainManifold,)

    def __call__(self, problem: TensorCompletion, rank: Sequence[int], rng: np.random.Generator) -> TensorTrain:
        best, least = None, math.inf
        for X in self._candidates(problem, rank, rng):
            for _ in range(BLOCKS):
                ended = self._run(problem, X)
                X, (first, *_, last) = cast(Any, ended.point()), ended.history.residual
                if last < FAST * first:
                    return X
            expected = last * (last / first) ** BLOCKS  # after as many blocks again: slow convergence is no local minimum
            if best is None or expected < least:
                best, least = X, expected
        assert best is not None
        return best

    def _candidates(self, problem: TensorCompletion, rank: Sequence[int], rng: np.random.Generator) -> Iterator[TensorTrain]:
        for attempt in range(self.attempts):
            yield self._grown(problem, rank, rng)
            if attempt == 0 and (X := spectral(problem, rank)) is not None:
                yield X

    def _grown(self, problem: TensorCompletion, rank: Sequence[int], rng: np.random.Generator) -> TensorTrain:
        X = means(problem)
        while X.rank != tuple(rank):
            size = max(X.rank) + 1
            X = enlarged(cast(Any, self._run(problem, X).point()), [min(r, size) for r in rank], rng)
        return X

    def _run(self, problem: TensorCompletion, X: Any) -> Run:
        return run(problem, TrainALS(), X, Iterations(self.sweeps))


def means(problem: TensorCompletion) -> TensorTrain:
    """A train of rank 1: for each mode the means of its indices, shrunk to the mean of all."""
    y, mean = problem.y, float(problem.y.mean())
    cores = []
    for k, n in enumerate(problem.shape):
        sums, counts = problem.observations.mode_sums(k, y), problem.observations.mode_sums(k, y * 0 + 1)
        core = ((sums + SHRINKAGE * mean) / (counts + SHRINKAGE)).reshape(1, n, 1)
        cores.append(core.astype(problem.dtype))
    return scaled(problem, TensorTrain(cores))


def spectral(problem: TensorCompletion, rank: Sequence[int]) -> TensorTrain | None:
    """The spectral train; None where the most balanced unfolding is too large for the number of observations."""
    import scipy.sparse as sp

    shape, d = problem.shape, len(problem.shape)
    sides = [(math.prod(shape[:k]), math.prod(shape[k:])) for k in range(1, d)]
    k = min(range(1, d), key=lambda k: max(sides[k - 1]))
    n1, n2 = sides[k - 1]
    if max(n1, n2) > max(problem.m, MAX_SIDE):
        return None
    unfolding = problem.unfoldings[k - 1]
    vectors = unfolding.leading(problem.y, rank[k - 1])[1]
    if vectors.shape[1] < rank[k - 1]:
        return None
    rows, columns = (np.ravel_multi_index(list(problem.indices[:, part].T), shape[part]) for part in (slice(k), slice(k, d)))
    matrix = sp.csr_array((problem.y, (rows, columns)), (n1, n2))
    basis = vectors
    if unfolding.rows is not None:
        basis = np.zeros((n2 if unfolding.transposed else n1, rank[k - 1]))
        basis[unfolding.rows] = vectors
    basis = np.linalg.qr(basis)[0]
    left, right = (matrix @ basis, basis.T) if unfolding.transposed else (basis, (matrix.T @ basis).T)
    cores = [
        *train_svd(left.reshape(1, *shape[:k], -1), rank[: k - 1]),
        *train_svd(right.reshape(-1, *shape[k:], 1), rank[k:]),
    ]
    return scaled(problem, TensorTrain([core.astype(problem.dtype) for core in cores]))


def enlarged(X: TensorTrain, rank: Sequence[int], rng: np.random.Generator) -> TensorTrain:
    """A train of higher rank near X, with small random parts."""
    rank, cores = TRAIN.check_rank(rank, X.shape), []
    for core, *sides in zip(X.cores, (1, *rank), X.shape, (*rank, 1), strict=True):
        size = PERTURBATION * np.linalg.norm(core) / math.sqrt(core.size)
        more = (size * rng.standard_normal(sides)).astype(X.dtype)
        more[: core.shape[0], :, : core.shape[2]] = core
        cores.append(more)
    return TensorTrain(cores)


def scaled(problem: TensorCompletion, X: TensorTrain) -> TensorTrain:
    """The multiple of X that fits best."""
    image = problem.gradient(X).residual + problem.y
    square = float(image @ image)
    return TensorTrain([*X.cores[:-1], X.cores[-1] * (float(image @ problem.y) / square if square > 0 else 0.0)])
