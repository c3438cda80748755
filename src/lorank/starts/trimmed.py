"""The leading singular pairs of the data, not drawn to rows and columns that are heavier than others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Array
from ..geometry import FixedRank
from ..problems import Gradient, Problem
from .spectral import leading


@dataclass(frozen=True)
class Trimmed:
    """A gradient with its rows and columns that are heavier than the others scaled down to their root mean square."""

    G: Gradient
    rows: Array  # (n1, 1), at most 1
    cols: Array  # (n2, 1)

    @classmethod
    def of(cls, G: Gradient) -> Trimmed:
        backend, dtype = G.problem.backend, np.zeros(0, G.problem.dtype).real.dtype

        def scale(squares: Array) -> Array:
            mean = float(squares.mean())
            return backend.astype((squares / mean if mean > 0 else squares).clip(1.0) ** -0.5, dtype)[:, None]

        return cls(G, scale(G.row_squares), scale(G.col_squares))

    def times(self, v: Array) -> Array:
        return self.rows * self.G.times(self.cols * v)

    def adjoint_times(self, u: Array) -> Array:
        return self.cols * self.G.adjoint_times(self.rows * u)


def trimmed_pairs(problem: Problem, rank: int, rng: np.random.Generator, *, dtype: Any = None, unit: float = 1.0) -> FixedRank:
    """The leading pairs of ``A* y``, with the step that fits them best, heavy rows and columns trimmed for their computation.

    The more rows and columns, the heavier the heaviest of them, and singular vectors of a sparse matrix are drawn to these.
    """
    backend, G = problem.backend, problem.gradient(problem.zero(1))
    even = Trimmed.of(G)
    # Each pair to a tenth on average: pairs of mere noise, with which this begins, are accurate to a fifth soon.
    Y = leading(problem, even, rank, rng, tol=0.1 * rank**0.5, restarts=5, depth=1)
    left, right = Y.U * Y.s / even.rows, Y.V / even.cols
    step = unit * G.exact_step(left, right)
    left, right = (backend.astype(a, dtype or problem.dtype) for a in (left * step, right))
    return FixedRank.from_factors(left, right, backend=backend)
