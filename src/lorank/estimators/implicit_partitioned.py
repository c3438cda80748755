"""ImplicitFactorization of a problem whose values are counts, where its observations are: mapped from disk, or at workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import Observations, get_backend
from ..factorization.implicit import ImplicitSettings
from ..factorization.implicit_selection import MANY, Positives, select_implicit
from ..problems import Completion
from .partitioned import KEPT

if TYPE_CHECKING:
    from .implicit_factorization import ImplicitFactorization

TALL = 8  # arrays as large as the factors of a side that there are at a time, about


def fit_problem(model: ImplicitFactorization, problem: Completion, counts: Any) -> ImplicitFactorization:
    """Fit to the observations of a problem, where they are; see :meth:`ImplicitFactorization.fit`."""
    from .implicit_factorization import ZEROS

    _refuse(model, problem, counts)
    if _engine(problem) is None:
        return _fit_in_memory(model, problem)
    if model.nonnegative:
        raise ValueError("nonnegative=True takes pairs in main memory, not partitions: leave it out, or fit to arrays")
    settings, search = model._plan()
    backend, (n1, n2) = problem.backend, problem.shape
    needed = TALL * 4 * settings.rank * (n1 + n2 * _engine(problem).workers)
    backend.require_bytes(needed, f"factors of rank {settings.rank}")
    observed, total = _positives(model, problem)
    if search["zeros"]:
        settings = replace(settings, zeros=ZEROS * total / (n1 * n2))
    model.curve_ = []
    if any(search.values()):
        settings, model.curve_ = _chosen(observed, settings, search)
    sides = model._swept(observed, backend, settings, None)
    model.zeros_, model.regularization_ = settings.zeros, settings.regularization
    model.user_factors_, model.item_factors_ = (backend.to_numpy(a) for a in (sides.rows, sides.cols))
    _name(model, problem)
    if problem.m <= KEPT:
        indptr, indices, values, _ = problem.observations.host()
        model._remember(indptr, indices, values.astype(float))
    else:
        users, items = (backend.to_numpy(problem.observations.counts(side)) for side in (0, 1))
        model._forget(users, items)
    return model


def _fit_in_memory(model: ImplicitFactorization, problem: Completion) -> ImplicitFactorization:
    import scipy.sparse

    indptr, indices, values, _ = problem.observations.host()
    model.fit(scipy.sparse.csr_array((values, indices, indptr), shape=problem.shape))
    _name(model, problem)
    return model


def _name(model: ImplicitFactorization, problem: Completion) -> None:
    ids = zip((problem.row_ids, problem.col_ids), problem.shape, strict=True)
    model.user_ids_, model.item_ids_ = (np.arange(n) if a is None else a for a, n in ids)


def _positives(model: ImplicitFactorization, problem: Completion) -> tuple[Observations, float]:
    """Ones in single precision with confidences as weights, where the counts are; and the sum of these."""
    backend, observed = problem.backend, problem.observations
    counts = backend.astype(observed.values, np.float64)
    same = float(counts.min()) == float(counts.max()) == 1.0
    if not same or problem.dtype != np.float32:
        observed = observed.with_values(backend.astype(counts * 0 + 1, np.float32))
    if same or model.confidence == "equal":
        return observed, float(problem.m)
    weights = np.log2(counts + 1) if model.confidence == "log" else counts
    return observed.with_weights(backend.astype(weights, np.float32)), float(weights.sum())


def _chosen(observed: Any, settings: ImplicitSettings, search: dict[str, bool]) -> Any:
    """What is not given, chosen on the driver: there are never more observations in the choice than fit there."""
    n1, n2 = observed.shape
    kept: np.ndarray = np.ones(n1, bool)
    if observed.m > MANY:
        kept = np.random.default_rng(settings.seed).random(n1) < MANY / observed.m
    rows, cols, weights = observed.of_rows(kept)
    number = np.cumsum(kept) - 1
    data = Positives(number[rows], cols, weights, (int(kept.sum()), n2))
    return select_implicit(
        data,
        get_backend(),
        settings,
        np.float32,
        zeros=search["zeros"],
        regularization=search["regularization"],
        max_iter=True,
    )


def _engine(problem: Completion) -> Any:
    graph: Any = getattr(problem.observations, "graph", None)
    return None if graph is None else graph.engine


def _refuse(model: ImplicitFactorization, problem: Completion, counts: Any) -> None:
    if counts is not None:
        raise ValueError("a Completion has its counts: leave out y")
    if problem.loss is not None or problem.observations.weights is not None:
        raise ValueError("the Completion has a loss or weights: make it without, its values are how often something was taken")
    if problem.dtype.kind == "c":
        raise ValueError("the Completion has complex values: how often something was taken is a number")
    if model.device is not None:
        raise ValueError("the observations of a Completion stay where they are: leave out device=")
    least = float(problem.y.min())
    if not least > 0:
        raise ValueError(
            f"the smallest value of the Completion is {least:g}: how often something was taken is more than 0. Leave out what "
            "was not taken, and what was disliked; or fit MatrixCompletion to ratings"
        )
