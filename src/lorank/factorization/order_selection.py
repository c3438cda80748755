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
from .item_model import ItemModel, LowRankGram, fit_ease, fit_neighbors, matrix_observations

RANKS = (64, 128, 256)
MIN_HELD_OUT = 3000  # folds are added until so many positives are held out
MAX_USERS = 3000  # users whose lists are compared in each fold
MAX_DENSE_ITEMS = 8000  # with more items, EASE is of low rank
ITEM_RANK = 256  # of low-rank EASE
START, FACTOR, MAX_STEPS = 5.0, 2.5, 4  # regularization: first one in units of the mean of diag(X^T X), steps, and their number
SEARCH_ITEMS = 1000  # most popular items, on which the regularization of EASE is selected

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
    """Item-to-item model: EASE with a regularization, of low rank or not, or item neighborhoods (no regularization)."""

    regularization: float | None
    rank: int | None = None

    def fit(self, X: scipy.sparse.csr_array, backend: Backend, seed: int = 0) -> ItemModel:
        if self.regularization is None:
            return fit_neighbors(X)
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

    Factors are replaced where another order is better by at least a standard error.

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
    lists: list[np.ndarray] = []  # NDCG of each user, for each candidate

    def judge(order: str, detail: float | None, fit: Callable[[Fold], Scores]) -> float:
        """Fit to each fold, and record the NDCG."""
        where = backend if order == "affinity" else get_backend()
        found = np.concatenate([fold.ndcg(where, fit(fold)) for fold in folds])
        tried.append(OrderCandidate(order, detail, float(found.mean())))
        lists.append(found)
        return tried[-1].ndcg

    best, rank = -1.0, ranks[0]
    for one in ranks:
        found = judge("affinity", one, partial(_factor_scores, backend=backend, settings=replace(settings, rank=one)))
        if found <= best:
            break
        best, rank = found, one
    item_rank = ITEM_RANK if data.shape[1] > MAX_DENSE_ITEMS else None
    item_settings = [ItemSettings(select_item_regularization(folds[0]), item_rank), ItemSettings(None)]
    for kind in item_settings:
        judge("similarity", kind.regularization or 0.0, partial(_item_scores, backend=backend, settings=kind))
    judge("popularity", None, _popularity_scores)
    for name, fit in (others or {}).items():
        judge(name, None, partial(_other_scores, fit=fit))
    best_of_all = max(range(len(tried)), key=lambda k: tried[k].ndcg)
    factors = max(range(len(tried)), key=lambda k: (tried[k].order == "affinity", tried[k].ndcg))
    gain = lists[best_of_all] - lists[factors]
    winner = tried[best_of_all if gain.mean() > gain.std() / np.sqrt(len(gain)) else factors]
    chosen = None
    if winner.order == "similarity":
        chosen = item_settings[0] if winner.detail else item_settings[1]
    return winner.order, replace(settings, rank=rank), chosen, tried


def select_item_regularization(fold: Fold) -> float:
    """Regularization of EASE, by the NDCG of a fold among its most popular items."""
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
    first = START * float(X.multiply(X).sum()) / max(len(some), 1)

    def quality(step: int) -> float:
        found = small.ndcg(get_backend(), _item_scores(small, get_backend(), ItemSettings(first * FACTOR**step)))
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
    return first * FACTOR**at


def _factor_scores(fold: Fold, backend: Backend, settings: ImplicitSettings) -> Scores:
    sides = fit_implicit(fold.kept.observations(backend, np.float32), backend, settings)
    return lambda users: sides.rows[backend.asindex(users)] @ sides.cols.T


def _item_scores(fold: Fold, backend: Backend, settings: ItemSettings) -> Scores:
    X = fold.kept.matrix()
    model = settings.fit(X, backend)
    return lambda users: model.scores(X[users])


def _popularity_scores(fold: Fold) -> Scores:
    counts = np.bincount(fold.kept.cols, fold.kept.weights, fold.kept.shape[1]).astype(float)
    return lambda users: np.tile(counts, (len(users), 1))


def _other_scores(fold: Fold, fit: Callable[[np.ndarray], Scores]) -> Scores:
    return fit(fold.flags)
