"""MatrixCompletion of observations that are a problem already: mapped from disk, at the workers of a cluster, or in memory."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..factorization.fit import Settings, centred, require_memory
from ..factorization.folds import in_main_memory, some_of, split_fold
from ..factorization.selection import select_on_folds
from ..factorization.training_data import TrainingData
from ..losses import Loss
from ..problems import Completion
from .fitting import is_robust, plan, refuse_negative
from .outliers import LOOKED_AT, warn_about_outliers

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion

KEPT = 1 << 24  # observations: up to here a model remembers what each row has seen


def fit_problem(model: MatrixCompletion, problem: Completion, y: Any, sample_weight: Any) -> MatrixCompletion:
    """Fit to the observations of a problem, where they are; see :meth:`MatrixCompletion.fit`."""
    _refuse(model, problem, y, sample_weight)
    settings, ranks, search = plan(model, (problem.shape[0], problem.shape[1]), problem.m)
    ranks = affordable(problem, settings, ranks)
    model.outliers_, model.n_features_in_, model.calibration_ = None, 2, np.empty(0)
    model._two = bool(problem.y.min() < 0)
    given = problem
    if settings.loss is not None:
        problem = with_loss(problem, settings.loss)
        settings = replace(settings, loss=problem.loss)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")  # they have the factors of their prior
        working, mean = centred(problem, settings.biases)

    def choice() -> Any:
        fold = split_fold(problem, model.holdout, settings.seed, model.bounds)
        return select_on_folds([fold], settings, ranks=ranks, search=search)

    chosen = ranks is not None or search != "given" or model.intervals
    fit, settings = model._fitted(working, mean, settings, choice if chosen else None)
    model._conclude(working, replace(fit, model=in_main_memory(fit.model)), settings, 0)
    model._memory = TrainingData(problem.observations.host()) if given.m <= KEPT else None
    ids = {side: a for side, a in (("rows", given.row_ids), ("cols", given.col_ids)) if a is not None}
    model.ids_ = model.labels_ = None
    if ids:
        model.ids_ = {"rows": _ids(ids, "rows", given.shape[0]), "cols": _ids(ids, "cols", given.shape[1])}
    if model.loss_ is None:
        rows, cols, values, weights = some_of(given, LOOKED_AT)
        warn_about_outliers(model.model_, rows, cols, values, None if given.observations.weights is None else weights)
    return model


def affordable(problem: Completion, settings: Settings, ranks: list[int] | None) -> list[int] | None:
    """Those of the ranks to be tried whose factors the memory allowed can hold; a MemoryError where there are none."""
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
    """The same observations with a loss, whose classes are those of all of them."""
    values, loss = loss.prepare(problem.y, problem.backend)
    twin = problem.squares()
    twin.loss = loss
    observed = problem.observations
    return twin.with_observations(observed if values is problem.y else observed.with_values(values))


def _ids(ids: dict[str, np.ndarray], side: str, n: int) -> np.ndarray:
    return ids[side] if side in ids else np.arange(n)


def _refuse(model: MatrixCompletion, problem: Completion, y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise ValueError("a Completion has its values and weights: leave out y and sample_weight")
    if problem.loss is not None:
        raise ValueError(
            f"the Completion has loss={problem.loss.name!r}: make it without, and give the loss to MatrixCompletion"
        )
    if problem.dtype.kind == "c":
        raise ValueError("the Completion has complex values: MatrixCompletion takes real ones")
    if is_robust(model):
        raise ValueError("loss='robust' finds outliers one by one in arrays: for a Completion use loss='tukey' or 'huber'")
    if model.device is not None:
        raise ValueError("the observations of a Completion stay where they are: leave out device=, and use Completion.to there")
    if model.nonnegative and not problem.backend.in_main_memory:
        raise ValueError("nonnegative=True takes observations in main memory: fit to arrays, or leave it out")
    refuse_negative(model, problem.y)
    if model.cv != 1:
        raise ValueError(f"cv={model.cv}: the observations of a Completion are split once: leave cv at 1")
    if model.shape is not None and tuple(model.shape) != tuple(problem.shape):
        raise ValueError(f"shape={model.shape}: the Completion has shape {tuple(problem.shape)}")
