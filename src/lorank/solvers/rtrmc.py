"""Riemannian trust region matrix completion (RTRMC): Newton steps for the column space of X."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ..backends import Array
from ..common.checks import POSITIVE, SHARE, Checked, parameter, whole
from ..geometry import FixedRank
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import Completion
from ..problems.capabilities import FastALS, TightFrame
from .least_squares import require_two_factors

ACCEPT, SHRINK, GROW = 0.1, 0.25, 0.75  # ratios of the actual to the predicted decrease
ROUNDING = 1e3  # units of rounding of the objective below which decreases are not compared


class TrustRegion(NamedTuple):
    """The radius, and the norm of the first gradient."""

    radius: float
    first: float | None = None


@dataclass(frozen=True)
class RTRMC(Checked, Solver):
    """RTRMC (Boumal and Absil): minimize over column spaces, with the best row factor for each, by a trust-region method.

    For an orthonormal U and the minimizer W = W(U), the objective is

        ``f(U) = sum_observed (U W - y)^2 / 2 + lambda^2 sum_others (U W)^2 / 2``,

    a function on the Grassmann manifold with a gradient and a Hessian in closed form. Steps minimize its quadratic model in a
    trust region by truncated conjugate gradients, preconditioned by ``W W^H``. An iteration costs one gradient, the normal
    equations of the columns, and one pass and two products in each inner step.

    Parameters
    ----------
    regularization : float
        lambda, below 1, which keeps W bounded for columns with few observations.
    tol : float
        Relative accuracy of the inner conjugate gradients; near a solution the relative norm of the gradient, if smaller.
    inner_max_iter : int
        Largest number of inner steps.
    max_radius : float
        Largest radius of the trust region, in units of ``sqrt(rank)``; the first is an eighth of it.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.RTRMC()).converged
    True
    """

    regularization: float = parameter(1e-7, SHARE)
    tol: float = parameter(0.1, SHARE)
    inner_max_iter: int = parameter(300, whole(1))
    max_radius: float = parameter(math.pi / 2, POSITIVE)

    needs: ClassVar[tuple[type, ...]] = (Completion, FastALS, TightFrame)

    def start(self, problem: Completion, state: State) -> TrustRegion:
        require_two_factors(self, problem, state)
        return TrustRegion(self.max_radius * state.X.rank**0.5 / 8)

    def step(self, problem: Completion, state: State) -> State:
        radius, first = state.memory
        weights = state.gradient.curvature
        here = Eliminated(problem, state.X.U, self.regularization, weights)
        slope = here.gradient
        size = problem.backend.norm(slope)
        first = first or size
        accuracy = min(self.tol, size / first if first else self.tol)
        eta, decrease, outside = truncated_cg(here, slope, radius, accuracy, self.inner_max_iter)
        U = problem.backend.orthonormalize(here.U + eta)
        there = Eliminated(problem, U, self.regularization, weights)
        noise = ROUNDING * float(np.finfo(problem.dtype).eps) * here.value
        ratio = (here.value - there.value + noise) / (decrease + noise or 1.0)
        if not ratio >= SHRINK:
            radius /= 4
        elif ratio > GROW and outside:
            radius = min(2 * radius, self.max_radius * state.X.rank**0.5)
        memory = TrustRegion(radius, first)
        if not ratio > ACCEPT:
            return replace(state, iteration=state.iteration + 1, memory=memory)
        X = FixedRank.from_factors(U, problem.backend.norm(problem.y) * there.W, backend=problem.backend)
        return state.next(problem, X, radius, memory)


class Eliminated:
    """The objective of the column space alone, with its derivatives at U, for ``y / |y|``.

    Attributes
    ----------
    W : (n2, r) array
        The best right factor, ``X = |y| U W^H``.
    slope : (m,) array
        ``(1 - lambda^2) A X - y`` over ``|y|``, times the weights.
    value : float
        The objective.
    gradient : (n1, r) array
        On the Grassmann manifold.
    """

    def __init__(self, problem: Completion, U: Array, regularization: float, weights: Array | None = None) -> None:
        self.problem, self.U, self.backend = problem, U, problem.backend
        self.penalty, self.kept = regularization**2, 1 - regularization**2
        self.weights = weights
        y = problem.y / self.backend.norm(problem.y)  # powers of y would leave the range of numbers
        self.W = self.minimizer(problem.products(self.weighted(y))[1](U))
        image = problem.forward(U, self.W)
        residual = image - y
        self.slope = self.weighted(self.kept * image - y)
        self.times, self.adjoint_times = problem.products(self.slope)
        inner, squared_norm = self.backend.inner, self.backend.squared_norm
        spread = squared_norm(self.W) - inner(image, self.weighted(image))
        self.value = (inner(residual, self.weighted(residual)) + self.penalty * spread) / 2
        self.gradient = self.horizontal(self.times(self.W))

    def weighted(self, p: Array) -> Array:
        """P times the weights of the observations."""
        return p if self.weights is None else self.weights * p

    def minimizer(self, right: Array) -> Array:
        """``right_j ((1 - lambda^2) B_j + lambda^2 I)^-1`` for each column j, with B_j its normal equations."""
        return self.problem.solve_blocks(1, self.U, self.penalty / self.kept, right) / self.kept

    def horizontal(self, a: Array) -> Array:
        """``a - U U^H a``."""
        return self.backend.asarray(self.backend.minus(a, self.U, self.backend.gram(self.U, a)))

    def hessian(self, H: Array) -> Array:
        """The Riemannian Hessian along H, with ``U^H H = 0``."""
        problem, backend = self.problem, self.backend
        moved = self.weighted(self.kept * problem.forward(H, self.W))
        dW = -self.minimizer(self.adjoint_times(H) + problem.products(moved)[1](self.U))
        change = moved + self.weighted(self.kept * problem.forward(self.U, dW))
        curved = problem.products(change)[0](self.W) + self.times(dW)
        return self.horizontal(curved) + self.penalty * backend.product(H, backend.gram(self.W, self.W))

    def preconditioner(self) -> Callable[[Array], Array]:
        """``H -> H (W^H W)^-1`` in units of the largest eigenvalue of ``W^H W``."""
        gram = self.backend.gram(self.W, self.W)
        gram = gram / (float(np.linalg.norm(gram, 2)) or 1.0)
        inverse = np.linalg.pinv(gram, rcond=10 * float(np.finfo(gram.dtype).eps), hermitian=True).astype(gram.dtype)
        return lambda H: self.backend.asarray(self.backend.product(H, inverse))


def truncated_cg(f: Eliminated, slope: Array, radius: float, tol: float, max_iter: int) -> tuple[Array, float, bool]:
    """Minimize ``<slope, eta> + <eta, Hess eta> / 2`` with ``|eta| <= radius`` by the method of Steihaug and Toint.

    The norm is that of the preconditioner. Returns eta, the decrease of the model, and whether eta is on the boundary.
    """
    backend, precondition = f.backend, f.preconditioner()
    inner = backend.inner
    eta, left, decrease, outside = 0 * slope, slope, 0.0, False
    z = precondition(left)
    direction = -z
    size, first = inner(left, z), backend.norm(left)
    ee, ed, dd = 0.0, 0.0, size  # inner products of eta and the direction in the norm of the preconditioner
    for _ in range(max_iter):
        if not size > 0 or backend.norm(left) <= tol * first:
            break
        image = f.hessian(direction)
        curvature = inner(direction, image)
        alpha = size / curvature if curvature > 0 else math.inf
        if not curvature > 0 or ee + 2 * alpha * ed + alpha**2 * dd >= radius**2:
            alpha = (-ed + math.sqrt(ed**2 + dd * (radius**2 - ee))) / dd
            outside = True
        eta, left = eta + alpha * direction, left + alpha * image
        decrease += alpha * size - alpha**2 * curvature / 2
        if outside:
            break
        ee += 2 * alpha * ed + alpha**2 * dd
        z = precondition(left)
        new = inner(left, z)
        ratio, size = new / size, new
        ed, dd = ratio * (ed + alpha * dd), size + ratio**2 * dd
        direction = ratio * direction - z
    return eta, decrease, outside
