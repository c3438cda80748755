"""Linear item-to-item models against dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from lorank.backends import get_backend
from lorank.factorization.item_model import (
    ItemModel,
    LowRankGram,
    fit_ease,
    fit_local_ease,
    fit_neighbors,
    matrix_observations,
)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, (80, 1))
    dense = (rng.random((80, 25)) < np.where(kind == np.arange(25) % 3, 0.6, 0.1)) * rng.uniform(0.5, 2, (80, 25))
    dense[:, 7] = 0  # an item that no user has
    return scipy.sparse.csr_array(dense)


def ease(gram, regularization):
    P = np.linalg.inv(gram + regularization * np.eye(len(gram)))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0)
    return B


def low_rank_ease(X, rank):
    return LowRankGram.of(matrix_observations(X, get_backend()), get_backend(), rank).ease(5.0)


def dense(model):
    """B, from the scores of unit vectors."""
    return model.scores(scipy.sparse.eye_array(model.n_items, format="csr"))


def test_ease_is_the_closed_form(X, monkeypatch):
    expected = ease((X.T @ X).toarray(), 5.0)
    np.testing.assert_allclose(dense(fit_ease(X, 5.0)), expected, atol=1e-6)
    monkeypatch.setattr("lorank.factorization.item_model.BLOCK", 60)  # blocks of two rows
    np.testing.assert_allclose(dense(fit_ease(X, 5.0)), expected, atol=1e-6)


def test_ease_minimizes_the_penalized_squares_of_each_item(X):
    A, B = X.toarray(), dense(fit_ease(X, 5.0))
    for item in (0, 7, 24):
        others = np.delete(np.arange(25), item)
        exact = np.linalg.solve(A[:, others].T @ A[:, others] + 5.0 * np.eye(24), A[:, others].T @ A[:, item])
        np.testing.assert_allclose(B[others, item], exact, atol=1e-6)


def test_low_rank_ease_is_ease_of_the_gram_matrix_of_low_rank_plus_diagonal(X):
    gram, k = (X.T @ X).toarray(), 4
    values, vectors = np.linalg.eigh(gram)
    low = (vectors[:, -k:] * values[-k:]) @ vectors[:, -k:].T
    expected = ease(low + np.diag(np.diag(gram) - np.diag(low)), 5.0)
    model = low_rank_ease(X, k)
    np.testing.assert_allclose(dense(model), expected, atol=1e-3 * abs(expected).max())
    full = low_rank_ease(X, 25)
    np.testing.assert_allclose(dense(full), ease(gram, 5.0), atol=1e-5)


def test_neighbors_have_the_largest_shrunk_cosines(X):
    A = X.toarray()
    length = np.linalg.norm(A, axis=0)
    cosines = (A.T @ A) / (np.outer(length, length) + 3.0)
    np.fill_diagonal(cosines, 0)
    for k in (5, 100):
        expected = np.where(cosines >= -np.sort(-cosines, axis=0)[min(k, 24) - 1], cosines, 0)
        np.testing.assert_allclose(dense(fit_neighbors(X, k, 3.0)), expected, atol=1e-6)


def test_local_ease_is_a_ridge_regression_on_each_neighborhood(X, monkeypatch):
    A, near = X.toarray(), dense(fit_neighbors(X, 6)) != 0
    monkeypatch.setattr("lorank.factorization.item_model.BLOCK", 120)  # blocks of three items
    first, second = (dense(model) for model in fit_local_ease(X, [5.0, 0.5], 6))
    for item in range(25):
        some = np.flatnonzero(near[:, item])
        for B, strength in ((first, 5.0), (second, 0.5)):
            exact = np.linalg.solve(A[:, some].T @ A[:, some] + strength * np.eye(len(some)), A[:, some].T @ A[:, item])
            np.testing.assert_allclose(B[some, item], exact, atol=1e-5)
            assert not np.delete(B[:, item], some).any()
    full = scipy.sparse.csr_array(A[:, :7] + 0.1)  # each item is a neighbor of all others
    np.testing.assert_allclose(dense(fit_local_ease(full, [5.0], 100)[0]), dense(fit_ease(full, 5.0)), atol=1e-5)


def test_scores_columns_growth_and_arrays_agree_for_all_forms(X):
    low = low_rank_ease(X, 4)
    at = np.r_[np.arange(10), np.arange(12, 27)]  # items 10 and 11 are new
    for model in (fit_ease(X, 5.0), low, fit_neighbors(X, 5), fit_local_ease(X, [5.0], 5)[0]):
        B = dense(model)
        np.testing.assert_allclose(np.diag(B), 0, atol=1e-7)
        np.testing.assert_allclose(model.scores(X), X.toarray() @ B, atol=1e-4)
        for item in (0, 7, 24):
            np.testing.assert_allclose(model.column(item), B[:, item], atol=1e-6)
        again = ItemModel.from_arrays(model.arrays(), 25)
        np.testing.assert_array_equal(again.scores(X), model.scores(X))
        grown = dense(model.grown(at, 27))
        np.testing.assert_allclose(grown[np.ix_(at, at)], B, atol=1e-6)
        assert not grown[10:12].any()
        assert not grown[:, 10:12].any()
        if "data" not in model.arrays():
            with pytest.raises(ValueError, match="inconsistent"):
                ItemModel.from_arrays(model.arrays(), 24)
