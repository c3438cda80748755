"""Fit of MatrixCompletion: settings from its parameters, selection, outliers, and fits to arrays and to partitions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_random_state

from ..backends import Array, backend_of, device_backend, get_backend
from ..common.checks import ParameterError, counted
from ..evaluation.diagnosis import Diagnosis, diagnose
from ..factorization import Candidate, FactorModel, Fit, Selection, Settings, centred_problem, fit_factors, select, unfitted
from ..factorization.fit import centred, require_memory
from ..factorization.folds import in_main_memory, some_of, split_fold
from ..factorization.majorization import origin_of
from ..factorization.order_selection import Scores
from ..factorization.ranking_model import fit_ranking_model
from ..factorization.selection import MANY, RANKS, select_on_folds
from ..factorization.training_data import TrainingData, training_data_of
from ..factorization.update import add_unseen
from ..loop.result import History, OutlierWarning, Status
from ..loop.runner import INTERRUPTED
from ..losses import ROBUST, SQUARES, Loss, resolve_loss
from ..losses.residual_tails import NORMAL_MEDIAN, outlier_share, quantile
from ..problems import Completion
from ..starts import Spectrum
from .features import feature_settings, with_features
from .inputs import Entries, check_completion, full_shape
from .ratings_state import RatingsState, check_intervals, check_nonnegative
from .recommendation import backend_for

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion

MAX_NONNEGATIVE_RANK = 16  # largest rank that is tried with nonnegative=True: parts are few enough to interpret
QUANTILES = 2001  # of the errors of held-out observations
MAX_STORED = 1 << 24  # observations of partitions: up to here a model stores its training data
MAX_SAMPLE = 1 << 20  # values of which the levels are counted
MAX_LEVELS, LEVEL_REPEATS = 20, 3  # a rating scale has few values, each of which occurs several times
OUTLIER_SIGMAS, OUTLIER_ROUNDS = 4.0, 3
EXACT_FIT = 1e-3  # of the range of values: smaller residuals are never outliers
HEAVY_TAIL = 10.0  # values whose 99 % quantile exceeds the median by this factor: amounts rather than ratings
OUTLIER_SAMPLE = 250_000  # observations whose residuals are tested for heavy tails


@dataclass(frozen=True)
class FitResult:
    """The fitted attributes of MatrixCompletion, without the underscore at the end of their names."""

    state: RatingsState
    diagnosis: Diagnosis
    history: History
    n_iter: int
    status: Status
    regularization: float | str
    curve: list[Candidate] = field(default_factory=list)
    heldout: np.ndarray | None = None
    spectrum: Spectrum | None = None
    outliers: np.ndarray | None = None


def is_robust(model: MatrixCompletion) -> bool:
    """Whether outliers are detected and left out."""
    return isinstance(model.loss, str) and model.loss == ROBUST


def fit_entries(
    model: MatrixCompletion, entries: Entries, weights: np.ndarray | None, row_features: Any = None, col_features: Any = None
) -> FitResult:
    """Fit to observations in main memory; see :meth:`MatrixCompletion.fit`."""
    if len(entries.rows) < 2:
        raise ValueError(f"found {counted(len(entries.rows), 'sample')}: at least 2 observations are needed to fit anything")
    if model.nonnegative:
        check_nonnegative(entries.values)
    entries, features = with_features(entries, row_features, col_features)
    shape = full_shape(entries, model.shape)
    if weights is not None and np.count_nonzero(weights) < 2:
        raise ValueError("found 1 sample with a weight above 0: at least 2 observations are needed to fit anything")
    fit_settings(model, shape, len(entries.values))  # refuses incompatible parameters before anything is computed
    rows, cols, values, outliers = entries.rows, entries.cols, entries.values, None
    excluded = None
    if is_robust(model):
        outliers = find_outliers(model, np.column_stack([rows, cols]), values, weights)
        if outliers.any():
            excluded, keep = (rows[outliers], cols[outliers], values[outliers]), ~outliers
            rows, cols, values, weights = rows[keep], cols[keep], values[keep], None if weights is None else weights[keep]
    rows, cols = np.ascontiguousarray(rows), np.ascontiguousarray(cols)
    settings, ranks, search = fit_settings(model, shape, len(values))
    if features:
        settings, search = feature_settings(settings, features, shape), "given"
    if settings.loss is not None:  # classes are those of all observations, also in folds
        settings = replace(settings, loss=settings.loss.prepare(values, backend_of(values))[1])
    negative = bool(len(values) and values.min() < 0)
    bounds = _bounds(model, values, values, settings.loss)
    if settings.device is not None:
        device = device_backend(settings.device)
        rows, cols, values = device.asindex(rows), device.asindex(cols), device.asarray(values)
    problem, mean = centred_problem(rows, cols, values, shape, weights, settings.device, settings.biases, settings.loss)
    options: dict[str, Any] = {"weights": weights, "ranks": ranks, "search": search, "bounds": bounds}
    options |= {"folds": model.cv, "share": model.holdout, "n_jobs": model.n_jobs}
    selects = ranks is not None or search != "given" or model.intervals
    fit, settings, selection = _select_and_fit(
        problem, mean, settings, (lambda: select(rows, cols, values, shape, settings, **options)) if selects else None
    )
    counting = len(values) if weights is None else int(np.count_nonzero(weights))
    training = training_data_of(problem, mean)
    if excluded is not None:  # outliers are no training data, but are not recommended either
        training = training.with_unlearned(*excluded, shape)
    about: dict[str, Any] = {"ids": entries.ids, "labels": entries.labels, "bounds": bounds, "negative_labels": negative}
    state = RatingsState(fit.model.host(), training=training, features=features, **about)
    result = _result(model, problem, fit, settings, selection, state, counting - problem.m)
    if result.state.loss is None and outliers is None:
        warn_about_outliers(result.state.model, rows, cols, values, weights)
    return _with_ranking(model, replace(result, outliers=outliers))


def fit_problem(model: MatrixCompletion, problem: Completion, y: Any, sample_weight: Any) -> FitResult:
    """Fit to a Completion, whose observations may be on disk or at workers; see :meth:`MatrixCompletion.fit`."""
    _check_problem(model, problem, y, sample_weight)
    settings, ranks, search = fit_settings(model, (problem.shape[0], problem.shape[1]), problem.m)
    ranks, given = affordable_ranks(problem, settings, ranks), problem
    negative = bool(problem.y.min() < 0)
    bounds = _bounds(model, some_of(problem, MAX_SAMPLE)[2], problem.y, settings.loss)
    if settings.loss is not None:
        problem = with_loss(problem, settings.loss)
        settings = replace(settings, loss=problem.loss)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")  # they get the factors of their prior
        working, mean = centred(problem, settings.biases)

    def selection() -> Selection:
        fold = split_fold(problem, model.holdout, settings.seed, bounds)
        return select_on_folds([fold], settings, ranks=ranks, search=search)

    selects = ranks is not None or search != "given" or model.intervals
    fit, settings, selected = _select_and_fit(working, mean, settings, selection if selects else None)
    training = TrainingData(problem.observations.host()) if given.m <= MAX_STORED else None
    sides = zip(("rows", "cols"), (given.row_ids, given.col_ids), given.shape, strict=True)
    ids = {side: np.arange(n) if a is None else a for side, a, n in sides}
    state = RatingsState(
        in_main_memory(fit.model),
        ids=None if given.row_ids is None and given.col_ids is None else ids,
        labels=None if given.column_names is None else dict(zip(("row", "col", "value"), given.column_names, strict=True)),
        training=training,
        bounds=bounds,
        negative_labels=negative,
    )
    result = _result(model, working, fit, settings, selected, state, 0)
    if result.state.loss is None:
        rows, cols, values, weights = some_of(given, OUTLIER_SAMPLE)
        warn_about_outliers(result.state.model, rows, cols, values, None if given.observations.weights is None else weights)
    return _with_ranking(model, result)


def fit_settings(model: MatrixCompletion, shape: tuple[int, int], m: int) -> tuple[Settings, list[int] | None, str]:
    """Settings of the fit, the ranks to try (None: the given one), and which regularization to try.

    A ValueError for parameters that are incompatible.
    """
    loss = resolve_loss(SQUARES if is_robust(model) else model.loss)
    if model.intervals:
        check_intervals(loss)
    given = isinstance(model.regularization, str)
    if model.solver == "variational" and not given:
        raise ValueError(
            f"solver='variational' learns its regularization: leave it at 'auto' or 'learned', or use solver='alternating' "
            f"with {model.regularization}"
        )
    if model.solver == "alternating" and model.regularization == "learned":
        raise ValueError("solver='alternating' needs regularization='auto' or a number")
    if model.nonnegative:
        _check_nonnegative_options(model, loss)
    top, auto = min(shape), model.rank == "auto"
    rank = 1 if auto else int(model.rank)
    if rank > top:
        raise ParameterError("rank", f"must be at most {top}, the smaller side of the matrix: got {rank}")
    biases = bool(model.biases) and not model.nonnegative
    if rank == 0 and not biases:
        why = "with nonnegative=True, which has no biases" if model.nonnegative else "without biases"
        raise ValueError(f"rank=0 leaves nothing to fit {why}: use a rank of 1 or more")
    ranks = None
    if auto:
        most = max(1, min(top, m // sum(shape) + 2, RANKS[-1]))
        most = min(most, MAX_NONNEGATIVE_RANK) if model.nonnegative else most
        ranks = [r for r in RANKS if (r or biases) and r <= most]
    learned = given and model.solver != "alternating" and not model.nonnegative
    search = "given"
    if model.regularization == "auto":
        both = learned and model.solver == "auto" and m < MANY
        search = "both" if both else "given" if learned else "path"
    if search == "path" and ranks is not None:  # a path of penalties selects the rank by itself
        rank, ranks = max(r for r in ranks if r <= max(1, m // (2 * sum(shape)) + 2)), None
    settings = Settings(
        rank,
        None if learned else 0.0 if given else float(model.regularization),
        "nuclear" if model.penalty == "nuclear" else "frobenius",
        float(model.count_scaling),
        biases,
        tol=float(model.tol),
        max_iter=int(model.max_iter),
        seed=int(check_random_state(model.random_state).randint(2**31 - 1)),
        device=None if model.device is None else str(model.device),
        loss=loss,
        noise="unit" if loss is not None and loss.discrete else "both",
        nonnegative=bool(model.nonnegative),
    )
    return settings, ranks, search


def _select_and_fit(
    problem: Completion, mean: float, settings: Settings, selection: Callable[[], Selection] | None
) -> tuple[Fit, Settings, Selection | None]:
    """Select where there is something to select, and fit to all data; Ctrl-C ends it with the best fit so far."""
    best: Fit | None = None
    made: Selection | None = None
    try:
        if selection is not None:
            made = selection()
            best, settings = made.fit, made.settings
            if made.interrupted:
                return best, settings, made
        start = None if best is None else best.factors
        if settings.regularization is None and problem.m < MANY:  # factors of a part of the data may be a poor local minimum
            start = None
        return fit_factors(problem, mean, settings, start), settings, made
    except KeyboardInterrupt:
        return replace(best or unfitted(problem, mean, settings), status=INTERRUPTED), settings, made


def _bounds(model: MatrixCompletion, some: Any, values: Any, loss: Loss | None) -> tuple[float, float] | None:
    """Range of predictions. With ``bounds="auto"``: the range of the values if they, or some of them, are a rating scale."""
    if not isinstance(model.bounds, str):
        return model.bounds
    levels = np.unique(some[:MAX_SAMPLE])
    scale = 1 < len(levels) <= min(MAX_LEVELS, len(some) // LEVEL_REPEATS)
    return (float(values.min()), float(values.max())) if scale and not (loss is not None and loss.discrete) else None


def _result(
    model: MatrixCompletion,
    problem: Completion,
    fit: Fit,
    settings: Settings,
    selection: Selection | None,
    state: RatingsState,
    repeated: int,
) -> FitResult:
    """Diagnose the data, and complete the state."""
    rank = max(settings.rank, 1)
    try:
        diagnosis = diagnose(problem, rank, duplicates=repeated)
    except KeyboardInterrupt:  # takes a moment, and the result needs it: diagnose again, and keep the fit
        fit = replace(fit, status=INTERRUPTED)
        diagnosis = diagnose(problem, rank, duplicates=repeated)
    if settings.rank > 1 and (diagnosis.oversampling < 1 or diagnosis.components > 1):
        warnings.warn(f"recovery cannot be unique here. {diagnosis.verdict}", UserWarning, stacklevel=4)
    if problem.loss is None and origin_of(problem) is None and not settings.nonnegative:
        state = replace(state, model=add_unseen(problem, state.model))
    scores = calibration = np.empty(0)
    if selection is not None and len(scores := np.sort(selection.scores)):  # quantiles of sorted arrays are found faster
        calibration = np.quantile(scores, np.linspace(0, 1, min(QUANTILES, len(scores))))
    state = replace(
        state,
        loss=fit.loss,
        calibration=calibration,
        calibration_size=len(scores),
        count_scaling=0.0 if settings.regularization is None else settings.count_scaling,
    )
    regularization = "learned" if settings.regularization is None else settings.regularization
    found = FitResult(state, diagnosis, fit.history, fit.n_iter, fit.status, regularization)
    if selection is None:
        return found
    return replace(found, curve=selection.curve, heldout=selection.heldout, spectrum=selection.spectrum)


def _with_ranking(model: MatrixCompletion, result: FitResult) -> FitResult:
    """Fit the ranking model where it is asked for; Ctrl-C ends it, and keeps the fit."""
    if not model.ranking or result.status == INTERRUPTED:
        return result
    try:
        return replace(result, state=fit_ranking(model, result.state, result.regularization))
    except KeyboardInterrupt:
        return replace(result, status=INTERRUPTED)


def fit_ranking(model: MatrixCompletion, state: RatingsState, regularization: float | str) -> RatingsState:
    """The state with a ranking model fitted to its training data.

    The order of recommendations is selected on held-out lists, to which the order by ratings is refitted, too.

    Parameters
    ----------
    model : MatrixCompletion
    state : RatingsState
    regularization : float or "learned"
        As selected.
    """

    def rating_scores(kept: np.ndarray) -> Scores:
        """Entries predicted by a fit to the ratings with flags."""
        assert state.training is not None
        indptr, cols, values, weights = state.training.entries
        pairs = np.column_stack([np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), cols])[kept]
        loss = SQUARES if is_robust(model) else model.loss
        options = {"rank": state.model.rank, "regularization": regularization, "shape": state.model.shape, "loss": loss}
        options |= {"intervals": False, "ranking": False, "handle_unknown": "ignore", "device": None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parts of the data
            trial = clone(model).set_params(**options)
            trial.fit(pairs, values[kept], None if weights is None else weights[kept])
        if trial.status_ == INTERRUPTED:
            raise KeyboardInterrupt
        left, right = trial.model_.padded_factors()
        return lambda users: left[users] @ right[:-1].T

    pattern = state.training_pattern()
    seed = int(model.random_state) if isinstance(model.random_state, (int, np.integer)) else 0
    others: dict[str, Callable[[np.ndarray], Scores]] = {"rating": rating_scores}
    return state.with_ranking(
        fit_ranking_model(pattern, state.liked, state.model.shape, seed, backend_for(model.device), others)
    )


def affordable_ranks(problem: Completion, settings: Settings, ranks: list[int] | None) -> list[int] | None:
    """The ranks whose factors fit into the allowed memory; a MemoryError where there are none."""
    if ranks is None:
        require_memory(problem, settings)
        return None
    found: list[int] = []
    for rank in ranks:
        try:
            require_memory(problem, replace(settings, rank=rank))
        except MemoryError:
            if not found:
                raise
            break
        found.append(rank)
    return found


def with_loss(problem: Completion, loss: Loss) -> Completion:
    """The same observations with a loss, whose classes are those of all observations."""
    values, loss = loss.prepare(problem.y, problem.backend)
    twin = problem.squares()
    twin.loss = loss
    observed = problem.observations
    return twin.with_observations(observed if values is problem.y else observed.with_values(values))


def find_outliers(model: MatrixCompletion, pairs: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Flags of outliers.

    A fit with Tukey's loss, then fits by least squares without the observations whose residuals exceed four standard
    deviations, until the flags no longer change.

    Parameters
    ----------
    model : MatrixCompletion
    pairs : (m, 2) array
    values : (m,) array
    weights : (m,) array or None

    Returns
    -------
    (m,) bool array
    """
    flags, rank = np.zeros(len(values), bool), model.rank
    counts = np.ones(len(values), bool) if weights is None else weights > 0
    for k in range(OUTLIER_ROUNDS):
        options = {"loss": "squares" if k else "tukey", "intervals": False, "ranking": False, "handle_unknown": "ignore"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parts of the data: the final fit warns about all of it
            trial = clone(model).set_params(rank=rank, **options)
            trial.fit(pairs[~flags], values[~flags], None if weights is None else weights[~flags])
            d, rank = values - trial.predict(pairs), trial.rank_
        if weights is not None:
            d = d * np.sqrt(weights)
        scale = quantile(d[~flags & counts], 0.5, get_backend("numpy")) / NORMAL_MEDIAN
        before, flags = flags, abs(d) > OUTLIER_SIGMAS * scale
        if flags[counts].mean() > 0.5:
            raise ValueError(
                "loss='robust': more than half of the values are far from any fit. Raise the rank, or use loss='squares'"
            )
        if k and np.array_equal(before, flags):
            break
    return flags


def warn_about_outliers(model: FactorModel, rows: Array, cols: Array, values: Array, weights: Array | None) -> None:
    """An OutlierWarning where the residuals of a least-squares fit have heavy tails."""
    step = max(1, len(values) // OUTLIER_SAMPLE)
    some = [backend_of(a).to_numpy(a[::step]) for a in (rows, cols)]
    values = backend_of(values).to_numpy(values[::step])
    d = values - model.predict(*some)
    if weights is not None:
        weights = backend_of(weights).to_numpy(weights[::step])
        d, values = (d * np.sqrt(weights))[weights > 0], values[weights > 0]
    off = values - np.median(np.sort(values))
    if np.abs(d).max(initial=0.0) <= EXACT_FIT * np.abs(off).max(initial=0.0):  # rounding errors have heavy tails, too
        return
    share = outlier_share(d, off, 0.0, get_backend("numpy"), noise=False)
    middle, high = np.quantile(values, (0.5, 0.99)) if share else (0.0, 0.0)
    if share and values.min() >= 0 and high > HEAVY_TAIL * middle:
        warnings.warn(
            f"the values are heavy-tailed: their median is {middle:.3g}, and 1 % are larger than {high:.3g}. Fit "
            "their logarithms (numpy.log1p), or ImplicitFactorization, which takes hours and counts as confidence",
            OutlierWarning,
            stacklevel=4,
        )
    elif share:
        warnings.warn(
            f"{share:.2%} of the values look like outliers: they are extreme and far from the fit. Fit with loss='robust' to "
            "find them (outliers_) and leave them out",
            OutlierWarning,
            stacklevel=4,
        )


def _check_nonnegative_options(model: MatrixCompletion, loss: Loss | None) -> None:
    """A ValueError for parameters that are incompatible with nonnegative=True."""
    if model.solver == "variational" or model.regularization == "learned":
        raise ValueError(
            "nonnegative=True has no learned priors: leave solver and regularization at 'auto', which selects a penalty on "
            "held-out observations, or give a number"
        )
    if model.penalty != "nuclear":
        raise ValueError("nonnegative=True penalizes the squares of factors: leave penalty at 'nuclear'")
    if loss is not None and loss.discrete:
        raise ValueError(
            f"nonnegative=True makes values sums of parts, and loss={loss.name!r} has them on another scale: use "
            "loss='squares', or leave out nonnegative"
        )


def _check_problem(model: MatrixCompletion, problem: Completion, y: Any, sample_weight: Any) -> None:
    """A ValueError for parameters that are incompatible with a Completion."""
    check_completion(problem, y, sample_weight, model.device)
    if is_robust(model):
        raise ValueError("loss='robust' finds outliers one by one in arrays: for a Completion use loss='tukey' or 'huber'")
    if model.nonnegative and not problem.backend.in_main_memory:
        raise ValueError("nonnegative=True takes observations in main memory: fit to arrays, or leave it out")
    if model.nonnegative:
        check_nonnegative(problem.y)
    if model.cv != 1:
        raise ValueError(f"cv={model.cv}: the observations of a Completion are split once: leave cv at 1")
    if model.shape is not None and tuple(model.shape) != tuple(problem.shape):
        raise ValueError(f"shape={model.shape}: the Completion has shape {tuple(problem.shape)}")
    if model.ranking and problem.m > MAX_STORED:
        raise ParameterError(
            "ranking", f"takes at most {MAX_STORED:,} observations, and the Completion has {problem.m:,}: leave it at False"
        )
