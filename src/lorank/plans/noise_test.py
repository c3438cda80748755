"""Noise test: a stationary residual that is indistinguishable from white noise, and the stopping rule based on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Vector
from ..common.checks import SHARE, Checked, parameter, whole
from ..common.timer import Timer
from ..geometry import DiagonalWeight, Weights
from ..geometry.truncated_svd import ImplicitMatrix
from ..loop.result import History, Status
from ..loop.state import State
from ..loop.stopping import Rule
from ..losses import Loss, Objective
from ..losses.residual_tails import MIN_OBSERVATIONS, tails
from ..metrics.counts import count_weights
from ..problems import Gradient, MatrixProblem, Problem
from ..problems.capabilities import HasCounts, HasSpectralNorm, TightFrame, supports
from ..starts.spectral import leading

MIN_DECREASE = 1e-4  # relative decrease of the deviance of a whole table below which it is stationary
MIN_OVERSAMPLING = 2.0  # measurements per degree of freedom: with fewer, the residual of a wrong matrix looks like noise
SIGN_DRAWS, SIGN_RATIO = 3, 1.15  # random signs, and the largest ratio of spectral norms of a residual that is white noise


def residual_is_white(problem: Problem, state: State) -> bool:
    """Whether the residual p = A X - y is white noise, by the spectral norm of ``A* p``.

    With a tight frame or counts (completion), it is compared with that of white noise of the same norm,
    ``|p| sqrt(c) (n1^-1/2 + n2^-1/2)``. Rows and columns are divided by the square roots of their counts first
    (:class:`~lorank.metrics.Counts`), which equalizes the variance on uneven patterns. Slopes of discrete losses are divided by
    the square roots of the curvatures, their standard deviations. On completion problems the ratio was 1.0 to 1.25 at the end
    of fits to noisy data, and at least 1.9 at local minima of fits to exact data.

    Other models are tested by :func:`signs_are_random`.
    """
    if problem.stationary_is_converged:
        return True
    if not isinstance(problem, MatrixProblem) or not (supports(problem, TightFrame) or supports(problem, HasCounts)):
        return signs_are_random(problem, state)
    p = _standardized(state.gradient)
    n1, n2 = problem.shape
    noise = problem.backend.norm(p) * ((problem.frame_constant or 1.0) ** 0.5) * (n1**-0.5 + n2**-0.5)
    return _spectral_norm(problem, p, count_weights(problem)) < 1.5 * noise


def signs_are_random(problem: Problem, state: State) -> bool:
    """Whether the residual p is noise of independent signs: the spectral norm of ``A* p`` is about that with random signs.

    ``|A* p|`` is the largest slope along a further direction. Under independent symmetric noise, of variances that may differ,
    it is distributed as with random signs; a matrix of higher rank, or a local minimum, makes it larger. The mean of p is
    subtracted first: noisy intensities are often clipped at zero. Stationary points where the test has no power
    (:meth:`~lorank.Problem.noise_is_testable`) and residuals with outliers are refused.

    The ratio to the largest of three norms with random signs is near 1 for noise. :data:`SIGN_RATIO` was chosen on about 290
    fits of sensing problems with two to four measurements per degree of freedom; below three the ratios of fits of the
    right rank and of one rank less overlap.
    """
    if not (isinstance(problem, MatrixProblem) or supports(problem, HasSpectralNorm)):
        return False
    if not problem.noise_is_testable(state.X.rank, state.residual) or _has_outliers(state.gradient):
        return False
    p, rng = state.gradient.dual, np.random.default_rng(0)
    p = p - p.sum() / problem.m
    size = _spectral_norm(problem, p)
    signs = (problem.backend.asarray(rng.choice([-1.0, 1.0], problem.m), problem.backend.dtype(p)) for _ in range(SIGN_DRAWS))
    return any(size < SIGN_RATIO * _spectral_norm(problem, p * one) for one in signs)


def _spectral_norm(problem: Any, p: Vector, weights: Weights | None = None) -> float:
    """The spectral norm of ``L^-1/2 (A* p) R^-1/2`` to about 1 %."""
    if not isinstance(problem, MatrixProblem):
        return float(problem.spectral_norm(p))
    matrix = ImplicitMatrix(*problem.products(p))
    if weights is not None and weights.modes:
        matrix = matrix.scaled(*(w.w[:, None] ** -0.5 for w in weights.modes if isinstance(w, DiagonalWeight)))
    return float(leading(problem, matrix, 1, np.random.default_rng(0), tol=1e-2, restarts=5).s[0])


def _has_outliers(G: Gradient) -> bool:
    """Heavy tails of the residuals, and of the residuals over the roots of the fitted values (counts of photons)."""
    problem, d = G.problem, G.residual
    fitted, dof = abs(d + problem.y), problem.dof(G.X.rank)
    if problem.m < MIN_OBSERVATIONS:
        return False
    return all(tails(one, dof, problem.backend).heavy for one in (d, d / (fitted + fitted.sum() / problem.m) ** 0.5))


def _standardized(G: Gradient) -> Vector:
    loss = learned_loss(G)
    if loss is not None and loss.discrete and G.curvature is not None:
        return G.dual / (G.curvature + 1e-3 * float(G.curvature.sum()) / G.problem.m) ** 0.5
    return G.dual


@dataclass(frozen=True)
class NoiseFloor(Checked, Rule):
    """Stop when the residual is stationary (:func:`is_stationary`) and white noise (:func:`residual_is_white`). A success.

    On other manifolds than matrices, the problem has a :class:`~lorank.problems.capabilities.HasSpectralNorm`.

    Parameters
    ----------
    share : float
        Decrease of the squared residual below which it is stationary, over the decrease due to overfitting.
    steps : int
        Iterations over which the decrease is measured.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6, noise=0.1)
    >>> result = lr.solve(problem, rank=2)
    >>> str(result.status), bool(0.05 < result.noise / (0.1 * problem.y_norm / problem.m**0.5) < 2)
    ('noise', True)
    """

    share: float = parameter(1e-3, SHARE)
    steps: int = parameter(5, whole(1))

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        recent = history.recent(self.steps + 1)
        if not is_stationary(problem, state.X.rank, recent, self.share, self.steps):
            return None
        if not residual_is_white(problem, state) or not is_optimal(problem, state, 10 * self.share):
            return None
        last = recent[-1]
        if problem.stationary_is_converged:
            return Status("settled", advice=f"The objective is stationary at {last:.3e} of its value at X = 0.", success=True)
        return Status(
            "noise",
            advice=f"The residual (relative {last:.1e}) is white noise, {describe(state.gradient)}.",
            success=True,
        )


def is_stationary(problem: Problem, rank: Any, residuals: Sequence[float], share: float = 1e-3, steps: int = 5) -> bool:
    """Whether the last ``steps`` steps decreased the squared residual by less than a ``share`` of ``dof / (m - dof)``, the
    relative decrease that is due to overfitting noise at that rank.
    """
    full = isinstance(problem, MatrixProblem) and rank >= min(problem.shape)
    if len(residuals) <= steps or full:
        return False
    dof, first, last = problem.dof(rank), residuals[-1 - steps], residuals[-1]
    if problem.m < MIN_OVERSAMPLING * dof or not 1e4 * np.finfo(problem.dtype).eps < last < np.inf:
        return False
    little = share * dof / (problem.m - dof)
    return 0 <= 1 - (last / first) ** 2 < (max(little, MIN_DECREASE) if problem.stationary_is_converged else little)


def is_optimal(problem: Problem, state: State, share: float) -> bool:
    """Whether the exact step along the gradient gains less than a ``share`` of what overfitting noise does, ``dof / (m - dof)``
    of the squared residual. Solvers that reweight the measurements become stationary at other points.

    It holds for models with a tight frame or counts, whose solvers minimize the objective itself.
    """
    if problem.stationary_is_converged or supports(problem, TightFrame) or supports(problem, HasCounts):
        return True
    X, G, dof = state.X, state.gradient, problem.dof(state.X.rank)
    xi = X.manifold.gradient(X, G, Weights())
    curvature = G.squared_image_norm(xi)
    return not curvature > 0 or xi.inner(G) ** 2 / curvature < share * dof / (problem.m - dof) * G.residual_norm**2


def noise_of(G: Gradient) -> float:
    """Estimated standard deviation of an observation of weight 1, adjusted for the degrees of freedom; for discrete losses the
    dispersion. nan if there are no more measurements than degrees of freedom.
    """
    problem = G.problem
    if hasattr(G, "dispersion"):
        return float(G.dispersion)
    dof = problem.dof(G.X.rank)
    if problem.m <= dof:
        return float("nan")
    if learned_loss(G) is not None:
        return float(G.objective.loss.noise(G.residual, problem.y, dof, G.objective.weights))
    return float(G.residual_norm) / float(problem.m - dof) ** 0.5


def learned_loss(G: Gradient) -> Loss | None:
    """The loss with the parameters fitted at the point; None for least squares."""
    objective: Objective | None = getattr(G, "objective", None)  # a user's own gradient may have none
    return None if objective is None or objective.is_quadratic else objective.loss


def describe(G: Gradient) -> str:
    loss = learned_loss(G)
    if loss is not None and loss.discrete:
        return f"dispersion {noise_of(G):.2g}"
    return f"standard deviation {noise_of(G):.2e}"
