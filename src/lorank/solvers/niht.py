"""Iterative hard thresholding: a full gradient step, then the best approximation of rank r.

``X_t - alpha G`` is a sparse plus a low-rank matrix; its truncated SVD is found from products with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..backends import Array
from ..geometry import FixedRank
from ..linalg import truncated_svd
from ..operators import Gradient, Problem
from ..parameter_checks import POSITIVE, check_parameters, optional
from ..state import State
from .safeguard import SAFEGUARD, UNGUARDED, Safeguard, Trust


@dataclass(frozen=True)
class IHT:
    """``X_{t+1} = H_r(X_t - alpha G_t)`` with a constant step ``alpha = factor / gain``.

    Parameters
    ----------
    factor : float
    accuracy : float
        Of the truncated SVD, relative to the length of the step.
    safeguard : Safeguard or None
        Shortens steps after which the residual grows (fallbacks are not used here).

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.IHT(factor=0.7), max_iter=2000, tol=1e-3).converged
    True
    """

    factor: float = 0.5
    accuracy: float = 1e-4
    safeguard: Safeguard | None = field(default_factory=lambda: Safeguard(fallbacks=()))

    def __post_init__(self) -> None:
        check_parameters(self, factor=POSITIVE, accuracy=POSITIVE, safeguard=optional(SAFEGUARD))

    def start(self, problem: Problem, state: State) -> Trust:
        return Trust(best=state.residual)

    def alpha(self, problem: Problem, X: FixedRank, G: Gradient) -> float:
        return self.factor / problem.gain

    def step(self, problem: Problem, state: State) -> State:
        alpha = self.alpha(problem, state.X, state.gradient)

        def candidate(step: float) -> FixedRank:
            return hard_threshold(state.X, state.gradient, step, self.accuracy)

        new, trust = (self.safeguard or UNGUARDED).advance(problem, state, state.memory, alpha, candidate)
        return new.remember(trust)


@dataclass(frozen=True)
class NIHT(IHT):
    """Normalised IHT: the exact step along G projected on the column space of X_t (Tanner and Wei).

    ``alpha = |U U^H G|^2 / |A(U U^H G)|^2``.

    Parameters
    ----------
    factor : float
        On that step.
    accuracy : float
        Of the truncated SVD, relative to the length of the step.
    safeguard : Safeguard or None
        Shortens steps after which the residual grows (fallbacks are not used here).

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.NIHT(), max_iter=2000, tol=1e-3).converged
    True
    """

    factor: float = 1.0

    def alpha(self, problem: Problem, X: FixedRank, G: Gradient) -> float:
        squares = X.backend.norm(G.GhU) ** 2
        energy = G.image_energy(problem.forward(X.U, G.GhU))
        return self.factor * squares / energy if energy > 0 else 0.0


def hard_threshold(X: FixedRank, G: Any, alpha: float, accuracy: float) -> FixedRank:
    """``H_r(X - alpha G)``, from the products of X and G with thin matrices, starting at X's own singular vectors."""
    backend = X.backend
    gram, product = backend.gram, backend.product

    def times(v: Array) -> Array:
        return product(X.U * X.s, gram(X.V, v)) - alpha * G.times(v)

    def adjoint_times(u: Array) -> Array:
        return product(X.V * X.s, gram(X.U, u)) - alpha * G.adjoint_times(u)

    length = alpha * G.residual_norm
    tol = accuracy * length / (X.norm() + length)
    return truncated_svd(times, adjoint_times, X.V, X.rank, backend, tol=tol, depth=2)
