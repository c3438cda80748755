"""Weights for phase retrieval: the whitened metric ``A^H A``, and Fisher weights of the measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..backends import Array, Arrays, Vector
from ..geometry import Weights
from ..loop.state import State
from ..problems import Gradient, Problem
from .gram import Spectrum
from .problem import PhaseRetrieval

RELATIVE_SHIFT = 1e-6  # over the mean eigenvalue: bounds steps in directions that are not measured


@dataclass(frozen=True)
class GramWeight:
    """``W = A^H A``, by its eigendecomposition."""

    spectrum: Spectrum

    @property
    def _shift(self) -> float:
        return RELATIVE_SHIFT * self.spectrum.energy / self.spectrum.values.shape[0]

    def gram(self, backend: Arrays, u: Array) -> Array | None:
        return backend.gram(u, self.apply(u))

    def apply(self, a: Array) -> Array:
        return self.spectrum.apply(a, self._shift)

    def solve(self, a: Array) -> Array:
        return self.spectrum.solve(a, self._shift).x


@dataclass(frozen=True)
class Whitened:
    """Metric ``L = R = A^H A`` for phase retrieval: steps as if the columns of A were orthonormal.

    With few measurements, or columns of different size, ``A^H A`` is far from a multiple of the identity, which slows descent
    down. The metric is canonical where ``A^H A`` has no eigendecomposition (user-defined functions, or a very large array).

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_phase(40, oversampling=6)
    >>> result = lr.solve(problem, rank=1, solver=lr.solvers.RCG(lr.phase.Whitened(), reweighting=lr.phase.Fisher()))
    >>> lr.phase.phase_distance(result.signal, x) < 1e-5
    True
    """

    needs: ClassVar[tuple[type, ...]] = (PhaseRetrieval,)

    def start(self, G: Gradient) -> None:
        return None

    def weights(self, G: Gradient, memory: None) -> tuple[Weights, None]:
        gram = G.problem.gram_operator  # type: ignore[attr-defined]
        if not isinstance(gram, Spectrum):
            return Weights(), None
        weight = GramWeight(gram)
        return Weights((weight, weight)), None


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
