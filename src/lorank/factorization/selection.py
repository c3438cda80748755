"""The choice of a rank and of a strength of regularisation by error on held-out observations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from ..backends import Array, backend_of, device_backend
from ..common.blas_threads import limit_blas_threads
from ..geometry.truncated_svd import truncated_svd
from ..loop.runner import INTERRUPTED
from ..problems import Completion
from .factors import Factors
from .fit import Fit, Settings, fit_factors, unfitted
from .folds import ArrayFold, Bounds, Fold, Observed
from .initialization import fit_biases, residual_problem
from .variational import VariationalALS

RANKS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
COARSE = (0, 1, 3, 8, 24, 64, 128)  # where observations are many: learned priors let what a rank has too much fade away
MANY = 300_000  # observations: from here on ranks are tried in larger steps, and learned priors are known well enough
BRIEF = 8  # sweeps of a rank that is tried there, alike for all
PATIENCE = 2  # ranks without a better error before the path ends,
LITTLE = 1e-3  # better by more than this, relatively;
LITTLE_COARSE = 1e-2  # where ranks are tried in larger steps, one gain below this will do: the next takes ten times as long
PREFERRED = 0.9  # a strength is taken over learned priors only where its error is below this share of theirs: it rarely
# predicts better, and on small data often seems to
SIMPLER = 2e-3  # a smaller rank is taken where its error is larger by no more than this
FADED = 1e-3  # of the largest singular value: a component below this share has been faded away by its learned prior
STEPS = 9  # strengths on a path, each half of the one before
NONNEGATIVE_STEPS = range(2, 14)  # the same where values are not centred: the largest singular value is then mostly their mean


@dataclass(frozen=True)
class Candidate:
    """One point of the path.

    Attributes
    ----------
    rank : int
    regularization : float or None
        None: priors learned from the data.
    error : float
        Root mean squared error on held-out observations, the mean over folds.
    fits : int
        Folds that it was fitted in.
    """

    rank: int
    regularization: float | None
    error: float
    fits: int = 1


@dataclass(frozen=True)
class Selection:
    """What was chosen, and from what.

    Attributes
    ----------
    settings : Settings
    curve : list of Candidate
        In the order of the path.
    fit : Fit
        The chosen candidate in the first fold: its factors are a start for the fit to all data.
    scores : array
        Of the held-out observations: |error| / predicted spread.
    values, predictions, spreads : arrays
        The held-out values, what the chosen candidate made of them without having seen them, and how far off it expected to be.
    interrupted : bool
        Whether Ctrl-C ended the choice: the fit is the best so far, and nothing was held against it.
    """

    settings: Settings
    curve: list[Candidate]
    fit: Fit
    scores: np.ndarray
    values: np.ndarray
    predictions: np.ndarray
    spreads: np.ndarray
    interrupted: bool = False


@dataclass(frozen=True)
class _Path:
    """What one fold tried, in order, with the fit of the best alone: covariances are large."""

    tried: list[tuple[Settings, float]]
    best: int
    fit: Fit

    @property
    def interrupted(self) -> bool:
        return self.fit.status == INTERRUPTED or not self.tried


def select(
    rows: Array,
    cols: Array,
    values: Array,
    shape: tuple[int, int],
    settings: Settings,
    *,
    weights: Array | None = None,
    ranks: Sequence[int] | None = None,
    search: str = "given",
    folds: int = 1,
    share: float = 0.1,
    n_jobs: int | None = None,
    bounds: Bounds = None,
) -> Selection:
    """Try ranks and strengths along a path, and take what predicts held-out observations best.

    Parameters
    ----------
    rows, cols, values, shape, weights
        The observations.
    settings : Settings
        What is not chosen.
    ranks : sequence of int, optional
        Ranks to try, in rising order; the path ends where two in a row do not better the error. By default the one of
        ``settings``. Each is fitted from a start of its own, so that none has an advantage; where observations are many, by
        a few sweeps each.
    search : {"given", "path", "both"}
        The regularisation of ``settings``; a path of penalties, each half of the one before, from the largest that leaves
        anything; or both, at the rank that the former found best.
    folds : int
        1 holds out a random share of the observations; k >= 2 is k-fold cross-validation, in parallel.
    share : float
        The share that is held out where ``folds`` is 1.
    n_jobs : int, optional
        Processes for folds, as joblib counts them.
    bounds : (float, float), optional
        Predictions are clipped to these before they are judged.
    """
    if settings.device is not None:
        device = device_backend(settings.device)
        rows, cols, values = device.asindex(rows), device.asindex(cols), device.asarray(values)
        weights = None if weights is None else device.asarray(weights)
    data = Observed(rows, cols, values, shape, weights)
    if weights is not None and bool((weights == 0).any()):
        data = data.part(weights > 0)  # what counts for nothing judges nothing either
    parts = _parts(data, folds, share, np.random.default_rng(settings.seed))
    made = [ArrayFold(data, part, bounds) for part in parts]
    return select_on_folds(made, settings, ranks=ranks, search=search, n_jobs=n_jobs)


def select_on_folds(
    folds: Sequence[Fold],
    settings: Settings,
    *,
    ranks: Sequence[int] | None = None,
    search: str = "given",
    n_jobs: int | None = None,
) -> Selection:
    """The same by folds that are made already, wherever their observations are."""
    ranks = [settings.rank] if ranks is None else list(ranks)
    work = [(fold, settings, ranks, search) for fold in folds]
    if len(work) > 1 and n_jobs not in (None, 1):
        from joblib import Parallel, delayed

        paths = Parallel(n_jobs=n_jobs)(delayed(_path)(*one) for one in work)
    else:
        paths = []
        for one in work:
            paths.append(_path(*one))
            if paths[-1].interrupted:
                break
    if not paths[-1].interrupted:
        try:
            return _best(paths, folds)
        except KeyboardInterrupt:
            pass
    first, none = paths[0], np.empty(0)
    chosen = first.tried[first.best][0] if first.tried else settings
    curve = [Candidate(s.rank, s.regularization, e) for s, e in first.tried]
    return Selection(chosen, curve, replace(first.fit, status=INTERRUPTED), none, none, none, none, interrupted=True)


def _parts(data: Observed, folds: int, share: float, rng: np.random.Generator) -> list[Array]:
    """Flags of what each fold holds out. On a device they are drawn there, and shares are met up to chance."""
    m = len(data.values)
    if isinstance(data.values, np.ndarray) or m < MANY:
        if folds < 2:
            label = np.zeros(m, int)
            label[rng.permutation(m)[: max(1, min(m - 1, round(share * m)))]] = 1
            flags = [label == 1]
        else:
            label = rng.permutation(m) % folds
            flags = [label == k for k in range(folds)]
        return [backend_of(data.values).asarray(part) for part in flags]
    drawn, at = backend_of(data.values).random_normal(rng, (m,), np.float32), NormalDist().inv_cdf
    if folds < 2:
        return [drawn < at(share)]
    edges = [-np.inf, *(at(k / folds) for k in range(1, folds)), np.inf]
    return [(drawn >= low) & (drawn < high) for low, high in itertools.pairwise(edges)]


def _path(fold: Fold, settings: Settings, ranks: list[int], search: str) -> _Path:
    """One fold."""
    problem, mean = fold.problem(settings)
    tried: list[tuple[Settings, float]] = []
    best: list[Any] = [0, None]  # its place, and its fit

    def attempt(settings: Settings, start: Factors | None, rest: Completion | None = None) -> tuple[Fit, float]:
        brief = replace(settings, max_iter=min(settings.max_iter, BRIEF)) if problem.m >= MANY and len(ranks) > 1 else settings
        fit = fit_factors(problem, mean, brief, start, rest=rest)
        if fit.status == INTERRUPTED:
            if best[1] is None:
                best[1] = fit
            raise KeyboardInterrupt
        tried.append((settings, fold.error(problem, mean, fit.factors, fit.loss)))
        new, old = (Candidate(s.rank, s.regularization, e) for s, e in (tried[-1], tried[best[0]]))
        if best[1] is None or _betters(new, old):
            best[:] = [len(tried) - 1, fit]
        return fit, tried[-1][1]

    def along_ranks() -> None:
        biases = rest = None
        if settings.biases:
            with limit_blas_threads(problem.blas_threads):
                biases = fit_biases(problem, VariationalALS(biases=True))
                if len(ranks) > 1 and problem.backend.in_main_memory:  # where there is room for one more vector
                    rest = residual_problem(problem, biases)
        least, since, coarse = np.inf, 0, problem.m >= MANY
        for rank in ranks:
            _, last = attempt(replace(settings, rank=rank), biases, rest)
            more = last < least * (1 - (LITTLE_COARSE if coarse else LITTLE))
            least, since = min(least, last), 0 if more else since + 1
            if since >= (1 if coarse and last <= least else PATIENCE):
                break
        if not coarse and settings.regularization is None:
            without_faded(biases)

    def without_faded(biases: Factors | None) -> None:
        """The rank that is left when components that faded away are not counted: the one that solve(rank="auto") finds."""
        rank, fit = tried[best[0]][0].rank, best[1]
        lasting = _lasting(fit.factors, rank)
        if lasting < rank and all(lasting != s.rank for s, _ in tried):
            attempt(replace(settings, rank=lasting), biases)

    def along_strengths(rank: int) -> None:
        start, least, since = None, np.inf, 0
        with limit_blas_threads(problem.blas_threads):
            top = _largest(problem)
        for k in range(1, STEPS + 1) if not settings.nonnegative else NONNEGATIVE_STEPS:
            fit, last = attempt(replace(settings, rank=rank, regularization=top * 0.5**k), start)
            # A strength that leaves nothing is no start: zero factors stay zero.
            start = fit.factors if abs(fit.factors.rows[:, :rank]).max() > 1e-6 else None
            least, since = (last, 0) if last < least else (least, since + 1)
            if since >= PATIENCE:
                break

    none = ranks == [0]  # biases alone: there is nothing that strengths would be of
    try:
        if search != "path" or len(ranks) > 1 or none:
            along_ranks()
        if search != "given" and not none:
            along_strengths(max(tried[best[0]][0].rank if tried else settings.rank, 1))
    except KeyboardInterrupt:
        fit = best[1] or unfitted(problem, mean, settings)
        best[1] = replace(fit, status=INTERRUPTED)
    return _Path(tried, *best)


def _best(paths: list[_Path], folds: Sequence[Fold]) -> Selection:
    """Average over folds what all of them tried, and take the best."""
    # Strengths are relative to the fold's largest, so that candidates of folds correspond by place on the path.
    names = [[(s.rank, None if s.regularization is None else k) for k, (s, _) in enumerate(path.tried)] for path in paths]
    common = [name for name in names[0] if all(name in other for other in names[1:])] or names[0]
    curve: list[Candidate] = []
    for name in common:
        found = [path.tried[own.index(name)] for path, own in zip(paths, names, strict=True) if name in own]
        curve.append(Candidate(name[0], found[0][0].regularization, float(np.mean([e for _, e in found])), len(found)))
    at = 0
    for k, one in enumerate(curve):
        if _betters(one, curve[at]):
            at = k
    name = common[at]
    outs: list[np.ndarray] = []
    winner: tuple[Settings, Fit] | None = None
    for path, own, fold in zip(paths, names, folds, strict=True):
        if name not in own:
            continue
        fit, settings = path.fit, path.tried[own.index(name)][0]
        if own.index(name) != path.best:  # another one was best in this fold
            fit = fit_factors(*fold.problem(settings), settings)
            if fit.status == INTERRUPTED:
                raise KeyboardInterrupt
        outs.append(fold.judged(fit))
        winner = winner or (settings, fit)
    assert winner is not None
    truth, guess, spread = np.concatenate(outs, axis=1)
    scores = np.empty(0) if np.isnan(spread).any() else np.abs(truth - guess) / spread
    return Selection(winner[0], curve, winner[1], scores, truth, guess, spread)


def _lasting(factors: Factors, rank: int) -> int:
    """How many of the components (biases are none) have not faded away."""
    backend = backend_of(factors.rows)
    left, right = (backend.gram(a[:, :rank], a[:, :rank]) for a in (factors.rows, factors.cols))
    sizes = np.abs(np.linalg.eigvals(left @ right)) ** 0.5
    return int((sizes > FADED * sizes.max()).sum()) if rank and sizes.max() > 0 else rank


def _betters(new: Candidate, old: Candidate) -> bool:
    """Whether a candidate is to be taken over another, in whichever order they were tried."""
    if (new.regularization is None) != (old.regularization is None):
        return new.error * (PREFERRED if new.regularization is None else 1) < old.error * (
            PREFERRED if old.regularization is None else 1
        )
    if new.regularization is not None or new.rank == old.rank:
        return new.error < old.error
    if new.rank > old.rank:
        return new.error < (1 - SIMPLER) * old.error
    return new.error <= old.error / (1 - SIMPLER)


def _largest(problem: Completion) -> float:
    """About the largest singular value of the observations: the strength above which the nuclear norm leaves nothing."""
    if problem.y_norm == 0:
        return 1.0
    start = problem.backend.random_normal(np.random.default_rng(0), (problem.shape[1], 1), problem.dtype)
    return float(truncated_svd(*problem.products(problem.y), start, 1, problem.backend).s[0])
