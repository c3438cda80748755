"""Fit a factor model to observations with noise."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..backends import device_backend
from ..callbacks import Callback
from ..geometry import FixedRank
from ..operators import Completion
from ..result import History, Status
from ..solvers.alternating import Alternating, Factors, Penalty
from ..solvers.runner import run
from ..solvers.variational import Variational
from ..starts import Spectral, leading
from ..stopping import Divergence, Iterations, RelativeChange
from .model import FactorModel


@dataclass(frozen=True)
class Settings:
    """How to fit.

    Attributes
    ----------
    rank : int
        0 with offsets fits these alone.
    regularization : float or None
        The strength of the penalty; None learns priors from the data instead.
    penalty, scaling : see :class:`~lorank.solvers.Alternating`
    offsets : bool
    noise : {"one", "columns", "both"}
        See :class:`~lorank.solvers.Variational`.
    tol : float
        Stop when a sweep changes X by less than this, relatively.
    max_iter : int
    seed : int
    device : str or None
        Where PyTorch is to compute; None computes without it.
    """

    rank: int
    regularization: float | None = None
    penalty: Penalty = "nuclear"
    scaling: float = 0.0
    offsets: bool = True
    noise: Literal["one", "columns", "both"] = "both"
    tol: float = 1e-2
    max_iter: int = 50
    seed: int = 0
    device: str | None = None


@dataclass(frozen=True)
class Fit:
    """A fitted model with the way to it."""

    model: FactorModel
    factors: Factors
    status: Status
    n_iter: int
    history: History


def centred_problem(
    rows: np.ndarray,
    cols: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    weights: np.ndarray | None = None,
    device: str | None = None,
) -> tuple[Completion, np.ndarray | None, float]:
    """The problem of the values less their mean, the weights in its order, and the mean.

    A pair that occurs more than once becomes its weighted mean, with the sum of the weights. Observations of weight zero are
    left out.
    """
    if weights is not None and (weights == 0).any():
        keep = weights > 0
        rows, cols, values, weights = rows[keep], cols[keep], values[keep], weights[keep]
    keys = rows.astype(np.int64) * shape[1] + cols
    order = np.argsort(keys, kind="stable")
    first = np.ones(len(keys), bool)
    first[1:] = np.diff(keys[order]) != 0
    if not first.all():
        group = np.cumsum(first) - 1
        w = np.ones(len(keys)) if weights is None else weights
        total = np.bincount(group, w[order])
        values = np.bincount(group, (w * values)[order]) / total
        rows, cols, weights = rows[order][first], cols[order][first], total
    elif weights is not None:
        rows, cols, values, weights = rows[order], cols[order], values[order], weights[order]
    mean = float(np.average(values, weights=weights))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")  # they have the factors of their prior
        backend = None if device is None else device_backend(device)
        problem = Completion(rows, cols, np.asarray(values, float) - mean, shape, backend=backend)
    problem.check_scale()
    return problem, weights, mean


def fit_factors(
    problem: Completion,
    mean: float,
    settings: Settings,
    weights: np.ndarray | None = None,
    start: Factors | None = None,
    callbacks: Sequence[Callback] = (),
) -> Fit:
    """Fit by alternating sweeps.

    Parameters
    ----------
    problem : Completion
        Of the values less their mean.
    mean : float
    settings : Settings
    weights : (m,) array, optional
        In the problem's order.
    start : Factors, optional
        From another fit to go on from; of a smaller rank, they are widened.
    callbacks : sequence of callables
    """
    solver: Any
    backend = problem.backend
    common: dict[str, Any] = {"offsets": settings.offsets, "weights": None if weights is None else backend.asarray(weights)}
    if settings.regularization is None:
        solver = Variational(noise=settings.noise, **common)
    else:
        solver = Alternating(settings.regularization, settings.penalty, scaling=settings.scaling, **common)
    rng = np.random.default_rng(settings.seed)
    if start is None and settings.rank == 0:
        start = _none(problem)
    if start is not None:
        wide = _widen(start, settings, problem, rng)
        if isinstance(solver, Variational) and (wide is not start or wide.row_cov is None):
            wide = solver.widen(problem, wide)
        X, solver = wide.point(), replace(solver, initial=wide)
    else:
        X = _start(problem, settings.rank, rng)
    rule = RelativeChange(settings.tol) | Divergence() | Iterations(settings.max_iter)
    ended = run(problem, solver, X, rule, callbacks=callbacks)
    last = ended.last
    factors: Factors = last.memory or solver.start(problem, last)  # Ctrl-C may come before there is any
    noise = factors.noise
    prior = factors
    if settings.regularization is not None:  # a penalty is a prior in units of the noise
        noise = 1 / max((last.residual * problem.y_norm) ** 2 / problem.m, 1e-300)
        row, col = ((noise * P, noise * h) for P, h in (factors.row_prior, factors.col_prior))
        prior = replace(factors, row_prior=row, col_prior=col)
    by_row, by_col = (backend.to_numpy(problem.observations.counts(side)) for side in (0, 1))
    model = FactorModel.of(prior.numpy(backend), mean, settings.offsets, noise, (by_row, by_col))
    return Fit(model, factors, ended.status, ended.n_iter, ended.history)


def _start(problem: Completion, rank: int, rng: np.random.Generator) -> FixedRank:
    """A tenth of the spectral start: its directions, at a size from which offsets and priors find theirs."""
    if problem.y_norm == 0:
        return FixedRank.zero(problem.shape, rank, np.float64, problem.backend)
    X = Spectral(tol=0.1, restarts=2)(problem, rank, rng)
    return FixedRank(X.U, X.s * 0.1, X.V, X.backend)


def _none(problem: Completion) -> Factors:
    """Offsets of zero, and nothing else."""
    rows, cols = (problem.backend.zeros((n, 2), np.float64) for n in problem.shape)
    rows[:, 1] = cols[:, 0] = 1
    prior = (np.eye(2), np.zeros(2))
    return Factors(rows, cols, prior, prior)


def _widen(start: Factors, settings: Settings, problem: Completion, rng: np.random.Generator) -> Factors:
    """Factors of the rank asked for: beside those that are there, directions of what they leave over."""
    offsets = 2 * settings.offsets
    at = start.rows.shape[1] - offsets
    more = settings.rank - at
    if not more:
        return start
    if more < 0:
        raise ValueError(f"start has rank {at}, more than the {settings.rank} asked for")
    X = leading(problem, problem.gradient(start.point()), more, rng, tol=0.1, restarts=2)
    size, concat = (0.1 * X.s / problem.gain) ** 0.5, problem.backend.concat
    rows, cols = (concat([a[:, :at], b * size, a[:, at:]]) for a, b in ((start.rows, X.U), (start.cols, X.V)))
    k = rows.shape[1]
    return Factors(rows, cols, (np.eye(k), np.zeros(k)), (np.eye(k), np.zeros(k)), start.noise)
