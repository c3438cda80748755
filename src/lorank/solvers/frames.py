"""What solvers need that impute or that move two factors: checks with messages, and the gradient in units of the frame."""

from __future__ import annotations

from typing import Any

from ..backends import Array
from ..common.checks import ParameterError
from ..loop.state import State
from ..problems import MatrixProblem


def require_two_factors(solver: object, problem: MatrixProblem, state: State) -> None:
    """Refuse by name Hermitian points, which store one factor for both sides, and losses other than squares."""
    name, model = type(solver).__name__, type(problem).__name__
    if state.X.hermitian:
        raise ParameterError("solver", f"{name} moves two factors: {model} has one for both sides")
    require_least_squares(solver, problem, state)


def require_least_squares(solver: object, problem: MatrixProblem, state: State) -> None:
    """Refuse by name losses other than squares."""
    if not state.gradient.objective.is_quadratic:
        raise ParameterError(
            "solver", f"{type(solver).__name__} needs least squares: {type(problem).__name__} has another loss"
        )


class Imputed:
    """``Z = X - G / c``: X with the observed entries replaced by the data, by its products with thin arrays.

    c is the frame constant times the largest weight; with equal weights of 1, Z agrees with the data where they are observed.
    """

    def __init__(self, problem: MatrixProblem, state: State, relaxation: float = 1.0) -> None:
        constant: Any = problem.frame_constant  # type: ignore[attr-defined]
        curvature = state.gradient.curvature
        largest = 1.0 if curvature is None else problem.backend.max_abs(curvature)
        self.X, self.G, self.backend = state.X, state.gradient, problem.backend
        self.step = relaxation / (float(constant) * largest)

    def times(self, v: Array) -> Array:
        """``Z v``."""
        X = self.X
        return self.backend.product(X.U * X.s, self.backend.gram(X.V, v)) - self.step * self.G.times(v)

    def adjoint_times(self, u: Array) -> Array:
        """``Z^H u``."""
        X = self.X
        return self.backend.product(X.V * X.s, self.backend.gram(X.U, u)) - self.step * self.G.adjoint_times(u)
