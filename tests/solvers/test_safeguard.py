"""The safeguard: when it rejects, when it hands over, and that it stays out of the way otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lorank as lr
from lorank.loop.steps import Constant, Exact, Polyak
from lorank.metrics import Canonical, RowColumn
from lorank.solvers import Fallback
from lorank.solvers.safeguard import Trust


class Scripted:
    """Stands for a state whose next residuals are given."""

    def __init__(self, residual, following=()):
        self.residual, self.following, self.steps = residual, list(following), []

    def next(self, problem, X, step):
        self.steps.append(step)
        return Scripted(self.following.pop(0))


def advance(guard, trust, residual, following, alpha=1.0):
    state = Scripted(residual, following)
    new, trust = guard.advance(None, state, trust, alpha, lambda step: None)
    return new.residual, trust, state.steps


def test_a_small_rise_is_accepted_and_a_larger_one_halves_the_step():
    guard = lr.solvers.Safeguard(growth=1.1)
    residual, trust, steps = advance(guard, Trust(best=1.0), 1.0, [1.09])
    assert (residual, steps) == (1.09, [1.0])
    assert (trust.best, trust.waited, trust.rejected) == (1.0, 1, 0)
    residual, trust, steps = advance(guard, trust, 1.0, [1.2, 1.15, 0.9])
    assert (residual, steps) == (0.9, [1.0, 0.5, 0.25])
    assert (trust.best, trust.waited, trust.rejected) == (0.9, 0, 2)
    assert trust.fraction == pytest.approx(0.25 * guard.regrow)


def test_a_fall_is_accepted_however_far_above_the_best():
    residual, _, steps = advance(lr.solvers.Safeguard(growth=1.05), Trust(best=1.0), 5.0, [4.9])
    assert (residual, steps) == (4.9, [1.0])


def test_trust_never_exceeds_the_rules_own_step():
    _, trust, _ = advance(lr.solvers.Safeguard(), Trust(best=1.0), 1.0, [0.5])
    assert trust.fraction == 1.0


def test_rejections_hand_over_to_the_fallbacks_one_by_one():
    first, second = Fallback(Polyak(), 2.0, 3, 5), Fallback(Exact(), 1.0, math.inf, math.inf)
    guard = lr.solvers.Safeguard(rejections=2, fallbacks=(first, second))
    own = Constant()
    trust = Trust(best=1.0)
    assert guard.rule(own, trust) is own
    _, trust, _ = advance(guard, trust, 1.0, [9.0, 9.0, 0.9])
    assert (trust.stage, trust.fraction, trust.waited, trust.rejected) == (1, 1.0, 0, 0)
    assert guard.rule(own, trust) is first.rule
    for k in range(3):  # growth is the fallback's own now; its patience runs out
        residual, trust, steps = advance(guard, trust, 0.9, [1.7])
        assert (residual, steps) == (1.7, [1.0])
        assert trust.stage == (1 if k < 2 else 2)
    assert guard.rule(own, trust) is second.rule
    for _ in range(50):
        _, trust, _ = advance(guard, trust, 0.9, [9.0, 0.9])
    assert trust.stage == 2  # the last one stays


def test_patience_hands_over_too():
    guard, trust = lr.solvers.Safeguard(patience=3), Trust(best=1.0)
    for _ in range(3):
        assert trust.stage == 0
        _, trust, _ = advance(guard, trust, 1.0, [1.01])
    assert trust.stage == 1


def test_nan_is_rejected():
    residual, _, steps = advance(lr.solvers.Safeguard(), Trust(best=1.0), 1.0, [math.nan, 0.5])
    assert (residual, len(steps)) == (0.5, 2)


def test_it_gives_up_after_so_many_rejections():
    residual, _, steps = advance(lr.solvers.Safeguard(max_rejections=4), Trust(best=1.0), 1.0, [9.0] * 4)
    assert (residual, len(steps)) == (9.0, 4)


def test_good_steps_are_left_alone():
    problem, _ = lr.datasets.random_completion(80, 70, 2, oversampling=6, factors="gaussian", seed=1)
    guarded, plain = (
        lr.solve(problem, 2, lr.solvers.RGD(RowColumn(), Constant(0.4), guard), max_iter=20, tol=0)
        for guard in (lr.solvers.Safeguard(), None)
    )
    np.testing.assert_array_equal(guarded.history.residual, plain.history.residual)


@pytest.mark.parametrize("metric", [Canonical(), RowColumn()])
def test_steps_that_would_diverge_recover_with_it(metric):
    problem, truth = lr.datasets.random_completion(80, 70, 2, oversampling=6, factors="gaussian", seed=1)
    assert not lr.solve(problem, 2, lr.solvers.RGD(metric, Constant(20.0), None)).converged
    result = lr.solve(problem, 2, lr.solvers.RGD(metric, Constant(20.0)))
    assert result.converged
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_noise_settles_although_polyaks_step_does_not():
    problem, truth = lr.datasets.random_completion(300, 250, 3, oversampling=6, noise=1e-2, factors="gaussian", seed=2)
    result = lr.solve(problem, 3, lr.solvers.RGD(RowColumn(), Polyak()), stop=lr.stopping.RelativeChange(1e-7), max_iter=1000)
    assert result.status == "settled"
    assert truth.distance(result.X) < 1e-2 * truth.norm()


def test_repr_shows_what_was_changed():
    assert repr(lr.solvers.Safeguard()) == "Safeguard()"
    assert repr(lr.solvers.Safeguard(growth=2.0)) == "Safeguard(growth=2.0)"
