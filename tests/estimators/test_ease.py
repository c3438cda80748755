"""EASE: recommendations, explanations, updates and files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn")

from sklearn.exceptions import NotFittedError

import lorank as lr
from lorank.evaluation import HeldOutItems, Popularity, compare, leave_some_out
from lorank.factorization import order_selection
from lorank.factorization.item_model import fit_local_ease


@pytest.fixture(scope="module")
def taken():
    """Pairs of three kinds of users and items."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, (90, 1))
    chance = np.where(kind == np.arange(36) % 3, 0.5, 0.04) * np.linspace(0.4, 1.2, 36)
    return np.argwhere(rng.random((90, 36)) < chance)


def matrix(taken, shape=(90, 36)):
    X = np.zeros(shape)
    X[tuple(taken.T)] = 1
    return X


def dense_weights(X, regularization):
    P = np.linalg.inv(X.T @ X + regularization * np.eye(X.shape[1]))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0)
    return B


def test_recommendations_are_the_largest_entries_of_x_b(taken):
    X = matrix(taken)
    scores = X @ dense_weights(X, 5.0)
    model = lr.EASE(5.0).fit(taken)
    assert (model.regularization_, model.rank_, model.order_) == (5.0, None, "similarity")
    np.testing.assert_allclose(model.predict(taken[:30]), scores[tuple(taken[:30].T)], atol=1e-5)
    best, values = model.recommend(np.arange(90), n=4)
    for user in range(90):
        left = np.flatnonzero(X[user] == 0)
        np.testing.assert_allclose(values[user], np.sort(scores[user, left])[::-1][:4], atol=1e-5)
        np.testing.assert_allclose(scores[user, best[user]], values[user], atol=1e-5)
    new = model.recommend_for(taken[taken[:, 0] == 3, 1], n=4)
    np.testing.assert_array_equal(new.items, model.recommend(3, n=4).items)


def test_explanations_add_up_to_the_score(taken):
    X = matrix(taken)
    B, model = dense_weights(X, 5.0), lr.EASE(5.0).fit(taken)
    why = model.explain(4, 9)
    assert sorted(why.items) == np.flatnonzero(X[4]).tolist()
    np.testing.assert_allclose(why.contributions, B[why.items, 9], atol=1e-6)
    assert why.score == pytest.approx((X @ B)[4, 9], abs=1e-6)


def test_similar_items_have_the_largest_weights(taken):
    B = dense_weights(matrix(taken), 5.0)
    found = lr.EASE(5.0).fit(taken).similar_items([3, 8], n=4)
    for item, items in zip((3, 8), found.items, strict=True):
        assert item not in items
        np.testing.assert_allclose(B[item, items], np.sort(np.delete(B[item], item))[::-1][:4], atol=1e-6)
    with pytest.raises(ValueError, match="similar_users"):
        lr.EASE(5.0).fit(taken).similar_users(0)


def test_the_selected_regularization_finds_more_than_popularity(taken):
    out = leave_some_out(taken[:, 0], 0.2, seed=1)
    kept, held = taken[~out], HeldOutItems.from_pairs(*taken[out].T, 90)
    models = {"ease": lr.EASE().fit(kept), "low": lr.EASE(rank=5).fit(kept), "popularity": Popularity(*kept.T, 36)}
    found = compare(models, held, np.bincount(kept[:, 1], minlength=36), 90, n=5)
    for name in ("ease", "low"):
        assert found[name][0].ndcg > 1.5 * found["popularity"][0].ndcg


def test_many_items_get_neighborhoods_or_a_model_of_low_rank(taken, monkeypatch):
    monkeypatch.setattr(order_selection, "MAX_DENSE_ITEMS", 30)
    local = lr.EASE().fit(taken)
    assert (local.rank_, local.neighbors_) == (None, 100)
    X = scipy.sparse.csr_array(matrix(taken))
    twin = fit_local_ease(X, [local.regularization_], 100)[0].scores(X)
    np.testing.assert_allclose(local.predict(taken), twin[tuple(taken.T)], atol=1e-6)
    assert (lr.EASE(5.0, neighbors=7).fit(taken).state_.ranking.items.weights.count_nonzero(axis=0) <= 7).all()
    monkeypatch.setattr(order_selection, "MAX_PAIRS", 10)
    monkeypatch.setattr(order_selection, "ITEM_RANK", 6)
    model = lr.EASE(5.0).fit(taken)
    assert (model.rank_, model.neighbors_) == (6, None)
    assert model.state_.ranking.items.left.shape == (36, 6)


def test_counts_are_entries_of_x(taken):
    counts = 1.0 + np.arange(len(taken)) % 4
    X = matrix(taken)
    X[tuple(taken.T)] = np.log2(1 + counts)
    model = lr.EASE(5.0).fit(taken, counts)
    np.testing.assert_allclose(model.predict([[2, 5]]), (X @ dense_weights(X, 5.0))[2, 5], atol=1e-5)


def test_partial_fit_equals_a_fit_to_all(taken):
    late = (np.arange(len(taken)) % 10 == 0) | (taken[:, 0] == 11) | (taken[:, 1] == 7)
    model = lr.EASE(5.0).fit(taken[~late]).partial_fit(taken[late])
    alone = lr.EASE(5.0).fit(taken)
    np.testing.assert_array_equal(model.recommend(np.arange(90)).items, alone.recommend(np.arange(90)).items)


@pytest.mark.parametrize("form", [{"rank": None}, {"rank": 4}, {"neighbors": 6}])
def test_files(taken, form, tmp_path):
    named = [(f"u{user}", int(item)) for user, item in taken]
    model = lr.EASE(**form).fit(named)
    again = lr.load(model.save(tmp_path / "m.lorank"))
    assert again.get_params() == model.get_params()
    assert (again.regularization_, again.rank_, again.neighbors_) == (model.regularization_, model.rank_, model.neighbors_)
    for a, b in zip(again.recommend(["u4", "u8"]), model.recommend(["u4", "u8"]), strict=True):
        np.testing.assert_array_equal(a, b)
    again.partial_fit([("new", 3)])
    assert again.recommend("new").items.shape == (1, 10)


def test_invalid_parameters_and_data_are_refused(taken):
    for name, values in {
        "regularization": [0, -1, "a", None],
        "rank": [0, 1.5, "all"],
        "neighbors": [0, 2.5],
        "confidence": ["squares"],
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=f"{name} must"):
                lr.EASE(**{name: value}).fit(taken)
    with pytest.raises(ValueError, match="neighbors and rank=4 are two approximations"):
        lr.EASE(rank=4, neighbors=5).fit(taken)
    with pytest.raises(ValueError, match="nothing to learn"):
        lr.EASE().fit(scipy.sparse.csr_array((3, 3)))
    with pytest.raises(NotFittedError):
        lr.EASE().recommend(0)
