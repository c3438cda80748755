"""Fisher weights of the measurements in phase retrieval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backends import Vector
from ..loop.state import State
from ..problems import Problem
from .problem import PhaseRetrieval


@dataclass(frozen=True)
class Fisher:
    """Weights ``w_i = 1 / (|a_i^H x|^2 + y_i)`` for phase retrieval.

    The derivative of ``|a_i^H x|^2`` is proportional to ``|a_i^H x|``; these weights compensate for that.
    The weighted misfit is, up to a factor between 1 and 2, that of the amplitudes, ``sum (|a_i^H x| - y_i^(1/2))^2``.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_phase(40, oversampling=8)
    >>> result = lr.solve(problem, rank=1, solver=lr.solvers.RCG(reweighting=lr.phase.Fisher()))
    >>> lr.phase.phase_distance(result.signal, x) < 1e-5
    True
    """

    needs: ClassVar[tuple[type, ...]] = (PhaseRetrieval,)

    def __call__(self, problem: Problem, state: State) -> Vector:
        size = (state.gradient.residual + problem.y).real + problem.y
        return 1 / (size + 1e-12 * float(size.max()))
