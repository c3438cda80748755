"""Whole-matrix least squares against plain dense formulas."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

from lorank.backends import get_backend
from lorank.evaluation import HeldOutItems
from lorank.factorization import implicit_selection
from lorank.factorization.implicit import (
    ImplicitFactors,
    ImplicitSettings,
    fit_implicit,
    half_sweep,
    ridge_penalties,
)
from lorank.factorization.implicit_selection import Positives, _sample_users, _together, _Trial, held_ranks, select_implicit

SETTINGS = ImplicitSettings(rank=4, zeros=0.2, regularization=0.05, scaling=0.7, max_iter=3, inner_max_iter=40, seed=1)


def made_up(seed=0, n1=30, n2=21, weighted=True):
    rng = np.random.default_rng(seed)
    there = rng.random((n1, n2)) < 0.25
    there[4], there[:, 2] = False, False
    rows, cols = np.nonzero(there)
    weights = rng.random(len(rows)) + 0.5 if weighted else None
    W = np.zeros((n1, n2))
    W[rows, cols] = 1 if weights is None else weights
    return Positives(rows, cols, weights, (n1, n2)), W


def plain_ridges(W, settings):
    n1, n2 = W.shape
    return [settings.regularization * (W.sum(axis) + settings.zeros * n) ** settings.scaling for axis, n in ((1, n2), (0, n1))]


def plain_objective(W, U, V, settings):
    X, (rows, cols) = U @ V.T, plain_ridges(W, settings)
    return (
        (W * (X - 1) ** 2).sum() + settings.zeros * (X**2).sum() + (rows * (U**2).sum(1)).sum() + (cols * (V**2).sum(1)).sum()
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_half_an_iteration_solves_ridge_regressions(backend, weighted, columns):
    data, W = made_up(weighted=weighted)
    rng = np.random.default_rng(3)
    U, V = rng.standard_normal((30, 4)), rng.standard_normal((21, 4))
    observations = data.observations(backend, np.float64)
    ridge = ridge_penalties(observations, backend, SETTINGS)
    penalties = plain_ridges(W, SETTINGS)
    for found, plain in zip(ridge, penalties, strict=True):
        np.testing.assert_allclose(backend.to_numpy(found), plain)
    sides = half_sweep(
        observations, backend, columns, ImplicitFactors(backend.asarray(U), backend.asarray(V)), ridge[columns], SETTINGS
    )
    got = backend.to_numpy(sides.rows) @ backend.to_numpy(sides.cols).T
    own, other, W = (V, U, W.T) if columns else (U, V, W)
    solved = np.stack(
        [
            np.linalg.solve((other.T * w) @ other + 0.2 * other.T @ other + c * np.eye(4), other.T @ w)
            for w, c in zip(W, penalties[columns], strict=True)
        ]
    )
    assert solved.shape == own.shape
    np.testing.assert_allclose(got.T if columns else got, solved @ other.T, atol=1e-9)


def test_iterations_lower_the_objective_to_a_stationary_point(backend):
    data, W = made_up()
    observations = data.observations(backend, np.float64)
    found = []

    def after(sides):
        found.append(plain_objective(W, *map(backend.to_numpy, sides), SETTINGS))

    sides = fit_implicit(observations, backend, replace(SETTINGS, max_iter=25, inner_max_iter=10), after_sweep=after)
    assert (np.diff(found) <= 1e-9 * found[0]).all()
    U, V = (backend.to_numpy(a) for a in (sides.rows, sides.cols))
    G = W * (U @ V.T - 1) + SETTINGS.zeros * (U @ V.T)
    rows, cols = plain_ridges(W, SETTINGS)
    for slope in (G @ V + rows[:, None] * U, G.T @ U + cols[:, None] * V):
        assert abs(slope).max() < 1e-2 * abs(W @ V).max()


def test_a_penalty_that_leaves_nothing_ends_near_zero():
    data, _ = made_up()
    backend = get_backend()
    sides = fit_implicit(data.observations(backend, np.float32), backend, replace(SETTINGS, regularization=50.0, max_iter=30))
    for side in (sides.rows, sides.cols):
        assert abs(side).max() < 1e-10
        assert not ((side != 0) & (abs(side) < 1e-30)).any()  # such numbers are slow to compute with


def test_ranks_of_held_out_items_are_those_of_sorted_lists(backend):
    rng = np.random.default_rng(5)
    left, right = rng.integers(-2, 3, (12, 2)).astype(float), rng.integers(-2, 3, (9, 2)).astype(float)  # many ties
    seen = rng.random((12, 9)) < 0.3
    held = (rng.random((12, 9)) < 0.3) & ~seen
    never = np.arange(9) == 4
    indptr = np.concatenate([[0], np.cumsum(seen.sum(1))])
    wanted = HeldOutItems.of([np.flatnonzero(h) for h in held])
    ranks = held_ranks(backend, backend.asarray(left), backend.asarray(right), wanted, (indptr, np.nonzero(seen)[1]), never, 9)
    scores, plain = left @ right.T, []
    for user in range(12):
        order = sorted((j for j in range(9) if not seen[user, j] and not never[j]), key=lambda j: (-scores[user, j], j))
        plain += [order.index(j) if j in order else 9 for j in np.flatnonzero(held[user])]
    assert ranks.tolist() == plain
    block, user, items = np.where(seen | never, -np.inf, scores), *np.nonzero(held & ~never)
    found = _together(backend, backend.asarray(block), user, items, 9)  # as on a device
    assert found.tolist() == [rank for rank, j in zip(plain, np.nonzero(held)[1], strict=True) if not never[j]]
    some = held_ranks(backend, backend.asarray(left), backend.asarray(right), wanted, (indptr, np.nonzero(seen)[1]), never, 2)
    assert np.minimum(some, 2).tolist() == np.minimum(plain, 2).tolist()


def test_the_choice_is_the_best_that_was_tried():
    backend = get_backend()
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, (60, 1))
    rows, cols = np.nonzero(rng.random((60, 30)) < np.where(group == np.arange(30) % 3, 0.5, 0.03))
    data = Positives(rows, cols, None, (60, 30))
    quick = replace(SETTINGS, inner_max_iter=2)
    settings, curve = select_implicit(data, backend, quick, np.float64, zeros=True, regularization=True)
    best = max(curve, key=lambda c: c.ndcg)
    assert (settings.zeros, settings.regularization) == (best.zeros, best.regularization)
    assert len(curve) > 6
    only, curve = select_implicit(data, backend, quick, np.float64, zeros=False, regularization=True)
    assert only.zeros == SETTINGS.zeros
    assert {c.zeros for c in curve} == {SETTINGS.zeros}
    fewer, again = select_implicit(data, backend, quick, np.float64, zeros=False, regularization=True, max_iter=True)
    assert again == curve
    assert fewer == replace(only, max_iter=fewer.max_iter)
    assert fewer.max_iter in {-(-quick.max_iter * k // 4) for k in (2, 3, 4)}


def test_batches_are_added_until_a_difference_is_significant():
    asked = []

    class Fold:
        """Fifty judges in each batch; a side is what it adds to the NDCG of every list."""

        def size(self, k):
            return 50 if k < 4 else 0

        def ndcg(self, side, k):
            asked.append(k)
            return side + np.random.default_rng((k, int(side > 0))).random(self.size(k))

    def batches(gain):
        asked.clear()
        won = _Trial([Fold()], [gain]).better_than(_Trial([Fold()], [0.0]))
        return won, max(asked) + 1

    assert batches(0.9) == (True, 1)  # at once
    assert batches(-0.9) == (False, 1)
    assert batches(1e-9)[1] == 4  # as far as there are judges


def test_nothing_to_hold_out_keeps_the_settings():
    data = Positives(np.arange(5), np.arange(5), None, (5, 5))  # one each
    found = select_implicit(data, get_backend(), SETTINGS, np.float32, zeros=True, regularization=True)
    assert found == (SETTINGS, [])


def test_users_are_sampled_where_there_are_many(monkeypatch):
    """All that the users who are left have taken, under new numbers."""
    data, W = made_up()
    liked = data.cols % 2 == 0
    assert _sample_users(data, liked, np.random.default_rng(0)) == (data, liked)
    monkeypatch.setattr(implicit_selection, "MANY", len(data.rows) // 2)
    part, flags = _sample_users(data, liked, np.random.default_rng(0))
    kept = np.random.default_rng(0).random(30) < (len(data.rows) // 2) / len(data.rows)
    assert 0 < part.shape[0] == kept.sum() < 30
    dense = np.zeros(part.shape)
    dense[part.rows, part.cols] = part.weights
    np.testing.assert_array_equal(dense, W[kept])
    np.testing.assert_array_equal(flags, part.cols % 2 == 0)


@pytest.mark.needs("torch")
def test_folds_that_are_drawn_on_a_device(monkeypatch):
    """Each observation in one of them, and about as many in each."""
    import torch

    from lorank.factorization.folds import Observed

    choose = importlib.import_module("lorank.factorization.selection")
    monkeypatch.setattr(choose, "MANY", 100)
    values = torch.zeros(4000, dtype=torch.float64)
    data = Observed(values.long(), values.long(), values, (1, 1))
    parts = torch.stack(choose._parts(data, 4, 0.1, np.random.default_rng(0)))
    assert (parts.sum(0) == 1).all()
    assert abs(parts.sum(1) / 4000 - 0.25).max() < 0.05
    (held,) = choose._parts(data, 1, 0.1, np.random.default_rng(0))
    assert abs(held.sum() / 4000 - 0.1) < 0.03
