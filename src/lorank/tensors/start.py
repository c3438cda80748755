"""Initial points of tensor completion: a spectral one, and one of growing ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from ..common.checks import Checked, parameter, whole
from ..geometry import TUCKER, Tucker, TuckerManifold, TuckerTangent
from ..loop.runner import Run, run
from ..loop.stopping import Iterations
from ..metrics import Counts
from ..solvers import RCG
from .problem import TensorCompletion

FAST = 0.6  # ratio of successive residuals below which a spectral point converges fast enough
RIDGE = 1e-3  # of the least squares problem for the core, in units of operator_scale
CORE_STEPS, CORE_TOL = 25, 1e-6


@dataclass(frozen=True)
class TensorStart(Checked):
    """The better of a spectral point and a point of growing ranks, each after a few conjugate gradient steps.

    Where the spectral point converges fast, the other one is not computed.

    The spectral point has the leading eigenvectors of the Gram matrices of the unfoldings without their diagonals, which hold
    the noise of the sampling, and a core by least squares; it is better for factors with zero mean. Growing ranks begin with 1
    and add directions of the residual; they are better where one direction dominates.

    Parameters
    ----------
    steps : int
        Conjugate gradient steps at each rank.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_tensor((20, 18, 16), rank=2, oversampling=15)
    >>> result = lr.solve(problem, rank=2, start=lr.tensors.TensorStart(steps=3))
    >>> result.converged
    True
    """

    steps: int = parameter(5, whole(1))

    needs: ClassVar[tuple[type, ...]] = (TuckerManifold,)

    def __call__(self, problem: TensorCompletion, rank: Sequence[int], rng: np.random.Generator) -> Tucker:
        first = self._run(problem, spectral(problem, rank))
        last = first.history.residual[-2:]
        if last[-1] < FAST * last[0]:
            return cast(Any, first.point())
        return min([cast(Any, first.point()), self._grown(problem, rank)], key=problem.objective_root)

    def _run(self, problem: TensorCompletion, X: Any) -> Run:
        return run(problem, RCG(Counts()), X, Iterations(self.steps))

    def _grown(self, problem: TensorCompletion, rank: Sequence[int]) -> Tucker:
        size = 1
        X = spectral(problem, TUCKER.check_rank(1, problem.shape))
        while True:
            X = cast(Any, self._run(problem, X).point())
            if X.rank == tuple(rank):
                return X
            size += max(1, size // 2)
            X = enlarged(problem, X, [min(r, size) for r in rank])


def spectral(problem: TensorCompletion, rank: Sequence[int]) -> Tucker:
    """The spectral point."""
    return with_core(problem, [problem.unfoldings[k].leading(problem.y, r)[1] for k, r in enumerate(rank)])


def enlarged(problem: TensorCompletion, X: Tucker, rank: Sequence[int]) -> Tucker:
    """The point with leading directions of the residual added to each factor, and a new core."""
    residual = -problem.gradient(X).residual
    factors = []
    for k, (u, r) in enumerate(zip(X.numpy().factors, rank, strict=True)):
        more = r - u.shape[1]
        factors.append(np.hstack([u, problem.unfoldings[k].leading(residual, more, u)[1]]) if more else u)
    return with_core(problem, factors)


def with_core(problem: TensorCompletion, factors: Sequence[np.ndarray]) -> Tucker:
    """The point in the span of these factors that fits best, by conjugate gradients on the core with a small ridge."""
    backend = problem.backend
    bases = [backend.asarray(np.linalg.qr(u)[0].astype(problem.dtype)) for u in factors]
    X = Tucker(np.zeros([u.shape[1] for u in factors], problem.dtype), bases, backend)
    G = problem.gradient(X)
    still = [0 * u for u in bases]
    ridge = RIDGE * problem.operator_scale

    def normal(core: np.ndarray) -> np.ndarray:
        image = G.image(TuckerTangent(X, core, still))
        image = image if G.curvature is None else G.curvature * image
        return G.adjoint_core(image) + ridge * core

    core = np.zeros(X.rank, problem.dtype)
    residual = direction = -G.core
    square = first = float(np.vdot(residual, residual))
    for _ in range(CORE_STEPS):
        if square <= CORE_TOL * first:
            break
        image = normal(direction)
        alpha = square / float(np.vdot(direction, image))
        core, residual = core + alpha * direction, residual - alpha * image
        square, last = float(np.vdot(residual, residual)), square
        direction = residual + square / last * direction
    if not math.isfinite(square):
        core = np.zeros_like(core)
    return Tucker(core, bases, backend)
