"""The metric of alternating least squares: a small matrix for each row and each column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.checks import SHARE, check_parameters
from ..geometry import BlockInverses, BlockWeights, FixedRank, Weights
from ..problems import Gradient, Problem
from ..problems.capabilities import BlockPreconditioned, supports
from .counts import Counts


@dataclass(frozen=True)
class Blocks:
    """Each row and each column weighted by its own normal equations (:class:`~lorank.geometry.BlockInverses`).

    Near a solution this evens out what :class:`Counts` cannot: rows with hardly more observations than the rank, which see some
    directions well and others not at all. Far from one it trusts those rows too much. The blocks are taken at the first point
    and carried along, and taken anew where the singular vectors have turned by more than ``drift``.

    The weights of :class:`Counts` where a model has no blocks (:meth:`Problem.blocks`).

    Parameters
    ----------
    drift : float
        The sine of the largest angle.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RCG(lr.metrics.Blocks())).converged
    True
    """

    drift: float = 0.3

    def __post_init__(self) -> None:
        check_parameters(self, drift=SHARE)

    def start(self, G: Gradient) -> Weights:
        inverses = block_inverses(G.problem, G.X)
        return Counts().start(G) if inverses is None else BlockWeights(inverses=inverses)

    def weights(self, G: Gradient, memory: Weights) -> tuple[Weights, Weights]:
        if isinstance(memory, BlockWeights) and memory.inverses is not None and memory.inverses.drift(G.X) > self.drift:
            memory = self.start(G)
        return memory, memory


def block_inverses(problem: Problem, X: FixedRank, damping: np.ndarray | None = None) -> BlockInverses | None:
    """The inverses of the problem's blocks at X plus a damping, in units of ``1 / operator_scale``; None where it has none.

    Parameters
    ----------
    problem : Problem
    X : FixedRank
    damping : (r,) array, optional
        Added to the diagonal of each block, and a little more: rows with few measurements have singular ones.
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
