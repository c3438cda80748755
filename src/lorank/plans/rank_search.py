"""Rank selection: components that stand out from noise first, then neighbouring ranks by their held-out errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..common.checks import ParameterError
from ..geometry import FixedRank, FixedRankManifold
from ..loop.result import RankTrial
from ..loop.runner import Interrupted, limit_threads
from ..problems import MatrixProblem, Problem
from ..problems.capabilities import HasCounts, HasSplit, PredictsError, missing, supports
from ..starts import Spectrum, Staged, spectrum
from ..starts.staged import fit, grow

HELD_OUT_SHARE = 0.1  # of the measurements
PATIENCE = 2  # ranks without a smaller held-out error before the search ends
MIN_GAIN = 0.01  # relative decrease of the held-out error that counts


@dataclass(frozen=True)
class Found:
    """Result of the search.

    Attributes
    ----------
    rank : int
    path : tuple of RankTrial
        In increasing order of the rank.
    spectrum : Spectrum or None
        Of the measurements; None for models without counts or a split.
    interrupted : FixedRank or None
        The best point so far, if Ctrl-C ended the search.
    criterion : str
        The error that was compared.
    """

    rank: int
    path: tuple[RankTrial, ...] = ()
    spectrum: Spectrum | None = None
    interrupted: FixedRank | None = None
    criterion: str = "held-out error"


def find_rank(problem: Problem, tol: float, rng: np.random.Generator, min_oversampling: float) -> Found:
    """The smallest rank that fits the data to ``tol``; else the one with the smallest held-out error.

    The first guess is the number of components that stand out from noise (:func:`~lorank.starts.spectrum`). Components that
    stand out of the residual of its fit are added, as long as this lowers the held-out error; then single ranks above and below
    are tried. Models without a spectrum begin at rank 1. Models that predict their error from all measurements
    (:class:`~lorank.problems.capabilities.PredictsError`) need no held-out ones, for quadratic losses.
    """
    if not supports(problem, FixedRankManifold):
        raise ParameterError("rank", f"'auto' {missing(problem, FixedRankManifold)}; give the rank")
    if problem.y_norm == 0:
        return Found(1)
    X, picture = problem.zero(1), None
    search = None
    try:
        with limit_threads(problem):
            picture = _spectrum(problem)
            search = _Search(problem, tol, rng, min_oversampling)
            X = search.run(max(1 if picture is None else picture.count, problem.rank_step))
    except KeyboardInterrupt as stopped:
        X = stopped.point if isinstance(stopped, Interrupted) else X
        return Found(X.rank, search.path if search else (), picture, problem.project_feasible(X))
    if search.held is None and search.trials[X.rank].residual > tol:
        least = min(trial.residual for trial in search.path)
        raise ValueError(
            f"no rank up to {search.top} fits the data to {tol:.0e} (best: {least:.1e}), and {type(problem).__name__} has no "
            "held-out measurements to select it by: raise tol, or pass the rank as a number"
        )
    return Found(X.rank, search.path, picture, criterion="predicted error" if search.predicts else "held-out error")


def describe_path(found: Found, rank: int, tol: float) -> str:
    """A sentence on the selection of the rank."""
    if not found.path:
        return ""
    chosen = next(t for t in found.path if t.rank == rank)
    tried = "rank" + "s" * (len(found.path) > 1) + " " + ", ".join(str(trial.rank) for trial in found.path)
    if chosen.residual <= tol:
        return f"Tried {tried}: rank {rank} is the smallest that fits the data."
    return f"Tried {tried}: rank {rank} has the smallest {found.criterion} (relative {chosen.held_out:.1e})."


@dataclass
class _Search:
    """Fits to the measurements that are not held out."""

    problem: Problem
    tol: float
    rng: np.random.Generator
    min_oversampling: float
    trials: dict[int, RankTrial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept, held = self.problem, None
        self.predicts = supports(self.problem, PredictsError) and self.problem.objective.is_quadratic
        if self.predicts:
            held = kept
        elif supports(self.problem, HasSplit):
            kept, held = self.problem.split(self.rng, HELD_OUT_SHARE)
        self.kept: Any = kept
        self.held: Any = held
        ranks = range(1, min(kept.shape) + 1)
        self.top = max((k for k in ranks if kept.m >= self.min_oversampling * kept.dof(k)), default=1)

    @property
    def path(self) -> tuple[RankTrial, ...]:
        return tuple(self.trials[rank] for rank in sorted(self.trials))

    def run(self, guess: int) -> FixedRank:
        """The fit of the best rank."""
        X = self._fitted(Staged()(self.kept, min(guess, self.top), self.rng))
        while not self._is_exact(X) and (more := self._standing_out(X)):
            Y = self._fitted(grow(self.kept, X, more, self.rng))
            if not self._is_better(Y, X):
                break
            X = Y
        best = above = below = X
        step = self.problem.rank_step
        patience = PATIENCE * step
        while not self._is_exact(best) and above.rank < self.top and (self.held is None or above.rank - best.rank < patience):
            above = self._fitted(grow(self.kept, above, min(step, self.top - above.rank), self.rng))
            best = above if self._is_better(above, best) else best
        while below is best and below.rank > step:
            below = self._fitted(_truncated(below, below.rank - step))
            if self._is_better(below, best, min_gain=0.0):  # components that stand out are dropped only where they do harm
                best = below
        return best

    def _fitted(self, X: FixedRank) -> FixedRank:
        kept = self.kept
        X = fit(kept, X, stall_window=10, max_iter=200, tol=self.tol, stall_ratio=0.9)
        G = kept.gradient(X)
        if self.predicts:
            error = kept.predicted_error(X)
        else:
            error = math.nan if self.held is None else self.held.objective_root(X, G.objective) / (self.held.y_norm or 1.0)
        self.trials[X.rank] = RankTrial(X.rank, G.residual_norm / kept.y_norm, error)
        return X

    def _standing_out(self, X: FixedRank) -> int:
        """Number of components of the residual that stand out, as far as the measurements suffice."""
        found = _spectrum(self.kept, X)
        return 0 if found is None else min(found.count, self.top) - X.rank

    def _is_exact(self, X: FixedRank) -> bool:
        return self.trials[X.rank].residual <= self.tol

    def _is_better(self, X: FixedRank, Y: FixedRank, min_gain: float = MIN_GAIN) -> bool:
        """Whether X fits the data and Y does not or is larger, or X has a smaller held-out error."""
        if self._is_exact(X) or self._is_exact(Y):
            return self._is_exact(X) and not (self._is_exact(Y) and Y.rank < X.rank)
        if self.held is None:
            return X.rank > Y.rank
        return self.trials[X.rank].held_out <= (1 - min_gain) * self.trials[Y.rank].held_out


def _spectrum(problem: Problem, X: FixedRank | None = None) -> Spectrum | None:
    has_spectrum = isinstance(problem, MatrixProblem) and supports(problem, HasCounts) and supports(problem, HasSplit)
    return spectrum(problem, X) if has_spectrum else None


def _truncated(X: FixedRank, rank: int) -> FixedRank:
    return FixedRank.from_factors((X.U * X.s)[:, :rank], X.V[:, :rank], backend=X.backend)
