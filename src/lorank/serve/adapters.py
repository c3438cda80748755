"""Adapters that give the server one interface to both kinds of models. Users and items are indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..estimators import MatrixCompletion
from ..estimators.implicit_state import ImplicitEstimator
from ..estimators.recommendation import Explanation, RankedState
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
    def observed(self, user: int, n: int) -> Ranked: ...
    def recommend(self, user: int, n: int, by: str) -> Ranked: ...
    def recommend_for(self, items: np.ndarray, n: int) -> Ranked: ...
    def similar(self, side: str, index: int, n: int) -> Ranked: ...
    def explain(self, user: int, item: int) -> Explanation: ...


def adapter_for(model: Any, titles: Mapping[str, str] | None = None) -> ServedModel:
    """The adapter for a fitted model.

    Parameters
    ----------
    model : MatrixCompletion, ImplicitFactorization or EASE
    titles : mapping, optional
        Titles of items by their ids as text.
    """
    if isinstance(model, MatrixCompletion):
        return _Ratings(model, titles)
    if isinstance(model, ImplicitEstimator):
        return _Implicit(model, titles)
    raise FileError(f"{type(model).__name__} has no recommendations: use a MatrixCompletion, an ImplicitFactorization or EASE")


class _Ranked:
    """Recommendations of both kinds of models."""

    number = "score"

    def __init__(self, model: MatrixCompletion | ImplicitEstimator, titles: Mapping[str, str] | None) -> None:
        self.state: RankedState = model.state_
        sizes, counts = self.state.shape, self.state.counts
        ids = self.state.ids or {}
        rows, cols = (ids.get(side, np.arange(n)) for side, n in zip(("rows", "cols"), sizes, strict=True))
        self.users, self.items = IdIndex(rows, counts[0]), IdIndex(cols, counts[1], titles)
        ranking = self.state.require_ranking()
        others = (order for order in ranking.orders if order != "popularity")
        self.orders: tuple[str, ...] = tuple(dict.fromkeys((ranking.order, *others)))

    def recommend(self, user: int, n: int, by: str) -> Ranked:
        return Ranked.from_row(*self.state.recommend(np.array([user]), min(n, len(self.items)), by=by))

    def recommend_for(self, items: np.ndarray, n: int) -> Ranked:
        return Ranked.from_row(*self.state.recommend_for(items, np.ones(len(items)), n))

    def similar(self, side: str, index: int, n: int) -> Ranked:
        return Ranked.from_row(*self.state.similar(np.array([index]), n, columns=side == "item"))

    def explain(self, user: int, item: int) -> Explanation:
        return self.state.explain(user, item)


class _Ratings(_Ranked):
    """Adapter for MatrixCompletion."""

    number = "prediction"

    def __init__(self, model: MatrixCompletion, titles: Mapping[str, str] | None) -> None:
        if model.state_.ranking is None:  # fitted now, so that no request waits for it
            model.fit_ranking()
        super().__init__(model, titles)
        self.orders = tuple(dict.fromkeys((*self.orders, "rating")))
        names = model.state_.labels or {}
        standard = {"user": ("row", "row"), "item": ("col", "column"), "value": ("value", "value")}
        self.labels = {kind: names.get(key) or default for kind, (key, default) in standard.items()}
        self.rank, self.training, self.classes = int(model.rank_), model.state_.training, model.state_.classes

    def about(self) -> dict[str, Any]:
        return {"class": "MatrixCompletion", "observations": int(self.users.counts.sum()), "rank": self.rank}

    def observed(self, user: int, n: int) -> Ranked:
        assert self.training is not None
        own = self.training.some_rows(np.array([user]))
        values = own.values if self.classes is None else self.classes[own.values.astype(int)]
        order = np.lexsort((-self.items.counts[own.indices], -values))[:n]
        return Ranked(own.indices[order], values[order])

    def recommend_for(self, items: np.ndarray, n: int) -> Ranked:
        found = super().recommend_for(items, n)
        return Ranked(found.indices, np.full(len(found.values), np.nan))  # without ratings none can be predicted


class _Implicit(_Ranked):
    """Adapter for ImplicitFactorization and EASE."""

    def __init__(self, model: ImplicitEstimator, titles: Mapping[str, str] | None) -> None:
        if model.state_.training is None:
            raise FileError("the model was fitted to more pairs than it stores: lorank serve needs a model with training data")
        super().__init__(model, titles)
        self.training, self.name = model.state_.training, type(model).__name__
        self.rank = model.rank_
        self.labels = {"user": "user", "item": "item", "value": "count"}

    def about(self) -> dict[str, Any]:
        return {"class": self.name, "observations": len(self.training.counts), "rank": self.rank}

    def observed(self, user: int, n: int) -> Ranked:
        items, counts, _ = self.training.of_user(user)
        order = np.argsort(-counts, kind="stable")[:n]
        return Ranked(items[order], counts[order])
