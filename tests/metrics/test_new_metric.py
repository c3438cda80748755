"""A new metric: one class with start and weights, and one line that gives it a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import lorank as lr
from lorank.geometry import DiagonalWeight, Weights
from lorank.problems.capabilities import HasCounts


@dataclass(frozen=True)
class RootCounts:
    """Rows and columns weighted by the square roots of their numbers of observations."""

    needs: ClassVar[tuple[type, ...]] = (HasCounts,)

    def start(self, G):
        left, right = (np.sqrt(np.maximum(c, 1) / c.mean()) for c in G.problem.counts())
        return Weights((DiagonalWeight(left), DiagonalWeight(right)), left.min() * right.min(), left.max() * right.max())

    def weights(self, G, memory):
        return memory, memory


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(lr.plans.SOLVERS, "root-counts", lambda: lr.solvers.RGD(RootCounts(), lr.steps.Exact()))


def test_it_runs_by_name():
    rng = np.random.default_rng(0)
    truth = lr.FixedRank.from_factors(rng.standard_normal((200, 2)), rng.standard_normal((150, 2)))
    rows, cols = np.nonzero(rng.random((200, 150)) < np.geomspace(0.05, 0.6, 150))
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), (200, 150))
    result = lr.solve(problem, 2, "root-counts")
    assert result.converged
    assert truth.distance(result.X) < 1e-4 * truth.norm()
    assert result.n_iter < lr.solve(problem, 2, "adaptive-rgd").n_iter


def test_what_it_needs_is_checked():
    problem, _ = lr.datasets.random_sensing(8, 7, 1, seed=0)
    with pytest.raises(lr.ParameterError, match=r"RootCounts needs a HasCounts .*Sensing has none"):
        lr.solve(problem, 1, "root-counts")
