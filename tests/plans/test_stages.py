"""Plans: transitions of both kinds, conditions, provisional points and units."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import lorank as lr
from lorank.loop.state import State
from lorank.plans.auto import fastest_units
from lorank.plans.stages import (
    ALWAYS,
    FINISHED,
    Condition,
    Plan,
    Stage,
    Transition,
    below,
    current_point,
    enter,
    lasts,
    leave,
    stalls,
)
from lorank.problems import Units
from lorank.solvers import RCG, GaussNewton


def completion(**options):
    return lr.datasets.random_completion(80, 60, 2, oversampling=5, factors="gaussian", seed=1, **options)


def states_of(problem, plan, **options):
    seen = []
    result = lr.solve(problem, 2, plan, callbacks=[lambda problem, state, clock: seen.append(state)], **options)
    return result, seen


def test_conditions_evaluate_the_second_operand_only_where_it_decides():
    def fail(now):
        raise AssertionError("evaluated")

    never, other = ~ALWAYS, Condition(fail)
    assert (ALWAYS | other)(None)
    assert not (never & other)(None)
    assert (ALWAYS & ~never)(None)


@pytest.mark.parametrize("where", ["until", "first"])
def test_transitions_to_unknown_phases_are_refused(where):
    wrong, right = (Transition(ALWAYS, "newtn"),), (Transition(ALWAYS, "descent"),)
    with pytest.raises(ValueError, match="newtn"):
        Plan((Stage("descent", RCG(), wrong if where == "until" else ()),), wrong if where == "first" else right)


def test_a_phase_with_a_start_begins_anew():
    problem, _ = completion()
    plan = Plan(
        (
            Stage("descent", RCG(), (Transition(lasts(3), "newton", "at {state.residual:.1e}"),)),
            Stage("newton", GaussNewton(), start=current_point),
        ),
        (Transition(ALWAYS, "descent"),),
    )
    result, seen = states_of(problem, plan, tol=1e-10)
    assert result.converged
    assert list(result.history.notes) == [4]
    assert seen[4].restarted
    assert seen[4].previous is None
    assert np.isnan(seen[4].step)
    assert seen[4].X is seen[3].X
    assert [ended.name for ended in seen[4].memory.ended] == ["descent"]
    assert f"{seen[3].residual:.1e}" in seen[4].note


def test_a_phase_without_a_start_takes_over_in_the_same_iteration():
    problem, _ = completion()
    plan = Plan(
        (
            Stage("descent", RCG(), (Transition(lasts(3), "newton", "taken over"),)),
            Stage("newton", GaussNewton()),
        ),
        (Transition(ALWAYS, "descent"),),
    )
    result, seen = states_of(problem, plan, tol=1e-10)
    assert result.converged
    assert seen[4].note == "taken over"
    assert seen[4].step == 1.0
    assert not seen[4].restarted
    assert seen[4].memory.steps == 1
    assert seen[4].memory.stage.name == "newton"


def test_a_phase_that_does_not_suit_is_passed_over():
    problem, _ = completion()
    plan = Plan(
        (
            Stage("descent", RCG(), (Transition(lasts(3), "other"), Transition(lasts(3), "newton"))),
            Stage("other", GaussNewton(tol=1e-2), suits=lambda state: False),
            Stage("newton", GaussNewton()),
        ),
        (Transition(ALWAYS, "descent"),),
    )
    _, seen = states_of(problem, plan, tol=1e-10)
    assert seen[4].memory.stage.name == "newton"


def test_small_changes_of_provisional_points_do_not_end_a_run():
    problem, _ = completion()
    first = (Transition(ALWAYS, "descent"),)
    rule = lr.stopping.RelativeChange(1e-3)
    for provisional, status in ((False, "settled"), (True, "max_iter")):
        plan = Plan((Stage("descent", RCG(), provisional=provisional),), first)
        assert lr.solve(problem, 2, plan, stop=rule, max_iter=60).status == status


def test_solvers_end_a_phase_by_their_state():
    class Counted(RCG):
        def step(self, problem, state):
            return replace(super().step(problem, state), finished=state.iteration >= 2)

    problem, _ = completion()
    plan = Plan(
        (
            Stage("first", Counted(), (Transition(FINISHED, "newton", "x"),)),
            Stage("newton", GaussNewton(), start=current_point),
        ),
        (Transition(ALWAYS, "first"),),
    )
    result, _ = states_of(problem, plan)
    assert list(result.history.notes) == [4]


def test_the_best_point_of_the_requested_rank_is_kept():
    problem, _ = completion()
    plan = Plan((Stage("descent", RCG()),), (Transition(ALWAYS, "descent"),))
    _, seen = states_of(problem, plan, max_iter=5, tol=0)
    best = seen[-1].memory.best
    assert best.residual == min(state.residual for state in seen)


def test_units_convert_points_there_and_back():
    problem, truth = lr.datasets.random_completion(80, 60, 2, oversampling=8, factors="ill-scaled", spread=1.0, seed=1)
    state = State.at(problem, problem.project_feasible(truth))
    units = fastest_units(problem, state, 1e-5)
    assert units.kind == "rescaled"
    inner = enter(units, state)
    assert inner.residual < 1e-12
    new = leave(units, problem, state, inner)
    assert new.restarted
    assert truth.distance(new.X) < 1e-12 * truth.norm()
    assert enter(Units(problem), state) is state


def test_stalls_ignore_rounding():
    problem, _ = completion()
    plan = Plan(
        (Stage("descent", RCG(), (Transition(stalls(3, 0.9), "newton", "stalled"),)), Stage("newton", GaussNewton())),
        (Transition(ALWAYS, "descent"),),
    )
    result, _ = states_of(problem, plan, stop=lr.stopping.Iterations(60))
    assert not result.history.notes
    assert result.residual < 1e-12


def test_planned_solvers_can_be_pickled_after_a_run():
    problem, _ = completion()
    solver = lr.plans.Auto(stall_window=20)
    result = lr.solve(problem, 2, solver)
    assert pickle.loads(pickle.dumps(result.solver)) == solver


def test_below():
    problem, _ = completion()
    plan = Plan(
        (Stage("descent", RCG(), (Transition(below(1e-3), "newton", "near"),)), Stage("newton", GaussNewton())),
        (Transition(ALWAYS, "descent"),),
    )
    result, _ = states_of(problem, plan, tol=1e-10)
    (k,) = result.history.notes
    assert result.history.residual[k - 1] < 1e-3 <= result.history.residual[k - 2]


class Finished(RCG):
    """Finished before its fourth step."""

    def step(self, problem, state):
        return replace(state, finished=True) if state.iteration == 3 else super().step(problem, state)


def test_a_solver_that_is_finished_before_a_step_hands_over_in_the_same_iteration():
    problem, _ = completion()
    first, to_newton = (Transition(ALWAYS, "first"),), (Transition(FINISHED, "newton", "next"),)
    plan = Plan((Stage("first", Finished(), to_newton), Stage("newton", GaussNewton())), first)
    result, seen = states_of(problem, plan, tol=1e-10)
    assert result.converged
    assert list(result.history.notes) == [4]
    assert seen[4].step == 1.0
    with pytest.raises(RuntimeError, match="first"):
        lr.solve(problem, 2, Plan((Stage("first", Finished()),), first), tol=1e-10)


def test_phases_keep_what_later_phases_ask_for():
    problem, _ = completion()
    plan = Plan(
        (
            Stage("first", RCG(), (Transition(lasts(3), "again"),), keep=lambda state: state.X),
            Stage("again", RCG(), start=lambda now: now.plan.ended[0].kept),
        ),
        (Transition(ALWAYS, "first"),),
    )
    _, seen = states_of(problem, plan)
    assert seen[4].X is seen[3].X


def test_needs_of_a_phase_are_checked():
    plan = Plan(stages=(Stage("irls", lr.solvers.IRLS()),), first=(Transition(ALWAYS, "irls"),))
    problem, _ = lr.datasets.random_sensing(8, 6, 1)
    with pytest.raises(lr.ParameterError, match="IRLS"):
        lr.solve(problem, 1, plan)
