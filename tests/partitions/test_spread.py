"""Blocks of rows in memory: what they have beyond any backend (tests/backends/test_partitioned.py has the rest)."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import backend_pair as pair


def test_what_was_interrupted_can_be_asked_for_again(monkeypatch):
    """Ctrl-C within a program loses nothing that was to be computed."""
    _, two, truth = pair("partitions:3")
    sampled = two.observations.sample(truth.U * truth.s, truth.V)
    engine = two.observations.graph.engine
    run = engine.run

    def interrupted(program):
        monkeypatch.setattr(engine, "run", run)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        two.backend.norm(sampled)
    np.testing.assert_allclose(np.asarray(sampled), two.backend.to_numpy(two.y), rtol=1e-10, atol=1e-10)


def test_sums_follow_one_tree_whoever_holds_the_blocks():
    from lorank.partitions.plan import TreeSum, share_out, tree_total

    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 5, 8, 13):
        terms = rng.standard_normal((count, 4)) * 10.0 ** rng.integers(-8, 8, (count, 1))
        expected = tree_total(list(terms))
        for sites in range(1, count + 1):
            shares = share_out(count, sites)
            assert sorted(k for share in shares for k in share) == list(range(count))
            assert all(shares)
            together = TreeSum(count)
            for k in rng.permutation(sites):
                own = TreeSum(count)
                for block in shares[k]:
                    own.add((block, block + 1), terms[block].copy())
                for where, term in own.terms.items():
                    together.add(where, term)
            np.testing.assert_array_equal(together.total, expected)


@pytest.mark.needs("torch")
def test_blocks_that_torch_holds():
    _, two, truth = pair("partitions:2:torch")
    result = lr.solve(two, 3).numpy()
    assert truth.distance(result.X) < 1e-4 * truth.norm()


@pytest.mark.parametrize(("solver", "most"), [("rcg", 6), (lr.RCG(lr.metrics.Blocks(drift=0.99)), 8)])
def test_few_round_trips(solver, most):
    """Gram products, the slope and lengths, bases, the line search and the residual: six trips an iteration. Two more where
    rows and columns have their own equations: how far these have turned, and the projection.
    """
    _, two, _ = pair("partitions:3")
    graph, at = two.observations.graph, []
    lr.solve(
        two,
        3,
        solver,
        stop=lr.stopping.Iterations(4),
        max_iter=4,
        callbacks=[lambda p, s, c: at.append((graph.trips, graph.passes))],
    )
    trips, passes = np.diff(at, axis=0).T
    assert max(trips) <= most
    assert max(passes) <= 4


def test_what_is_known_costs_no_trip():
    _, two, _ = pair("partitions:3")
    graph, y = two.observations.graph, two.y * 2.0
    first = y.sum(), two.backend.norm(y)
    trips = graph.trips
    assert (y.sum(), two.backend.norm(y)) == first
    assert graph.trips == trips
    changed = y.copy()
    changed[:] = 1.0
    assert changed.sum() == len(changed)
