"""Where noise begins: residuals in which nothing stands out, and the rule that ends a run there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..backends import Array, Vector
from ..common.checks import SHARE, check_parameters, whole
from ..common.timer import Timer
from ..geometry import DiagonalWeight, Weights
from ..loop.result import History, Status
from ..loop.state import State
from ..loop.stopping import Rule
from ..losses import Loss, Objective
from ..metrics.counts import count_weights
from ..problems import Gradient, MatrixProblem, Problem
from ..problems.capabilities import HasCounts, TightFrame, supports
from ..starts.spectral import leading

LITTLE = 1e-4  # of a deviance: where that of a whole table falls more slowly, nobody would see it
ROOM = 2.0  # measurements per degree of freedom: with fewer, a wrong matrix leaves over what looks like noise


def residual_is_white(problem: Problem, state: State) -> bool:
    """Whether the residual at X has no direction that stands out: the largest singular value of ``A*(A X - y)`` is about that
    of white noise of the same size, ``|A X - y| sqrt(c) (n1^-1/2 + n2^-1/2)``. Rows and columns are divided by the roots of
    their counts first (:class:`~lorank.metrics.Counts`): the noise of one that everybody saw would stand out. Slopes of classes
    and counts are divided by their own standard deviations, the roots of the curvatures.

    Measured on completion: 1.0 to 1.25 times that at the end of a fit to noisy data, 1.9 and more where exact data got stuck.
    """
    if problem.stationary_is_converged:
        return True
    if not isinstance(problem, MatrixProblem) or not (supports(problem, TightFrame) or supports(problem, HasCounts)):
        return False
    p = _standardised(state.gradient)
    weights = count_weights(problem)
    scaled = _Scaled(*problem.products(p), weights)
    top = float(leading(problem, scaled, 1, np.random.default_rng(0), tol=1e-2, restarts=5).s[0])
    n1, n2 = problem.shape
    return top < 1.5 * problem.backend.norm(p) * ((problem.frame_constant or 1.0) ** 0.5) * (n1**-0.5 + n2**-0.5)


def _standardised(G: Gradient) -> Vector:
    loss = learned_loss(G)
    if loss is not None and loss.discrete and G.curvature is not None:
        return G.dual / (G.curvature + 1e-3 * float(G.curvature.sum()) / G.problem.m) ** 0.5
    return G.dual


class _Scaled:
    """``L^-1/2 G R^-1/2``: of white noise on an uneven pattern, a matrix whose entries are about alike in variance."""

    def __init__(self, times: Callable[[Array], Array], adjoint_times: Callable[[Array], Array], weights: Weights) -> None:
        self._products = times, adjoint_times
        self.scales = [w.w[:, None] ** -0.5 if isinstance(w, DiagonalWeight) else None for w in (weights.left, weights.right)]

    def times(self, v: Array) -> Array:
        return self._between(self._products[0], v, *self.scales[::-1])

    def adjoint_times(self, u: Array) -> Array:
        return self._between(self._products[1], u, *self.scales)

    @staticmethod
    def _between(product: Callable[[Array], Array], a: Array, before: Array | None, after: Array | None) -> Array:
        b = product(a if before is None else a * before)
        return b if after is None else b * after


@dataclass(frozen=True)
class NoiseFloor(Rule):
    """Further steps would fit the noise, if anything: the misfit has come to rest, and nothing stands out in what is left.

    Of a misfit f of m measurements about ``f dof / (m - dof)`` has been taken off by chance; the run is over when ``steps``
    iterations have taken off less than a ``share`` of that, and the residual looks like noise (:func:`residual_is_white`).

    Parameters
    ----------
    share : float
    steps : int

    Examples
    --------
    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6, noise=0.1)
    >>> result = lr.solve(problem, rank=2)
    >>> str(result.status), bool(0.05 < result.noise / (0.1 * problem.y_norm / problem.m**0.5) < 2)
    ('noise', True)
    """

    share: float = 1e-3
    steps: int = 5

    def __post_init__(self) -> None:
        check_parameters(self, share=SHARE, steps=whole(1))

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        recent = history.recent(self.steps + 1)
        if not hasattr(state.X, "s") or not is_stationary(problem, state.X.rank, recent, self.share, self.steps):
            return None
        if not residual_is_white(problem, state):
            return None
        last = recent[-1]
        if problem.stationary_is_converged:
            return Status("settled", advice=f"The misfit has come to rest at {last:.3e} of that at zero.", success=True)
        return Status(
            "noise",
            advice=f"The data are fitted to their noise, {describe(state.gradient)}: what is left of them (relative residual "
            f"{last:.1e}) has no direction that stands out.",
            success=True,
        )


def is_stationary(problem: Problem, rank: int, residuals: Sequence[float], share: float = 1e-3, steps: int = 5) -> bool:
    """Whether the last ``steps`` of these residuals have fallen by less than a share of what a fit of that rank takes off noise
    by chance.
    """
    if len(residuals) <= steps or rank >= min(problem.shape):
        return False
    dof, first, last = problem.dof(rank), residuals[-1 - steps], residuals[-1]
    if problem.m < ROOM * dof or not 1e4 * np.finfo(problem.dtype).eps < last < np.inf:
        return False
    little = share * dof / (problem.m - dof)
    return 0 <= 1 - (last / first) ** 2 < (max(little, LITTLE) if problem.stationary_is_converged else little)


def noise_of(G: Gradient) -> float:
    """The noise that the fit leaves over, its degrees of freedom taken off: the standard deviation of an observation of
    weight 1; with classes and counts, how much larger deviations are than the model has them. nan where nothing is left.
    """
    problem = G.problem
    if hasattr(G, "dispersion"):
        return float(G.dispersion)
    dof = problem.dof(G.X.rank)
    if problem.m <= dof:
        return float("nan")
    if learned_loss(G) is not None:
        return float(G.objective.noise(G.residual, problem.y, dof))
    return float(G.residual_norm) / float(problem.m - dof) ** 0.5


def learned_loss(G: Gradient) -> Loss | None:
    """The loss with what it has learned at the point; None for least squares."""
    objective: Objective | None = getattr(G, "objective", None)  # a user's own gradient may have none
    return None if objective is None or objective.is_quadratic else objective.loss


def describe(G: Gradient) -> str:
    loss = learned_loss(G)
    if loss is not None and loss.discrete:
        return f"deviations {noise_of(G):.2g} times those of the model"
    return f"of standard deviation {noise_of(G):.2e}"
