"""Kernel ridge regression of held-out errors."""

from __future__ import annotations

import numpy as np

from lorank.tables import kernel_ridge
from lorank.tables.kernel_ridge import _cholesky, _leave_one_out, _renumber, fit_kernel_ridge


def test_leave_one_out_errors_are_those_of_refits():
    rng = np.random.default_rng(0)
    P, penalty = rng.standard_normal((40, 6)).astype(np.float32), 0.7 * np.eye(6)
    r = rng.standard_normal(40).astype(np.float32)
    weights, left = _leave_one_out(P, r, penalty)
    np.testing.assert_allclose(weights, np.linalg.solve(P.T @ P + penalty, P.T @ r), rtol=1e-3, atol=1e-4)
    for i in range(0, 40, 9):
        rest = np.arange(40) != i
        without = np.linalg.solve(P[rest].T @ P[rest] + penalty, P[rest].T @ r[rest])
        np.testing.assert_allclose(left[i], r[i] - P[i] @ without, rtol=1e-3, atol=1e-3)


def test_cholesky_factor_of_a_singular_matrix():
    B = np.random.default_rng(1).standard_normal((30, 4))
    A = B @ B.T - 1e-5 * np.eye(30)
    L = _cholesky(A)
    assert not np.triu(L, 1).any()
    assert abs(L @ L.T - A).max() < 1e-3 * np.trace(A)


def test_a_fit_to_part_of_the_rows_predicts_the_errors_of_the_others(monkeypatch):
    monkeypatch.setattr(kernel_ridge, "MAX_ROWS", 300)
    rng = np.random.default_rng(2)
    filled = rng.uniform(-2, 2, (700, 2))
    errors = np.column_stack([np.sin(2 * filled[:, 1]), 1e-3 * rng.standard_normal(700)])
    place = np.where(rng.random((700, 2)) < 0.9, np.arange(700)[:, None], -1)
    fold = np.where(place >= 0, rng.integers(0, 4, (700, 2)), -1)
    model, predicted = fit_kernel_ridge(filled, place, fold, errors, np.random.default_rng(0))
    assert model is not None
    assert model.columns.tolist() == [True, False]
    assert (model(filled)[:, 0] - errors[:, 0]).std() < 0.3 * errors[:, 0].std()
    known = ~np.isnan(predicted[:, 0])
    assert known.sum() <= 300
    assert (place[known, 0] >= 0).all()
    assert (predicted[known, 0] - errors[known, 0]).std() < 0.3 * errors[:, 0].std()


def test_indices_are_renumbered():
    kept, place = _renumber(np.array([[7, -1], [3, 7], [-1, 9]]))
    assert kept.tolist() == [3, 7, 9]
    assert place.tolist() == [[1, -1], [0, 1], [-1, 2]]
    assert _renumber(np.array([[4, 2]]))[1].tolist() == [[1, 0]]
