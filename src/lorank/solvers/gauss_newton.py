"""Gauss-Newton method with Levenberg-Marquardt damping on the manifold of fixed-rank matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ..common.checks import SHARE, Checked, one_of, parameter, whole
from ..geometry import Weights, retract, retract_orthographic, riemannian_gradient
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import MatrixProblem
from .least_squares import require_two_factors
from .tangent_system import Damping, TangentSystem


@dataclass(frozen=True)
class GaussNewtonState:
    """Levenberg-Marquardt damping in units of the operator scale, and the largest norm of X."""

    damping: float = 0.0
    max_norm: float = float("inf")


MAX_NORM = 2.0  # of X, relative to |y| / operator_scale^(1/2) or to the initial point
MAX_DAMPING = 1e30  # steps vanish long before; float32 ends at 1e38


@dataclass(frozen=True)
class GaussNewton(Checked, Solver):
    """Gauss-Newton: each step minimizes ``|A (X + xi) - y|`` over the tangent vectors xi, by conjugate gradients.

    Near a solution that fits the data convergence is quadratic, for ill-conditioned X and few measurements as well. Steps that
    would increase the objective are damped (Levenberg-Marquardt), and steps to points more than :data:`MAX_NORM` times as large
    as the data suggest, along directions that the measurements hardly determine.

    Parameters
    ----------
    tol : float
        Relative accuracy of the conjugate gradients.
    inner_max_iter : int
        Largest number of conjugate gradient steps.
    tries : int
        Number of dampings to try in one iteration; X is unchanged where all fail.
    retraction : "projection" or "orthographic"
        From the tangent space to the manifold: the nearest matrix of rank r (RGN), or orthographic (RISRO).

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.GaussNewton()).converged
    True
    """

    tol: float = parameter(1e-3, SHARE)
    inner_max_iter: int = parameter(300, whole(1))
    tries: int = parameter(3, whole(1))
    retraction: Literal["projection", "orthographic"] = parameter("projection", one_of(("projection", "orthographic")))

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem,)
    default_start: ClassVar[str] = "staged"

    def start(self, problem: MatrixProblem, state: State) -> GaussNewtonState:
        if self.retraction == "orthographic":
            require_two_factors(self, problem, state)
        return GaussNewtonState(0.0, MAX_NORM * max(problem.y_norm / problem.operator_scale**0.5, state.X.norm()))

    def step(self, problem: MatrixProblem, state: State) -> State:
        retraction = retract if self.retraction == "projection" else retract_orthographic
        X, damping, max_norm = state.X, state.memory.damping, state.memory.max_norm
        rhs, local = -riemannian_gradient(X, state.gradient, Weights()), state.gradient.quadratic_model()
        for _ in range(self.tries):
            system = TangentSystem(local, X, Damping.constant(X, damping * local.operator_scale), state.gradient.curvature)
            xi, _ = system.solve(rhs, tol=self.tol, max_iter=self.inner_max_iter)
            new = state.next(problem, retraction(xi, 1.0), 1.0)
            if new.residual < state.residual and new.X.norm() <= max_norm:
                return new.with_memory(GaussNewtonState(damping / 10 if damping > 1e-4 else 0.0, max_norm))
            damping = min(max(10 * damping, 1e-3), MAX_DAMPING)
        return replace(state, iteration=state.iteration + 1, memory=GaussNewtonState(damping, max_norm))
