"""Ranking metrics of recommended lists: accuracy on held-out items, catalog coverage and novelty.

Lists are (users, n) arrays of item indices, best first, with -1 where a list ends early: a place without an item is a miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.checks import ParameterError, check, shown, whole
from .held_out import HeldOutItems, check_lists, check_recommended


def precision(recommended: Any, held: Any, n: int = 10) -> np.ndarray:
    """Share of the first n recommendations that are held-out items.

    Parameters
    ----------
    recommended : (users, k) integer array
        Item indices, best first; -1 where fewer are left.
    held : SciPy sparse matrix, or a list of arrays
        Held-out items of each user.
    n : int
        Length of the lists; shorter lists end with misses.

    Returns
    -------
    (users,) array
        nan for users without held-out items.

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import precision
    >>> precision([[3, 1, 2]], [[1, 5]], n=2).tolist()
    [0.5]
    """
    lists, found = check_lists(recommended, held, n)
    return _of_users(found, found.hits(lists).sum(1) / n)


def recall(recommended: Any, held: Any, n: int = 10) -> np.ndarray:
    """Share of a user's held-out items that are among the first n recommendations.

    Parameters
    ----------
    recommended, held, n
        As in :func:`precision`.

    Returns
    -------
    (users,) array
        nan for users without held-out items.

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import recall
    >>> recall([[3, 1, 2]], [[1, 5]], n=3).tolist()
    [0.5]
    """
    lists, found = check_lists(recommended, held, n)
    return _of_users(found, found.hits(lists).sum(1) / np.maximum(found.counts, 1))


def hit_rate(recommended: Any, held: Any, n: int = 10) -> np.ndarray:
    """1 for users with a held-out item among the first n recommendations, 0 for others.

    Parameters
    ----------
    recommended, held, n
        As in :func:`precision`.

    Returns
    -------
    (users,) array
        nan for users without held-out items.

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import hit_rate
    >>> hit_rate([[3, 1], [2, 4]], [[1, 5], [3]], n=2).tolist()
    [1.0, 0.0]
    """
    lists, found = check_lists(recommended, held, n)
    return _of_users(found, found.hits(lists).any(1).astype(float))


def ndcg(recommended: Any, held: Any, n: int = 10) -> np.ndarray:
    """Normalized discounted cumulative gain: a hit at place k counts 1 / log2(k + 1), divided by the maximum.

    Parameters
    ----------
    recommended, held, n
        As in :func:`precision`.

    Returns
    -------
    (users,) array
        nan for users without held-out items.

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import ndcg
    >>> ndcg([[1, 5, 2], [2, 1, 3]], [[1, 5], [1]], n=3).round(4).tolist()
    [1.0, 0.6309]
    """
    lists, found = check_lists(recommended, held, n)
    discount = 1 / np.log2(np.arange(2, n + 2))
    best = np.concatenate([[1.0], np.cumsum(discount)])[np.minimum(found.counts, n)]
    return _of_users(found, found.hits(lists) @ discount[: lists.shape[1]] / np.where(found.counts > 0, best, 1.0))


def average_precision(recommended: Any, held: Any, n: int = 10) -> np.ndarray:
    """Average precision at the hits among the first n places; its mean over users is MAP.

    Parameters
    ----------
    recommended, held, n
        As in :func:`precision`.

    Returns
    -------
    (users,) array
        nan for users without held-out items.

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import average_precision
    >>> average_precision([[1, 2, 5]], [[1, 5]], n=3).round(4).tolist()
    [0.8333]
    """
    lists, found = check_lists(recommended, held, n)
    hits = found.hits(lists)
    at_hits = (hits * np.cumsum(hits, axis=1) / np.arange(1, lists.shape[1] + 1)).sum(1)
    return _of_users(found, at_hits / np.maximum(np.minimum(found.counts, n), 1))


def catalog_coverage(recommended: Any, n_items: int, n: int = 10) -> float:
    """Share of all items that are recommended to at least one user.

    Parameters
    ----------
    recommended : (users, k) integer array
        As in :func:`precision`.
    n_items : int
        Number of items.
    n : int
        Length of the lists.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import catalog_coverage
    >>> catalog_coverage([[0, 1], [1, 2]], n_items=6, n=2)
    0.5
    """
    check("n_items", n_items, whole(1))
    check("n", n, whole(1))
    lists = check_recommended(recommended)[:, : int(n)]
    if lists.max(initial=-1) >= n_items:
        raise ParameterError("recommended", f"holds item {lists.max()}, and n_items is {n_items}")
    return len(np.unique(lists[lists >= 0])) / n_items


def novelty(recommended: Any, item_counts: Any, n_users: int, n: int = 10) -> float:
    """Mean of -log2(share of the users with an item) over recommended items: the self-information of the lists.

    Parameters
    ----------
    recommended : (users, k) integer array
        As in :func:`precision`.
    item_counts : (items,) array
        Number of users with each item in the training data; 0 is counted as 1.
    n_users : int
        Number of users in the training data.
    n : int
        Length of the lists.

    Returns
    -------
    float
        In bits; nan without recommendations.

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import novelty
    >>> novelty([[0, 1]], item_counts=[4, 1], n_users=4, n=2)
    1.0
    """
    check("n_users", n_users, whole(1))
    check("n", n, whole(1))
    lists = check_recommended(recommended)[:, : int(n)]
    counts = np.asarray(item_counts)
    if counts.ndim != 1 or counts.dtype.kind not in "iuf" or not np.isfinite(counts).all() or (counts < 0).any():
        raise ParameterError("item_counts", f"must be numbers, 0 or more, one for each item: got {shown(item_counts)}")
    named = lists[lists >= 0]
    if len(named) and named.max() >= len(counts):
        raise ParameterError("recommended", f"holds item {named.max()}, and item_counts has {len(counts)}")
    return float(-np.log2(np.clip(counts[named], 1, n_users) / n_users).mean()) if len(named) else float("nan")


@dataclass(frozen=True)
class RankingScores:
    """All ranking metrics, as means over the users with held-out items.

    Attributes
    ----------
    n : int
        Length of the lists.
    users : int
        Number of users with held-out items.
    precision, recall, ndcg, map, hit_rate : float
    coverage, novelty : float
        Of the lists of the same users; ``coverage`` is :func:`catalog_coverage`.

    Examples
    --------
    >>> from lorank.evaluation import ranking_scores
    >>> ranking_scores([[0, 1], [2, 0]], [[0], []], item_counts=[2, 1, 1], n_users=2, n=2).users
    1
    """

    n: int
    users: int
    precision: float
    recall: float
    ndcg: float
    map: float
    hit_rate: float
    coverage: float
    novelty: float


def ranking_scores(recommended: Any, held: Any, item_counts: Any, n_users: int, n: int = 10) -> RankingScores:
    """All ranking metrics.

    Parameters
    ----------
    recommended : (users, k) integer array
        Item indices, best first; -1 where fewer are left.
    held : SciPy sparse matrix, or a list of arrays
        Held-out items of each user. Users without any are left out.
    item_counts : (items,) array
        Number of users with each item in the training data.
    n_users : int
        Number of users in the training data.
    n : int
        Length of the lists.

    Returns
    -------
    RankingScores

    Raises
    ------
    ValueError
        For inconsistent lists, held-out items and numbers.

    Examples
    --------
    >>> from lorank.evaluation import ranking_scores
    >>> scores = ranking_scores([[0, 1], [2, 0]], [[0, 1], [1]], item_counts=[2, 1, 1], n_users=2, n=2)
    >>> scores.recall, scores.coverage
    (0.5, 1.0)
    """
    lists, found = check_lists(recommended, held, n)
    some = np.flatnonzero(found.counts)
    if not len(some):
        raise ParameterError("held", "has no held-out items: there is nothing to compare with")
    kinds = {"precision": precision, "recall": recall, "ndcg": ndcg, "map": average_precision, "hit_rate": hit_rate}
    means = {name: float(np.mean(measure(lists, found, n)[some])) for name, measure in kinds.items()}
    lists = lists[some]
    items = max(len(np.atleast_1d(np.asarray(item_counts))), 1)
    of_all = {"coverage": catalog_coverage(lists, items, n), "novelty": novelty(lists, item_counts, n_users, n)}
    return RankingScores(n=int(n), users=len(some), **means, **of_all)


def _of_users(held: HeldOutItems, values: np.ndarray) -> np.ndarray:
    return np.where(held.counts > 0, values, np.nan)
