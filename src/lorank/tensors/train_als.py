"""Alternating least squares for tensor trains: one core at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backends import Vector
from ..common.checks import POSITIVE, Checked, parameter
from ..geometry import TensorTrain, TrainManifold
from ..loop.solver import Solver
from ..loop.state import State
from .train import TrainGradient

Groups = list[list[np.ndarray]]  # for each index of a mode the positions of its observations, in blocks


@dataclass(frozen=True)
class TrainALS(Checked, Solver):
    """Alternating least squares (ALS) for tensor trains: fit the first core with the others fixed, then the second, and so on.

    An iteration is one sweep, with ``r^4`` operations per observation and core, in products of matrices. It recovers tensors
    from fewer observations than :class:`~lorank.solvers.RCG`, whose iterations cost ``r^2``. Losses other than squares are
    replaced by a quadratic majorizer in each sweep.

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
        return None

    def step(self, problem: Any, state: Any) -> State:
        moved: State = state.next(problem, self.sweep(problem, state.X, state.gradient), 1.0)
        return moved

    def sweep(self, problem: Any, X: TensorTrain, G: TrainGradient) -> TensorTrain:
        """X after one sweep; G is the gradient at X."""
        cores, found, objective = [X.centres[0], *X.right[1:]], [], G.objective
        y, w = problem.y, objective.weights
        if not objective.is_quadratic:
            w, y = objective.majorizer(G.residual, y)
        left, last = np.ones((problem.m, 1), X.dtype), len(cores) - 1
        for k, right in enumerate(G.right_products):
            core = self._fitted(problem.observations.groups(k), left, right, cores[k], y, w)
            if k < last:
                q, r = np.linalg.qr(core.reshape(-1, core.shape[2]))
                core = q.reshape(core.shape)
                cores[k + 1] = np.tensordot(r, cores[k + 1], 1)
                left = problem.observations.chain(k, left, core)
            found.append(core)
        return TensorTrain.from_orthogonal(found)

    def _fitted(
        self, groups: Groups, left: np.ndarray, right: np.ndarray, core: np.ndarray, y: Vector, w: Vector | None
    ) -> np.ndarray:
        """The core of a mode that fits y best, slice by slice: corrections by damped normal equations."""
        core = core.copy()
        for i, blocks in enumerate(groups):
            old, normal, slope = core[:, i, :].ravel(), np.zeros((), core.dtype), np.zeros((), core.dtype)
            for p in blocks:
                terms = (left[p, :, None] * right[p, None, :]).reshape(len(p), -1)
                weighted = terms if w is None else w[p, None] * terms
                normal = normal + terms.T @ weighted
                slope = slope + weighted.T @ (y[p] - terms @ old)
            mean = np.trace(normal) / len(old) if blocks else 0.0
            if not blocks:
                core[:, i, :] = 0.0  # no observation of that index
            elif mean > 0:
                change = np.linalg.solve(normal + self.damping * mean * np.eye(len(old), dtype=core.dtype), slope)
                core[:, i, :] += change.reshape(core.shape[0], -1)
        return core
