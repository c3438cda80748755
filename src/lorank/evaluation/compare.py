"""Comparison of recommenders on the same held-out items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..common.blas_threads import one_blas_thread
from ..common.checks import ParameterError, check, shown, whole, with_methods
from .held_out import HeldOutItems
from .ranking_metrics import RankingScores, ranking_scores

USERS_PER_BLOCK = 1 << 16


class Recommender(Protocol):
    """A model with ``recommend(rows, n)``, which returns (k, n) arrays of items and scores, -1 and nan where fewer are left.

    Examples
    --------
    >>> from lorank.evaluation import Popularity, Recommender
    >>> popular: Recommender = Popularity([0, 1], [0, 1])
    >>> popular.recommend([0], n=1)[0].tolist()
    [[1]]
    """

    def recommend(self, rows: Any, n: int) -> tuple[np.ndarray, np.ndarray]: ...


@one_blas_thread
def compare(
    models: Mapping[str, Recommender], held: Any, item_counts: Any, n_users: int, n: int | Sequence[int] = (10, 20)
) -> dict[str, list[RankingScores]]:
    """Score the recommendations of several models for the users with held-out items.

    Parameters
    ----------
    models : mapping from names to models
        Each has ``recommend(rows, n)``, as ``MatrixCompletion(ranking=True)`` and the baselines of this module have, and leaves
        out the user's items of the training data.
    held : SciPy sparse matrix, or a list of arrays
        Held-out items of each user; row 0 is user 0.
    item_counts : (items,) array
        Number of users with each item in the training data.
    n_users : int
        Number of users in the training data.
    n : int or sequence of int
        Lengths of the lists.

    Returns
    -------
    dict from names to lists of RankingScores
        One for each n.

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import Popularity, compare
    >>> popular = Popularity([0, 1, 1, 2], [1, 1, 0, 2])
    >>> compare({"popularity": popular}, [[0], [2], []], [1, 2, 1], n_users=3, n=1)["popularity"][0].recall
    1.0
    """
    places = [n] if isinstance(n, (int, np.integer)) else list(n)
    for one in places:
        check("n", one, whole(1))
    if not isinstance(models, Mapping) or not places:
        raise ParameterError("models", f"must be a dict from names to models, and n at least one number: got {shown(models)}")
    for name, model in models.items():
        check(f"models[{name!r}]", model, with_methods("recommend", what="a model with recommend(rows, n)"))
    found = HeldOutItems.of(held)
    rows = np.flatnonzero(found.counts)
    if not len(rows):
        raise ParameterError("held", "has no held-out items: there is nothing to compare with")
    some = HeldOutItems(np.concatenate([[0], np.cumsum(found.counts[rows])]), found.items)
    scores = {}
    for name, model in models.items():
        parts = [
            model.recommend(rows[at : at + USERS_PER_BLOCK], max(places))[0] for at in range(0, len(rows), USERS_PER_BLOCK)
        ]
        lists = np.concatenate(parts)
        scores[name] = [ranking_scores(lists, some, item_counts, n_users, one) for one in places]
    return scores
