"""A new measurement model: one class with forward and adjoint, and capabilities where it has any."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.problems import MatrixProblem
from lorank.problems.capabilities import HasCounts, HasInitialPoint, HasSplit, supports


class RowSums(MatrixProblem):
    """Sums of X over random sets of columns, one for each row: ``y_k = sum_j S_kj X[rows[k], j]``."""

    def __init__(self, rows, S, y, n1):
        self.rows, self.S = rows, S
        super().__init__(y, (n1, S.shape[1]), operator_scale=(S**2).sum() / (n1 * S.shape[1]))

    def forward(self, left, right):
        return (left[self.rows] * (self.S @ right)).sum(1)

    def adjoint(self, p):
        matrix = np.zeros(self.shape)
        np.add.at(matrix, self.rows, p[:, None] * self.S)
        return matrix


class CountedRowSums(RowSums):
    """The same with three capabilities."""

    def counts(self):
        return np.bincount(self.rows, minlength=self.shape[0]).astype(float), (self.S**2).sum(0)

    def split(self, rng, share):
        held = rng.random(self.m) < share
        return tuple(CountedRowSums(self.rows[k], self.S[k], self.y[k], self.shape[0]) for k in (~held, held))

    def initial_point(self, rank, rng):
        self.asked = rank
        return lr.starts.Spectral()(self, rank, rng)


def case(kind):
    rng, (n1, n2), rank = np.random.default_rng(0), (40, 30), 2
    truth = lr.FixedRank.from_factors(rng.standard_normal((n1, rank)), rng.standard_normal((n2, rank)))
    rows = rng.choice(n1, 1200, p=np.geomspace(1, 8, n1) / np.geomspace(1, 8, n1).sum())
    S = rng.standard_normal((len(rows), n2)) * (rng.random((len(rows), n2)) < 0.2)
    return kind(rows, S, (truth.to_dense()[rows] * S).sum(1), n1), truth


def test_a_model_is_two_methods():
    problem, truth = case(RowSums)
    assert lr.testing.dot_test(problem) < 1e-12
    lr.testing.check_gradient(problem, rank=2)
    for solver in ("auto", "prgd", "gauss-newton", "niht"):
        result = lr.solve(problem, 2, solver, max_iter=2000)
        assert result.converged, result
        assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_what_it_has_not_is_refused_by_name():
    problem, _ = case(RowSums)
    assert not any(supports(problem, need) for need in (HasCounts, HasSplit, HasInitialPoint))
    with pytest.raises(lr.ParameterError, match=r"IRLS needs a TightFrame .*RowSums has none"):
        lr.solve(problem, 2, lr.solvers.IRLS())


def test_capabilities_are_used_where_it_has_them():
    problem, truth = case(CountedRowSums)
    assert all(supports(problem, need) for need in (HasCounts, HasSplit, HasInitialPoint))
    result = lr.solve(problem, "auto")
    assert result.X.rank == 2
    assert problem.asked == 2
    assert truth.distance(result.X) < 1e-4 * truth.norm()
    weights = lr.metrics.Counts().start(problem.gradient(result.X))
    assert float(weights.mode(0).w.max()) > 2 * float(weights.mode(0).w.min())
