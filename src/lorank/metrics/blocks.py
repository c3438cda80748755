"""Block-diagonal metric of alternating least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.checks import SHARE, Checked, parameter
from ..geometry import BlockInverses, FixedRank, Weights
from ..problems import Gradient, Problem
from ..problems.capabilities import BlockPreconditioned, supports
from .counts import Counts


@dataclass(frozen=True)
class Blocks(Checked):
    """Rows and columns weighted by their normal equations (:class:`~lorank.geometry.BlockInverses`).

    Near a solution this converges faster than :class:`Counts`, in particular where rows have hardly more observations than the
    rank. Far from a solution it overfits those rows. The blocks are computed at the first point, transformed to later ones, and
    recomputed where the singular subspaces have rotated by more than ``drift``.

    For models without blocks (:class:`~lorank.problems.capabilities.BlockPreconditioned`) the weights are those of
    :class:`Counts`.

    Parameters
    ----------
    drift : float
        Sine of the largest angle, between 0 and 1.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RCG(lr.metrics.Blocks())).converged
    True
    """

    drift: float = parameter(0.3, SHARE)

    def start(self, G: Gradient) -> Weights:
        inverses = block_inverses(G.problem, G.X)
        return Counts().start(G) if inverses is None else Weights(inverse=inverses)

    def weights(self, G: Gradient, memory: Weights) -> tuple[Weights, Weights]:
        if memory.inverse is not None and memory.inverse.drift(G.X) > self.drift:
            memory = self.start(G)
        return memory, memory


def block_inverses(problem: Problem, X: FixedRank, damping: np.ndarray | None = None) -> BlockInverses | None:
    """The inverses of the blocks at X plus a damping, in units of ``1 / operator_scale``; None for models without blocks.

    Parameters
    ----------
    problem : Problem
    X : FixedRank
    damping : (r,) array, optional
        Added to the diagonal of each block, with a small regularization for singular blocks.
    """
    blocks = problem.blocks(X) if supports(problem, BlockPreconditioned) else None
    if blocks is None:
        return None
    backend, single = X.backend, np.finfo(X.dtype).bits == 32
    diagonal = np.full(X.rank, problem.operator_scale * (1e-3 if single else 1e-6))
    diagonal = (diagonal if damping is None else diagonal + damping).astype(X.real_dtype)
    shift = backend.asarray(np.diag(diagonal))
    by_rows, by_cols = (backend.block_solver(b + shift) for b in blocks)
    return BlockInverses(X, by_rows, by_cols, problem.operator_scale)
