"""Conjugate gradient iterative hard thresholding (CGIHT)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backends import Vector
from ..common.checks import POSITIVE, Checked, optional, parameter
from ..geometry import FixedRank
from ..geometry.truncated_svd import ImplicitMatrix
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import MatrixProblem
from .iht import hard_threshold
from .least_squares import require_least_squares
from .safeguard import SAFEGUARD, UNGUARDED, Safeguard, Trust


@dataclass(frozen=True)
class CGIHTState:
    """State of the safeguard, and the last direction, a vector p for ``A* p``; None after a step that was shortened."""

    trust: Trust
    direction: Vector | None = None


@dataclass(frozen=True)
class CGIHT(Checked, Solver):
    """CGIHT (Blanchard, Tanner and Wei): hard thresholding along conjugate directions in the column space of X.

    The direction is ``P = R - beta P_old`` with ``R = -G``, where beta makes the parts of P and P_old in the column space of X
    orthogonal in ``|A .|``; then ``X = H_r(X + alpha P)`` with the exact step for that part. A direction is ``A* p``, stored as
    the vector p. An iteration costs one gradient, two passes of rank r and a truncated SVD.

    Parameters
    ----------
    accuracy : float
        Accuracy of the truncated SVD, relative to the length of the step.
    safeguard : Safeguard or None
        Backtracking; its fallbacks are not used. A shortened step is followed by a restart from the gradient. None for the
        published method, which takes every step in full.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.CGIHT()).converged
    True
    """

    accuracy: float = parameter(1e-4, POSITIVE)
    safeguard: Safeguard | None = parameter(
        factory=lambda: Safeguard(growth=1.2, fallbacks=(), regrow=2.0), expected=optional(SAFEGUARD)
    )

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem,)

    def start(self, problem: MatrixProblem, state: State) -> CGIHTState:
        require_least_squares(self, problem, state)
        return CGIHTState(Trust(best=state.residual))

    def step(self, problem: MatrixProblem, state: State) -> State:
        X, G, backend, memory = state.X, state.gradient, problem.backend, state.memory

        def projected(p: Vector) -> Vector:
            """``A(U U^H A* p)``."""
            return problem.forward(X.U, problem.products(p)[1](X.U))

        def inner(a: Vector, b: Vector) -> float:
            return backend.inner(a, b if G.curvature is None else G.curvature * b)

        r = -G.dual
        p, image = r, projected(r)
        if memory.direction is not None:
            last = projected(memory.direction)
            squares = inner(last, last)
            beta = inner(image, last) / squares if squares > 0 else 0.0
            p, image = r - beta * memory.direction, image - beta * last
        squares = inner(image, image)
        alpha = backend.inner(image, r) / squares if squares > 0 else 0.0
        direction, size = ImplicitMatrix(*problem.products(p)), backend.norm(p)

        def candidate(step: float) -> FixedRank:
            return problem.manifold.nearest(hard_threshold(X, direction, -step, abs(step) * size, self.accuracy))

        new, trust = (self.safeguard or UNGUARDED).advance(problem, state, memory.trust, alpha, candidate)
        kept = p if abs(new.step) >= memory.trust.fraction * abs(alpha) else None
        return new.with_memory(CGIHTState(trust, kept))
