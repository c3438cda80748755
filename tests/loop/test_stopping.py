"""Stopping rules one by one, and joined."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import lorank as lr
from lorank.common.timer import Timer
from lorank.loop.result import History
from lorank.loop.state import State
from lorank.loop.stopping import (
    Divergence,
    Iterations,
    RankCollapse,
    RelativeChange,
    RelativeResidual,
    Seconds,
    Stall,
    TruthDistance,
)


@pytest.fixture(scope="module")
def problem():
    return lr.datasets.random_completion(20, 15, 2, oversampling=4, seed=0)[0]


def check(rule, problem, residuals, *, X=None, previous=None, seconds=None):
    X = lr.FixedRank.from_dense(np.diag([3.0, 2.0]) @ np.eye(2, 2), 2) if X is None else X
    history = History()
    for k, residual in enumerate(residuals):
        history.append(k, 0.0, residual, 1.0)
    state = State(len(residuals) - 1, X, None, residuals[-1], previous=previous)
    clock = Timer()
    if seconds is not None:
        clock._begin -= seconds
    return rule.check(problem, state, history, clock)


def test_relative_residual(problem):
    assert check(RelativeResidual(1e-3), problem, [1.0, 2e-3]) is None
    status = check(RelativeResidual(1e-3), problem, [1.0, 1e-3])
    assert status == "converged"
    assert status.success


def test_relative_change_is_the_papers(problem):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 5))
    old = lr.FixedRank.from_dense(a, 2)
    new = lr.FixedRank.from_dense(1.001 * a, 2)
    change = 1e-3 * np.linalg.norm(a)
    bound = change / max(1.0, np.linalg.norm(a))
    assert check(RelativeChange(0.99 * bound), problem, [1.0, 0.5], X=new, previous=old) is None
    assert check(RelativeChange(1.01 * bound), problem, [1.0, 0.5], X=new, previous=old).success
    assert check(RelativeChange(1.0), problem, [1.0], X=new, previous=None) is None
    tiny_old, tiny_new = (lr.FixedRank.from_dense(1e-3 * x, 2) for x in (a, 1.001 * a))
    # below norm 1 the change counts absolutely
    assert check(RelativeChange(1.01e-3 * change), problem, [1.0, 0.5], X=tiny_new, previous=tiny_old).success
    assert check(RelativeChange(0.99e-3 * change), problem, [1.0, 0.5], X=tiny_new, previous=tiny_old) is None


def test_truth_distance(problem):
    truth = lr.FixedRank.from_dense(np.diag([3.0, 2.0]), 2)
    near = lr.FixedRank.from_dense(np.diag([3.0, 2.1]), 2)
    bound = 0.1 / np.sqrt(13)
    assert check(TruthDistance(truth, 1.01 * bound), problem, [1.0], X=near).success
    assert check(TruthDistance(truth, 0.99 * bound), problem, [1.0], X=near) is None


def test_limits_are_no_success(problem):
    assert check(Iterations(3), problem, [1, 1, 1]) is None
    status = check(Iterations(3), problem, [1, 1, 1, 1])
    assert status == "max_iter"
    assert not status.success
    assert "max_iter" in status.advice
    assert check(Seconds(10.0), problem, [1.0], seconds=9.0) is None
    status = check(Seconds(10.0), problem, [1.0], seconds=10.5)
    assert status == "time"
    assert not status.success


def test_stall(problem):
    rule = Stall(window=5, improvement=0.01)
    assert check(rule, problem, [0.5] * 9) is None
    status = check(rule, problem, [0.5] * 10)
    assert status == "stalled"
    assert not status.success
    assert "noise" in status.advice
    assert check(rule, problem, list(0.99 ** np.arange(10))) is None
    assert check(rule, problem, [1.0] * 5 + [0.995] * 5) == "stalled"


def test_divergence(problem):
    assert check(Divergence(10), problem, [2.0, 19.0]) is None
    assert check(Divergence(10), problem, [2.0, 21.0]) == "diverged"
    assert check(Divergence(10), problem, [1e-3, 5.0]) is None  # measured from |y|, however good the start
    assert check(Divergence(10), problem, [2.0, np.nan]) == "diverged"
    assert check(Divergence(10), problem, [2.0, np.inf]) == "diverged"


def test_rank_collapse(problem):
    flat = lr.FixedRank(np.eye(4, 2), np.array([1.0, 1e-17]), np.eye(4, 2))
    assert check(RankCollapse(), problem, [1.0, 0.5], X=flat) == "rank_collapsed"
    assert check(RankCollapse(), problem, [1.0], X=flat) is None  # a start may be anything
    full = lr.FixedRank(np.eye(4, 2), np.array([1.0, 1e-12]), np.eye(4, 2))
    assert check(RankCollapse(), problem, [1.0, 0.5], X=full) is None


def test_either_and_both(problem):
    good, limit = RelativeResidual(0.1), Iterations(1)
    assert check(good | limit, problem, [1.0]) is None
    assert check(good | limit, problem, [1.0, 0.5]) == "max_iter"
    assert check(limit | good, problem, [1.0, 0.05]) == "converged"  # a success wins, whatever the order
    assert check(good & limit, problem, [0.05]) is None
    status = check(good & limit, problem, [1.0, 0.05])
    assert status == "max_iter"  # both must mean success
    assert check(RelativeResidual(0.1) & RelativeResidual(0.2), problem, [0.05]).success
    assert repr(good | (limit & good)) == "(RelativeResidual(tol=0.1) | (Iterations(limit=1) & RelativeResidual(tol=0.1)))"


def test_rules_are_immutable_values():
    rule = RelativeResidual(1e-3)
    with pytest.raises(FrozenInstanceError):
        rule.tol = 1.0
    assert rule == RelativeResidual(1e-3)
    assert hash(rule | Stall()) == hash(RelativeResidual(1e-3) | Stall())


def test_a_joined_rule_in_a_run(problem):
    rule = lr.stopping.RelativeResidual(1e-3) & lr.stopping.RelativeChange(1e-3)
    result = lr.solve(problem, 2, stop=rule)
    assert result.converged
    assert result.residual <= 1e-3


def test_a_rank_that_is_too_low_stalls_with_advice():
    problem, _ = lr.datasets.random_completion(60, 50, 3, oversampling=5, factors="gaussian", seed=1)
    result = lr.solve(problem, 1, "rcg")
    assert result.status == "stalled"
    assert "noise" in result.status.advice
    assert result.n_iter < 300
