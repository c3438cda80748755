"""Plans: solvers composed of stages, and the engine that runs them.

A :class:`Plan` is a list of :class:`Stage`. A stage has a solver and transitions to other stages, each with a
:class:`Condition`. There are two kinds of transition, depending on the next stage:

- A stage with a ``start`` begins anew: at a point of its own, in an iteration of its own. Rules on stalls ignore the
  residuals before it.
- A stage without one takes over in the middle of an iteration, at the same point. Its solver's ``start`` finds the memory of
  the solver before in ``state.memory``.

A solver whose step cannot go on returns its state with ``finished=True`` and the same iteration number. The transition is then
made in the same iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..geometry import FixedRank
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import Problem, Units
from ..problems.capabilities import require

NAN = float("nan")


class Best(NamedTuple):
    """The point with the smallest residual so far."""

    X: FixedRank
    residual: float


class Ended(NamedTuple):
    """How a stage ended: its name, the residual in data units, and what the stage keeps."""

    name: str
    residual: float
    kept: Any


class PlanState(NamedTuple):
    """Memory of a :class:`Plan`."""

    rank: Any  # requested
    stage: Stage
    solver: Solver  # of the stage
    units: Units  # of the stage
    inner: State  # of the stage, in its units
    residuals: tuple[float, ...]  # of the stage, in its units, the last ones
    best: Best  # of the requested rank, in data units
    steps: int = 0  # of the stage
    ended: tuple[Ended, ...] = ()  # stages that ended when another one began anew

    def times(self, name: str) -> int:
        """How often the stage of that name has ended."""
        return sum(stage.name == name for stage in self.ended)


class Context(NamedTuple):
    """Argument of conditions and starts: the problem, the state in data units, and the state of the plan.

    ``left`` are the units of the stage before, for the start of a stage that begins anew.
    """

    problem: Problem
    state: State
    plan: PlanState
    left: Units | None = None


@dataclass(frozen=True)
class Condition:
    """A predicate of a :class:`Context`, joined by ``&``, ``|`` and ``~``.

    ``&`` and ``|`` evaluate their second operand only where it decides.

    Parameters
    ----------
    holds : callable
        A function of the context.

    Examples
    --------
    >>> from lorank.plans.stages import ALWAYS
    >>> never = ~ALWAYS
    >>> (ALWAYS | never)(None), (ALWAYS & never)(None)
    (True, False)
    """

    holds: Callable[[Context], bool]

    def __call__(self, now: Context) -> bool:
        return self.holds(now)

    def __and__(self, other: Condition) -> Condition:
        first, second = self.holds, other.holds
        return Condition(lambda now: first(now) and second(now))

    def __or__(self, other: Condition) -> Condition:
        first, second = self.holds, other.holds
        return Condition(lambda now: first(now) or second(now))

    def __invert__(self) -> Condition:
        holds = self.holds
        return Condition(lambda now: not holds(now))


ALWAYS = Condition(lambda now: True)


class Transition(NamedTuple):
    """A change from one stage to another.

    Parameters
    ----------
    when : Condition
    to : str
        Name of the next stage.
    note : str
        Note for the history: a format string with the fields ``state`` (in data units) and ``plan`` (:class:`PlanState`).

    Examples
    --------
    >>> from lorank.plans.stages import Transition, stalls
    >>> Transition(stalls(25, 0.3), "newton", "stalled at residual {state.residual:.1e}").to
    'newton'
    """

    when: Condition
    to: str
    note: str = ""


@dataclass(frozen=True)
class Stage:
    """A solver and the transitions that end it.

    Parameters
    ----------
    name : str
    solver : Solver or callable
        Or a function of the context, where the solver depends on the stages before.
    until : tuple of Transition
        The first whose condition holds is made; before a step, those to stages with a start are considered first.
    start : callable, optional
        The point or state to begin at, in the units of the stage, as a function of the context.
    units : callable, optional
        Units of the stage, as a function of problem and state. By default data units for a stage with a start, and for others
        the units of the stage before.
    suits : callable
        Of the solver's first state: the transition is not made where it is False.
    provisional : bool
        Whether the points are provisional: a small change of the point is no sign of convergence.
    keep : callable, optional
        Value for :attr:`PlanState.ended`, as a function of the last state in the units of the stage.

    Examples
    --------
    >>> import lorank as lr
    >>> from lorank.plans.stages import Stage, Transition, lasts
    >>> stage = Stage("descent", lr.solvers.RCG(), until=(Transition(lasts(10), "newton"),))
    >>> stage.name, stage.until[0].to
    ('descent', 'newton')
    """

    name: str
    solver: Solver | Callable[[Context], Solver]
    until: tuple[Transition, ...] = ()
    start: Callable[[Context], FixedRank | State] | None = None
    units: Callable[[Problem, State], Units] | None = None
    suits: Callable[[State], bool] = field(default=lambda state: True)
    provisional: bool = False
    keep: Callable[[State], Any] = field(default=lambda state: None)

    def solver_for(self, now: Context) -> Solver:
        return self.solver if isinstance(self.solver, Solver) else self.solver(now)


@dataclass(frozen=True)
class Plan(Solver):
    """Runs stages.

    Parameters
    ----------
    stages : tuple of Stage
    first : tuple of Transition
        To the first stage. Their conditions may use the units and the residual, not the stage or its solver.
    units : callable, optional
        Units to begin in, as a function of problem and state; data units by default.
    max_window : int
        Number of steps whose residuals are kept for the conditions.

    Examples
    --------
    Conjugate gradients, and Gauss-Newton where the residual is small:

    >>> import lorank as lr
    >>> from lorank.plans.stages import ALWAYS, Stage, Plan, Transition, below
    >>> plan = Plan(
    ...     stages=(
    ...         Stage("descent", lr.solvers.RCG(), until=(Transition(below(1e-2), "newton", "Gauss-Newton"),)),
    ...         Stage("newton", lr.solvers.GaussNewton()),
    ...     ),
    ...     first=(Transition(ALWAYS, "descent"),),
    ... )
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> result = lr.solve(problem, 2, plan, tol=1e-12)
    >>> result.converged, list(result.history.notes.values())
    (True, ['Gauss-Newton'])
    """

    stages: tuple[Stage, ...]
    first: tuple[Transition, ...]
    units: Callable[[Problem, State], Units] = field(default=lambda problem, state: Units(problem))
    max_window: int = 50

    default_start: ClassVar[str] = "staged"

    def __post_init__(self) -> None:
        names = {stage.name for stage in self.stages}
        unknown = {way.to for stage in self.stages for way in stage.until} | {way.to for way in self.first}
        if unknown - names:
            raise ValueError(f"until and first must name stages of the plan, got {', '.join(sorted(unknown - names))}")

    @cached_property
    def _ways(self) -> dict[str, list[tuple[Transition, Stage]]]:
        """The transitions of each stage, with the next stages."""
        named = {stage.name: stage for stage in self.stages}
        return {stage.name: [(way, named[way.to]) for way in stage.until] for stage in self.stages}

    def start(self, problem: Problem, state: State) -> PlanState:
        units = self.units(problem, state)
        inner = enter(units, state)
        best = Best(state.X, state.residual)
        now = Context(problem, state, PlanState(state.X.rank, self.stages[0], self, units, inner, (inner.residual,), best))
        name = next(way.to for way in self.first if way.when(now))
        stage = next(stage for stage in self.stages if stage.name == name)
        solver = stage.solver_for(now)
        require(problem, solver, *solver.parts())
        inner = inner.with_memory(solver.start(units.problem, inner))
        return now.plan._replace(stage=stage, solver=solver, inner=inner)

    def step(self, problem: Problem, state: State) -> State:
        plan: PlanState = state.memory
        now = Context(problem, state, plan)
        ways = self._ways[plan.stage.name]
        for way, stage in ways:
            if stage.start is not None and way.when.holds(now):
                return self._begin(now, way, stage)
        if plan.inner.residual < plan.units.min_residual:
            units = plan.units.then or Units(problem)
            inner = State.at(units.problem, state.X)
            inner = inner.with_memory(plan.solver.start(units.problem, inner))
            plan = plan._replace(units=units, inner=inner)
            now = Context(problem, state, plan)
        note = ""
        for way, stage in ways:
            if stage.start is None and way.when.holds(now) and (taken := self._take_over(now, stage)) is not None:
                plan, note = taken, _note(way, now)
                break
        return self._advance(problem, state, plan, note)

    def _advance(self, problem: Problem, state: State, plan: PlanState, note: str) -> State:
        """A step of the current stage or, where its solver is finished before one, of the next stage."""
        inner = plan.solver.step(plan.units.problem, plan.inner)
        if inner.finished and inner.iteration == plan.inner.iteration:
            now = Context(problem, state, plan._replace(inner=inner))
            for way, stage in self._ways[plan.stage.name]:
                if way.when(now):
                    if stage.start is not None:
                        return self._begin(now, way, stage)
                    if (taken := self._take_over(now, stage)) is not None:
                        return self._advance(problem, state, taken, _note(way, now) or note)
            raise RuntimeError(f"stage {plan.stage.name!r} is finished, and none of its transitions applies")
        residuals = (*plan.residuals, inner.residual)[-1 - self.max_window :]
        return self._outer(problem, state, plan, inner, residuals, plan.steps + 1, note or inner.note)

    @staticmethod
    def _take_over(now: Context, stage: Stage) -> PlanState | None:
        """The plan in that stage at the same point; None where the stage does not suit."""
        plan, solver = now.plan, stage.solver_for(now)
        if solver == plan.solver:
            return plan._replace(stage=stage)
        units, inner = plan.units, plan.inner
        if stage.units is not None and (new := stage.units(now.problem, now.state)).kind != units.kind:
            units, inner = new, enter(new, now.state).with_memory(inner.memory)
        inner = replace(inner, memory=solver.start(units.problem, inner), finished=False)
        if not stage.suits(inner):
            return None
        return plan._replace(stage=stage, solver=solver, units=units, inner=inner, residuals=(inner.residual,), steps=0)

    def _begin(self, now: Context, way: Transition, stage: Stage) -> State:
        """The first state of a stage that begins anew."""
        problem, state, plan = now[:3]
        assert stage.start is not None
        ended = Ended(plan.stage.name, state.residual, plan.stage.keep(plan.inner))
        units = Units(problem) if stage.units is None else stage.units(problem, state)
        plan = plan._replace(stage=stage, units=units, ended=(*plan.ended, ended))
        later = Context(problem, state, plan, now.plan.units)
        first = stage.start(later)
        inner = first if isinstance(first, State) else state.next(problem, first, NAN)
        solver = stage.solver_for(later)
        require(problem, solver, *solver.parts())
        inner = replace(inner, memory=solver.start(units.problem, inner), finished=False)
        new = self._outer(problem, state, plan._replace(solver=solver), inner, (inner.residual,), 0, _note(way, now))
        return replace(new, previous=None, restarted=True)

    @staticmethod
    def _outer(
        problem: Problem, state: State, plan: PlanState, inner: State, residuals: tuple[float, ...], steps: int, note: str
    ) -> State:
        """The next state in data units."""
        stage, best, new = plan.stage, plan.best, leave(plan.units, problem, state, inner)
        if new.X.rank == plan.rank and new.residual < best.residual:
            best = Best(new.X, new.residual)
        # Constructors, not `replace`: that would take as long as the products of a small problem.
        memory = PlanState(plan.rank, stage, plan.solver, plan.units, inner, residuals, best, steps, plan.ended)
        iteration, restarted, provisional = state.iteration + 1, new.restarted, new.provisional or stage.provisional
        return State(
            iteration,
            new.X,
            new.gradient,
            new.residual,
            new.step,
            new.previous,
            memory,
            note,
            restarted,
            False,
            provisional,
            new.core_residual,
        )


def enter(units: Units, state: State) -> State:
    """The state in these units."""
    return state if units.into is None else State.at(units.problem, units.into(state.X))


def leave(units: Units, problem: Problem, state: State, inner: State) -> State:
    """The state in data units that follows ``state``; ``inner`` is the one in these units."""
    if units.kind == "data":
        return inner
    X = inner.X if units.back is None else units.back(inner.X)
    if units.kind == "rescaled":  # a step that lowers the rescaled residual need not lower this one
        return replace(state.next(problem, X, inner.step), restarted=True)
    new = replace(inner, X=X, gradient=problem.gradient(X), previous=state.X)  # computed only where it is used
    if units.observed_core is None:
        return new
    squared, part = (
        problem.y_norm**2,
        units.observed_core.problem.y_norm,
    )  # outside the core X is zero, and the residual is the data
    residual = (max(squared - part**2, 0.0) + (inner.residual * part) ** 2) ** 0.5 / (problem.y_norm or 1.0)
    return replace(new, residual=residual, restarted=True, core_residual=inner.residual)


def _note(way: Transition, now: Context) -> str:
    return way.note.format(state=now.state, plan=now.plan)


class PlannedSolver(Solver):
    """Base of solvers that are the parameters of a plan."""

    def plan(self) -> Plan:
        """The plan with these parameters."""
        raise NotImplementedError

    @cached_property
    def _plan(self) -> Plan:
        return self.plan()

    def start(self, problem: Problem, state: State) -> Any:
        return self._plan.start(problem, state)

    def step(self, problem: Problem, state: State) -> State:
        return self._plan.step(problem, state)

    def __getstate__(self) -> dict[str, Any]:  # conditions are functions, which cannot be pickled
        return {name: value for name, value in vars(self).items() if name != "_plan"}


# -- conditions -----------------------------------------------------------------------------------------------------------
def stalls(window: int, ratio: float, min_epsilons: float = 100.0) -> Condition:
    """The last ``window`` steps of the stage left more than ``ratio`` of the residual, and at least ``min_epsilons`` times the
    machine precision.
    """

    def holds(now: Context) -> bool:
        residuals = now.plan.residuals
        if len(residuals) <= window or residuals[-1] <= ratio * residuals[-1 - window]:
            return False
        return residuals[-1] >= min_epsilons * float(np.finfo(now.plan.inner.X.dtype).eps)

    return Condition(holds)


def each_step_leaves(steps: int, ratio: float) -> Condition:
    """Each of the last ``steps`` steps left more than ``ratio`` of the residual."""

    def holds(now: Context) -> bool:
        last = now.plan.residuals[-1 - steps :]
        return len(last) > steps and all(after >= ratio * before for before, after in pairwise(last))

    return Condition(holds)


def below(residual: float) -> Condition:
    """The residual, in the units of the stage, is below that."""
    return Condition(lambda now: now.plan.residuals[-1] < residual)


def lasts(steps: int) -> Condition:
    """The stage has made so many steps."""
    return Condition(lambda now: now.plan.steps >= steps)


def ends_fewer_than(name: str, times: int) -> Condition:
    """The stage of that name has ended fewer times."""
    return Condition(lambda now: now.plan.times(name) < times)


def oversampled(ratio: float) -> Condition:
    """At least so many measurements per degree of freedom."""
    return Condition(lambda now: now.problem.m >= ratio * now.problem.dof(now.plan.rank))


FINISHED = Condition(lambda now: now.plan.inner.finished)


# -- points to begin at -----------------------------------------------------------------------------------------------------
def current_point(now: Context) -> FixedRank:
    return now.state.X


def best_point(now: Context) -> FixedRank:
    return now.problem.project_feasible(now.plan.best.X)


def extended_core(now: Context) -> FixedRank:
    """The point of the core, and the other rows and columns by least squares."""
    assert now.left is not None
    assert now.left.observed_core is not None
    return now.problem.project_feasible(now.left.observed_core.extend(now.state.X))
