"""Selection of the order of recommendations on held-out lists: factors, item-to-item model, popularity, predicted ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse

from ..backends import Array, Backend, get_backend
from ..backends.top_k import rows_of, top_scores
from ..evaluation import HeldOutItems, ndcg
from .implicit import ImplicitSettings, fit_implicit
from .implicit_selection import LIST_LENGTH, Positives, hold_out
from .item_model import (
    NEIGHBORS,
    ItemModel,
    LowRankGram,
    dense_gram,
    fit_ease,
    fit_local_ease,
    fit_neighbors,
    matrix_observations,
)

RANKS = (64, 128, 256)
MIN_HELD_OUT = 3000  # folds are added until so many positives are held out
MAX_USERS = 6000  # users whose lists are compared in each fold
MAX_DENSE_ITEMS = 8000  # with more items, EASE is local,
MAX_LOCAL_ITEMS, MAX_PAIRS = (
    50_000,
    100_000_000,
)  # and of low rank beyond these numbers of items, and of pairs of a user's items
ITEM_RANK = 256  # of low-rank EASE
START, FACTOR, MAX_STEPS = 5.0, 2.5, 4  # regularization: first one in units of the mean of diag(X^T X), steps, and their number
SEARCH_ITEMS = 1000  # most popular items, on which the regularization of EASE is selected
SEARCH_NEIGHBORS, LOCAL_STEPS = 50, range(-2, 2)  # neighbors with which that of local EASE is selected, and the steps

Scores = Callable[[np.ndarray], Array]  # users -> scores of all items


@dataclass(frozen=True)
class OrderCandidate:
    """One way to order items.

    Attributes
    ----------
    order : {"affinity", "similarity", "popularity", "rating"}
    detail : int, float or None
        Rank of a factor model, regularization of EASE; 0 for item neighborhoods.
    ndcg : float
        Mean NDCG@20 on held-out lists.
    """

    order: str
    detail: float | None
    ndcg: float


@dataclass(frozen=True)
class ItemSettings:
    """Item-to-item model: EASE (itself, local or of low rank), or item neighborhoods, which have no regularization."""

    regularization: float | None
    rank: int | None = None
    neighbors: int | None = None

    def fit(self, X: scipy.sparse.csr_array, backend: Backend, seed: int = 0) -> ItemModel:
        if self.regularization is None:
            return fit_neighbors(X)
        if self.neighbors is not None:
            return fit_local_ease(X, [self.regularization], self.neighbors)[0]
        if self.rank is None:
            return fit_ease(X, self.regularization)
        return LowRankGram.of(matrix_observations(X, backend), backend, self.rank, seed).ease(self.regularization)


@dataclass(frozen=True)
class Fold:
    """Lists of held-out items, and the data without them."""

    kept: Positives
    flags: np.ndarray  # of the kept pairs
    users: np.ndarray
    held: HeldOutItems

    def ndcg(self, backend: Backend, scores: Scores) -> np.ndarray:
        """NDCG@20 of each user."""
        seen = rows_of(*self.kept.pattern(), self.users)
        never = np.bincount(self.kept.cols, minlength=self.kept.shape[1]) == 0
        shape = len(self.users), self.kept.shape[1]
        lists, _ = top_scores(
            backend, lambda part: scores(self.users[part.start : part.stop]), shape, LIST_LENGTH, seen=seen, never=never
        )
        return ndcg(lists, self.held, LIST_LENGTH)


def make_folds(data: Positives, liked: np.ndarray, seed: int) -> list[Fold]:
    """Folds of the liked items, each with the lists of some users."""
    rng, found = np.random.default_rng(seed), []
    for kept, held in hold_out(data, liked, MIN_HELD_OUT, seed):
        users = np.sort(rng.permutation(np.flatnonzero(held.counts))[:MAX_USERS])
        found.append(Fold(data.part(kept), kept, users, HeldOutItems(*rows_of(held.indptr, held.items, users))))
    return found


def select_order(
    data: Positives,
    liked: np.ndarray,
    backend: Backend,
    settings: ImplicitSettings,
    ranks: Sequence[int],
    others: Mapping[str, Callable[[np.ndarray], Scores]] | None = None,
) -> tuple[str, ImplicitSettings, ItemSettings | None, list[OrderCandidate]]:
    """Select the order of recommendations by NDCG on held-out lists.

    Parameters
    ----------
    data : Positives
    liked : (m,) bool array
        Positives that may be held out.
    backend : Backend
        Of the factor models.
    settings : ImplicitSettings
        Of the factor models.
    ranks : sequence of int
        Ranks of the factor models, tried in this order as long as NDCG increases.
    others : mapping, optional
        More orders: functions that fit to the pairs with flags, and return scores.

    Returns
    -------
    order : str
    settings : ImplicitSettings
        With the best rank.
    items : ItemSettings or None
        Of the item-to-item model, if that is best.
    candidates : list of OrderCandidate
        Empty where nothing can be held out.
    """
    folds = make_folds(data, liked, settings.seed)
    if not folds:
        return "affinity", replace(settings, rank=ranks[0]), None, []
    tried: list[OrderCandidate] = []

    def judge(order: str, detail: float | None, fit: Callable[[Fold], Scores]) -> float:
        """Fit to each fold, and record the NDCG."""
        where = backend if order == "affinity" else get_backend()
        found = np.concatenate([fold.ndcg(where, fit(fold)) for fold in folds])
        tried.append(OrderCandidate(order, detail, float(found.mean())))
        return tried[-1].ndcg

    best, rank = -1.0, ranks[0]
    for one in ranks:
        found = judge("affinity", one, partial(_factor_scores, backend=backend, settings=replace(settings, rank=one)))
        if found <= best:
            break
        best, rank = found, one
    item_settings = [select_item_settings(folds[0], automatic_form(data)), ItemSettings(None)]
    for kind in item_settings:
        judge("similarity", kind.regularization or 0.0, partial(_item_scores, backend=backend, settings=kind))
    judge("popularity", None, _popularity_scores)
    for name, fit in (others or {}).items():
        judge(name, None, partial(_other_scores, fit=fit))
    winner = max(tried, key=lambda one: one.ndcg)
    chosen = None
    if winner.order == "similarity":
        chosen = item_settings[0] if winner.detail else item_settings[1]
    return winner.order, replace(settings, rank=rank), chosen, tried


def automatic_form(data: Positives) -> ItemSettings:
    """The form of EASE for these data: itself, local for many items, or of low rank where ``X^T X`` is too large."""
    if data.shape[1] <= MAX_DENSE_ITEMS:
        return ItemSettings(1.0)
    pairs = int((np.bincount(data.rows) ** 2).sum())
    small = data.shape[1] <= MAX_LOCAL_ITEMS and pairs <= MAX_PAIRS
    return ItemSettings(1.0, neighbors=NEIGHBORS) if small else ItemSettings(1.0, ITEM_RANK)


def select_item_settings(fold: Fold, form: ItemSettings) -> ItemSettings:
    """EASE of this form with the regularization of the largest NDCG: among the most popular items, unless it is local."""
    if form.neighbors is not None:
        X = fold.kept.matrix()
        tried = [_first_regularization(X) * FACTOR**step for step in LOCAL_STEPS]
        models = fit_local_ease(X, tried, min(form.neighbors, SEARCH_NEIGHBORS))
        qualities = [float(fold.ndcg(get_backend(), _model_scores(X, model)).mean()) for model in models]
        return replace(form, regularization=tried[int(np.argmax(qualities))])
    some = np.sort(np.argsort(-np.bincount(fold.kept.cols, minlength=fold.kept.shape[1]), kind="stable")[:SEARCH_ITEMS])
    place = np.full(fold.kept.shape[1], -1)
    place[some] = np.arange(len(some))
    flags = place[fold.kept.cols] >= 0
    part = fold.kept.part(flags)
    held_rows = np.repeat(np.arange(len(fold.users)), fold.held.counts)
    there = place[fold.held.items] >= 0
    held = HeldOutItems.from_pairs(held_rows[there], place[fold.held.items[there]], len(fold.users))
    kept = replace(part, cols=place[part.cols], shape=(part.shape[0], len(some)))
    small = replace(fold, kept=kept, flags=flags, held=held)
    X = kept.matrix()
    first, gram = _first_regularization(X), dense_gram(X)

    def quality(step: int) -> float:
        found = small.ndcg(get_backend(), _model_scores(X, fit_ease(X, first * FACTOR**step, gram)))
        return float(np.nanmean(found)) if np.isfinite(found).any() else 0.0

    best, at = quality(0), 0
    for direction in (1, -1):
        for step in range(direction, direction * (MAX_STEPS + 1), direction):
            found = quality(step)
            if found <= best:
                break
            best, at = found, step
        if at:
            break
    return replace(form, regularization=first * FACTOR**at)


def _first_regularization(X: scipy.sparse.csr_array) -> float:
    return START * float(X.multiply(X).sum()) / max(X.shape[1], 1)


def _factor_scores(fold: Fold, backend: Backend, settings: ImplicitSettings) -> Scores:
    sides = fit_implicit(fold.kept.observations(backend, np.float32), backend, settings)
    return lambda users: sides.rows[backend.asindex(users)] @ sides.cols.T


def _item_scores(fold: Fold, backend: Backend, settings: ItemSettings) -> Scores:
    X = fold.kept.matrix()
    return _model_scores(X, settings.fit(X, backend))


def _model_scores(X: scipy.sparse.csr_array, model: ItemModel) -> Scores:
    return lambda users: model.scores(X[users])


def _popularity_scores(fold: Fold) -> Scores:
    counts = np.bincount(fold.kept.cols, fold.kept.weights, fold.kept.shape[1]).astype(float)
    return lambda users: np.tile(counts, (len(users), 1))


def _other_scores(fold: Fold, fit: Callable[[np.ndarray], Scores]) -> Scores:
    return fit(fold.flags)
