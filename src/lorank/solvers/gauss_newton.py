"""Gauss-Newton on the fixed-rank manifold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..common.checks import SHARE, check_parameters, whole
from ..geometry import Weights, retract, riemannian_gradient
from ..loop.runner import Solver
from ..loop.state import State
from ..problems import MatrixProblem
from .tangent_system import Damping, TangentSystem


@dataclass(frozen=True)
class GaussNewtonState:
    """The damping in units of the operator_scale."""

    damping: float = 0.0


MOST = 1e30  # damping: a step is zero long before, and single precision holds no more than 1e38


@dataclass(frozen=True)
class GaussNewton(Solver):
    """Each step minimises the misfit ``|A (X + xi) - y|`` over the whole tangent space, by conjugate gradients inside.

    Near a solution that fits the data each step squares the error, however few the measurements and however ill-conditioned X.
    Where a step makes the misfit larger it is damped (Levenberg and Marquardt) until it does not.

    Parameters
    ----------
    tol : float
        Accuracy of the inner solution.
    max_steps : int
        The most inner steps.
    tries : int
        Dampings to try in one step before X is left as it is.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.GaussNewton()).converged
    True
    """

    tol: float = 1e-3
    max_steps: int = 300
    tries: int = 3

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem,)
    default_start: ClassVar[str] = "staged"

    def __post_init__(self) -> None:
        check_parameters(self, tol=SHARE, max_steps=whole(1), tries=whole(1))

    def start(self, problem: MatrixProblem, state: State) -> GaussNewtonState:
        return GaussNewtonState()

    def step(self, problem: MatrixProblem, state: State) -> State:
        X, damping = state.X, state.memory.damping
        rhs, local = -riemannian_gradient(X, state.gradient, Weights()), state.gradient.quadratic_model()
        for _ in range(self.tries):
            system = TangentSystem(local, X, Damping.constant(X, damping * local.operator_scale), state.gradient.curvature)
            xi, _ = system.solve(rhs, tol=self.tol, max_steps=self.max_steps)
            new = state.next(problem, retract(xi, 1.0), 1.0)
            if new.residual < state.residual:
                return new.with_memory(GaussNewtonState(damping / 10 if damping > 1e-4 else 0.0))
            damping = min(max(10 * damping, 1e-3), MOST)
        return replace(state, iteration=state.iteration + 1, memory=GaussNewtonState(damping))
