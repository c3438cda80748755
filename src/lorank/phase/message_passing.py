"""Message passing (expectation propagation) for phase retrieval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..backends import Array
from ..common.checks import NOT_NEGATIVE, Checked, between, optional, parameter, whole
from ..loop.solver import Solver
from ..loop.state import State
from .gradient import PhaseGradient
from .problem import PhaseRetrieval


@dataclass(frozen=True)
class MessagePassingState:
    """The message about ``z = A x`` and its variance, the best residual, and the number of steps since then."""

    message: Array
    variance: float
    best: float = float("inf")
    waited: int = 0
    guess: Array | None = None  # for the next least squares solution, where those are found by iterations


@dataclass(frozen=True)
class MessagePassing(Checked, Solver):
    """Expectation propagation for ``y = |A x|^2``: two products with A a step, as for a gradient.

    A message models each ``z_i = a_i^H x`` as normal, with mean p_i and a common variance. Together with
    ``|z_i| = y_i^(1/2)`` it gives a posterior mean: ``y_i^(1/2)`` with the phase of p_i, shrunk by
    ``tanh(|p_i| y_i^(1/2) / variance)`` (real) or a ratio of Bessel functions (complex). Least squares over all x, with a
    normal prior, then gives another posterior of z. The message is divided out of each posterior before that is passed on
    (extrinsic information). This recovers signals where descent ends in a local minimum: for Gaussian A and n = 500, from
    1.5 n measurements of a real signal and 2.25 n of a complex one.

    It brings x near the solution and is finished (``state.finished``) when the relative residual is ``near``, or has not fallen
    for ``patience`` steps.

    Parameters
    ----------
    damping, late : float
        Share of the new message in its average with the old one; ``late`` below a relative residual of 0.3. Without damping
        (1.0), complex signals are not recovered.
    near : float
        Relative residual at which message passing is finished.
    patience : int
        Steps without a smaller residual after which it is finished.
    seed : int, optional
        Seed of a random initial signal; by default the initial point is used.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_phase(60, oversampling=3)
    >>> result = lr.solve(problem, rank=1, solver=lr.phase.MessagePassing(), tol=1e-2)
    >>> result.converged
    True
    """

    damping: float = parameter(0.6, between(0, 1, closed_above=True))
    late: float = parameter(0.8, between(0, 1, closed_above=True))
    near: float = parameter(1e-4, NOT_NEGATIVE)
    patience: int = parameter(40, whole(1))
    seed: int | None = parameter(None, optional(whole(0)))

    needs: ClassVar[tuple[type, ...]] = (PhaseRetrieval,)
    default_start: ClassVar[str] = "staged"

    def start(self, problem: PhaseRetrieval, state: State) -> MessagePassingState:
        if state.X.rank != 1:
            raise ValueError(f"MessagePassing recovers one signal, rank 1: got rank {state.X.rank}")
        mean, backend = _mean(problem.y), problem.backend
        if self.seed is None:
            assert isinstance(state.gradient, PhaseGradient)
            return MessagePassingState(float(state.X.s[0]) ** 0.5 * state.gradient.image[:, 0], mean)
        x = backend.random_normal(np.random.default_rng(self.seed), (problem.shape[0], 1), problem.dtype)
        z = problem.linear_map.apply(x)[:, 0]
        return MessagePassingState(0.3 * problem.m**0.5 * mean**0.5 / backend.norm(z) * z, mean)

    def step(self, problem: PhaseRetrieval, state: State) -> State:
        memory, mean = state.memory, _mean(problem.y)
        # A variance that is too small would never be corrected.
        misfit = _mean((abs(memory.message) - problem.y**0.5) ** 2)
        variance = min(max(memory.variance, misfit, 1e-12 * mean), mean)
        z, spread = self.phases(problem, memory.message, variance)
        message, passed = extrinsic(z, spread, memory.message, variance)
        prior = mean * problem.m / problem.gram_operator.energy  # |x|^2 / n
        fit = problem.gram_operator.solve(problem.linear_map.adjoint(message[:, None]), passed / prior, memory.guess)
        image = problem.linear_map.apply(fit.x)
        back, returned = extrinsic(image[:, 0], passed * fit.trace / problem.m, message, passed)
        scale = _scale(problem, image[:, 0])
        if not np.isfinite(scale):  # divergence: A is far from a random matrix
            return replace(state, iteration=state.iteration + 1, finished=True)
        G = problem.gradient_of_signal(scale * fit.x, scale * image)
        new = state.next(problem, G.X, passed / mean, gradient=G)
        better = new.residual < 0.99 * memory.best
        best, waited = (new.residual, 0) if better else (memory.best, memory.waited + 1)
        d = self.damping if new.residual > 0.3 else self.late
        message, variance = d * back + (1 - d) * memory.message, d * returned + (1 - d) * variance
        finished = new.residual < self.near or waited >= self.patience
        return replace(new, memory=MessagePassingState(message, variance, best, waited, fit.guess), finished=finished)

    def phases(self, problem: PhaseRetrieval, p: Array, variance: float) -> tuple[Array, float]:
        """The mean of z given ``z ~ N(p, variance)`` and ``|z|^2 = y``, and its variance averaged over the measurements."""
        backend, b, size = problem.backend, problem.y**0.5, abs(p)
        known = backend.bessel_ratio(2 * size * b / variance) if backend.is_complex(p) else backend.tanh(size * b / variance)
        # |z|^2 = y, so that the variance is y less the squared mean
        return known * b * p / (size + 1e-30), _mean(problem.y * (1 - known**2))


def extrinsic(z: Array, spread: float, message: Array, variance: float) -> tuple[Array, float]:
    """Extrinsic mean and variance: the quotient of a posterior (mean z, variance ``spread``) and its message, both normal."""
    spread = min(max(spread, 1e-12 * variance), 0.999 * variance)
    left = 1 / (1 / spread - 1 / variance)
    return (left / spread) * z - (left / variance) * message, left


def _scale(problem: PhaseRetrieval, z: Array) -> float:
    """The factor on x with the best fit: early posterior means are far too small."""
    squares, backend = abs(z) ** 2, problem.backend
    energy = backend.norm(squares) ** 2
    return (backend.inner(squares, problem.y) / energy) ** 0.5 if energy != 0 else 1.0


def _mean(a: Array) -> float:
    return float(a.mean())
