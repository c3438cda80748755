"""LMaFit: nonlinear successive over-relaxation of the factors and the imputed entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ..common.checks import SHARE, Checked, parameter
from ..geometry import FixedRank
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import MatrixProblem
from ..problems.capabilities import TightFrame
from .least_squares import imputed, require_two_factors


class Relaxation(NamedTuple):
    """The over-relaxation factor omega, and the amount by which it grows."""

    omega: float = 1.0
    increment: float = 1.0


@dataclass(frozen=True)
class LMaFit(Checked, Solver):
    """LMaFit (Wen, Yin and Zhang): alternate between the factors of X and the imputed matrix Z, with over-relaxation.

    With ``Z = X - omega G``, the left factor is an orthonormal basis U of the range of ``Z V``, and the next X is ``U U^H Z``.
    An iteration costs one gradient and one product more. A step that does not lower the residual is repeated with
    ``omega = 1``; where a step leaves more than the share ``slow`` of the residual, omega grows, by less after a repetition.

    Parameters
    ----------
    slow : float
        Share of the residual above which omega grows.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.LMaFit()).converged
    True
    """

    slow: float = parameter(0.7, SHARE)

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem, TightFrame)

    def start(self, problem: MatrixProblem, state: State) -> Relaxation:
        require_two_factors(self, problem, state)
        return Relaxation()

    def step(self, problem: MatrixProblem, state: State) -> State:
        omega, increment = state.memory
        new = self._relaxed(problem, state, omega)
        if omega > 1 and not new.residual < state.residual:
            omega, increment = 1.0, max(0.1 * (omega - 1), 0.1 * increment)
            new = self._relaxed(problem, state, omega)
        if new.residual >= self.slow * state.residual:
            increment = max(increment, 0.25 * (omega - 1))
            omega += increment
        return new.with_memory(Relaxation(omega, increment))

    def _relaxed(self, problem: MatrixProblem, state: State, omega: float) -> State:
        Z = imputed(problem, state, omega)
        U = problem.backend.orthonormalize(Z.times(state.X.V))
        return state.next(problem, FixedRank.from_factors(U, Z.adjoint_times(U), backend=problem.backend), omega)
