"""The choice of a rank and of a strength of regularisation by error on held-out observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..linalg import truncated_svd
from ..operators import Completion
from ..solvers.alternating import Factors
from .fit import Fit, Settings, centred_problem, fit_factors

RANKS = (0, 1, 2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 96, 128)
PATIENCE = 2  # ranks without a better error before the path ends
LITTLE = 1e-3  # a gain smaller than this, relatively, ends the path too
PREFERRED = 0.9  # a strength is taken over learned priors only where its error is below this share of theirs: it rarely
# predicts better, and on small data often seems to
STEPS = 9  # strengths on a path, each half of the one before


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
class Choice:
    """What was chosen, and from what.

    Attributes
    ----------
    settings : Settings
    curve : list of Candidate
        In the order of the path.
    factors : Factors
        Of the chosen candidate in the first fold: a start for the fit to all data.
    scores : array
        Of the held-out observations: |error| / predicted spread.
    values, predictions, spreads : arrays
        The held-out values, what the chosen candidate made of them without having seen them, and how far off it expected to be.
    """

    settings: Settings
    curve: list[Candidate]
    factors: Factors
    scores: np.ndarray
    values: np.ndarray
    predictions: np.ndarray
    spreads: np.ndarray


@dataclass(frozen=True)
class _Tried:
    settings: Settings
    error: float
    fit: Fit


def choose(
    rows: np.ndarray,
    cols: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    settings: Settings,
    *,
    weights: np.ndarray | None = None,
    ranks: Sequence[int] | None = None,
    strengths: str = "given",
    folds: int = 1,
    share: float = 0.1,
    n_jobs: int | None = None,
    bounds: tuple[float, float] | None = None,
) -> Choice:
    """Try ranks and strengths along a path, each from the fit before it, and take what predicts held-out observations best.

    Parameters
    ----------
    rows, cols, values, shape, weights
        The observations.
    settings : Settings
        What is not chosen.
    ranks : sequence of int, optional
        Ranks to try, in rising order; the path ends where two in a row do not better the error. By default the one of
        ``settings``.
    strengths : {"given", "path", "both"}
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
    rng = np.random.default_rng(settings.seed)
    m = len(values)
    if folds < 2:
        held = np.zeros(m, int)
        held[rng.permutation(m)[: max(1, min(m - 1, round(share * m)))]] = 1
        parts = [held == 1]
    else:
        label = rng.permutation(m) % folds
        parts = [label == k for k in range(folds)]
    data = (rows, cols, values, shape, weights, bounds)
    ranks = [settings.rank] if ranks is None else list(ranks)
    work = [(data, part, settings, ranks, strengths) for part in parts]
    if len(work) > 1 and n_jobs not in (None, 1):
        from joblib import Parallel, delayed

        tried = Parallel(n_jobs=n_jobs)(delayed(_path)(*one) for one in work)
    else:
        tried = [_path(*one) for one in work]
    return _best(tried, parts, data)


def _path(data: Any, part: np.ndarray, settings: Settings, ranks: list[int], strengths: str) -> list[_Tried]:
    """One fold: every candidate that was tried, in order."""
    rows, cols, values, shape, weights, bounds = data
    keep = ~part
    problem, w, mean = centred_problem(
        rows[keep], cols[keep], values[keep], shape, None if weights is None else weights[keep], settings.device
    )
    hidden = rows[part], cols[part], values[part], None if weights is None else weights[part]
    tried: list[_Tried] = []

    def attempt(settings: Settings, start: Factors | None) -> _Tried:
        fit = fit_factors(problem, mean, settings, w, start)
        tried.append(_Tried(settings, _error(fit, hidden, bounds), fit))
        return tried[-1]

    if strengths != "path" or len(ranks) > 1:
        start, best, since = None, np.inf, 0
        for rank in ranks:
            one = attempt(replace(settings, rank=rank), start)
            start = one.fit.factors
            little = best * (1 - LITTLE) < one.error <= best
            best, since = (one.error, 0) if one.error < best else (best, since + 1)
            if since >= PATIENCE or little:
                break
    if strengths != "given":
        rank = max(min(tried, key=lambda t: t.error).settings.rank if tried else settings.rank, 1)
        start, best, since, top = None, np.inf, 0, _largest(problem)
        for k in range(1, STEPS + 1):
            one = attempt(replace(settings, rank=rank, regularization=top * 0.5**k), start)
            # A strength that leaves nothing is no start: zero factors stay zero.
            start = one.fit.factors if abs(one.fit.factors.rows[:, :rank]).max() > 1e-6 else None
            best, since = (one.error, 0) if one.error < best else (best, since + 1)
            if since >= PATIENCE:
                break
    return tried


def _best(tried: list[list[_Tried]], parts: list[np.ndarray], data: Any) -> Choice:
    """Average over folds what all of them tried, and take the best."""
    rows, cols, values, _, _, bounds = data
    # Strengths are relative to the fold's largest, so that candidates of folds correspond by place on the path.
    names = [
        [(t.settings.rank, None if t.settings.regularization is None else k) for k, t in enumerate(fold)] for fold in tried
    ]
    if len(tried) > 1:
        common = [name for name in names[0] if all(name in other for other in names[1:])] or names[0]
    else:
        common = names[0]
    curve: list[Candidate] = []
    for name in common:
        found = [fold[own.index(name)] for fold, own in zip(tried, names, strict=True) if name in own]
        strength = found[0].settings.regularization
        curve.append(Candidate(name[0], strength, float(np.mean([t.error for t in found])), len(found)))
    at = int(np.argmin([c.error * (PREFERRED if c.regularization is None else 1.0) for c in curve]))
    name = common[at]
    outs: list[np.ndarray] = []
    for fold, own, part in zip(tried, names, parts, strict=True):
        if name in own:
            model = fold[own.index(name)].fit.model
            guess = clipped(model.predict(rows[part], cols[part]), bounds)
            outs.append(np.stack([values[part], guess, model.spread(rows[part], cols[part])]))
    truth, guess, spread = np.concatenate(outs, axis=1)
    winner = tried[0][names[0].index(name)]
    scores = np.abs(truth - guess) / spread
    return Choice(winner.settings, curve, winner.fit.factors, scores, truth, guess, spread)


def _error(fit: Fit, hidden: Any, bounds: tuple[float, float] | None) -> float:
    rows, cols, values, weights = hidden
    guess = clipped(fit.model.predict(rows, cols), bounds)
    return float(np.sqrt(np.average((guess - values) ** 2, weights=weights)))


def clipped(values: np.ndarray, bounds: tuple[float, float] | None) -> np.ndarray:
    return values if bounds is None else np.clip(values, *bounds)


def _largest(problem: Completion) -> float:
    """About the largest singular value of the observations: the strength above which the nuclear norm leaves nothing."""
    if problem.y_norm == 0:
        return 1.0
    start = problem.backend.random_normal(np.random.default_rng(0), (problem.shape[1], 1), problem.dtype)
    return float(truncated_svd(*problem.products(problem.y), start, 1, problem.backend).s[0])
