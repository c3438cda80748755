"""Methods of the paper's comparisons: equal budgets, the paper's literal version, and the hypothesis on its adaptive step."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.geometry import FixedRank
from lorank.paper import load
from lorank.paper.methods import BUDGET, COMPLETION, OTHERS, CanonicalStep, UnitVariance, thinned
from lorank.paper.phase import Literal, literal_problem, measurement_matrix


@pytest.mark.parametrize("grids", [COMPLETION, OTHERS], ids=["completion", "others"])
@pytest.mark.parametrize("scale", BUDGET)
def test_every_tuned_method_has_the_same_budget(grids, scale):
    for name, grid in grids.items():
        found = thinned(grid, scale)
        assert len(set(map(repr, grid))) == len(grid), name
        assert len(found) == (BUDGET[scale] if len(grid) > 1 else 1), name
        assert found[0] == grid[0]


def test_the_sizes_of_a_rank_share_a_setting():
    """The first point selects it on all of them."""
    for scale in ("quick", "paper"):
        points = load("completion-size").points(scale)
        for point in points:
            alike = [other for other in points if other.params["rank"] == point.params["rank"]]
            if point is alike[0]:
                assert [dict(one) for one in point.tuned_on] == [dict(other.params) for other in alike]
            else:
                assert point.tuned_at == alike[0].params


def test_literal_measurements_are_those_of_the_signal():
    """A dense twin: a_i^T X a_i, its adjoint, and H_r(A* y) without shrinkage, on matrices that are not semidefinite."""
    problem, _ = lr.datasets.random_phase(6, m=30, seed=0)
    A = measurement_matrix(problem)
    literal = literal_problem(A, problem.y, problem.operator_scale)
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal((2, 6, 1))
    assert literal.forward(u, v) == pytest.approx(np.einsum("ki,ij,kj->k", A, u @ v.T, A))
    start = lr.starts.Spectral(tol=1e-12, restarts=50, rescaled=False)(literal, 1, rng)
    values, vectors = np.linalg.eigh(A.T @ (problem.y[:, None] * A))
    k = np.argmax(abs(values))
    expected = values[k] * np.outer(vectors[:, k], vectors[:, k]) / problem.operator_scale
    assert np.asarray(start) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    shortened = lr.starts.Spectral(tol=1e-12, restarts=50)(literal, 1, rng)
    assert np.linalg.norm(np.asarray(shortened)) <= np.linalg.norm(expected) * (1 + 1e-9)


def test_the_literal_version_runs():
    experiment = load("phase-real")
    point = experiment.points("tiny")[0]
    found = [method for method in point.methods if method.name.endswith("literal")]
    assert [method.name for method in found] == ["adaptive-prgd-literal", "adaptive-rgd-literal"]
    outcome = experiment.run(point, experiment.instance(point, 0), found[1].grid[0], max_iter=500, max_seconds=60)
    assert outcome.reached
    assert outcome.setting.startswith(Literal.__name__)


def test_the_step_of_the_hypothesis_is_the_formula_for_measurements_of_variance_one_over_m():
    """The dense twin, on measurements that are divided by the root of their scale, about sqrt(m)."""
    rng = np.random.default_rng(0)
    m, n, epsilon = 60, 5, 2.0
    A = rng.standard_normal((m, n, n))
    truth, X = (rng.standard_normal((n, 1)) @ rng.standard_normal((1, n)) for _ in range(2))
    problem = lr.Sensing(A, np.einsum("kij,ij->k", A, truth))
    u, s, vt = np.linalg.svd(X)
    point, scale = FixedRank(u[:, :1], s[:1], vt[:1].T), problem.operator_scale
    G = problem.gradient(point)
    weights, _ = UnitVariance(epsilon).weights(G, None)
    xi = lr.geometry.riemannian_gradient(point, G, weights)
    dense = np.einsum("kij,k->ij", A, np.einsum("kij,ij->k", A, X - truth)) / scale
    rows, cols = ((epsilon + (dense**2).sum(axis)) ** 0.25 for axis in (1, 0))
    assert np.asarray(weights.mode(0).w) / np.sqrt(scale) == pytest.approx(rows)
    assert np.asarray(weights.mode(1).w) / np.sqrt(scale) == pytest.approx(cols)
    u, v = point.U, point.V
    m1, m2 = np.linalg.inv(u.T @ (rows[:, None] * u)), np.linalg.inv(v.T @ (cols[:, None] * v))
    direction = u @ m1 @ (dense.T @ u).T / cols + (dense @ v) @ m2 @ v.T / rows[:, None] - u @ m1 @ (u.T @ dense @ v) @ m2 @ v.T
    image = np.einsum("kij,ij->k", A, direction) / np.sqrt(scale)
    expected = (direction**2).sum() / (image**2).sum()
    assert CanonicalStep()(problem, xi, G, weights) == pytest.approx(expected)
