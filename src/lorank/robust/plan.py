"""Robust completion as a plan: least squares, and a search for outliers where its residuals show that there are some.

Its result is also the initial point for redescending losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..common.checks import Checked, instance, parameter
from ..geometry import FixedRank
from ..loop.result import Outliers
from ..loop.runner import Run, run
from ..loop.solver import Ending, Solver
from ..loop.state import State
from ..loop.stopping import Divergence, Iterations, RelativeResidual, Stall
from ..losses import Cauchy, ScaledLoss
from ..losses.residual_tails import tails
from ..metrics import Blocks
from ..plans.auto import Auto
from ..plans.noise_test import NoiseFloor, is_stationary, residual_is_white
from ..plans.registry import register_default, register_default_start
from ..plans.stages import ALWAYS, FINISHED, Condition, Context, Plan, PlannedSolver, PlanState, Stage, Transition
from ..problems import Completion, Problem, Units
from ..problems.capabilities import HasSinglePrecision, TightFrame, supports
from ..solvers.als import ALS
from ..solvers.rcg import RCG
from ..starts.staged import Staged
from .options import A_TUPLE_OF_SCHEDULES, SCHEDULES, SmoothingSchedule, Thresholds
from .reweighting import Annealing, Following, search_state
from .trimming import End, Trimming, TrimmingState
from .validation import validate
from .weights import biweight, deviations, threshold_weights

NO_OUTLIERS_FOUND = (
    "A search for outliers found none, and the residual does not look as if there were none: there are too few observations to "
    "decide. Use a smaller rank or more observations."
)
UNSURE = (
    "The outliers could not be identified, and a redescending loss may have a local minimum that fits only a part of the data. "
    "Compare with loss='huber', which is a convex loss."
)
TOLERANCE, MAX_ITER = 1e-4, 300  # of the robust fit, which is only a start
WINDOW = 6  # residuals from which a stationary one is recognized


@dataclass(frozen=True)
class DetectionState:
    """Memory of :class:`Detection`: that of least squares, the requested rank, the last residuals, and whether to test."""

    least_squares: PlanState
    rank: int
    residuals: tuple[float, ...] = ()
    testing: bool = True


@dataclass(frozen=True)
class Detection(Solver):
    """Least squares by :class:`~lorank.plans.Auto`, finished when its residuals show that there are outliers.

    Where the residual stalls without heavy tails there are none, and tests end.
    """

    least_squares: Auto
    thresholds: Thresholds

    def start(self, problem: Completion, state: State) -> DetectionState:
        if isinstance(state.memory, DetectionState):  # continued without tests, after a search in vain
            return replace(state.memory, testing=False)
        return DetectionState(self.least_squares.start(problem, state), state.X.rank)

    def step(self, problem: Completion, state: State) -> State:
        memory: DetectionState = state.memory
        testing, limits = memory.testing, self.thresholds
        scarce = problem.m < limits.min_oversampling * problem.dof(memory.rank)
        if testing and not scarce and self._stays(problem, state) and self._tail_ratio(problem, state) > limits.heavy_tails:
            return replace(state, finished=True)
        new = self.least_squares.step(problem, state.with_memory(memory.least_squares))
        if testing and (_gave_up(new.memory, scarce) or is_stationary(problem, memory.rank, memory.residuals)):
            if self._tail_ratio(problem, state) > (limits.heavy_tails if scarce else limits.light_tails):
                return replace(state, finished=True)
            testing = False
        residuals = (*memory.residuals, new.residual)[-max(limits.check_after, WINDOW) :]
        memory = DetectionState(new.memory, memory.rank, residuals, testing)
        # As long as there may be outliers, a stalled residual is not the end.
        return replace(new, memory=memory, restarted=new.restarted or testing)

    def _stays(self, problem: Completion, state: State) -> bool:
        """Whether the first steps have hardly lowered the residual."""
        memory: DetectionState = state.memory
        ample = problem.m > self.thresholds.ample_oversampling * problem.dof(memory.rank)
        steps = 2 if state.iteration == 2 and ample else self.thresholds.check_after  # clean ample data are fitted fast
        last, half = memory.residuals[-steps:], steps // 2
        return len(last) == steps and state.iteration % half == 0 and last[-1] >= self.thresholds.stall_ratio * last[half - 1]

    @staticmethod
    def _tail_ratio(problem: Completion, state: State) -> float:
        return tails(state.gradient.residual, problem.dof(state.memory.rank), problem.backend).ratio


def _gave_up(plan: PlanState, scarce: bool) -> bool:
    """Whether conjugate gradients at full rank have stalled; with few observations, whether all stages have."""
    return plan.stage.name in (("noise", "best") if scarce else ("irls", "newton", "noise", "best"))


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
    def rank_search(self, problem: Completion) -> tuple[Problem, float]:
        """With a robust loss, since outliers are not known yet; with fewer measurements, low-rank matrices fit them."""
        return problem.with_loss(Cauchy()), 2.2

    def finish(self, problem: Completion, X: FixedRank, run: Run) -> Ending:
        """The outliers, the noise of the other observations, and doubts about a success."""
        memory, doubt = run.last.memory, ""
        inner = memory.inner.memory if isinstance(memory, PlanState) else None
        limit = inner.limit if isinstance(inner, TrimmingState) else math.inf
        if run.status.success:
            doubt = validate(problem, X, limit, noisy=run.status == "noise", searched=gave_up(run))
            doubt = NO_OUTLIERS_FOUND if doubt and gave_up(run) else doubt
        d = deviations(problem, X)
        fitting, share = threshold_weights(d, limit, problem.observations.weights)
        weights = problem.in_given_order(biweight(d, limit))
        mask = problem.in_given_order(threshold_weights(d, limit)[0], missing=1) == 0
        left = share * problem.m - problem.dof(X.rank)
        noise = math.sqrt(problem.backend.inner(fitting * d, d) / left) if left > 0 else math.nan
        return Ending(noise, Outliers(mask, weights, limit), doubt)


def gave_up(run: Run) -> bool:
    """Whether a search for outliers was in vain, and the fit is one of least squares with all observations."""
    memory = run.last.memory
    return isinstance(memory, PlanState) and memory.stage.name == "all observations"


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


register_default(
    lambda problem, rank: isinstance(problem, Completion) and problem.robust,
    Robust,
    "must be 'auto' or lorank.robust.Robust(...) with loss='robust'; for other solvers use a robust loss such as 'cauchy'",
)


class RobustStart:
    """Start for redescending losses: the end of a run of :class:`Robust` with the same observations.

    From other points a loss such as Tukey's may end in a local minimum that fits only a part of the data.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> start = RobustStart()
    >>> X = start(problem, 2, np.random.default_rng(0))
    >>> start.succeeded, truth.distance(X) < 1e-2 * truth.norm()
    (True, True)
    """

    succeeded: bool = False  # whether the robust fit converged and passed its validation
    limit: float = math.inf  # deviation beyond which observations are outliers

    @property
    def warning(self) -> str:
        """Appended to the advice of the status."""
        return "" if self.succeeded else UNSURE

    def adjusted(self, problem: Problem) -> Problem:
        """The problem with a scale estimate of breakdown point 0.5 if the robust fit succeeded."""
        loss = getattr(problem, "loss", None)
        if not self.succeeded or not isinstance(problem, Completion) or not isinstance(loss, ScaledLoss):
            return problem
        return problem.with_loss(replace(loss, breakdown=0.5))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        assert isinstance(problem, Completion)
        squares = problem.squares()
        X = squares.project_feasible(Staged()(squares, rank, rng))
        rule = RelativeResidual(TOLERANCE) | NoiseFloor() | Stall() | Divergence() | Iterations(MAX_ITER)
        ended = run(squares, Robust(), X, rule)
        ending = Robust().finish(squares, ended.state.X, ended)
        assert ending.outliers is not None
        self.limit = ending.outliers.limit
        self.succeeded = ended.status.success and not gave_up(ended) and not ending.doubt
        return problem.project_feasible(ended.point())


def _redescends(problem: Problem) -> bool:
    return isinstance(problem, Completion) and problem.loss is not None and problem.loss.redescending


register_default_start(_redescends, RobustStart)
