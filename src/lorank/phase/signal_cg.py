"""Conjugate gradients for one signal in phase retrieval: the steps of RCG at rank 1, written in x instead of x x^H."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..backends import Array
from ..common.checks import NOT_NEGATIVE, NUMBER, check_parameters, whole
from ..loop.runner import Solver
from ..loop.state import State
from ..problems import Problem
from . import phase_images
from .gradient import PhaseGradient
from .gram import RoughGram
from .problem import PhaseRetrieval

REFRESH = 1e-3  # the image of x is computed afresh once the residual is this share of what it was the last time


@dataclass(frozen=True)
class Memory:
    """The signal v in units of normalised columns (``A x = B v``) with its image, the residual at which that was last computed
    by A itself and how many steps ago, and the last gradient, slope and direction.
    """

    v: Array
    image: Array
    fresh: float
    age: int = 0
    gradient: Array | None = None
    slope: float = 0.0
    direction: Array | None = None


@dataclass(frozen=True)
class SignalCG(Solver):
    """Conjugate gradients on ``sum_i w_i (|a_i^H x|^2 - y_i)^2 / 2`` with the weights of :class:`~lorank.phase.Fisher`,
    ``w_i = 1 / (|a_i^H x|^2 + y_i)``, chosen anew at each point: what ``auto`` begins with in phase retrieval.

    These are the steps of ``RCG(reweighting=Fisher())`` but for terms of second order, without the work that a rank above 1
    would take. Moreover,

    - the columns of A are normalised first;
    - where A is an array with at most ``whiten_real`` columns (real) or ``whiten_complex`` (complex), steps are taken in the
      metric ``A^H A``, in which a real signal is found in five to ten of them. Beyond, it costs more than it saves;
    - search directions need few digits, and A is multiplied in single precision for them. The image ``A x`` is computed
      afresh, in double, each time the residual has fallen to ``REFRESH`` of itself, so that three digits of the residual are
      right, however small it is.

    Two products with A an iteration, and now and then a third.

    Parameters
    ----------
    whiten_real, whiten_complex : int
    near, many : float
        From a relative residual of ``near`` on, with ``many`` measurements an unknown, a real signal is found by least squares
        with the signs that ``A x`` has: each step is exact but for the signs that change. Further away, or with fewer, that
        would end in a wrong set of signs.
    restart : float
        Start again from the gradient where the direction descends less than this share of what the gradient does.
    max_halvings : int
        Of a step after which the weighted misfit has grown.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_phase(64, seed=0)
    >>> result = lr.solve(problem, 1, lr.phase.SignalCG())
    >>> bool(lr.phase.phase_distance(result.signal, x) < 1e-5)
    True
    """

    whiten_real: int = 1500
    whiten_complex: int = 400
    near: float = 0.1
    many: float = 3.5
    restart: float = 0.1
    max_halvings: int = 8

    default_start: ClassVar[str] = "staged"

    def __post_init__(self) -> None:
        check_parameters(
            self,
            whiten_real=whole(0),
            whiten_complex=whole(0),
            near=NOT_NEGATIVE,
            many=NOT_NEGATIVE,
            restart=NUMBER,
            max_halvings=whole(0),
        )

    def start(self, problem: Problem, state: State) -> Memory:
        if not isinstance(problem, PhaseRetrieval):
            raise TypeError(f"SignalCG is for PhaseRetrieval, and this is a {type(problem).__name__}: use solver='rcg'")
        if state.X.rank != 1:
            raise ValueError(f"SignalCG looks for one signal, rank 1: got rank {state.X.rank}")
        assert isinstance(state.gradient, PhaseGradient)
        size = float(state.X.s[0]) ** 0.5
        return Memory(problem.rough_map.scaled(size * state.X.U), size * state.gradient.image, state.residual)

    def step(self, problem: Problem, state: State) -> State:
        assert isinstance(problem, PhaseRetrieval)
        memory: Memory = state.memory
        rough, inner, z, y = problem.rough_map, problem.backend.inner, memory.image, problem.y[:, None]
        factor = self._factor(problem)
        # For a real signal that metric is the curvature: there is nothing to learn from the last direction.
        alone = factor is not None and problem.dtype.kind != "c"
        if factor is not None and alone and state.residual < self.near and problem.m >= self.many * problem.shape[0]:
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
        memory = Memory(memory.v + alpha * p, new, memory.fresh, memory.age + 1, g, slope, p)
        return self._arrive(problem, state, memory, residual, alpha)

    def _fit_signs(self, problem: PhaseRetrieval, state: State, factor: RoughGram) -> State:
        """Near a real signal most signs of ``A x`` are right: least squares of ``A x`` against the amplitudes with these signs,
        which the metric ``A^H A`` solves in a step (but for its few digits).
        """
        memory: Memory = state.memory
        inner, z, b = problem.backend.inner, memory.image, np.sqrt(problem.y[:, None])
        r = np.copysign(b, z) - z
        p = factor.solve(problem.rough_map.adjoint(r))
        image = problem.rough_map.apply(p)
        energy = inner(image, image)
        alpha = inner(r, image) / energy if energy > 0 else 0.0
        new = z + alpha * image
        memory = Memory(memory.v + alpha * p, new, memory.fresh, memory.age + 1)
        return self._arrive(problem, state, memory, new * new - problem.y[:, None], alpha)

    def _arrive(self, problem: PhaseRetrieval, state: State, memory: Memory, residual: Array, alpha: float) -> State:
        """The state after the step, its image computed afresh where rounding begins to show."""
        rough, norm = problem.rough_map, problem.backend.norm
        size = norm(residual)
        if memory.age >= phase_images.REFRESH or (rough.rounds and size < REFRESH * memory.fresh * problem.y_norm):
            image = rough.exact(memory.v)
            residual = _real_product(image, image, problem) - problem.y[:, None]
            size = norm(residual)
            # By hand: replace would take as long as a product with a small A.
            memory = Memory(memory.v, image, size / problem.y_norm, 0, memory.gradient, memory.slope, memory.direction)
        G = problem.gradient_of_signal(rough.signal(memory.v), memory.image, residual[:, 0])
        vars(G)["residual_norm"] = size
        return state.next(problem, G.X, alpha, memory, gradient=G)

    def _direction(self, problem: PhaseRetrieval, g: Array, s: Array, slope: float, memory: Memory) -> tuple[Array, float]:
        """Polak and Ribiere's, never against the gradient, and the slope along it."""
        if memory.gradient is None or memory.direction is None or min(slope, memory.slope) <= 0:
            return -s, -slope
        beta = (slope - problem.backend.inner(memory.gradient, s)) / memory.slope
        if not beta > 0:
            return -s, -slope
        p = beta * memory.direction - s
        downhill = problem.backend.inner(g, p)
        return (p, downhill) if -downhill > self.restart * slope else (-s, -slope)

    def _factor(self, problem: PhaseRetrieval) -> RoughGram | None:
        """The metric; None for no other than that of normalised columns."""
        limit = self.whiten_complex if problem.dtype.kind == "c" else self.whiten_real
        return problem.rough_gram if problem.shape[0] <= limit else None


def _real_product(a: Array, b: Array, problem: PhaseRetrieval) -> Array:
    """``Re(conj(a) b)``, entry by entry."""
    return a.real * b.real + a.imag * b.imag if problem.dtype.kind == "c" else a * b
