"""Shared parts of solvers for least squares: checks with messages, and the matrix whose observed entries are imputed."""

from __future__ import annotations

from typing import Any

from ..common.checks import ParameterError
from ..geometry.truncated_svd import ImplicitMatrix
from ..loop.state import State
from ..problems import Gradient, MatrixProblem


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


def imputation_step(problem: MatrixProblem, G: Gradient) -> float:
    """The step ``1 / c`` with which ``X - G / c`` is X with the observed entries replaced by the data.

    c is the frame constant times the largest weight; with unequal weights, ``X - G / c`` minimizes a quadratic majorizer.
    """
    constant: Any = problem.frame_constant  # type: ignore[attr-defined]
    return 1 / (float(constant) * (1.0 if G.curvature is None else problem.backend.max_abs(G.curvature)))


def imputed(problem: MatrixProblem, state: State, relaxation: float = 1.0) -> ImplicitMatrix:
    """``X - relaxation G / c``."""
    X, G, backend, step = state.X, state.gradient, problem.backend, relaxation * imputation_step(problem, state.gradient)
    return ImplicitMatrix(
        lambda v: backend.product(X.U * X.s, backend.gram(X.V, v)) - step * G.times(v),
        lambda u: backend.product(X.V * X.s, backend.gram(X.U, u)) - step * G.adjoint_times(u),
    )
