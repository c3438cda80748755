"""Conjugate gradients for one signal in phase retrieval: the steps of RCG at rank 1 in terms of x instead of x x^H."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..backends import Array
from ..common.checks import NOT_NEGATIVE, NUMBER, Checked, parameter, whole
from ..loop.solver import Solver
from ..loop.state import State
from . import gradient as phase_gradient
from .gradient import PhaseGradient
from .gram import SinglePrecisionGram
from .problem import PhaseRetrieval

REFRESH_RATIO = 1e-3  # A x is computed in double precision whenever the residual has fallen by this factor


@dataclass(frozen=True)
class SignalCGState:
    """Memory of :class:`SignalCG`: the signal v for normalized columns (``A x = B v``) with its image, the residual when that
    was last computed by A and the number of steps since, and the last gradient, slope and direction.
    """

    v: Array
    image: Array
    refreshed: float
    age: int = 0
    gradient: Array | None = None
    slope: float = 0.0
    direction: Array | None = None


@dataclass(frozen=True)
class SignalCG(Checked, Solver):
    """Conjugate gradients on ``sum_i w_i (|a_i^H x|^2 - y_i)^2 / 2`` with the weights of :class:`~lorank.phase.Fisher`,
    ``w_i = 1 / (|a_i^H x|^2 + y_i)``, updated at each point: the first stage of ``auto`` in phase retrieval.

    These are the steps of ``RCG(Canonical(), reweighting=Fisher())`` up to terms of second order, without the overhead of
    higher ranks. In addition,

    - the columns of A are normalized;
    - where A is an array with few columns, steps are taken in the metric ``A^H A``, in which a real signal takes five to ten
      of them;
    - products for search directions are in single precision. The image ``A x`` is computed in double precision each time that
      the residual has fallen by ``REFRESH_RATIO``, so that three digits of the residual are correct.

    An iteration makes two products with A, and occasionally a third.

    Parameters
    ----------
    whiten_real, whiten_complex : int
        Largest number of columns for which the metric ``A^H A`` is used, for real and complex signals.
    sign_fit_below, sign_fit_oversampling : float
        Below a relative residual of ``sign_fit_below``, with at least ``sign_fit_oversampling`` measurements per unknown, a
        real signal is found by least squares with the signs of ``A x``. Otherwise that could end with wrong signs.
    restart : float
        Restart from the gradient where the direction descends less than this share of what the gradient does.
    max_halvings : int
        Largest number of halvings of a step that increases the weighted misfit.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_phase(64, seed=0)
    >>> result = lr.solve(problem, 1, lr.phase.SignalCG())
    >>> bool(lr.phase.phase_distance(result.signal, x) < 1e-5)
    True
    """

    whiten_real: int = parameter(1500, whole(0))
    whiten_complex: int = parameter(400, whole(0))
    sign_fit_below: float = parameter(0.1, NOT_NEGATIVE)
    sign_fit_oversampling: float = parameter(3.5, NOT_NEGATIVE)
    restart: float = parameter(0.1, NUMBER)
    max_halvings: int = parameter(8, whole(0))

    needs: ClassVar[tuple[type, ...]] = (PhaseRetrieval,)
    default_start: ClassVar[str] = "staged"

    def start(self, problem: PhaseRetrieval, state: State) -> SignalCGState:
        if state.X.rank != 1:
            raise ValueError(f"SignalCG recovers one signal, rank 1: got rank {state.X.rank}")
        assert isinstance(state.gradient, PhaseGradient)
        size = float(state.X.s[0]) ** 0.5
        return SignalCGState(problem.single_precision_map.scaled(size * state.X.U), size * state.gradient.image, state.residual)

    def step(self, problem: PhaseRetrieval, state: State) -> State:
        memory: SignalCGState = state.memory
        rough, inner, z, y = problem.single_precision_map, problem.backend.inner, memory.image, problem.y[:, None]
        factor = self._factor(problem)
        # For a real signal that metric is the curvature, and the last direction does not help.
        alone = factor is not None and problem.dtype.kind != "c"
        if (
            factor is not None
            and alone
            and state.residual < self.sign_fit_below
            and problem.m >= self.sign_fit_oversampling * problem.shape[0]
        ):
            return self._fit_signs(problem, state, factor)
        d = state.gradient.residual[:, None]
        w = 1 / (d + (2 + 1e-12) * y + 1e-12 * problem.max_abs)
        wd = w * d
        g = rough.adjoint(wd * z)
        s = g if factor is None else factor.solve(g)
        slope = inner(g, s)
        p, downhill = (-s, -slope) if alone else self._direction(problem, g, s, slope, memory)
        image = rough.apply(p)
        change = _real_product(z, image, problem)
        energy = 2 * inner(w * change, change)
        alpha = -downhill / energy if energy > 0 else 0.0
        misfit = inner(wd, d)
        for _ in range(1 + self.max_halvings):
            new = z + alpha * image
            residual = _real_product(new, new, problem) - y
            if inner(w * residual, residual) <= misfit:
                break
            alpha /= 2
        memory = SignalCGState(memory.v + alpha * p, new, memory.refreshed, memory.age + 1, g, slope, p)
        return self._arrive(problem, state, memory, residual, alpha)

    def _fit_signs(self, problem: PhaseRetrieval, state: State, factor: SinglePrecisionGram) -> State:
        """Least squares of ``A x`` against the amplitudes with the current signs, most of which are right near the solution.

        The metric ``A^H A`` solves it in one step, up to single precision.
        """
        memory: SignalCGState = state.memory
        inner, z, b = problem.backend.inner, memory.image, np.sqrt(problem.y[:, None])
        r = np.copysign(b, z) - z
        p = factor.solve(problem.single_precision_map.adjoint(r))
        image = problem.single_precision_map.apply(p)
        energy = inner(image, image)
        alpha = inner(r, image) / energy if energy > 0 else 0.0
        new = z + alpha * image
        memory = SignalCGState(memory.v + alpha * p, new, memory.refreshed, memory.age + 1)
        return self._arrive(problem, state, memory, new * new - problem.y[:, None], alpha)

    def _arrive(self, problem: PhaseRetrieval, state: State, memory: SignalCGState, residual: Array, alpha: float) -> State:
        """The state after the step, with an image in double precision where rounding matters."""
        rough, norm = problem.single_precision_map, problem.backend.norm
        size = norm(residual)
        if memory.age >= phase_gradient.MAX_REUSES or (
            rough.rounds and size < REFRESH_RATIO * memory.refreshed * problem.y_norm
        ):
            image = rough.exact(memory.v)
            residual = _real_product(image, image, problem) - problem.y[:, None]
            size = norm(residual)
            # The constructor: `replace` would take as long as a product with a small A.
            memory = SignalCGState(memory.v, image, size / problem.y_norm, 0, memory.gradient, memory.slope, memory.direction)
        G = problem.gradient_of_signal(rough.signal(memory.v), memory.image, residual[:, 0])
        vars(G)["residual_norm"] = size
        return state.next(problem, G.X, alpha, memory, gradient=G)

    def _direction(
        self, problem: PhaseRetrieval, g: Array, s: Array, slope: float, memory: SignalCGState
    ) -> tuple[Array, float]:
        """The Polak-Ribiere direction, if it is one of descent, and the slope along it."""
        if memory.gradient is None or memory.direction is None or min(slope, memory.slope) <= 0:
            return -s, -slope
        beta = (slope - problem.backend.inner(memory.gradient, s)) / memory.slope
        if not beta > 0:
            return -s, -slope
        p = beta * memory.direction - s
        downhill = problem.backend.inner(g, p)
        return (p, downhill) if -downhill > self.restart * slope else (-s, -slope)

    def _factor(self, problem: PhaseRetrieval) -> SinglePrecisionGram | None:
        """The metric; None for the canonical one of normalized columns."""
        limit = self.whiten_complex if problem.dtype.kind == "c" else self.whiten_real
        return problem.single_precision_gram if problem.shape[0] <= limit else None


def _real_product(a: Array, b: Array, problem: PhaseRetrieval) -> Array:
    """``Re(conj(a) b)``, entry by entry."""
    return a.real * b.real + a.imag * b.imag if problem.dtype.kind == "c" else a * b
