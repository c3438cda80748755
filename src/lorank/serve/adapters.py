"""What the server asks of a model, alike for ratings and for what was taken. Users and items are places, from 0 on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backends import get_backend
from ..backends.top_k import top_columns
from ..estimators.implicit_factorization import ImplicitFactorization
from ..estimators.matrix_completion import MatrixCompletion
from ..estimators.recommendation import Explanation, explain, nearest, recommend, require_ranking, similar
from ..io.archive import FileError
from .search import IdIndex


class Listed(NamedTuple):
    """Places, best first, and numbers beside them: both without gaps."""

    places: np.ndarray
    numbers: np.ndarray


class Served(Protocol):
    """A model with its users and items.

    Attributes
    ----------
    users, items : IdIndex
    orders : tuple of str
        In which :meth:`recommend` can put items; the first is the default.
    number : str
        What stands beside recommended items: "prediction" or "score".
    labels : dict
        What the data call users, items and values.
    """

    users: IdIndex
    items: IdIndex
    orders: tuple[str, ...]
    number: str
    labels: dict[str, str]

    def about(self) -> dict[str, Any]: ...
    def taken(self, user: int, n: int) -> np.ndarray: ...
    def recommend(self, user: int, n: int, by: str) -> Listed: ...
    def recommend_for(self, items: np.ndarray, n: int) -> Listed: ...
    def similar(self, side: str, place: int, n: int) -> Listed: ...
    def explain(self, user: int, item: int) -> Explanation: ...


def served(model: Any, titles: Mapping[str, str] | None = None) -> Served:
    """A fitted model as the server needs it.

    Parameters
    ----------
    model : MatrixCompletion or ImplicitFactorization
    titles : mapping, optional
        What items are called, by their ids as text.
    """
    if isinstance(model, MatrixCompletion):
        return _Ratings(model, titles)
    if isinstance(model, ImplicitFactorization):
        return _Taken(model, titles)
    raise FileError(f"a {type(model).__name__} recommends nothing: serve a model of ratings, or of what was taken")


class _Ratings:
    """A MatrixCompletion."""

    orders: tuple[str, ...] = ("affinity", "rating")
    number = "prediction"

    def __init__(self, model: MatrixCompletion, titles: Mapping[str, str] | None) -> None:
        fitted, ids = model.model_, model.ids_ or {}
        if model.state_.ranking is None:  # now, so that no request waits for it
            model.fit_ranking()
        self.model, self.state, self.ranking = model, model.state_, require_ranking(model.state_)
        rows, cols = (ids.get(side, np.arange(n)) for side, n in zip(("rows", "cols"), fitted.shape, strict=True))
        self.users, self.items = IdIndex(rows, fitted.row_counts), IdIndex(cols, fitted.col_counts, titles)
        found = model.state_.labels or {}
        self.labels = {
            "user": found.get("row") or "row",
            "item": found.get("col") or "column",
            "value": found.get("value") or "value",
        }

    def about(self) -> dict[str, Any]:
        model = self.model
        return {"class": "MatrixCompletion", "observations": int(self.users.counts.sum()), "rank": int(model.rank_)}

    def taken(self, user: int, n: int) -> np.ndarray:
        indptr, indices = self.state.training_pattern()
        begin, end = indptr[user : user + 2]
        assert self.state.training is not None
        order = np.argsort(~self.state.training.liked[begin:end], kind="stable")[:n]
        return indices[begin:end][order]

    def recommend(self, user: int, n: int, by: str) -> Listed:
        cols, numbers = recommend(self.state, np.array([user]), min(n, len(self.items)), by=by)
        return _there(cols[0], numbers[0])

    def recommend_for(self, items: np.ndarray, n: int) -> Listed:
        x, _, _ = self.ranking.solve_row(items, np.ones(len(items), bool))
        left = x[None, :].astype(self.ranking.cols.dtype)
        seen = (np.array([0, len(items)]), items)
        cols, _ = top_columns(get_backend(), left, self.ranking.cols, n, seen=seen, never=self.items.counts == 0)
        places = cols[0][cols[0] >= 0]
        return Listed(places, np.full(len(places), np.nan))  # they gave no ratings, and so none can be predicted

    def similar(self, side: str, place: int, n: int) -> Listed:
        cols, cosines = similar(self.state, np.array([place]), n, columns=side == "item")
        return _there(cols[0], cosines[0])

    def explain(self, user: int, item: int) -> Explanation:
        return explain(self.state, user, item)


class _Taken:
    """An ImplicitFactorization."""

    orders: tuple[str, ...] = ("affinity",)
    number = "score"

    def __init__(self, model: ImplicitFactorization, titles: Mapping[str, str] | None) -> None:
        self.model, self.state = model, model.state_
        if self.state.training is None:
            raise FileError("the model was fitted to more pairs than it stores: lorank serve needs a model with training data")
        self.training = self.state.training
        self.users = IdIndex(model.user_ids_, self.state.user_counts)
        self.items = IdIndex(model.item_ids_, self.state.item_counts, titles)
        self.labels = {"user": "user", "item": "item", "value": "count"}

    def about(self) -> dict[str, Any]:
        model = self.model
        return {
            "class": "ImplicitFactorization",
            "observations": len(self.training.counts),
            "rank": int(model.item_factors_.shape[1]),
        }

    def taken(self, user: int, n: int) -> np.ndarray:
        items, counts, _ = self.training.of_user(user)
        return items[np.argsort(-counts, kind="stable")[:n]]

    def recommend(self, user: int, n: int, by: str) -> Listed:
        seen = self.state.seen(np.array([user]))
        if not len(seen[1]):
            return Listed(np.empty(0, np.int64), np.empty(0))
        return self._best(self.model.user_factors_[[user]], seen, n)

    def recommend_for(self, items: np.ndarray, n: int) -> Listed:
        x, _ = self.state.solve_user(items, np.ones(len(items)))
        return self._best(x[None, :].astype(np.float32), (np.array([0, len(items)]), items), n)

    def similar(self, side: str, place: int, n: int) -> Listed:
        item = side == "item"
        factors = self.model.item_factors_ if item else self.model.user_factors_
        counts = (self.items if item else self.users).counts
        places, cosines = nearest(get_backend(), factors, np.array([place]), n, counts == 0)
        return _there(places[0], cosines[0])

    def explain(self, user: int, item: int) -> Explanation:
        found = self.model.explain(self.users.ids[user], self.items.ids[item])
        return found._replace(items=np.searchsorted(self.items.ids, found.items))

    def _best(self, left: np.ndarray, seen: tuple[np.ndarray, np.ndarray], n: int) -> Listed:
        never = self.items.counts == 0
        cols, scores = top_columns(get_backend(), left, self.model.item_factors_, n, seen=seen, never=never)
        return _there(cols[0], scores[0])


def _there(places: np.ndarray, numbers: np.ndarray) -> Listed:
    return Listed(places[places >= 0], numbers[places >= 0])
