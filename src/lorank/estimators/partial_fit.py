"""Update a fitted MatrixCompletion with more observations, and with new rows and columns by their features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from ..backends import Backend, backend_of
from ..common.checks import counted
from ..factorization.fit import check_ratio
from ..factorization.ranking_model import count_liked, ratings_positives
from ..factorization.training_data import Growth
from ..factorization.update import Update
from ..problems import Completion
from .features import SIDES, SideTable, affine, read_features
from .frames import union_ids
from .inputs import Entries, full_shape, read_entries
from .ratings_state import RatingsState, check_nonnegative


def update_ranking(state: RatingsState, backend: Backend) -> RatingsState:
    """The state with its ranking model, if there is one, updated to its training data."""
    if state.ranking is None:
        return state
    pattern, shape = state.training_pattern(), state.model.shape
    data = ratings_positives(pattern, state.liked, shape, state.ranking.disliked)
    return state.with_ranking(state.ranking.updated(data, count_liked(pattern[1], state.liked, shape[1]), backend))


def add_observations(
    state: RatingsState, X: Any, y: Any, names: Sequence[Any] = (None, None, None), sample_weight: Any = None
) -> RatingsState:
    """The state after more observations; its ranking model, if there is one, has the new shape but is not updated yet.

    See :meth:`MatrixCompletion.partial_fit`.
    """
    if isinstance(X, Completion):
        raise ValueError("partial_fit takes observations themselves, not a Completion: fit the Completion of all of them")
    if state.training is None:
        raise ValueError("the model was fitted to partitions and does not store its observations: fit again, with all of them")
    entries, weights = read_entries(X, y, names, sample_weight)
    if not len(entries.values):
        return state
    rows, cols, growth, ids = _positions(state, entries)
    _check_features(state, growth, ids)
    if state.model.nonnegative:
        check_nonnegative(entries.values)
    values = _encoded(state, entries.values)
    training = state.training.with_more(rows, cols, values, weights, growth)
    merged = len(state.training.entries.indices) + len(values) - len(training.entries.indices)
    if merged and state.loss is not None and state.loss.discrete and not state.loss.exact_means:
        raise ValueError(
            f"{counted(merged, 'pair')} {'was' if merged == 1 else 'were'} observed before, or twice, and "
            "classes have no mean: keep one observation of each pair"
        )
    if training.entries.weights is not None:
        check_ratio(training.entries.weights)
    assert training.pending is not None
    update = Update(state.loss, state.count_scaling)
    model, pending = update(state.model, training, np.unique(rows), training.pending, growth)
    return replace(
        state,
        model=model,
        training=replace(training, pending=pending),
        ids=ids,
        labels=state.labels or entries.labels,
        ranking=None if state.ranking is None else state.ranking.grown(*growth),
    )


def _check_features(state: RatingsState, growth: Growth, ids: dict[str, np.ndarray] | None) -> None:
    """A ValueError for a new row or column without features, where the fit had features."""
    for (side, plural), n, known in zip(SIDES, growth.shape, growth[:2], strict=True):
        if side in state.features and n > len(known):
            first = np.setdiff1d(np.arange(n), known)[0]
            name = first if ids is None else ids[plural][first]
            raise ValueError(f"the new {side} {name!s} has no features: pass {side}_features with it, as in fit")


def _encoded(state: RatingsState, values: np.ndarray) -> np.ndarray:
    """Values as the loss encodes them; a ValueError for a new class, or for values that are no counts."""
    if state.loss is None or not state.loss.discrete:
        return values
    classes = state.classes
    new = np.empty(0) if classes is None else values[~np.isin(values, classes)]
    if classes is not None and len(new):
        raise ValueError(f"the value {new[0]:g} is none of the classes of the fit, {', '.join(f'{c:g}' for c in classes)}")
    if classes is None:
        state.loss.prepare(values, backend_of(values))  # checks that the values are counts
    return np.asarray(state.loss.encode(values))


def _positions(state: RatingsState, entries: Entries) -> tuple[np.ndarray, np.ndarray, Growth, dict[str, np.ndarray] | None]:
    """Rows and columns of the new observations in the larger matrix, its growth, and the ids of all rows and columns."""
    old = state.model.shape
    if (entries.ids is None) != (state.ids is None):
        kinds = ("index pairs", "ids") if entries.ids is not None else ("ids", "index pairs")
        raise ValueError(f"the model was fitted to {kinds[0]}, and these are {kinds[1]}")
    if entries.ids is None or state.ids is None:
        m = len(entries.rows) + (0 if state.training is None else len(state.training.entries.indices))
        pad = np.zeros(m - len(entries.rows), np.int64)  # the limit on indices depends on the number of all observations
        both = replace(entries, rows=np.append(entries.rows, pad), cols=np.append(entries.cols, pad), shape=None)
        found = full_shape(both, None)
        shape = max(old[0], found[0]), max(old[1], found[1])
        return entries.rows, entries.cols, Growth(np.arange(old[0]), np.arange(old[1]), shape), None
    ids, before, now = {}, [], []
    for side, what, at in (("rows", "row", entries.rows), ("cols", "column", entries.cols)):
        ids[side] = union_ids(state.ids[side], entries.ids[side], what)
        before.append(np.searchsorted(ids[side], state.ids[side]))
        now.append(np.searchsorted(ids[side], entries.ids[side])[at])
    return now[0], now[1], Growth(before[0], before[1], (len(ids["rows"]), len(ids["cols"]))), ids


def add_features(state: RatingsState, row_features: Any, col_features: Any) -> RatingsState:
    """The state with the new rows and columns of these tables, whose factors are predicted from their features."""
    for (side, plural), table in zip(SIDES, (row_features, col_features), strict=True):
        if table is None:
            continue
        if side not in state.features:
            raise ValueError(f"the model was fitted without {side}_features: fit again, with them")
        axis = int(side == "col")
        n, known = state.model.shape[axis], None if state.ids is None else state.ids[plural]
        label = None if state.labels is None else state.labels[side]
        old = state.features[side]
        numbers, _, own = read_features(table, side, None if known is None else known[:0], label, 0, old.encoder)
        if own is None or known is None:  # lines after the last row
            before, more = np.arange(n), numbers[n:]
            now, ids = np.arange(n, n + more.shape[0]), None
        else:
            fresh = ~np.isin(own, known)
            ids, more = union_ids(known, own[fresh], side), numbers[fresh]
            before, now = np.searchsorted(ids, known), np.searchsorted(ids, own[fresh])
        if not more.shape[0]:
            continue
        shape, positions = list(state.model.shape), [np.arange(k) for k in state.model.shape]
        shape[axis], positions[axis] = n + more.shape[0], before
        state = _grown(state, Growth(positions[0], positions[1], (shape[0], shape[1])), side, now, more)
        order = np.argsort(np.concatenate([before, now]))
        together = scipy.sparse.csr_array(scipy.sparse.vstack([old.numbers, more]))[order]
        state = replace(
            state,
            ids=state.ids if state.ids is None or ids is None else state.ids | {plural: ids},
            features={**state.features, side: SideTable(old.encoder, together)},
        )
    return state


def _grown(state: RatingsState, growth: Growth, side: str, now: np.ndarray, more: Any) -> RatingsState:
    """The state with more rows (columns), at the positions ``now``."""
    model = state.model.grown(*growth)
    own = model.sides[side == "col"]
    if own.coefficients is not None and own.means is not None:
        own.means[now] = affine(more, own.coefficients)
        own.factors[now] += own.means[now]
    training, none = state.training, np.empty(0, np.int64)
    return replace(
        state,
        model=model,
        training=None if training is None else training.with_more(none, none, np.empty(0), None, growth),
        ranking=None if state.ranking is None else state.ranking.grown(*growth),
    )
