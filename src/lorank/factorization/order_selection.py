"""Selection of the order of recommendations on held-out lists: factors, item-to-item model, popularity, predicted ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from ..backends import Array, Backend, get_backend
from ..backends.top_k import rows_of, top_scores
from ..evaluation import HeldOutItems, leave_some_out, ndcg
from .implicit import ImplicitSettings, fit_implicit
from .implicit_selection import HELD_OUT_SHARE, LIST_LENGTH, MAX_FOLDS, MIN_POSITIVES, Positives
from .item_model import ItemModel, LowRankGram, fit_ease, fit_neighbors, item_matrix, matrix_observations

RANKS = (64, 128, 256)
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

    @property
    def matrix(self) -> scipy.sparse.csr_array:
        weights = np.ones(len(self.kept.rows)) if self.kept.weights is None else self.kept.weights
        return item_matrix(self.kept.pattern(), weights, self.kept.shape[1])

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
    """Folds that hold out a tenth of each user's liked items; several where data are few, none where nothing can be held out."""
    if not liked.any():
        return []
    count = min(max(-(-MIN_POSITIVES // max(int(HELD_OUT_SHARE * liked.sum()), 1)), 1), MAX_FOLDS)
    rng, found = np.random.default_rng(seed), []
    for fold in range(count):
        out = liked.copy()
        out[liked] = leave_some_out(data.rows[liked], HELD_OUT_SHARE, keep=1, seed=seed + fold)
        if not out.any():
            continue
        held = HeldOutItems.from_pairs(data.rows[out], data.cols[out], data.shape[0])
        users = np.sort(rng.permutation(np.flatnonzero(held.counts))[:MAX_USERS])
        found.append(Fold(data.part(~out), ~out, users, HeldOutItems(*rows_of(held.indptr, held.items, users))))
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
        mean = float(np.mean(np.concatenate([fold.ndcg(where, fit(fold)) for fold in folds])))
        tried.append(OrderCandidate(order, detail, mean))
        return mean

    best, rank = -1.0, ranks[0]
    for one in ranks:
        found = judge("affinity", one, lambda fold, one=one: _factor_scores(fold.kept, backend, replace(settings, rank=one)))
        if found <= best:
            break
        best, rank = found, one
    regularization = select_item_regularization(folds[0])
    item_rank = ITEM_RANK if data.shape[1] > MAX_DENSE_ITEMS else None
    item_settings = [ItemSettings(regularization, item_rank), ItemSettings(None)]
    for one in item_settings:
        judge("similarity", one.regularization or 0.0, lambda fold, one=one: _item_scores(fold.matrix, one, backend))
    judge("popularity", None, _popularity_scores)
    for name, fit in (others or {}).items():
        judge(name, None, lambda fold, fit=fit: fit(fold.flags))
    winner = max(tried, key=lambda candidate: candidate.ndcg)
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
    X = small.matrix
    first = START * float(X.multiply(X).sum()) / max(len(some), 1)

    def quality(step: int) -> float:
        scores = _item_scores(X, ItemSettings(first * FACTOR**step), get_backend())
        found = small.ndcg(get_backend(), scores)
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


def _factor_scores(data: Positives, backend: Backend, settings: ImplicitSettings) -> Scores:
    sides = fit_implicit(data.observations(backend, np.float32), backend, settings)
    return lambda users: sides.rows[backend.asindex(users)] @ sides.cols.T


def _item_scores(X: scipy.sparse.csr_array, settings: ItemSettings, backend: Backend) -> Scores:
    model = settings.fit(X, backend)
    return lambda users: model.scores(X[users])


def _popularity_scores(fold: Fold) -> Scores:
    counts = np.bincount(fold.kept.cols, minlength=fold.kept.shape[1]).astype(float)
    return lambda users: np.tile(counts, (len(users), 1))
