"""Fit of a factor model to noisy observations."""

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
from .majorization import ReweightedALS, intercept, origin_of, working_problem
from .model import FactorModel
from .nonnegative import NonNegativeALS, by_size, random_start
from .variational import VariationalALS

MAX_WEIGHT_RATIO = 1e8  # of observations: beyond, the smaller weights are lost to rounding
MIN_ITER_NONNEGATIVE = 15  # parts separate slowly at first, which looks like convergence
MIN_RATE, MAX_RATE = 0.5, 0.98  # bounds of the convergence rate, which is estimated from two steps


@dataclass(frozen=True)
class Settings:
    """Settings of a fit.

    Attributes
    ----------
    rank : int
        0 fits biases alone.
    regularization : float or None
        Factor on the penalty; None learns priors from the data.
    penalty, count_scaling : see :class:`~lorank.factorization.RegularizedALS`
    biases : bool
    noise : {"one", "columns", "both", "unit"}
        See :class:`~lorank.factorization.VariationalALS`.
    tol : float
        Stop when further iterations are expected to lower the prediction error by less than this, relatively
        (:class:`Converged`).
    max_iter : int
    seed : int
    device : str or None
        PyTorch device; None computes without PyTorch.
    loss : Loss or None
        None: least squares.
    row_features, col_features : Features or None
        Features that the means of learned priors depend on.
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
    """Result of a fit; the loss has its fitted parameters, and is None for least squares."""

    model: FactorModel
    factors: Factors
    status: Status
    n_iter: int
    history: History
    loss: Loss | None = None


@dataclass(frozen=True)
class Converged(Rule):
    """Further iterations are expected to lower the prediction error by less than ``tol``, relatively.

    ALS converges linearly: if an iteration changes X by d, and the one before changed it by d / q, the remaining change is
    about ``d q / (1 - q)``. With a remaining error e, the prediction error is ``sqrt(noise^2 + e^2)``, too large by
    ``e^2 / (2 noise^2)`` relatively. The noise is the root mean square residual, e the root mean square remaining change of X.
    Data without noise are fitted to a relative residual of about ``1e-5 sqrt(tol)``. At least ``least`` iterations are made.
    """

    tol: float = 1e-3
    least: int = 2

    def check(self, problem: Problem, state: State, history: History, clock: Timer) -> Status | None:
        moves = history.step[-2:]
        if state.iteration < max(self.least, 2) or not np.isfinite(moves).all():
            return None
        rate = min(max(moves[1] / moves[0], MIN_RATE), MAX_RATE) if moves[0] > 0 else MIN_RATE
        ahead = moves[1] * rate / (1 - rate) / np.sqrt(float(np.prod(problem.shape, dtype=float)))
        noise = max(state.residual, 1e-5) * problem.y_norm / np.sqrt(total_weight(problem))
        gain = ahead**2 / (2 * noise**2) if noise > 0 else 0.0
        if gain > self.tol:
            return None
        return Status(
            "converged",
            advice=f"Further iterations are expected to lower the error by {gain:.1e}, relatively (tol={self.tol:.1e}).",
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
    """The problem of the centred values, and their mean (0 where ``centre`` is False).

    A repeated pair gets the weighted mean of its values and the sum of its weights. With a loss, the first working problem
    (:mod:`~lorank.factorization.majorization`) and the intercept.
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
        share = weights / weights.max()  # sums of large weights may overflow
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
    """The problem of these observations, with the weighted mean of repeated pairs."""
    options: dict[str, Any] = {"backend": backend, "weights": weights, "loss": "squares" if loss is None else loss}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")  # they have the factors of their prior
        try:
            return Completion(rows, cols, values, shape, **options)
        except RepeatedPairs as error:
            if loss is not None and loss.discrete and not loss.exact_means:
                raise RepeatedPairs(f"{error}; with loss={loss.name!r}, keep one observation of each pair") from None
            if weights is None:  # a repeated pair gets a larger weight
                options["weights"] = backend_of(values).astype(0 * values + 1, np.float64)
            return Completion(rows, cols, values, shape, duplicates="mean", **options)


def centred(problem: Completion, centre: bool = True) -> tuple[Completion, float]:
    """The same for the observations of a problem, on any backend, with its weights and its loss."""
    weights, y, mean = problem.observations.weights, problem.y, 0.0
    if weights is not None:
        check_ratio(weights)
    if problem.loss is not None:
        mean = intercept(problem) if centre else 0.0
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
    """Fit by ALS, initialized by a low-rank solver.

    Parameters
    ----------
    problem : Completion
        Of the centred values.
    mean : float
    settings : Settings
    start : Factors, optional
        Initial factors; factors of a smaller rank are completed by a low-rank fit to their residual.
    callbacks : sequence of callables
    rest : Completion, optional
        The problem of the residual of ``start``, where it is known.
    """
    solver: Any
    require_memory(problem, settings)
    learner, origin = settings.learner(), origin_of(problem)
    learned, width = settings.regularization is None, settings.rank + 2 * settings.biases
    if settings.nonnegative:
        begun = start if start is not None and start.rows.shape[1] == width else None
        start = random_start(problem, settings.rank, np.random.default_rng(settings.seed), begun)
    # Factors of a penalized fit have no covariances, and their priors have other units.
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
    least = MIN_ITER_NONNEGATIVE if settings.nonnegative else 2
    rule = Converged(settings.tol, least) | Divergence() | Iterations(settings.max_iter)
    ended = run(problem, solver, start.point(problem.backend), rule, callbacks=callbacks)
    last = ended.last
    memory: Any = last.memory or (start if origin is None else (start, None, 0.0))  # Ctrl-C before the first iteration
    factors: Factors = memory if origin is None else memory[0]
    if settings.nonnegative:
        factors = by_size(factors)
    loss = None if origin is None else origin.loss_at(origin.residual(factors), memory[1])
    noise = factors.noise
    if not learned:  # priors of a penalized fit are in units of the noise
        left = (last.residual * problem.y_norm) ** 2 / total_weight(problem)
        noise = 1 / max(left, 1e-300) if np.isfinite(left) else 1.0
    return Fit(_model(problem, mean, settings, factors, noise), factors, ended.status, ended.n_iter, ended.history, loss)


def unfitted(problem: Completion, mean: float, settings: Settings) -> Fit:
    """A fit of the mean alone, for Ctrl-C before the first iteration."""
    learner = settings.learner()
    factors = learner.uninformed(problem, zero_factors(problem, settings.rank, settings.biases))
    origin = origin_of(problem)
    loss = None if origin is None else origin.loss_at(origin.residual(None))
    return Fit(_model(problem, mean, settings, factors, factors.noise), factors, INTERRUPTED, 0, History(), loss)


def _model(problem: Completion, mean: float, settings: Settings, factors: Factors, noise: float) -> FactorModel:
    unit = 1.0 if settings.regularization is None else noise  # of the priors
    features = settings.row_features, settings.col_features
    sides: dict[str, Any] = {
        name: getattr(factors, name) for name in ("rows", "cols", "row_cov", "col_cov", "row_noise", "col_noise")
    }
    for k, name in enumerate(("row", "col")):
        (P, h), link = (factors.row_prior, factors.col_prior)[k], (factors.row_regression, factors.col_regression)[k]
        counts = problem.backend.to_numpy(problem.observations.counts(k))
        sides |= {f"{name}_precision": unit * P, f"{name}_shift": unit * h, f"{name}_counts": counts}
        if (own := features[k]) is not None and link is not None:
            sides |= {f"{name}_coefficients": own.affine(link), f"{name}_means": own.means(link, factors.rows.shape[1])}
    return FactorModel(mean, settings.biases, noise=noise, nonnegative=settings.nonnegative, **sides)


def check_ratio(weights: Array) -> None:
    """A ValueError for weights whose ratio is too large for double precision."""
    most, least = float(weights.max()), float(weights[weights > 0].min())
    if most > MAX_WEIGHT_RATIO * least:
        raise ValueError(
            f"weights of observations lie between {least:.1e} and {most:.1e}: a ratio above {MAX_WEIGHT_RATIO:.0e}, so "
            "that the smaller ones have no effect; set them to 0, or reduce the ratio"
        )


def require_memory(problem: Completion, settings: Settings) -> None:
    """A MemoryError where the factors and covariances of such a fit exceed the available memory."""
    k, (n1, n2) = settings.rank + 2 * settings.biases, problem.shape
    pairs = 0 if settings.regularization is not None else 2 * k * (k + 1) // 2  # of the last and of the next iteration
    by_row = 0 if getattr(problem.backend, "covariances_on_disk", False) else pairs
    needed = 8 * (n1 * by_row + n2 * pairs + (n1 + n2) * 8 * k)
    problem.backend.check_bytes(needed, f"factors of rank {settings.rank} and their covariances")
