"""PRGD with constant weights is RGD: the weights, and nothing else, make the difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from helpers import assert_close, dense_point, random_array, random_mask, random_point, real_dtype
from lorank.geometry import DenseWeight, DiagonalWeight, FixedRank, Weights
from lorank.loop.state import State
from lorank.loop.steps import Constant, Exact, Polyak, Theory
from lorank.metrics import Canonical
from lorank.problems import Completion
from lorank.solvers import RGD

SHAPE, RANK, STEPS = (20, 15), 3, 8


@dataclass(frozen=True)
class Everywhere:
    """The weight c on all rows and columns; ``reported`` is what the metric tells step rules about it."""

    c: float = 1.0
    reported: float = 1.0
    dense: bool = False

    def start(self, G):
        return None

    def weights(self, G, memory):
        left, right = (self._weight(n, G.X.dtype, G.X.backend.asarray) for n in G.X.shape)
        return Weights((left, right), self.reported, self.reported), None

    def _weight(self, n, dtype, put):
        if self.dense:
            return DenseWeight(put((self.c * np.eye(n)).astype(dtype)), put((np.eye(n) / self.c).astype(dtype)))
        return DiagonalWeight(put(np.full(n, self.c, real_dtype(dtype))))


def iterates(metric, rule, dtype, backend):
    """The points that a solver visits from a start near the solution, on a problem that has one."""
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(random_mask(rng, SHAPE, 0.7))
    truth = random_point(rng, SHAPE, RANK, dtype, backend)
    problem = Completion(rows, cols, truth.entries(rows, cols), SHAPE, backend=backend)
    noisy = [a + backend.asarray(0.05 * random_array(rng, a.shape, dtype), dtype) for a in (truth.U * truth.s, truth.V)]
    start = FixedRank.from_factors(*noisy, backend=backend)
    solver = RGD(metric, rule, safeguard=None)
    state = State.at(problem, start)
    state = state.with_memory(solver.start(problem, state))
    points = []
    for _ in range(STEPS):
        state = solver.step(problem, state)
        points.append(dense_point(state.X))
    assert state.residual < 0.5 * State.at(problem, start).residual  # it does move
    return points


def assert_same_path(one, other, dtype):
    for k, (a, b) in enumerate(zip(one, other, strict=True), 1):
        assert_close(a, b, dtype, 50 * k)  # rounding adds up from step to step


@pytest.mark.parametrize("rule", [Constant(0.5), Exact(), Exact(0.7), Polyak(), Theory()], ids=repr)
@pytest.mark.parametrize("dense", [False, True], ids=["diagonal", "dense"])
def test_unit_weights_are_no_weights(rule, dense, dtype, backend):
    plain = iterates(Canonical(), rule, dtype, backend)
    assert_same_path(iterates(Everywhere(dense=dense), rule, dtype, backend), plain, dtype)


@pytest.mark.parametrize("c", [0.25, 3.0])
def test_a_constant_weight_divides_the_step_by_its_square(c, dtype, backend):
    """Row and column weights multiply: the gradient in the metric is the plain one over c^2."""
    plain = iterates(Canonical(), Constant(0.5), dtype, backend)
    assert_same_path(iterates(Everywhere(c), Constant(0.5 * c**2), dtype, backend), plain, dtype)


@pytest.mark.parametrize("rule", [Constant(0.5), Exact(), Polyak(), Theory()], ids=repr)
@pytest.mark.parametrize("c", [0.25, 3.0])
def test_step_rules_measure_in_the_weight_that_the_metric_reports(c, rule, dtype, backend):
    plain = iterates(Canonical(), rule, dtype, backend)
    assert_same_path(iterates(Everywhere(c, reported=c**2), rule, dtype, backend), plain, dtype)
