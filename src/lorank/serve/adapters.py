"""Adapters that give the server one interface to both kinds of models. Users and items are indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..backends import get_backend
from ..backends.top_k import top_columns
from ..estimators import ImplicitFactorization, MatrixCompletion
from ..estimators.recommendation import Explanation, explain, nearest, recommend, require_ranking, similar
from ..io.archive import FileError
from .search import IdIndex


class Ranked(NamedTuple):
    """Indices in decreasing order of their values."""

    indices: np.ndarray
    values: np.ndarray

    @classmethod
    def from_row(cls, indices: np.ndarray, values: np.ndarray) -> Ranked:
        """The entries of one row of recommendations; -1 marks missing ones."""
        return cls(indices[0][indices[0] >= 0], values[0][indices[0] >= 0])


class ServedModel(Protocol):
    """A model with its users and items.

    Attributes
    ----------
    users, items : IdIndex
    orders : tuple of str
        Orders of :meth:`recommend`; the first is the default.
    number : {"prediction", "score"}
        The value of recommended items.
    labels : dict
        Names of users, items and values in the data.
    """

    users: IdIndex
    items: IdIndex
    orders: tuple[str, ...]
    number: str
    labels: dict[str, str]

    def about(self) -> dict[str, Any]: ...
    def observed(self, user: int, n: int) -> np.ndarray: ...
    def recommend(self, user: int, n: int, by: str) -> Ranked: ...
    def recommend_for(self, items: np.ndarray, n: int) -> Ranked: ...
    def similar(self, side: str, index: int, n: int) -> Ranked: ...
    def explain(self, user: int, item: int) -> Explanation: ...


def adapter_for(model: Any, titles: Mapping[str, str] | None = None) -> ServedModel:
    """The adapter for a fitted model.

    Parameters
    ----------
    model : MatrixCompletion or ImplicitFactorization
    titles : mapping, optional
        Titles of items by their ids as text.
    """
    if isinstance(model, MatrixCompletion):
        return _Ratings(model, titles)
    if isinstance(model, ImplicitFactorization):
        return _Implicit(model, titles)
    raise FileError(f"{type(model).__name__} has no recommendations: use a MatrixCompletion or an ImplicitFactorization")


class _Ratings:
    """Adapter for MatrixCompletion."""

    orders: tuple[str, ...] = ("affinity", "rating")
    number = "prediction"

    def __init__(self, model: MatrixCompletion, titles: Mapping[str, str] | None) -> None:
        fitted, ids = model.model_, model.ids_ or {}
        if model.state_.ranking is None:  # fitted now, so that no request waits for it
            model.fit_ranking()
        self.state, self.ranking = model.state_, require_ranking(model.state_)
        rows, cols = (ids.get(side, np.arange(n)) for side, n in zip(("rows", "cols"), fitted.shape, strict=True))
        self.users, self.items = IdIndex(rows, fitted.row_counts), IdIndex(cols, fitted.col_counts, titles)
        names = model.state_.labels or {}
        standard = {"user": ("row", "row"), "item": ("col", "column"), "value": ("value", "value")}
        self.labels = {kind: names.get(key) or default for kind, (key, default) in standard.items()}
        self.rank = int(model.rank_)

    def about(self) -> dict[str, Any]:
        return {"class": "MatrixCompletion", "observations": int(self.users.counts.sum()), "rank": self.rank}

    def observed(self, user: int, n: int) -> np.ndarray:
        indptr, indices = self.state.training_pattern()
        begin, end = indptr[user : user + 2]
        assert self.state.training is not None
        order = np.argsort(~self.state.training.liked[begin:end], kind="stable")[:n]
        return indices[begin:end][order]

    def recommend(self, user: int, n: int, by: str) -> Ranked:
        return Ranked.from_row(*recommend(self.state, np.array([user]), min(n, len(self.items)), by=by))

    def recommend_for(self, items: np.ndarray, n: int) -> Ranked:
        x, _, _ = self.ranking.solve_row(items, np.ones(len(items), bool))
        left, seen = x[None, :].astype(self.ranking.cols.dtype), (np.array([0, len(items)]), items)
        cols, scores = top_columns(get_backend(), left, self.ranking.cols, n, seen=seen, never=self.items.counts == 0)
        return Ranked.from_row(cols, np.full(scores.shape, np.nan))  # without ratings none can be predicted

    def similar(self, side: str, index: int, n: int) -> Ranked:
        return Ranked.from_row(*similar(self.state, np.array([index]), n, columns=side == "item"))

    def explain(self, user: int, item: int) -> Explanation:
        return explain(self.state, user, item)


class _Implicit:
    """Adapter for ImplicitFactorization."""

    orders: tuple[str, ...] = ("affinity",)
    number = "score"

    def __init__(self, model: ImplicitFactorization, titles: Mapping[str, str] | None) -> None:
        self.state = model.state_
        if self.state.training is None:
            raise FileError("the model was fitted to more pairs than it stores: lorank serve needs a model with training data")
        self.training = self.state.training
        self.users = IdIndex(self.state.user_ids, self.state.user_counts)
        self.items = IdIndex(self.state.item_ids, self.state.item_counts, titles)
        self.labels = {"user": "user", "item": "item", "value": "count"}

    def about(self) -> dict[str, Any]:
        rank = int(self.state.item_factors.shape[1])
        return {"class": "ImplicitFactorization", "observations": len(self.training.counts), "rank": rank}

    def observed(self, user: int, n: int) -> np.ndarray:
        items, counts, _ = self.training.of_user(user)
        return items[np.argsort(-counts, kind="stable")[:n]]

    def recommend(self, user: int, n: int, by: str) -> Ranked:
        seen = self.state.seen(np.array([user]))
        if not len(seen[1]):
            return Ranked(np.empty(0, np.int64), np.empty(0))
        return self._best(self.state.user_factors[[user]], seen, n)

    def recommend_for(self, items: np.ndarray, n: int) -> Ranked:
        x, _ = self.state.solve_user(items, np.ones(len(items)))
        return self._best(x[None, :].astype(np.float32), (np.array([0, len(items)]), items), n)

    def similar(self, side: str, index: int, n: int) -> Ranked:
        item = side == "item"
        factors = self.state.item_factors if item else self.state.user_factors
        counts = (self.items if item else self.users).counts
        return Ranked.from_row(*nearest(get_backend(), factors, np.array([index]), n, counts == 0))

    def explain(self, user: int, item: int) -> Explanation:
        return self.state.explain(user, item)

    def _best(self, left: np.ndarray, seen: tuple[np.ndarray, np.ndarray], n: int) -> Ranked:
        never = self.items.counts == 0
        return Ranked.from_row(*top_columns(get_backend(), left, self.state.item_factors, n, seen=seen, never=never))
