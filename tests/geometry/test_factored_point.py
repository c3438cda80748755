"""Points known by their factors: those of FixedRank.from_factors, but only when somebody asks."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import lorank as lr
import lorank.factorization.als
import lorank.factorization.variational
from lorank.backends import get_backend
from lorank.geometry import FixedRank
from lorank.geometry.factored_point import FactoredPoint
from lorank.loop.runner import run


def pair():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    return left, right, FactoredPoint(left, right, get_backend("numpy"))


def test_it_is_the_same_point(monkeypatch):
    left, right, X = pair()
    found, calls = FixedRank.from_factors, []
    monkeypatch.setattr(FixedRank, "from_factors", lambda *a, **k: calls.append(1) or found(*a, **k))
    assert (X.shape, X.rank) == ((7, 5), 3)
    assert not calls
    np.testing.assert_allclose((X.U * X.s) @ X.V.T, left @ right.T, atol=1e-12)
    assert (X.shape, X.rank, X.dtype) == ((7, 5), 3, np.float64)
    assert repr(X) == "FixedRank(7 x 5, rank 3, float64)"
    assert len(calls) == 1
    with pytest.raises(AttributeError):
        X.nothing_like_this  # noqa: B018


def test_the_rank_is_that_of_the_point_where_factors_are_wider_than_it():
    rng = np.random.default_rng(1)
    X = FactoredPoint(rng.standard_normal((2, 3)), rng.standard_normal((5, 3)), get_backend("numpy"))
    before = X.rank
    assert before == len(X.s) == X.rank == 2


def test_somebody_else_may_factor_it_meanwhile(monkeypatch):
    left, right, X = pair()
    found = FixedRank.from_factors

    def slowly(*sides, **options):
        monkeypatch.setattr(FixedRank, "from_factors", found)
        X.U  # noqa: B018  (as another thread would, which is done before this one)
        return found(*sides, **options)

    monkeypatch.setattr(FixedRank, "from_factors", slowly)
    assert X.U.shape == (7, 3)
    np.testing.assert_allclose((X.U * X.s) @ X.V.T, left @ right.T, atol=1e-12)
    X._sides = None  # between the look at an empty slot and the one at the factors
    assert FactoredPoint.__getattr__(X, "s") is X.s


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda X: pickle.loads(pickle.dumps(X))])
def test_copies_are_points(copied):
    left, right, X = pair()
    Y = copied(X)
    np.testing.assert_allclose((Y.U * Y.s) @ Y.V.T, left @ right.T, atol=1e-12)


def test_sweeps_do_not_factor_each_iterate(monkeypatch):
    problem, _ = lr.datasets.random_completion(40, 30, rank=2, oversampling=6, seed=0)
    found, calls = FixedRank.from_factors, []
    start = lr.starts.Spectral()(problem, 2, np.random.default_rng(0))
    monkeypatch.setattr(FixedRank, "from_factors", lambda *a, **k: calls.append(1) or found(*a, **k))
    ended = run(problem, lr.factorization.variational.VariationalALS(), start, lr.stopping.Iterations(6))
    assert (ended.n_iter, len(calls)) == (6, 0)
    assert ended.state.X.U.shape == (40, 2)
    assert len(calls) == 1
