"""Robust completion as a plan: least squares, and a search for outliers where its residuals show that there are some."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..common.checks import Checked, instance, parameter
from ..geometry import FixedRank
from ..loop.result import Outliers
from ..loop.runner import Run
from ..loop.solver import Ending
from ..loop.state import State
from ..losses import Cauchy
from ..metrics import Blocks
from ..plans.auto import Auto
from ..plans.noise_test import residual_is_white
from ..plans.registry import register_default
from ..plans.stages import ALWAYS, FINISHED, Condition, Context, Plan, PlannedSolver, PlanState, Stage, Transition
from ..problems import Completion, Problem, Units
from ..problems.capabilities import HasSinglePrecision, TightFrame, supports
from ..solvers.als import ALS
from ..solvers.rcg import RCG
from .detection import Detection
from .options import A_TUPLE_OF_SCHEDULES, SCHEDULES, SmoothingSchedule, Thresholds
from .reweighting import Annealing, Following, search_state
from .trimming import End, Trimming, TrimmingState
from .validation import validate
from .weights import biweight, deviations, threshold_weights

NO_OUTLIERS_FOUND = (
    "A search for outliers found none, and the residual does not look as if there were none: there are too few observations to "
    "decide. Use a smaller rank or more observations."
)


@dataclass(frozen=True)
class Robust(Checked, PlannedSolver):
    """Completion with outliers: finds them, and fits all other observations by least squares. It needs no scale.

    1. Least squares by :class:`~lorank.plans.Auto`. Without outliers nothing else happens.
    2. Where the residual stalls with heavy tails: reweighted least squares from scratch (:mod:`lorank.robust.reweighting`),
       with the weights ``(1 + |d / epsilon|^2)^(-3/4)`` of a smoothed sum of square roots of the deviations d, and an epsilon
       that falls (:class:`SmoothingSchedule`). With many observations, steps are sweeps of alternating least squares, and
       epsilon then follows the fit.
    3. Trimmed least squares (:mod:`lorank.robust.trimming`): observations beyond a limit are left out, and the limit follows
       the fit.
    4. Rows and columns of which unusually few observations fit are refitted one by one
       (:func:`~lorank.robust.row_repair.repaired`).
    5. Where the residual of the other observations is neither zero nor white noise, the same with the next, slower schedule.
       With few observations, noise is accepted only after two attempts with the same end. After the last attempt, the best
       end is used, or least squares with all observations where it has hardly any outliers.

    ``result.outliers`` has the observations that were left out, and ``result.residual`` is that of the others. A fit with
    undetermined rows or poor predictions of held-out observations is no success (:mod:`lorank.robust.validation`).

    Parameters
    ----------
    least_squares : Auto
        Solver of the first stage.
    descent : RCG
        Conjugate gradients of the other stages.
    als : ALS
        Alternating least squares, used before ``descent`` where observations are many and the backend has a fused kernel.
    schedules : tuple of SmoothingSchedule
        One for each attempt. The first of several is used only with many observations.
    thresholds : Thresholds

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(80, 60, rank=2, oversampling=8, factors="gaussian")
    >>> values = np.array(problem.y)
    >>> values[::20] = 30.0  # corrupt 5 % of the entries
    >>> problem = lr.Completion(problem.rows, problem.cols, values, problem.shape)
    >>> result = lr.solve(problem, rank=2, solver=lr.robust.Robust())
    >>> truth.distance(result.X) < 1e-4 * truth.norm()
    True
    """

    least_squares: Auto = parameter(factory=lambda: Auto(core_until=0.0), expected=instance(Auto, "an Auto object"))
    descent: RCG = parameter(factory=lambda: RCG(Blocks()), expected=instance(RCG, "an RCG object"))
    als: ALS = parameter(factory=lambda: ALS(relaxation=1.2), expected=instance(ALS, "an ALS object"))
    schedules: tuple[SmoothingSchedule, ...] = parameter(SCHEDULES, A_TUPLE_OF_SCHEDULES)
    thresholds: Thresholds = parameter(factory=Thresholds, expected=instance(Thresholds, "a Thresholds object"))

    needs: ClassVar[tuple[type, ...]] = (Completion, TightFrame)
    default_start: ClassVar[str] = "staged"
    finds_outliers: ClassVar[bool] = True
    rank_oversampling: ClassVar[float] = 2.2  # with fewer, low-rank matrices fit the outliers

    def plan(self) -> Plan:
        """The stages and the transitions between them."""
        detection = Detection(self.least_squares, self.thresholds)
        accepted, rejected = Condition(self._accepted), "outlier search ended with a residual that is not noise: "
        found = "{plan.inner.memory.outliers:.2%} of the observations are outliers"
        judged = (
            Transition(FINISHED & accepted, "inliers", found),
            Transition(FINISHED & Condition(self._has_schedule), "annealing", rejected + "slower schedule"),
            Transition(FINISHED & Condition(self._few_outliers), "all observations", rejected + "all observations used"),
            Transition(FINISHED, "best end"),
        )
        search = Transition(FINISHED, "annealing", "residual stalled with heavy tails: search for outliers")
        to_trimming = Transition(FINISHED, "coarse trimming")
        annealed = Transition(FINISHED & USES_ALS, "following"), to_trimming
        following = Following(self.descent, self.als, self.thresholds)
        return Plan(
            stages=(
                Stage("least squares", detection, (search,), keep=lambda state: state),
                Stage("annealing", self._annealing, annealed, start=self._begin, units=single_precision, provisional=True),
                Stage("following", following, (to_trimming,), provisional=True),
                Stage("coarse trimming", self._trimming("coarse"), (Transition(FINISHED, "trimming"),)),
                Stage("trimming", self._trimming("full"), judged, units=data_units, keep=lambda state: state.memory.end()),
                Stage("inliers", self._trimming("accepted")),
                Stage("best end", self._best_end),
                Stage("all observations", detection, start=least_squares_state),
            ),
            first=(Transition(ALWAYS, "least squares"),),
        )

    def _trimming(self, stage: Any, end: End | None = None) -> Trimming:
        return Trimming(self.descent, self.als, self.thresholds, stage, end)

    def _attempt(self, now: Context) -> int:
        """Index of the schedule."""
        return now.plan.times("trimming") + (len(self.schedules) > 1 and not self._is_ample(now))

    def _is_ample(self, now: Context) -> bool:
        return now.problem.m > self.thresholds.ample_oversampling * now.problem.dof(now.plan.rank)

    def _annealing(self, now: Context) -> Annealing:
        return Annealing(self.descent, self.als, self.schedules[self._attempt(now)])

    def _begin(self, now: Context) -> State:
        problem, inside, rank = now.problem, now.plan.units.problem, now.plan.rank
        assert isinstance(problem, Completion)
        assert isinstance(inside, Completion)
        use_als = now.plan.times("trimming") == 0 and self._is_ample(now) and problem.als_pays(rank)
        return search_state(inside, now.state, rank, self.schedules[self._attempt(now)].first, use_als)

    def _accepted(self, now: Context) -> bool:
        """Whether the fit is exact, or noise; with few observations, a poor fit looks like noise unless it is found twice."""
        memory: TrimmingState = now.plan.inner.memory
        if memory.exact:
            return True
        earlier = _ends(now)[:-1]
        alike = bool(earlier) and abs(memory.objective / min(end.objective for end in earlier) - 1) < self.thresholds.same_end
        if not self._is_ample(now) and not alike:
            return False
        return residual_is_white(memory.fit.gradient.problem, memory.fit)

    def _has_schedule(self, now: Context) -> bool:
        return self._attempt(now) + 1 < len(self.schedules)

    def _few_outliers(self, now: Context) -> bool:
        """Whether the best end has hardly any outliers."""
        return best_end(now).share > 1 - self.thresholds.min_outliers

    def _best_end(self, now: Context) -> Trimming:
        return self._trimming("accepted", best_end(now))

    # -- results -----------------------------------------------------------------------------------------------------------
    def rank_problem(self, problem: Completion) -> Problem:
        """The problem with a robust loss: the rank is searched before outliers are known."""
        return problem.with_loss(Cauchy())

    def finish(self, problem: Completion, X: FixedRank, run: Run) -> Ending:
        """The outliers, the noise of the other observations, and doubts about a success."""
        memory, doubt = run.last.memory, ""
        if run.status.success:
            doubt = self.doubts(problem, X, memory, noisy=run.status == "noise")
            doubt = NO_OUTLIERS_FOUND if doubt and self.gave_up(memory) else doubt
        outliers, noise = self.outliers(problem, X, memory)
        return Ending(noise, outliers, doubt)

    @staticmethod
    def gave_up(memory: Any) -> bool:
        """Whether a search for outliers was in vain, and the fit is one of least squares with all observations."""
        return isinstance(memory, PlanState) and memory.stage.name == "all observations"

    @staticmethod
    def limit(memory: Any) -> float:
        """The deviation beyond which observations are outliers; infinite where there is none yet."""
        inner = memory.inner.memory if isinstance(memory, PlanState) else None
        return inner.limit if isinstance(inner, TrimmingState) else math.inf

    def doubts(self, problem: Completion, X: FixedRank, memory: Any, *, noisy: bool) -> str:
        """Reasons to doubt the end X of a successful run; empty if there are none."""
        return validate(problem, X, self.limit(memory), noisy=noisy, searched=self.gave_up(memory))

    def outliers(self, problem: Completion, X: FixedRank, memory: Any) -> tuple[Outliers, float]:
        """The outliers at X, and the standard deviation of the other deviations."""
        d, limit = deviations(problem, X), self.limit(memory)
        fitting, share = threshold_weights(d, limit, problem.observations.weights)
        weights = problem.in_given_order(biweight(d, limit))
        mask = problem.in_given_order(threshold_weights(d, limit)[0], missing=1) == 0
        left = share * problem.m - problem.dof(X.rank)
        noise = math.sqrt(problem.backend.inner(fitting * d, d) / left) if left > 0 else math.nan
        return Outliers(mask, weights, limit), noise


USES_ALS = Condition(lambda now: bool(now.plan.inner.memory.use_als))


def data_units(problem: Problem, state: State) -> Units:
    return Units(problem)


def single_precision(problem: Problem, state: State) -> Units:
    """Single precision where the problem has it in the unit of the data, which is that of the limits."""
    single = problem.single_precision() if supports(problem, HasSinglePrecision) else None
    return Units(problem) if single is None or single.unit != 1 else single


def least_squares_state(now: Context) -> State:
    """The last state of the first stage."""
    state: State = next(ended.kept for ended in now.plan.ended if ended.name == "least squares")
    return state


def _ends(now: Context) -> list[End]:
    """The ends of all attempts, the current one last."""
    return [ended.kept for ended in now.plan.ended if ended.name == "trimming"] + [now.plan.inner.memory.end()]


def best_end(now: Context) -> End:
    return min(_ends(now), key=lambda end: end.objective)


register_default(lambda problem, rank: problem.robust, Robust)
