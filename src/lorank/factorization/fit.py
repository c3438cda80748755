"""Fit a factor model to observations with noise."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..backends import Array, backend_of, device_backend
from ..common.blas_threads import limit_blas_threads
from ..common.timer import Timer
from ..loop.callbacks import Callback
from ..loop.result import History, Status
from ..loop.runner import INTERRUPTED, run
from ..loop.state import State
from ..loop.stopping import Divergence, Iterations, Rule
from ..losses import Loss
from ..problems import Completion, Problem
from ..problems.input_checks import RepeatedPairs
from .als import Penalty, RegularizedALS, total_weight
from .factors import Factors, zero_factors
from .feature_priors import Features
from .initialization import initialize, robust_initialization
from .majorization import ReweightedALS, origin_of, working_problem
from .model import FactorModel
from .nonnegative import NonNegativeALS, by_size, random_start
from .variational import VariationalALS

MAX_WEIGHT_RATIO = 1e8  # the largest weight over the smallest: beyond, the precisions of observations outgrow rounding
LEAST_NONNEGATIVE = 15  # sweeps: parts come apart from a common mean slowly at first, which looks like convergence
FASTEST, SLOWEST = 0.5, 0.98  # two moves give a rough rate of convergence: it is taken to lie between these


@dataclass(frozen=True)
class Settings:
    """How to fit.

    Attributes
    ----------
    rank : int
        0 with biases fits these alone.
    regularization : float or None
        The strength of the penalty; None learns priors from the data instead.
    penalty, count_scaling : see :class:`~lorank.factorization.RegularizedALS`
    biases : bool
    noise : {"one", "columns", "both", "unit"}
        See :class:`~lorank.factorization.VariationalALS`.
    tol : float
        Stop when further sweeps are expected to lower the error of predictions by less than this, relatively
        (:class:`Converged`).
    max_iter : int
    seed : int
    device : str or None
        Where PyTorch is to compute; None computes without it.
    loss : Loss or None
        None: least squares.
    row_features, col_features : Features or None
        What the means of learned priors depend on.
    nonnegative : bool
        Constrain the factors to be nonnegative (:class:`~lorank.factorization.nonnegative.NonNegativeALS`). Needs a number as
        ``regularization``, and has no biases.
    """

    rank: int
    regularization: float | None = None
    penalty: Penalty = "nuclear"
    count_scaling: float = 0.0
    biases: bool = True
    noise: Literal["one", "columns", "both", "unit"] = "both"
    tol: float = 1e-3
    max_iter: int = 50
    seed: int = 0
    device: str | None = None
    loss: Loss | None = None
    row_features: Features | None = None
    col_features: Features | None = None
    nonnegative: bool = False

    def learner(self) -> VariationalALS:
        """The solver that learns priors."""
        return VariationalALS(self.biases, noise=self.noise, row_features=self.row_features, col_features=self.col_features)


@dataclass(frozen=True)
class Fit:
    """A fitted model with the way to it; the loss with what it has learned, None for least squares."""

    model: FactorModel
    factors: Factors
    status: Status
    n_iter: int
    history: History
    loss: Loss | None = None


@dataclass(frozen=True)
class Converged(Rule):
    """Further sweeps are expected to lower the error of predictions by less than ``tol``, relatively.

    Sweeps converge linearly: where one moves X by d, and the one before it moved it by d / q, those to come move it by about
    ``d q / (1 - q)``. Predictions that are off by e have an error of ``sqrt(noise^2 + e^2)``, which is too large by
    ``e^2 / (2 noise^2)``. The noise is the root mean square of what the model leaves over of the observations, e that of what X
    is still to move, over all entries. Data without noise are fitted to a relative residual of about ``1e-5 sqrt(tol)``. The
    first ``least`` sweeps are made in any case.
    """

    tol: float = 1e-3
    least: int = 2

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        moves = history.step[-2:]
        if state.iteration < max(self.least, 2) or not np.isfinite(moves).all():
            return None
        rate = min(max(moves[1] / moves[0], FASTEST), SLOWEST) if moves[0] > 0 else FASTEST
        ahead = moves[1] * rate / (1 - rate) / np.sqrt(float(np.prod(problem.shape, dtype=float)))
        noise = max(state.residual, 1e-5) * problem.y_norm / np.sqrt(total_weight(problem))
        gain = ahead**2 / (2 * noise**2) if noise > 0 else 0.0
        if gain > self.tol:
            return None
        return Status(
            "converged",
            advice=f"Further sweeps are expected to better predictions by {gain:.1e} of their error (asked: {self.tol:.1e}).",
            success=True,
        )


def centred_problem(
    rows: Array,
    cols: Array,
    values: Array,
    shape: tuple[int, int],
    weights: Array | None = None,
    device: str | None = None,
    centre: bool = True,
    loss: Loss | None = None,
) -> tuple[Completion, float]:
    """The problem of the values less their mean, and the mean (0 where ``centre`` is False).

    A pair that occurs more than once becomes its weighted mean, with the sum of the weights. With a loss, the first least
    squares problem of its working responses (:mod:`~lorank.factorization.majorization`), and the mean of what the loss is a
    function of.
    """
    backend = None if device is None else device_backend(device)
    if backend is not None:
        backend.check_memory(len(rows), shape, np.dtype(np.float64))
        rows, cols, values = backend.asindex(rows), backend.asindex(cols), backend.asarray(values, np.float64)
        weights = None if weights is None else backend.asarray(weights, np.float64)
    mean = 0.0
    if weights is not None:
        check_ratio(weights)
    if loss is not None:
        return centred(_merged(rows, cols, values, shape, weights, backend, loss), centre)
    if centre and weights is not None:
        share = weights / weights.max()  # first, or sums may overflow
        mean = float((share * values).sum() / share.sum())
    elif centre:
        mean = float(values.mean())
    problem = _merged(rows, cols, values - mean, shape, weights, backend)
    problem.check_scale()
    return problem, mean


def _merged(
    rows: Array,
    cols: Array,
    values: Array,
    shape: tuple[int, int],
    weights: Array | None,
    backend: Any,
    loss: Loss | None = None,
) -> Completion:
    """The problem of these observations, a pair that occurs more than once as its weighted mean."""
    options: dict[str, Any] = {"backend": backend, "weights": weights, "loss": "squares" if loss is None else loss}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")  # they have the factors of their prior
        try:
            return Completion(rows, cols, values, shape, **options)
        except RepeatedPairs as error:
            if loss is not None and loss.discrete and not loss.exact_means:
                raise RepeatedPairs(f"{error}; with loss={loss.name!r}, keep one observation of each pair") from None
            if weights is None:  # each counts, so that weights are needed where there were none
                options["weights"] = backend_of(values).astype(0 * values + 1, np.float64)
            return Completion(rows, cols, values, shape, duplicates="mean", **options)


def centred(problem: Completion, centre: bool = True) -> tuple[Completion, float]:
    """The same of observations that are a problem already, wherever they are, with its weights and its loss."""
    weights, y, mean = problem.observations.weights, problem.y, 0.0
    if weights is not None:
        check_ratio(weights)
    if problem.loss is not None:
        if centre:
            found = problem.loss.intercept(problem.average) if problem.loss.discrete else None
            mean = found or (0.0 if problem.loss.discrete else problem.average)
        return working_problem(problem, mean), mean
    if centre:
        mean = float(y.mean() if weights is None else (weights * y).sum() / weights.sum())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")
        problem = problem.with_observations(problem.observations.with_values(y - mean)) if mean else problem
    problem.check_scale()
    return problem, mean


def fit_factors(
    problem: Completion,
    mean: float,
    settings: Settings,
    start: Factors | None = None,
    callbacks: Sequence[Callback] = (),
    rest: Completion | None = None,
) -> Fit:
    """Fit by alternating sweeps, from where :func:`lorank.solve` would end.

    Parameters
    ----------
    problem : Completion
        Of the values less their mean.
    mean : float
    settings : Settings
    start : Factors, optional
        From another fit to go on from; of a smaller rank, directions of what they leave over are added.
    callbacks : sequence of callables
    rest : Completion, optional
        The problem of what the start leaves over, where it is known.
    """
    solver: Any
    require_memory(problem, settings)
    learner, origin = settings.learner(), origin_of(problem)
    learned, width = settings.regularization is None, settings.rank + 2 * settings.biases
    if settings.nonnegative:
        begun = start if start is not None and start.rows.shape[1] == width else None
        start = random_start(problem, settings.rank, np.random.default_rng(settings.seed), begun)
    # Factors of a penalty's fit have no covariances, and their priors are in other units.
    elif start is None or start.rows.shape[1] != width or (learned and start.row_cov is None):
        try:
            with limit_blas_threads(problem.blas_threads):
                first, rng = problem, np.random.default_rng(settings.seed)
                apart = robust_initialization(origin, width) if origin is not None and start is None else None
                if apart is not None:
                    first, origin = apart
                start = initialize(first, settings.rank, learner, rng, start, rest)
        except KeyboardInterrupt:
            return unfitted(problem, mean, settings)
    if settings.regularization is None:
        solver = replace(learner, initial=start)
    elif settings.nonnegative:
        solver = NonNegativeALS(settings.regularization, settings.count_scaling, initial=start)
    else:
        solver = RegularizedALS(
            settings.regularization, settings.penalty, settings.biases, count_scaling=settings.count_scaling, initial=start
        )
    if origin is not None:
        solver = ReweightedALS(solver, origin)
    least = LEAST_NONNEGATIVE if settings.nonnegative else 2
    rule = Converged(settings.tol, least) | Divergence() | Iterations(settings.max_iter)
    ended = run(problem, solver, start.point(problem.backend), rule, callbacks=callbacks)
    last = ended.last
    memory: Any = last.memory or (start if origin is None else (start, None, 0.0))  # Ctrl-C may come before there is any
    factors: Factors = memory if origin is None else memory[0]
    if settings.nonnegative:
        factors = by_size(factors)
    loss = None if origin is None else origin.loss_at(origin.residual(factors), memory[1])
    noise = factors.noise
    if not learned:  # a penalty's priors are in units of the noise
        left = (last.residual * problem.y_norm) ** 2 / total_weight(problem)
        noise = 1 / max(left, 1e-300) if np.isfinite(left) else 1.0
    return Fit(_model(problem, mean, settings, factors, noise), factors, ended.status, ended.n_iter, ended.history, loss)


def unfitted(problem: Completion, mean: float, settings: Settings) -> Fit:
    """The mean, and nothing else: all that is known when Ctrl-C comes before the first sweep."""
    learner = settings.learner()
    factors = learner.uninformed(problem, zero_factors(problem, settings.rank, settings.biases))
    origin = origin_of(problem)
    loss = None if origin is None else origin.loss_at(origin.residual(None))
    return Fit(_model(problem, mean, settings, factors, factors.noise), factors, INTERRUPTED, 0, History(), loss)


def _model(problem: Completion, mean: float, settings: Settings, factors: Factors, noise: float) -> FactorModel:
    if settings.regularization is not None:
        row, col = ((noise * P, noise * h) for P, h in (factors.row_prior, factors.col_prior))
        factors = replace(factors, row_prior=row, col_prior=col)
    by_row, by_col = (problem.backend.to_numpy(problem.observations.counts(side)) for side in (0, 1))
    model = FactorModel.of(factors, mean, settings.biases, noise, (by_row, by_col))
    model = replace(model, nonnegative=settings.nonnegative)
    sides: dict[str, Any] = {}
    for side, features, link in (
        ("row", settings.row_features, factors.row_regression),
        ("col", settings.col_features, factors.col_regression),
    ):
        if features is not None and link is not None:
            sides |= {f"{side}_coefficients": features.affine(link), f"{side}_means": features.means(link, model.rows.shape[1])}
    return replace(model, **sides)


def check_ratio(weights: Array) -> None:
    """A ValueError where weights differ so much that the smaller ones are lost beside the larger."""
    most, least = float(weights.max()), float(weights[weights > 0].min())
    if most > MAX_WEIGHT_RATIO * least:
        raise ValueError(
            f"weights of observations lie between {least:.1e} and {most:.1e}: more than {MAX_WEIGHT_RATIO:.0e} apart, the "
            "smaller ones count for nothing; give them weight 0, or bring the weights closer"
        )


def require_memory(problem: Completion, settings: Settings) -> None:
    """A MemoryError where the factors and covariances of such a fit cannot fit where it is computed."""
    k, (n1, n2) = settings.rank + 2 * settings.biases, problem.shape
    pairs = 0 if settings.regularization is not None else 2 * k * (k + 1) // 2  # those of the last sweep and of the next one
    by_row = 0 if getattr(problem.backend, "covariances_on_disk", False) else pairs
    needed = 8 * (n1 * by_row + n2 * pairs + (n1 + n2) * 8 * k)
    problem.backend.check_bytes(needed, f"factors of rank {settings.rank} and their covariances")
