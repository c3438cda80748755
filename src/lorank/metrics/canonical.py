"""The metric of the ambient space: plain Riemannian gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from ..geometry import Weights
from ..operators import Gradient


@dataclass(frozen=True)
class Canonical:
    """``<Z, Y> = Re tr(Z^H Y)``."""

    def start(self, G: Gradient) -> None:
        return None

    def weights(self, G: Gradient, memory: None) -> tuple[Weights, None]:
        return Weights(), None
