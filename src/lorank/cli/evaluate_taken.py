"""``lorank evaluate --implicit``: recommendations from what people took, against what was held out of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ..report.ranking_page import LENGTHS, Ranking
from .output import busy

Columns = tuple[str | None, str | None, str | None, str | None]


def rank_taken(file: Path, columns: Columns, holdout: float, n: int, seed: int) -> Ranking:
    """Hold out some of each user's items, fit to the others, and compare; popularity beside the model.

    Parameters
    ----------
    file : path
        Pairs of user and item.
    columns : names of the columns with users, items, counts and times, or None
        Without counts each line counts once; with times each user's latest items are held out.
    holdout : float
    n : int
        Places that count.
    seed : int
    """
    import scipy.sparse

    from ..estimators import ImplicitFactorization
    from ..evaluation import HeldOutItems, Popularity, compare, leave_last_out, leave_some_out

    with busy("reading"):
        users, items, counts, times, shape = read_taken(file, columns)
    late = times is not None
    out = leave_last_out(users, times, holdout, seed=seed) if late else leave_some_out(users, holdout, seed=seed)
    if not out.any():
        raise ValueError("no user has two items, so that nothing can be held out: raise --holdout, or use more data")
    held = HeldOutItems.from_pairs(users[out], items[out], shape[0])
    begin, kept = time.perf_counter(), ~out
    with busy("fitting to a part"):
        seen = scipy.sparse.csr_array((counts[kept], (users[kept], items[kept])), shape=shape)
        model = ImplicitFactorization(random_state=seed).fit(seen)
    models: dict[str, Any] = {
        "ImplicitFactorization": model,
        "popularity": Popularity(users[kept], items[kept], shape[1]),
    }
    lengths = [k for k in LENGTHS if k <= shape[1]]
    with busy("recommending"):
        scores = compare(models, held, np.bincount(items[kept], minlength=shape[1]), shape[0], [n, *lengths])
    return Ranking(
        n,
        float(counts[out].min()),
        int(out.sum()),
        {name: one[0] for name, one in scores.items()},
        {name: one[1:] for name, one in scores.items()},
        {},
        time.perf_counter() - begin,
    )


def read_taken(file: Path, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, tuple[int, int]]:
    """Users, items, counts and times of each pair once, as numbers from 0 on; and how many users and items there are."""
    from ..estimators.interactions import merged
    from ..io import read_pairs, read_ratings

    row, col, value, when = columns
    times: np.ndarray | None = None
    if value is None and when is None:
        sides = [np.unique(ids, return_inverse=True) for ids in read_pairs(file, row, col)[:2]]
        users, items = (place.ravel() for _, place in sides)
        counts, shape = np.ones(len(users)), (len(sides[0][0]), len(sides[1][0]))
    else:
        data = read_ratings(file, row, col, value, when, with_values=value is not None)
        users, items, shape = data.rows, data.cols, (len(data.row_ids), len(data.col_ids))
        times, counts = data.times, data.values
        if times is not None and times.dtype.kind == "M":
            times = times.astype(np.int64)  # microseconds: exact as floats until the year 2255
    if (counts < 0).any():
        raise ValueError(f"the least count is {counts.min():g}: how often something was taken is 0 or more")
    found = merged(users, items, counts, np.arange(shape[0]), np.arange(shape[1]))
    if not len(found.users):
        raise ValueError("there are no pairs with a positive count: nothing to learn from")
    if times is None:
        return found.users, found.items, found.counts, None, shape
    there = counts > 0
    last = np.full(len(found.users), -np.inf)  # a pair that is there several times is as late as its last one
    place = np.searchsorted(found.users * shape[1] + found.items, users[there] * shape[1] + items[there])
    np.maximum.at(last, place, times[there])
    return found.users, found.items, found.counts, last, shape
