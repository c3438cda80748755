"""Selection of rank and regularization by the error on held-out observations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from ..backends import Array, backend_of, device_backend
from ..common.blas_threads import limit_blas_threads
from ..common.logs import LOG
from ..geometry.truncated_svd import truncated_svd
from ..loop.runner import INTERRUPTED
from ..problems import Completion
from ..starts import Spectrum, spectrum
from .factors import Factors
from .fit import Fit, Settings, fit_factors, unfitted
from .folds import ArrayFold, Bounds, Fold, Observed
from .initialization import fit_biases, low_rank_fit, residual_problem
from .variational import VariationalALS

RANKS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MANY = 300_000  # observations: from here on only learned priors are tried, for a few iterations a rank
CANDIDATE_MAX_ITER = 8  # iterations of each candidate with many observations
PATIENCE, PATIENCE_MANY = 2, 1  # candidates without improvement before the path ends
MIN_GAIN = 1e-3  # smallest relative improvement
LEARNED_PREFERENCE = 0.9  # a penalty is selected over learned priors only where its error is below this share of theirs: on
# small data it often seems better by chance
RANK_TOLERANCE, RANK_TOLERANCE_MANY = 2e-3, 5e-4  # a smaller rank is selected where its error is larger by no more than this
VANISHED = 1e-3  # of the largest singular value: smaller components have vanished by their learned priors
PATH_LENGTH = 9  # penalties on a path, each half of the one before
NONNEGATIVE_PATH = range(2, 14)  # without centred values, the largest singular value is mostly their mean


@dataclass(frozen=True)
class Candidate:
    """One candidate.

    Attributes
    ----------
    rank : int
    regularization : float or None
        None for learned priors.
    error : float
        Root mean squared error on held-out observations, averaged over folds.
    fits : int
        Number of folds.
    """

    rank: int
    regularization: float | None
    error: float
    fits: int = 1


@dataclass(frozen=True)
class Selection:
    """Result of a selection.

    Attributes
    ----------
    settings : Settings
    curve : list of Candidate
        Learned priors by rank, then the path of penalties.
    fit : Fit
        The selected candidate in the first fold; its factors are initial factors for the fit to all data.
    heldout : (3, m) array
        Held-out values, their predictions by the selected candidate, and predictive standard deviations.
    spectrum : Spectrum or None
        Singular values of the training observations of the first fold without biases, whose number above the null edge is the
        first rank that was tried; None where ranks were not selected.
    interrupted : bool
        Whether Ctrl-C ended the selection; the fit is then the best so far.
    """

    settings: Settings
    curve: list[Candidate]
    fit: Fit
    heldout: np.ndarray
    spectrum: Spectrum | None = None
    interrupted: bool = False

    @property
    def scores(self) -> np.ndarray:
        """|error| / predictive standard deviation of the held-out observations; empty where the latter are not known."""
        truth, guess, spread = self.heldout
        return np.empty(0) if np.isnan(spread).any() else np.abs(truth - guess) / spread


@dataclass(frozen=True)
class _Path:
    """Candidates of one fold in order, with the fit of the best one only: covariances are large."""

    tried: list[tuple[Settings, float]]
    best: int
    fit: Fit
    tolerance: float

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
    """Select rank and regularization by the error on held-out observations.

    Parameters
    ----------
    rows, cols, values, shape, weights
        Observations.
    settings : Settings
        Settings that are not selected.
    ranks : sequence of int, optional
        Ranks to try, ascending. The first one is the number of components that stand out from noise in the spectrum of the
        observations; larger ones follow until they bring no improvement, then smaller ones until one is worse. By default
        the rank of ``settings``. Each has an initialization of its own; with many observations, each gets a few iterations.
    search : {"given", "path", "both"}
        Regularization to try: that of ``settings``; a path of penalties, each half of the one before; or both, the path at
        the best rank of the former.
    folds : int
        1 holds out a random share of the observations; k >= 2 is k-fold cross-validation.
    share : float
        Held-out share where ``folds`` is 1.
    n_jobs : int, optional
        Processes for the folds, by joblib.
    bounds : (float, float), optional
        Predictions are clipped to these.
    """
    if settings.device is not None:
        device = device_backend(settings.device)
        rows, cols, values = device.asindex(rows), device.asindex(cols), device.asarray(values)
        weights = None if weights is None else device.asarray(weights)
    data = Observed(rows, cols, values, shape, weights)
    if weights is not None and bool((weights == 0).any()):
        data = data.part(weights > 0)  # observations without weight are not held out
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
    """The same for given folds, on any backend."""
    ranks = [settings.rank] if ranks is None else list(ranks)
    found, first = None, ranks[0]
    if len(ranks) > 1:
        found = observed_spectrum(folds[0].problem(settings)[0], settings, ranks[-1])
        first = max(ranks[0], min(found.count, ranks[-1]))
        ranks = sorted({*ranks, first})
    work = [(fold, settings, ranks, search, first) for fold in folds]
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
            return replace(_best(paths, folds), spectrum=found)
        except KeyboardInterrupt:
            pass
    path = paths[0]
    chosen = path.tried[path.best][0] if path.tried else settings
    curve = _sorted([Candidate(s.rank, s.regularization, e) for s, e in path.tried])
    return Selection(chosen, curve, replace(path.fit, status=INTERRUPTED), np.empty((3, 0)), found, interrupted=True)


def observed_spectrum(problem: Completion, settings: Settings, max_rank: int) -> Spectrum:
    """Spectrum of the observations without biases; without biases in the model, that of the residual of a fit of rank 1.

    A dominating component, such as the mean of the values, would hide others.

    Parameters
    ----------
    problem : Completion
        Of the centred values.
    settings : Settings
    max_rank : int
        Largest number of singular values.
    """
    with limit_blas_threads(problem.blas_threads):
        X = None
        if settings.biases:
            problem = residual_problem(problem, fit_biases(problem, VariationalALS(biases=True)))
        else:
            X = low_rank_fit(problem, 1, np.random.default_rng(settings.seed))
        if problem.y_norm == 0:
            return Spectrum(np.zeros(0), 0.0)
        return spectrum(problem, X, seed=settings.seed % 2**31, max_rank=max_rank)


def _parts(data: Observed, folds: int, share: float, rng: np.random.Generator) -> list[Array]:
    """Flags of the held-out observations of each fold; drawn on the device, with shares up to chance."""
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


def _path(fold: Fold, settings: Settings, ranks: list[int], search: str, first: int) -> _Path:
    """The candidates of one fold; ``first`` is the rank that is tried first."""
    problem, mean = fold.problem(settings)
    patience, tolerance = (PATIENCE, RANK_TOLERANCE) if problem.m < MANY else (PATIENCE_MANY, RANK_TOLERANCE_MANY)
    tried: list[tuple[Settings, float]] = []
    best: list[Any] = [0, None]  # its index, and its fit

    def attempt(settings: Settings, start: Factors | None, rest: Completion | None = None) -> tuple[Fit, float]:
        most = CANDIDATE_MAX_ITER if problem.m >= MANY and len(ranks) > 1 else settings.max_iter
        fit = fit_factors(problem, mean, replace(settings, max_iter=min(settings.max_iter, most)), start, rest=rest)
        if fit.status == INTERRUPTED:
            if best[1] is None:
                best[1] = fit
            raise KeyboardInterrupt
        tried.append((settings, fold.error(problem, mean, fit.factors, fit.loss)))
        strength = "learned" if settings.regularization is None else f"{settings.regularization:.3g}"
        LOG.info("rank %d, regularization %s: held-out error %.5g", settings.rank, strength, tried[-1][1])
        new, old = (Candidate(s.rank, s.regularization, e) for s, e in (tried[-1], tried[best[0]]))
        if best[1] is None or _preferred(new, old, tolerance):
            best[:] = [len(tried) - 1, fit]
        return fit, tried[-1][1]

    def along_ranks() -> None:
        biases = rest = None
        if settings.biases:
            with limit_blas_threads(problem.blas_threads):
                biases = fit_biases(problem, VariationalALS(biases=True))
                if len(ranks) > 1 and problem.backend.in_main_memory:  # one more vector of observations
                    rest = residual_problem(problem, biases)
        least, since, at = np.inf, 0, ranks.index(first)
        for rank in ranks[at:]:
            _, last = attempt(replace(settings, rank=rank), biases, rest)
            more = last < least * (1 - MIN_GAIN)
            least, since = min(least, last), 0 if more else since + 1
            if since >= patience:
                break
        for rank in reversed(ranks[:at]):
            attempt(replace(settings, rank=rank), biases, rest)
            if tried[best[0]][0].rank != rank:
                break
        if ranks[0] == 0 and all(s.rank for s, _ in tried):  # biases alone: what the model is compared with
            attempt(replace(settings, rank=0), biases, rest)
        if problem.m < MANY and settings.regularization is None and len(ranks) > 1:
            without_vanished(biases)

    def without_vanished(biases: Factors | None) -> None:
        """Also try the rank without vanished components."""
        rank, fit = tried[best[0]][0].rank, best[1]
        effective = _effective_rank(fit.factors, rank)
        if effective < rank and all(effective != s.rank for s, _ in tried):
            attempt(replace(settings, rank=effective), biases)

    def along_penalties(rank: int) -> None:
        start, least, since = None, np.inf, 0
        with limit_blas_threads(problem.blas_threads):
            top = _largest(problem)
        for k in range(1, PATH_LENGTH + 1) if not settings.nonnegative else NONNEGATIVE_PATH:
            fit, last = attempt(replace(settings, rank=rank, regularization=top * 0.5**k), start)
            # Zero factors stay zero, and are no initialization.
            start = fit.factors if abs(fit.factors.rows[:, :rank]).max() > 1e-6 else None
            least, since = (last, 0) if last < least else (least, since + 1)
            if since >= PATIENCE:
                break

    none = ranks == [0]  # biases alone have no penalty to select
    try:
        if search != "path" or len(ranks) > 1 or none:
            along_ranks()
        if search != "given" and not none:
            along_penalties(max(tried[best[0]][0].rank if tried else settings.rank, 1))
    except KeyboardInterrupt:
        fit = best[1] or unfitted(problem, mean, settings)
        best[1] = replace(fit, status=INTERRUPTED)
    return _Path(tried, best[0], best[1], tolerance)


def _best(paths: list[_Path], folds: Sequence[Fold]) -> Selection:
    """Average the errors of common candidates over folds, and select the best one."""
    # Penalties are relative to the largest one of the fold: candidates correspond by their index on the path.
    names = [[(s.rank, None if s.regularization is None else k) for k, (s, _) in enumerate(path.tried)] for path in paths]
    common = [name for name in names[0] if all(name in other for other in names[1:])] or names[0]
    curve: list[Candidate] = []
    for name in common:
        found = [path.tried[own.index(name)] for path, own in zip(paths, names, strict=True) if name in own]
        curve.append(Candidate(name[0], found[0][0].regularization, float(np.mean([e for _, e in found])), len(found)))
    at = 0
    for k, one in enumerate(curve):
        if _preferred(one, curve[at], paths[0].tolerance):
            at = k
    name = common[at]
    outs: list[np.ndarray] = []
    winner: tuple[Settings, Fit] | None = None
    for path, own, fold in zip(paths, names, folds, strict=True):
        if name not in own:
            continue
        fit, settings = path.fit, path.tried[own.index(name)][0]
        if own.index(name) != path.best:  # another candidate was best in this fold
            fit = fit_factors(*fold.problem(settings), settings)
            if fit.status == INTERRUPTED:
                raise KeyboardInterrupt
        outs.append(fold.assess(fit))
        winner = winner or (settings, fit)
    assert winner is not None
    return Selection(winner[0], _sorted(curve), winner[1], np.concatenate(outs, axis=1))


def _sorted(curve: list[Candidate]) -> list[Candidate]:
    return sorted(curve, key=lambda one: (one.regularization is not None, one.rank))  # stable: penalties keep their order


def _effective_rank(factors: Factors, rank: int) -> int:
    """Number of components, without biases, that have not vanished."""
    backend = backend_of(factors.rows)
    left, right = (backend.gram(a[:, :rank], a[:, :rank]) for a in (factors.rows, factors.cols))
    sizes = np.abs(np.linalg.eigvals(left @ right)) ** 0.5
    return int((sizes > VANISHED * sizes.max()).sum()) if rank and sizes.max() > 0 else rank


def _preferred(new: Candidate, old: Candidate, tolerance: float) -> bool:
    """Whether a candidate is preferred to another, regardless of their order."""
    if (new.regularization is None) != (old.regularization is None):
        return new.error * (LEARNED_PREFERENCE if new.regularization is None else 1) < old.error * (
            LEARNED_PREFERENCE if old.regularization is None else 1
        )
    if new.regularization is not None or new.rank == old.rank:
        return new.error < old.error
    if new.rank > old.rank:
        return new.error < (1 - tolerance) * old.error
    return new.error <= old.error / (1 - tolerance)


def _largest(problem: Completion) -> float:
    """Approximate largest singular value of the observations: the penalty above which the nuclear norm gives zero."""
    if problem.y_norm == 0:
        return 1.0
    start = problem.backend.random_normal(np.random.default_rng(0), (problem.shape[1], 1), problem.dtype)
    return float(truncated_svd(*problem.products(problem.y), start, 1, problem.backend).s[0])
