"""Theorem 1 inside its premise: measurements whose isometry constant is known."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.geometry import FixedRank
from lorank.paper import load
from lorank.paper.theorem import near_isometry, premise


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.3])
def test_the_isometry_constant_is_what_was_asked_for(delta):
    """The dense twin: the eigenvalues of A* A are 1 + delta and 1 - delta, both of them."""
    rng = np.random.default_rng(0)
    n1, n2 = 6, 5
    truth = FixedRank(*(np.linalg.qr(rng.standard_normal((n, 1)))[0] for n in (n1,)), np.ones(1), np.full((n2, 1), n2**-0.5))
    problem = near_isometry(truth, delta, rng)
    basis = [np.eye(n1)[:, [i]] for i in range(n1)]
    other = [np.eye(n2)[:, [j]] for j in range(n2)]
    A = np.column_stack([problem.forward(u, v) for u in basis for v in other])
    values = np.linalg.eigvalsh(A.T @ A)
    assert values == pytest.approx(np.where(values > 1, 1 + delta, 1 - delta), abs=1e-12)
    assert {round(v, 6) for v in values} == {round(1 + delta, 6), round(1 - delta, 6)}
    assert problem.y == pytest.approx(A @ truth.to_dense().ravel())


def test_inside_the_premise_every_step_contracts():
    experiment = load("theorem")
    inside = [point for point in experiment.points("quick") if point.extra is not None]
    assert {(point.params["rank"], point.extra) for point in inside} == {(2, 1.0), (2, 10.0), (5, 10.0)}
    for point in inside:
        solver = point.methods[0].grid[0]
        instance = experiment.instance(point, 0)
        outcome = experiment.run(point, instance, solver, max_iter=500, max_seconds=60, traced=True)
        errors = np.array(outcome.trace["error"])
        assert outcome.reached
        assert (errors[1:] <= 0.995 * errors[:-1]).all()


def test_the_premise_as_in_the_paper():
    assert premise(4, 3.0) == pytest.approx(1 / 650)
