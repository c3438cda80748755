"""The default: sweeps and conjugate gradients from a staged start, and where they stall, IRLS and Gauss-Newton."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..common.checks import NOT_NEGATIVE, SHARE, Expected, check_parameters, instance, whole
from ..geometry import BlockWeights, FixedRank
from ..loop.runner import SOLVER, Solver
from ..loop.state import State
from ..metrics import Blocks, Counts
from ..problems import Problem, RescaledProblem, SinglePrecisionProblem
from ..problems.capabilities import FastALS, HasCounts, HasSinglePrecision, Rescalable, TightFrame, supports
from ..solvers.als import ALS
from ..solvers.gauss_newton import GaussNewton
from ..solvers.irls import IRLS
from ..solvers.rcg import RCG
from ..starts.rank_growth import grow
from ..starts.spectral import Spectral
from .noise_test import at_rest, looks_like_noise

FULL, REWEIGHTED, GROWING, GROWN = "at full rank", "reweighted", "growing", "grown"
NEWTON, LAST = "second order", "last"
_RATES = Expected(
    "be a tuple of numbers between 0 and 1",
    lambda value: isinstance(value, tuple) and len(value) > 0 and all(SHARE.holds(rate) for rate in value),
)


@dataclass(frozen=True)
class Memory:
    """The phase and its solver, the balanced problem or that in single precision if it runs there, the state there and its
    residuals so far.

    ``rank`` is the rank asked for, ``stalled`` the residual at which each way so far got stuck, and ``best`` the best point of
    that rank with its residual. ``noted`` is what IRLS said last: how many directions, and when. ``refined`` says whether the
    weights of rows and columns are as fine as they get.
    """

    solver: Solver
    inner: State
    rank: int
    balanced: RescaledProblem | None = None
    single: SinglePrecisionProblem | None = None
    phase: str = FULL
    residuals: tuple[float, ...] = ()
    stalled: tuple[float, ...] = ()
    best: tuple[FixedRank, float] | None = None
    noted: tuple[int, int] = (0, 0)
    refined: bool = False


@dataclass(frozen=True)
class Auto(Solver):
    """Tries the fast way first and the sure way where that fails.

    1. Conjugate gradients at full rank from a staged start: some ten steps on well-sampled data. Rows and columns that were
       seen more often than others weigh more (:class:`~lorank.metrics.Counts`). Where rows or columns differ much in size,
       this happens in units in which they do not (``Problem.rescaled``); else, where observations are many, in
       single precision down to a relative residual of ``rough``. Where they are many for each degree of freedom too, and the
       rank is small, sweeps of alternating least squares (:class:`ALS`) come first, as long as each of them leaves at most
       ``lasting`` of the residual.
    2. Where the residual is below ``near`` and falls slowly, rows and columns are weighted by their own normal equations
       (:class:`~lorank.metrics.Blocks`): rows with hardly more observations than the rank need that.
    3. Where the residual has not fallen to ``fall`` of itself within ``window`` steps, and does not look like noise
       (:func:`looks_like_noise`): iteratively reweighted least squares (:class:`IRLS`) from scratch. It gets through
       ill-conditioned and barely sampled problems. For models that it is not made for: back to rank 1 and on rank by rank,
       each time from the leading singular pair of what is left over.
    4. Then second order (:class:`GaussNewton`), until it fits or no longer gains.
    5. Where that ends elsewhere than steps 1 and 2 did, and data are still not fitted, a second and slower IRLS. Two ways that
       end at the same residual tell that there is no better one, and conjugate gradients go on from the best point.

    What it did is told in ``result.status.advice`` and ``result.history.notes``.

    Parameters
    ----------
    solver : Solver
        Of the first phase, and of the last.
    finer : Solver
        Takes over near the solution where the first falls slowly.
    sweeps : Solver
        Comes before the first, where the backend has a fused pass for it,
    plenty : float
        with so many measurements per degree of freedom,
    lasting : float
        until two sweeps in a row leave more than this share of the residual.
    near : float
        Relative residual below which ``finer`` may take over,
    slowing : float
        where the last ``settle`` steps left more than this share of the residual.
    rates : tuple of float
        Of :class:`IRLS`; the first only with ``ample`` measurements per degree of freedom.
    ample : float
    newton : GaussNewton
        Of the second order phase.
    rough : float
        Relative residual down to which steps are computed in single precision, where the problem has it
        (:class:`~lorank.problems.capabilities.HasSinglePrecision`).
    window : int
        Steps within which the residual must fall
    fall : float
        to this share of itself.
    finest : int
        Largest rank for which ``finer`` pays.
    settle : int
        Steps over which a rank's residual must still fall by a tenth, or the next rank is tried.
    max_steps : int
        The most steps at each rank, and of second order.
    idle : int
        Steps of second order in a row that gain nothing.
    attempts : int
        Of :class:`IRLS`.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.plans.Auto(window=30)).converged
    True
    """

    solver: Solver = field(default_factory=lambda: RCG(Counts()))
    finer: Solver = field(default_factory=lambda: RCG(Blocks()))
    sweeps: Solver = field(default_factory=ALS)
    plenty: float = 4.0
    lasting: float = 0.6
    near: float = 0.05
    slowing: float = 0.03
    rates: tuple[float, ...] = (0.9, 0.95, 0.98)
    ample: float = 1.8
    newton: GaussNewton = field(default_factory=GaussNewton)
    rough: float = 1e-5
    window: int = 25
    fall: float = 0.3
    finest: int = 64
    settle: int = 5
    max_steps: int = 30
    idle: int = 3
    attempts: int = 2

    default_start: ClassVar[str] = "rescaled"

    def __post_init__(self) -> None:
        check_parameters(
            self,
            solver=SOLVER,
            finer=SOLVER,
            sweeps=SOLVER,
            plenty=NOT_NEGATIVE,
            lasting=SHARE,
            near=SHARE,
            slowing=SHARE,
            finest=whole(0),
            rates=_RATES,
            ample=NOT_NEGATIVE,
            newton=instance(GaussNewton, "a GaussNewton object"),
            rough=NOT_NEGATIVE,
            window=whole(1),
            fall=SHARE,
            settle=whole(1),
            max_steps=whole(1),
            idle=whole(1),
            attempts=whole(0),
        )

    def start(self, problem: Problem, state: State) -> Memory:
        balanced = problem.rescaled() if supports(problem, Rescalable) else None
        single = problem.single_precision() if supports(problem, HasSinglePrecision) else None
        plain = balanced is None and supports(problem, TightFrame)  # least squares, in the units of the data
        if not plain or state.residual <= self.rough:
            single = None
        inside = balanced or single
        inner = state if inside is None else State.at(inside.problem, inside.into(state.X))
        rank, where = state.X.rank, inside.problem if inside else problem
        amply = (
            single is not None
            and supports(problem, FastALS)
            and problem.als_pays(rank)
            and problem.m >= self.plenty * problem.dof(rank)
        )
        first = self.sweeps if amply else self.solver
        inner = inner.remember(first.start(where, inner))
        return Memory(first, inner, rank, balanced, single, residuals=(inner.residual,))

    def step(self, problem: Problem, state: State) -> State:
        memory: Memory = state.memory
        if state.X.rank == memory.rank and (memory.best is None or state.residual < memory.best[1]):
            memory = replace(memory, best=(state.X, state.residual))
        turn = self._turn(problem, state, memory)
        if turn is not None:
            return turn
        if memory.single is not None and state.residual < self.rough:
            inner = State.at(problem, state.X)
            memory = replace(memory, single=None, inner=inner.remember(memory.solver.start(problem, inner)))
        units = memory.balanced or memory.single
        inside = units.problem if units else problem
        note = ""
        if memory.phase == FULL and memory.solver == self.sweeps:
            memory, note = self._after_sweeps(inside, memory)
        elif self._slowing(memory):
            memory, note = self._refine(inside, memory)
        inner = memory.solver.step(inside, memory.inner)
        recent = (*memory.residuals, inner.residual)[-1 - max(self.window, self.max_steps) :]
        new = replace(self._outer(problem, state, replace(memory, inner=inner, residuals=recent)), note=note)
        if memory.phase != REWEIGHTED or inner.memory.done:
            return new
        active = inner.memory.active
        if active <= memory.noted[0] and state.iteration < memory.noted[1] + 40:
            return new
        note = f"smoothing {inner.memory.epsilon:.1e}: {active} of {memory.rank} directions stand out"
        noted = (max(active, memory.noted[0]), state.iteration)
        return replace(new, note=note, restarted=True, memory=replace(new.memory, noted=noted))

    def _after_sweeps(self, problem: Problem, memory: Memory) -> tuple[Memory, str]:
        """The same phase with conjugate gradients, where the last two sweeps have hardly paid; and a note."""
        last, inner = memory.residuals[-3:], memory.inner
        if len(last) < 3 or min(last[1] / last[0], last[2] / last[1]) <= self.lasting:
            return memory, ""
        inner = inner.remember(self.solver.start(problem, inner))
        memory = replace(memory, solver=self.solver, inner=inner, residuals=(inner.residual,))
        return memory, f"conjugate gradients from residual {inner.residual:.1e} on"

    def _slowing(self, memory: Memory) -> bool:
        """Whether it is worth a try to weigh rows and columns more finely."""
        recent = memory.residuals[-1 - self.settle :]
        if memory.phase != FULL or memory.refined or memory.rank > self.finest or len(recent) <= self.settle:
            return False
        return max(100 * np.finfo(memory.inner.X.dtype).eps, self.slowing * recent[0]) < recent[-1] < self.near

    def _refine(self, problem: Problem, memory: Memory) -> tuple[Memory, str]:
        """The same phase with finer weights, where the model has them and the residual is no noise; and a note."""
        last, inner = memory.residuals[-2:], memory.inner
        memory = replace(memory, refined=True)
        # A residual that still falls by a fifth is no noise, and the look costs as much as a few steps.
        if not supports(problem, HasCounts) or (last[1] > 0.8 * last[0] and looks_like_noise(problem, inner)):
            return memory, ""
        inner = inner.remember(self.finer.start(problem, inner))
        if not isinstance(getattr(inner.memory, "metric", None), BlockWeights):  # a model that has none
            return memory, ""
        memory = replace(memory, solver=self.finer, inner=inner, residuals=(inner.residual,))
        return memory, f"each row and column by its own weights from residual {inner.residual:.1e} on"

    def _turn(self, problem: Problem, state: State, memory: Memory) -> State | None:
        """The first state of the next phase, where it is time for one."""
        phase, inner, level = memory.phase, memory.inner.memory, f"{state.residual:.1e}"
        if memory.balanced is not None and at_rest(problem, memory.rank, memory.residuals) and looks_like_noise(problem, state):
            note = f"the residual stayed near {level} and looks like noise: on in the units of the data"
            return self._begin(problem, state, memory, LAST, self.solver, note)
        if phase == FULL and self._slow(memory, 0.6 if memory.refined else 1.0):  # the finer way is fast, or none
            stuck = replace(memory, stalled=(state.residual,))
            if looks_like_noise(problem, state):
                note = f"the residual stayed near {level} and looks like noise: nothing else was tried"
                return self._begin(problem, state, stuck, LAST, self.solver, note)
            said = f"the residual stayed near {level} at rank {memory.rank}: started again, "
            if supports(problem, TightFrame) and memory.rank < min(problem.shape):
                return self._begin(problem, state, stuck, REWEIGHTED, self._irls(problem, stuck), said + "by IRLS")
            if memory.rank > 1:
                return self._begin(
                    problem,
                    state,
                    stuck,
                    GROWING,
                    self.solver,
                    said + "rank by rank",
                    lambda: Spectral(tol=1e-2, restarts=2)(problem, 1, np.random.default_rng(0)),
                )
            return self._begin(problem, state, stuck, NEWTON, self.newton, f"the residual stayed near {level}: second order")
        if phase == REWEIGHTED and inner.done:
            return self._begin(problem, state, memory, NEWTON, self.newton, f"IRLS ended at {level}: second order")
        if phase == GROWING and self._rank_is_fitted(memory.residuals):
            rank = state.X.rank + 1
            return self._begin(
                problem,
                state,
                memory,
                GROWING if rank < memory.rank else GROWN,
                self.solver,
                f"rank {rank} from residual {level}",
                lambda: grow(problem, state.X, 1, np.random.default_rng(state.X.rank)),
            )
        if phase == GROWN and self._slow(memory):
            return self._begin(problem, state, memory, NEWTON, self.newton, f"the residual stayed near {level}: second order")
        if phase == NEWTON and (inner.idle >= self.idle or len(memory.residuals) > self.max_steps):
            return self._after_newton(problem, state, memory)
        return None

    def _after_newton(self, problem: Problem, state: State, memory: Memory) -> State:
        """Again, more slowly, where there is hope; else on from the best point."""
        tried, again = len(memory.stalled), replace(memory, stalled=(*memory.stalled, state.residual))
        alike = any(abs(state.residual - other) < 0.02 * other for other in memory.stalled)
        fitted = state.residual < 1e3 * np.finfo(state.X.dtype).eps
        can = supports(problem, TightFrame) and memory.rank < min(problem.shape)
        if can and tried < self.attempts and not alike and not fitted and not looks_like_noise(problem, state):
            note = f"second order ended at {state.residual:.1e}: IRLS once more, slower"
            return self._begin(problem, state, again, REWEIGHTED, self._irls(problem, again), note)
        assert memory.best is not None
        X, residual = memory.best
        return self._begin(problem, state, again, LAST, self.solver, f"on from the best point, {residual:.1e}", lambda: X)

    def _irls(self, problem: Problem, memory: Memory) -> IRLS:
        """Slower the fewer the measurements, and the more often it was tried."""
        first = 0 if problem.m >= self.ample * problem.dof(memory.rank) else 1
        return IRLS(self.rates[min(first + len(memory.stalled) - 1, len(self.rates) - 1)])

    def _begin(
        self,
        problem: Problem,
        state: State,
        memory: Memory,
        phase: str,
        solver: Solver,
        note: str,
        where: Callable[[], FixedRank] | None = None,
    ) -> State:
        """Begin a phase, in the units of the data, where the last one ended or at another point."""
        X = state.X if where is None else problem.project_feasible(where())
        inner = state.next(problem, X, float("nan"))
        inner = inner.remember(solver.start(problem, inner))
        memory = replace(memory, solver=solver, inner=inner, balanced=None, single=None, phase=phase)
        memory = replace(memory, residuals=(inner.residual,))
        memory = replace(memory, noted=(0, inner.iteration))
        return replace(self._outer(problem, state, memory), note=note, previous=None, restarted=True)

    def _outer(self, problem: Problem, state: State, memory: Memory) -> State:
        """The state in the units of the data."""
        inner = memory.inner
        if memory.single is not None:  # the gradient in the data's own precision where somebody asks for it, and only then
            X = memory.single.back(inner.X)
            new = State(state.iteration + 1, X, problem.gradient(X), inner.residual, inner.step, state.X, memory)
        elif memory.balanced is None:
            new = replace(inner, iteration=state.iteration + 1, memory=memory)
        else:
            new = state.next(problem, memory.balanced.back(inner.X), inner.step, memory)
            new = replace(new, restarted=True)  # what lowers the balanced misfit need not lower this one
        # On the way up, a small change from one point to the next says nothing about the end.
        return replace(new, previous=None) if memory.phase in (GROWING, REWEIGHTED) else new

    def _slow(self, memory: Memory, share: float = 1.0) -> bool:
        """Whether descent is slow, seen over a share of the window."""
        residuals, window = memory.residuals, round(share * self.window)
        if len(residuals) <= window or residuals[-1] < 100 * np.finfo(memory.inner.X.dtype).eps:  # too early, or rounding
            return False
        return residuals[-1] > self.fall**share * residuals[-1 - window]

    def _rank_is_fitted(self, residuals: tuple[float, ...]) -> bool:
        count = len(residuals) - 1
        return count >= self.max_steps or (count >= self.settle and residuals[-1] > 0.9 * residuals[-1 - self.settle])
