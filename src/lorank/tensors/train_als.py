"""Alternating least squares for tensor trains: one core at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backends import Vector
from ..common.checks import POSITIVE, Checked, ParameterError, parameter
from ..geometry import TensorTrain, TrainManifold
from ..loop.solver import Solver
from ..loop.state import State
from .train import TrainGradient


@dataclass(frozen=True)
class TrainALS(Checked, Solver):
    """Alternating least squares (ALS) for tensor trains: fit the first core with the others fixed, then the second, and so on.

    An iteration is one sweep, with ``r^4`` operations per observation and core, in products of matrices. It recovers tensors
    from fewer observations than :class:`~lorank.solvers.RCG`, whose iterations cost ``r^2``. It is for least squares; with
    other losses the default is ``solver="rcg"``.

    Parameters
    ----------
    damping : float
        Added to the normal equations of a slice of a core, relative to their mean diagonal.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_tensor((8, 7, 6, 9), rank=2, oversampling=8, format="train")
    >>> lr.solve(problem, rank=2, solver=lr.tensors.TrainALS()).converged
    True
    """

    damping: float = parameter(1e-8, POSITIVE)

    needs: ClassVar[tuple[type, ...]] = (TrainManifold,)

    def start(self, problem: Any, state: State) -> None:
        if not problem.objective.is_quadratic:
            raise ParameterError(
                "solver", f"TrainALS is for least squares, not for loss={problem.loss.name!r}: use solver='rcg'"
            )

    def step(self, problem: Any, state: Any) -> State:
        moved: State = state.next(problem, self.sweep(problem, state.X, state.gradient), 1.0)
        return moved

    def sweep(self, problem: Any, X: TensorTrain, G: TrainGradient) -> TensorTrain:
        """X after one sweep; G is the gradient at X."""
        cores, found = [X.centres[0], *X.right[1:]], []
        left, last = np.ones((problem.m, 1), X.dtype), len(cores) - 1
        for k, right in enumerate(G.right_products):
            core = self._fitted(problem, k, left, right, cores[k])
            if k < last:
                q, r = np.linalg.qr(core.reshape(-1, core.shape[2]))
                core = q.reshape(core.shape)
                cores[k + 1] = np.tensordot(r, cores[k + 1], 1)
                left = problem.observations.chain(k, left, core)
            found.append(core)
        return TensorTrain.from_orthogonal(found)

    def _fitted(self, problem: Any, k: int, left: Vector, right: Vector, core: np.ndarray) -> np.ndarray:
        """The core of mode k that fits best, slice by slice: corrections by damped normal equations."""
        y, w, core = problem.y, problem.objective.weights, core.copy()
        for i, blocks in enumerate(problem.observations.groups(k)):
            old, normal, slope = core[:, i, :].ravel(), np.zeros((), core.dtype), np.zeros((), core.dtype)
            for p in blocks:
                terms = (left[p, :, None] * right[p, None, :]).reshape(len(p), -1)
                weighted = terms if w is None else w[p, None] * terms
                normal = normal + terms.T @ weighted
                slope = slope + weighted.T @ (y[p] - terms @ old)
            mean = np.trace(normal) / len(old) if blocks else 0.0
            if mean > 0:
                change = np.linalg.solve(normal + self.damping * mean * np.eye(len(old), dtype=core.dtype), slope)
                core[:, i, :] += change.reshape(core.shape[0], -1)
        return core
