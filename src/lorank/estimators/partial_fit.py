"""More observations for a fitted MatrixCompletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from ..backends import backend_of
from ..common.checks import counted
from ..factorization.fit import check_ratio
from ..factorization.training_data import Growth, TrainingData
from ..factorization.update import Update
from ..problems import Completion
from .cold_start import SIDES, affine
from .entries import Entries, full_shape, read_entries, read_weights
from .features import SideTable, read_features
from .fitting import is_robust, refuse_negative
from .frames import without_named
from .ids import united_ids
from .inputs import check_weights

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion


def learn_more(
    model: MatrixCompletion,
    X: Any,
    y: Any,
    sample_weight: Any,
    names: Sequence[Any] = (None, None, None),
) -> MatrixCompletion:
    """See :meth:`MatrixCompletion.partial_fit`."""
    memory = _memory(model, X)
    entries = read_entries(without_named(X, (sample_weight,), names), y, names)
    weights = check_weights(read_weights(sample_weight, X), len(entries.values))
    if not len(entries.values):
        return model
    rows, cols, grown, ids = _places(model, entries)
    _refuse_strangers(model, grown, ids)
    refuse_negative(model, entries.values)
    values = _encoded(model, entries.values)
    more = memory.with_more(rows, cols, values, weights, grown)
    merged = len(memory.entries.indices) + len(values) - len(more.entries.indices)
    if merged and model.loss_ is not None and model.loss_.discrete and not model.loss_.exact_means:
        raise ValueError(
            f"{counted(merged, 'pair')} {'was' if merged == 1 else 'were'} observed before, or twice, and "
            "classes have no mean: keep one observation of each pair"
        )
    if more.entries.weights is not None:
        check_ratio(more.entries.weights)
    update = Update(model.loss_, float(model.count_scaling) if model.regularization_ != "learned" else 0.0)
    assert more.pending is not None
    fitted, pending = update(model.model_, more, np.unique(rows), more.pending, grown)
    model._memory = replace(more, pending=pending)
    model.ids_, model.labels_ = ids, model.labels_ or entries.labels
    model._set_model(fitted)
    if model._taste is not None:
        model._taste, model._taste_is_old = model._taste.grown(*grown), True
    return model


def _memory(model: MatrixCompletion, X: Any) -> TrainingData:
    """What the model was fitted to; a ValueError where that is not known, or not of use."""
    if isinstance(X, Completion):
        raise ValueError("partial_fit takes observations themselves, not a Completion: fit the Completion of all of them")
    if is_robust(model):
        raise ValueError("with loss='robust' what is wrong is found among all observations: fit again, with all of them")
    memory = model._memory
    if memory is None:
        raise ValueError("the model was fitted to partitions, and does not hold its observations: fit again, with all of them")
    if not memory.complete:
        raise ValueError("the model is from an earlier version, whose files do not hold the observations: fit it again")
    return memory


def meet(model: MatrixCompletion, row_features: Any, col_features: Any) -> None:
    """Rows and columns that are new, by their features: their factors are those that the features foretell."""
    for (side, plural), table in zip(SIDES, (row_features, col_features), strict=True):
        if table is None:
            continue
        if side not in model._sides:
            raise ValueError(f"the model was fitted without {side}_features: fit again, with them")
        place = int(side == "col")
        n, known = model.model_.shape[place], None if model.ids_ is None else model.ids_[plural]
        label = None if model.labels_ is None else model.labels_[side]
        old, nobody = model._sides[side], None if known is None else known[:0]
        numbers, _, own = read_features(table, side, nobody, label, 0, old.encoder)
        if own is None or known is None:  # lines beyond the last row
            before, more = np.arange(n), numbers[n:]
            now, ids = np.arange(n, n + more.shape[0]), None
        else:
            fresh = ~np.isin(own, known)
            ids, more = united_ids(known, own[fresh], side), numbers[fresh]
            before, now = np.searchsorted(ids, known), np.searchsorted(ids, own[fresh])
        if not more.shape[0]:
            continue
        shape, sides = list(model.model_.shape), [np.arange(k) for k in model.model_.shape]
        shape[place], sides[place] = n + more.shape[0], before
        _grow(model, Growth(sides[0], sides[1], (shape[0], shape[1])), side, now, more)
        if model.ids_ is not None and ids is not None:
            model.ids_ = model.ids_ | {plural: ids}
        order = np.argsort(np.concatenate([before, now]))
        together = scipy.sparse.csr_array(scipy.sparse.vstack([old.numbers, more]))[order]
        model._sides = model._sides | {side: SideTable(old.encoder, together)}


def _grow(model: MatrixCompletion, grown: Growth, side: str, now: np.ndarray, more: Any) -> None:
    fitted = model.model_.grown(*grown)
    link, means = getattr(fitted, f"{side}_coefficients"), getattr(fitted, f"{side}_means")
    if link is not None and means is not None:
        means[now] = affine(more, link)
        getattr(fitted, f"{side}s")[now] += means[now]
    if model._memory is not None:
        nothing = np.empty(0, np.int64)
        model._memory = model._memory.with_more(nothing, nothing, np.empty(0), None, grown)
    model._set_model(fitted)
    if model._taste is not None:
        model._taste, model._taste_is_old = model._taste.grown(*grown), True


def _refuse_strangers(model: MatrixCompletion, grown: Growth, ids: dict[str, np.ndarray] | None) -> None:
    """After a fit with features, all rows and columns have some."""
    for (side, plural), n, known in zip(SIDES, grown.shape, grown[:2], strict=True):
        if side in model._sides and n > len(known):
            first = np.setdiff1d(np.arange(n), known)[0]
            name = first if ids is None else ids[plural][first]
            raise ValueError(f"nothing is known of the new {side} {name!s}: pass {side}_features with it, as in fit")


def _encoded(model: MatrixCompletion, values: np.ndarray) -> np.ndarray:
    """Values as the loss has them; a ValueError for a class that was not in the fit, or what is no count."""
    if model.loss_ is None or not model.loss_.discrete:
        return values
    classes = getattr(model, "classes_", None)
    strange = np.empty(0) if classes is None else values[~np.isin(values, classes)]
    if classes is not None and len(strange):
        raise ValueError(f"the value {strange[0]:g} is none of the classes of the fit, {', '.join(f'{c:g}' for c in classes)}")
    if classes is None:
        model.loss_.prepare(values, backend_of(values))  # refuses what is no count
    return np.asarray(model.loss_.encode(values))


def _places(model: MatrixCompletion, entries: Entries) -> tuple[np.ndarray, np.ndarray, Growth, dict[str, np.ndarray] | None]:
    """Where the new observations stand among all rows and columns, where the old ones do, and the ids of all."""
    old = model.model_.shape
    if (entries.ids is None) != (model.ids_ is None):
        kinds = ("index pairs", "ids") if entries.ids is not None else ("ids", "index pairs")
        raise ValueError(f"the model was fitted to {kinds[0]}, and these are {kinds[1]}")
    if entries.ids is None or model.ids_ is None:
        m = len(entries.rows) + (0 if model._memory is None else len(model._memory.entries.indices))
        if not m:
            n1, n2 = old
        else:
            pad = np.zeros(m - len(entries.rows), np.int64)  # so that the limit on indices is that of all observations
            both = replace(entries, rows=np.append(entries.rows, pad), cols=np.append(entries.cols, pad), shape=None)
            found = full_shape(both, None)
            n1, n2 = max(old[0], found[0]), max(old[1], found[1])
        return entries.rows, entries.cols, Growth(np.arange(old[0]), np.arange(old[1]), (n1, n2)), None
    ids, before, now = {}, [], []
    for side, what, at in (("rows", "row", entries.rows), ("cols", "column", entries.cols)):
        ids[side] = united_ids(model.ids_[side], entries.ids[side], what)
        before.append(np.searchsorted(ids[side], model.ids_[side]))
        now.append(np.searchsorted(ids[side], entries.ids[side])[at])
    return now[0], now[1], Growth(before[0], before[1], (len(ids["rows"]), len(ids["cols"]))), ids
