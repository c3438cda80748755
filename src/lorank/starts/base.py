"""What a start is to a solver."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..geometry import FixedRank
from ..operators import Problem


class Start(Protocol):
    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank: ...
