"""The best columns of each row against a full sort."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.backends import top_k
from lorank.backends.top_k import rows_of, top_columns


def plainly(scores, n, seen, never):
    """By sorting whole rows: the largest first, of equal ones the smaller column."""
    best = np.full((len(scores), n), -1)
    for i, row in enumerate(scores):
        left = [j for j in range(scores.shape[1]) if not never[j] and not seen[i, j]]
        order = sorted(left, key=lambda j: (-row[j], j))[:n]
        best[i, : len(order)] = order
    return best


@pytest.mark.parametrize("n", [1, 4, 17, 30])
@pytest.mark.parametrize("ties", [False, True])
def test_the_best_columns_are_those_of_a_full_sort(backend, n, ties, monkeypatch):
    monkeypatch.setattr(top_k, "BLOCK", 17 * 16)  # several blocks
    rng = np.random.default_rng(n)
    left, right = rng.integers(-3, 4, (50, 3)).astype(float), rng.integers(-1, 2, (17, 3)).astype(float)  # exact products
    if not ties:
        left, right = np.ones((50, 1)), rng.permutation(17).astype(float)[:, None]
    seen, never = rng.random((50, 17)) < 0.3, np.arange(17) % 6 == 1
    seen[3] = True  # nothing is left
    indptr = np.concatenate([[0], np.cumsum(seen.sum(1))])
    place = backend
    cols, scores = top_columns(
        place, place.asarray(left), place.asarray(right), n, seen=(indptr, np.nonzero(seen)[1]), never=never
    )
    np.testing.assert_array_equal(cols, plainly(left @ right.T, n, seen, never))
    there = cols >= 0
    assert np.isnan(scores[~there]).all()
    assert (scores[there] == (left @ right.T)[np.nonzero(there)[0], cols[there]]).all()


def test_some_rows_of_a_pattern():
    indptr, indices = np.array([0, 2, 2, 5]), np.array([1, 4, 0, 2, 3])
    ptr, index = rows_of(indptr, indices, np.array([2, 0, 7, 1]))
    assert ptr.tolist() == [0, 3, 5, 5, 5]
    assert index.tolist() == [0, 2, 3, 1, 4]
