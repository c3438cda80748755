"""Gradient methods on factors: ScaledGD, ScaledGD(lambda), PrecGD, AltScaledGD, ASD, ScaledASD and R3MC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ..backends import Array, Vector
from ..common.checks import NOT_NEGATIVE, POSITIVE, YES_OR_NO, Checked, ParameterError, one_of, optional, parameter
from ..geometry import FixedRank
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import Gradient, MatrixProblem
from .least_squares import require_two_factors

RESTART = 0.1  # share of the descent of the gradient that a conjugate direction must keep


class Direction(NamedTuple):
    """A step of both factors, the preconditioned gradients and the slope along them."""

    left: Array
    right: Array
    gradient_left: Array
    gradient_right: Array
    slope: float


class FactoredState(NamedTuple):
    """The factors, and the last direction of conjugate gradients."""

    left: Array
    right: Array
    last: Direction | None = None


@dataclass(frozen=True)
class Factored(Checked, Solver):
    """Gradient steps on the factors of ``X = L R^H``, for least squares.

    With the preconditioner, L moves along ``G R (R^H R + lambda I)^-1`` and R along ``G^H L (L^H L + lambda I)^-1``. The
    convergence then hardly depends on the condition number of X. An iteration costs one gradient, and with exact steps one
    pass over the measurements with three times the rank.

    Parameters
    ----------
    preconditioned : bool
        Default True; False for plain gradients, in units of the largest eigenvalues of ``R^H R`` and ``L^H L``.
    damping : "none", "constant" or "residual"
        lambda: 0, or ``damping_factor`` times ``|y| / operator_scale^(1/2)``, which is about ``|X|``, or
        ``|A X - y| / operator_scale^(1/2)``. A damping allows for a rank that is larger than that of the solution where
        the measurements are nearly isometric; in completion spare directions fade slowly.
    damping_factor : float
        See ``damping``; default 0.1.
    alternating : bool
        Move L first, then R with the gradient at the new L. Default False.
    conjugate : bool
        Polak-Ribiere directions, not with ``alternating``. Default False.
    step_size : float or None
        Constant step in units of 1 / operator_scale; None, the default, for the exact minimizer along the curve
        ``(L + t dL)(R + t dR)^H``, by the roots of a cubic polynomial.

    Examples
    --------
    R3MC:

    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.Factored(conjugate=True)).converged
    True
    """

    preconditioned: bool = parameter(True, YES_OR_NO)
    damping: Literal["none", "constant", "residual"] = parameter("none", one_of(("none", "constant", "residual")))
    damping_factor: float = parameter(0.1, NOT_NEGATIVE)
    alternating: bool = parameter(False, YES_OR_NO)
    conjugate: bool = parameter(False, YES_OR_NO)
    step_size: float | None = parameter(None, optional(POSITIVE))

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem,)
    default_start: ClassVar[str] = "staged"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alternating and self.conjugate:
            raise ParameterError("conjugate", "must be False with alternating=True", "Factored")

    def start(self, problem: MatrixProblem, state: State) -> FactoredState:
        require_two_factors(self, problem, state)
        X = state.X
        root = X.s**0.5
        return FactoredState(X.U * root, X.V * root)

    def step(self, problem: MatrixProblem, state: State) -> State:
        if not self.alternating:
            return self._move(problem, state, state.memory, (True, True))
        half = self._move(problem, state, state.memory, (True, False))
        whole = self._move(problem, half, half.memory, (False, True))
        return State(state.iteration + 1, whole.X, whole.gradient, whole.residual, whole.step, state.X, whole.memory)

    def _move(self, problem: MatrixProblem, state: State, now: FactoredState, sides: tuple[bool, bool]) -> State:
        """A step of the factors of these sides."""
        backend, (L, R, _) = problem.backend, now
        step = self.direction(problem, state, now, sides)
        if self.step_size is not None:
            t = self.step_size / problem.operator_scale
        else:
            first = problem.forward(backend.concat([step.left, L]), backend.concat([R, step.right]))
            t = exact_step(state.gradient, first, problem.forward(step.left, step.right) if all(sides) else 0 * first)
        L, R = L + t * step.left, R + t * step.right
        memory = FactoredState(L, R, step if self.conjugate else None)
        return state.next(problem, FixedRank.from_factors(L, R, backend=backend), t, memory)

    def direction(self, problem: MatrixProblem, state: State, now: FactoredState, sides: tuple[bool, bool]) -> Direction:
        """The negative preconditioned gradient of the factors, or the conjugate direction."""
        backend, X, G, (L, R, last) = problem.backend, state.X, state.gradient, now
        shift = self._damping(problem, state)
        GR, GhL = backend.product(G.GV, backend.gram(X.V, R)), backend.product(G.GhU, backend.gram(X.U, L))
        left = self._solved(problem, GR, R, shift) if sides[0] else 0 * L
        right = self._solved(problem, GhL, L, shift) if sides[1] else 0 * R
        slope = sum(backend.inners([(GR, left), (GhL, right)]))
        steepest = Direction(-left, -right, left, right, slope)
        if last is None or min(slope, last.slope) <= 0:
            return steepest
        beta = (slope - sum(backend.inners([(GR, last.gradient_left), (GhL, last.gradient_right)]))) / last.slope
        dL, dR = beta * last.left - left, beta * last.right - right
        downhill = -sum(backend.inners([(GR, dL), (GhL, dR)]))
        return Direction(dL, dR, left, right, slope) if beta > 0 and downhill > RESTART * slope else steepest

    def _damping(self, problem: MatrixProblem, state: State) -> float:
        if self.damping == "residual":
            return self.damping_factor * state.gradient.residual_norm / problem.operator_scale**0.5
        return self.damping_factor * problem.y_norm / problem.operator_scale**0.5 if self.damping == "constant" else 0.0

    def _solved(self, problem: MatrixProblem, gradient: Array, other: Array, shift: float) -> Array:
        """``gradient (other^H other + shift I)^-1``; if plain, over the largest eigenvalue of that Gram matrix."""
        gram = problem.backend.gram(other, other)
        if not self.preconditioned:
            return gradient / (float(np.linalg.norm(gram, 2)) or 1.0)
        inverse = np.linalg.pinv(gram + shift * np.eye(len(gram), dtype=gram.dtype), hermitian=True)
        return problem.backend.asarray(problem.backend.product(gradient, inverse))


def exact_step(G: Gradient, first: Vector, second: Vector) -> float:
    """The t > 0 that minimizes ``|A X - y + t first + t^2 second|^2``, with the weights of the measurements; 0 without one."""
    inner, w = G.problem.backend.inner, G.curvature
    p, q = (first, second) if w is None else (w * first, w * second)
    a, b = inner(G.dual, first), inner(first, p) / 2 + inner(G.dual, second)
    c, d = inner(first, q), inner(second, q) / 2
    slopes = np.array([4 * d, 3 * c, 2 * b, a])
    roots = np.roots(slopes) if np.isfinite(slopes).all() else np.zeros(0)
    steps = [float(t.real) for t in roots if abs(t.imag) <= 1e-9 * abs(t) and t.real > 0]
    return min(steps, key=lambda t: t * (a + t * (b + t * (c + t * d))), default=0.0)
