"""The default solver for matrices as a plan: ALS or conjugate gradients first, then IRLS and Gauss-Newton where they stall."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..common.checks import NOT_NEGATIVE, SHARE, Checked, Expected, instance, parameter, whole
from ..geometry import FixedRank, Weights
from ..loop.solver import SOLVER, Solver
from ..loop.state import State
from ..metrics import Blocks, Counts, Quotient
from ..problems import Problem, Units
from ..problems.capabilities import FastALS, HasCounts, HasObservedCore, HasSinglePrecision, Rescalable, TightFrame, supports
from ..solvers.als import ALS
from ..solvers.gauss_newton import GaussNewton
from ..solvers.irls import IRLS
from ..solvers.rcg import RCG
from ..starts.spectral import Spectral
from ..starts.staged import grow
from .noise_test import is_stationary, residual_is_white
from .stages import (
    ALWAYS,
    FINISHED,
    Condition,
    Context,
    Plan,
    PlannedSolver,
    Stage,
    Transition,
    below,
    best_point,
    current_point,
    each_step_leaves,
    ends_fewer_than,
    enter,
    extended_core,
    lasts,
    oversampled,
    stalls,
)

SAME_RESIDUAL = 0.02  # relative difference of the residuals of two ends that are considered the same
STALLED = "residual stalled at {state.residual:.1e}"
FROM = " from residual {plan.inner.residual:.1e}"
CORE_FITTED = " fitted to {plan.inner.residual:.1e}: other rows and columns by least squares"
NEXT_RANK = "rank {state.X.rank} fitted to residual {state.residual:.1e}: one rank more"
_RATES = Expected(
    "be a tuple of numbers between 0 and 1",
    lambda value: isinstance(value, tuple) and len(value) > 0 and all(SHARE.holds(rate) for rate in value),
)


@dataclass(frozen=True)
class Auto(Checked, PlannedSolver):
    """The default solver: fast methods first, and more robust ones where these stall.

    1. Riemannian conjugate gradients at full rank (``descent``). Where some rows or columns have fewer than twice as many
       observations as the rank, first on the others alone, the well-observed core
       (:class:`~lorank.problems.capabilities.HasObservedCore`), which is then extended by least squares ("extension"). In
       rescaled units where rows or columns differ much in size (:class:`~lorank.problems.capabilities.Rescalable`);
       otherwise, with many observations, in single precision down to a relative residual of ``single_precision_until``. With
       many observations per degree of freedom and a small rank, alternating least squares (``als``) precedes them.
    2. Near the solution, where the residual falls slowly: conjugate gradients in a block metric (``refinement``), which
       helps rows with hardly more observations than the rank.
    3. Where the residual stalls and is white noise (:func:`~lorank.plans.noise_test.residual_is_white`), nothing else is
       tried. Where it is not: iteratively reweighted least squares (:class:`~lorank.solvers.IRLS`) from scratch. It solves
       ill-conditioned and barely sampled problems. For models that IRLS does not apply to: rank 1, then one rank more at a
       time, each from the leading singular pair of the residual.
    4. Gauss-Newton, until the data are fitted or it stalls.
    5. Where Gauss-Newton ends at another residual than the stages before, a second and slower IRLS; otherwise conjugate
       gradients from the best point.

    ``result.history.notes`` and ``result.status.advice`` list the transitions.

    Parameters
    ----------
    descent : Solver
        Solver of the initial and final stages.
    refinement : Solver
        Solver near the solution, used only where it obtains block weights from the problem.
    als : Solver
        Solver that precedes ``descent``, where the backend has a fused kernel for it.
    newton : GaussNewton
        Second-order solver.
    als_min_oversampling : float
        Measurements per degree of freedom from which ``als`` is used.
    als_max_rate : float
        ``als`` ends when two iterations in a row leave more than this share of the residual.
    refine_below : float
        Relative residual below which ``refinement`` may take over.
    refine_ratio : float
        ``refinement`` takes over when the last ``trend_window`` steps left more than this share of the residual.
    refine_max_rank : int
        Largest rank for which ``refinement`` is used.
    irls_rates : tuple of float
        Rates of :class:`~lorank.solvers.IRLS`, from fast to slow; each attempt uses the next.
    irls_fast_oversampling : float
        Measurements per degree of freedom below which the first rate is skipped.
    irls_max_attempts : int
        Largest number of IRLS stages.
    core_until : float
        Relative residual of the well-observed core at which it is extended to all rows and columns; 0 to compute with all
        from the beginning.
    single_precision_until : float
        Relative residual above which the first stages compute in single precision, where the problem supports it.
    stall_window : int
        Steps over which a stall of ``descent`` is judged.
    stall_ratio : float
        ``descent`` stalls when ``stall_window`` steps leave more than this share of the residual.
    trend_window : int
        Steps over which the trend of the residual is judged, for ``refinement`` and for the next rank.
    stage_max_iter : int
        Largest number of steps at each rank, and of Gauss-Newton.
    newton_patience : int
        Gauss-Newton ends after so many steps in a row that lower the residual by less than a tenth.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.plans.Auto(stall_window=30)).converged
    True
    """

    descent: Solver = parameter(factory=lambda: RCG(Quotient(Counts())), expected=SOLVER)
    refinement: Solver = parameter(factory=lambda: RCG(Blocks()), expected=SOLVER)
    als: Solver = parameter(factory=ALS, expected=SOLVER)
    newton: GaussNewton = parameter(factory=GaussNewton, expected=instance(GaussNewton, "a GaussNewton object"))
    als_min_oversampling: float = parameter(4.0, NOT_NEGATIVE)
    als_max_rate: float = parameter(0.6, SHARE)
    refine_below: float = parameter(0.05, SHARE)
    refine_ratio: float = parameter(0.03, SHARE)
    refine_max_rank: int = parameter(64, whole(0))
    irls_rates: tuple[float, ...] = parameter((0.9, 0.95, 0.98), _RATES)
    irls_fast_oversampling: float = parameter(1.8, NOT_NEGATIVE)
    irls_max_attempts: int = parameter(2, whole(0))
    core_until: float = parameter(1e-7, NOT_NEGATIVE)
    single_precision_until: float = parameter(1e-5, NOT_NEGATIVE)
    stall_window: int = parameter(25, whole(1))
    stall_ratio: float = parameter(0.3, SHARE)
    trend_window: int = parameter(5, whole(1))
    stage_max_iter: int = parameter(30, whole(1))
    newton_patience: int = parameter(3, whole(1))

    default_start: ClassVar[str] = "staged"

    def plan(self) -> Plan:
        """The stages and the transitions between them."""
        slow = stalls(self.stall_window, self.stall_ratio)
        slow_refined = stalls(round(0.6 * self.stall_window), self.stall_ratio**0.6)
        slowing = rank_at_most(self.refine_max_rank) & stalls(self.trend_window, self.refine_ratio) & below(self.refine_below)
        # A residual that still falls by a fifth in a step is no noise, and the noise test costs as much as a few steps.
        refinable = HAS_COUNTS & ~(each_step_leaves(1, 0.8) & WHITE_IN_UNITS)
        rank_fitted = lasts(self.stage_max_iter) | stalls(self.trend_window, 0.9, min_epsilons=0)
        newton_ends = each_step_leaves(self.newton_patience, 0.9) | lasts(self.stage_max_iter)
        irls_again = IRLS_APPLIES & ends_fewer_than("irls", self.irls_max_attempts) & ~SAME_END & ~FITTED & ~WHITE

        def stalled(slow: Condition) -> tuple[Transition, ...]:
            core_fitted = below(self.core_until) | ROUNDING | (STATIONARY_IN_UNITS | slow) & WHITE_IN_UNITS
            return (
                Transition(CORE & core_fitted, "extension", "well-observed core" + CORE_FITTED),
                Transition(RESCALED & STATIONARY & WHITE, "noise", STALLED + " and is white noise: continued in data units"),
                Transition(slow & WHITE, "noise", STALLED + " and is white noise: no other method tried"),
                Transition(slow & IRLS_APPLIES, "irls", STALLED + " with rank {plan.rank}: restarted with IRLS"),
                Transition(slow & ~rank_at_most(1), "growth", STALLED + " with rank {plan.rank}: restarted with rank 1"),
                Transition(slow, "newton", STALLED + ": Gauss-Newton"),
            )

        refine = Transition(slowing & refinable, "refinement", "block metric" + FROM)
        irls_ends = Transition(FINISHED, "newton", "IRLS ended at residual {state.residual:.1e}: Gauss-Newton")
        growing = Transition(rank_fitted & LAST_RANK, "full rank", NEXT_RANK), Transition(rank_fitted, "growth", NEXT_RANK)
        after_newton = (
            Transition(newton_ends & irls_again, "irls", "Gauss-Newton ended at residual {state.residual:.1e}: slower IRLS"),
            Transition(newton_ends, "best", "continued from the best point, residual {plan.best.residual:.1e}"),
        )
        extension_stalled = (
            Transition(slow_refined & WHITE, "noise", STALLED + " and is white noise: no other method tried"),
            Transition(slow_refined, "newton", STALLED + ": Gauss-Newton"),
        )
        als_slow = each_step_leaves(2, self.als_max_rate)
        return Plan(
            stages=(
                Stage("als", self.als, (*stalled(slow), Transition(als_slow, "descent", "conjugate gradients" + FROM))),
                Stage("descent", self.descent, (*stalled(slow), refine, Transition(slowing, "unrefined"))),
                Stage("refinement", self.refinement, stalled(slow_refined), suits=has_block_metric),
                Stage("unrefined", self.descent, stalled(slow_refined)),
                Stage("extension", self._refined, extension_stalled, start=extended_core),
                Stage("irls", self._irls, (irls_ends,), start=current_point, provisional=True),
                Stage("growth", self.descent, growing, start=next_rank, provisional=True),
                Stage("full rank", self.descent, (Transition(slow, "newton", STALLED + ": Gauss-Newton"),), start=next_rank),
                Stage("newton", self.newton, after_newton, start=current_point),
                Stage("noise", self.descent, start=current_point),
                Stage("best", self.descent, start=best_point),
            ),
            first=(
                Transition((SINGLE_PRECISION | CORE) & ALS_PAYS & oversampled(self.als_min_oversampling), "als"),
                Transition(ALWAYS, "descent"),
            ),
            units=partial(fastest_units, single_precision_until=self.single_precision_until, core=self.core_until > 0),
            max_window=max(self.stall_window, self.stage_max_iter),
        )

    def _refined(self, now: Context) -> Solver:
        return self.refinement if now.plan.rank <= self.refine_max_rank else self.descent

    def _irls(self, now: Context) -> IRLS:
        """IRLS, slower with fewer measurements and with each attempt."""
        slower = now.plan.times("irls") + (not oversampled(self.irls_fast_oversampling)(now))
        return IRLS(self.irls_rates[min(slower, len(self.irls_rates) - 1)])


def fastest_units(problem: Problem, state: State, single_precision_until: float, core: bool = True) -> Units:
    """The well-observed core, where other rows and columns are poorly observed; rescaled where rows or columns differ much in
    size; else single precision for least squares with many data.
    """
    inside = problem.observed_core(state.X.rank) if core and supports(problem, HasObservedCore) else None
    if inside is not None and inside.problem.rescaled() is None:
        units, rough = Units(inside.problem, "core", inside.restrict, observed_core=inside), inside.problem.single_precision()
        if rough is None or enter(units, state).residual <= single_precision_until:
            return units
        into = partial(_through, inside.restrict, rough.into)
        return replace(
            units, problem=rough.problem, into=into, back=rough.back, min_residual=single_precision_until, then=units
        )
    rescaled = problem.rescaled() if supports(problem, Rescalable) else None
    if rescaled is not None:
        return rescaled
    single = problem.single_precision() if supports(problem, HasSinglePrecision) else None
    if single is None or not supports(problem, TightFrame) or state.residual <= single_precision_until:
        return Units(problem)
    return replace(single, min_residual=single_precision_until)


def _through(first: Callable[[FixedRank], FixedRank], second: Callable[[FixedRank], FixedRank], X: FixedRank) -> FixedRank:
    return second(first(X))


WHITE = Condition(lambda now: residual_is_white(now.problem, now.state))
WHITE_IN_UNITS = Condition(lambda now: residual_is_white(now.plan.units.problem, now.plan.inner))
STATIONARY = Condition(lambda now: is_stationary(now.problem, now.plan.rank, now.plan.residuals))
FITTED = Condition(lambda now: now.state.residual < 1e3 * float(np.finfo(now.state.X.dtype).eps))
STATIONARY_IN_UNITS = Condition(lambda now: is_stationary(now.plan.units.problem, now.plan.rank, now.plan.residuals))
ROUNDING = Condition(lambda now: now.plan.residuals[-1] < 100 * float(np.finfo(now.state.X.dtype).eps))
CORE = Condition(lambda now: now.plan.units.kind == "core")
RESCALED = Condition(lambda now: now.plan.units.kind == "rescaled")
SINGLE_PRECISION = Condition(lambda now: now.plan.units.kind == "single precision")
HAS_COUNTS = Condition(lambda now: supports(now.plan.units.problem, HasCounts))
ALS_PAYS = Condition(lambda now: supports(now.problem, FastALS) and now.problem.als_pays(now.plan.rank))
IRLS_APPLIES = Condition(lambda now: irls_applies(now.problem, now.plan.rank))
LAST_RANK = Condition(lambda now: now.state.X.rank + 1 >= now.plan.rank)


def _same_end(now: Context) -> bool:
    return any(
        abs(now.state.residual - ended.residual) < SAME_RESIDUAL * ended.residual
        for ended in now.plan.ended
        if ended.name != "irls"
    )


SAME_END = Condition(_same_end)


def irls_applies(problem: Problem, rank: Any) -> bool:
    return all(supports(problem, need) for need in IRLS.needs) and rank < min(problem.shape)


def rank_at_most(rank: int) -> Condition:
    return Condition(lambda now: bool(now.plan.rank <= rank))


def has_block_metric(state: State) -> bool:
    metric = getattr(state.memory, "metric", None)
    return isinstance(metric, Weights) and metric.inverse is not None


def next_rank(now: Context) -> FixedRank:
    """One rank more, by the leading singular pair of the residual; rank 1 where the point has full rank."""
    problem, X = now.problem, now.state.X
    if X.rank == now.plan.rank:
        return problem.project_feasible(Spectral(tol=1e-2, restarts=2)(problem, 1, np.random.default_rng(0)))
    return problem.project_feasible(grow(problem, X, 1, np.random.default_rng(X.rank)))
