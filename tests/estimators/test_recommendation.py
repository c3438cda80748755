"""Similar rows and columns, and explanations, of MatrixCompletion."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr


@pytest.fixture(scope="module")
def model():
    """Three kinds of rows and columns; row 60 and column 30 were never observed."""
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((60, 30)) < np.where(np.arange(60)[:, None] % 3 == np.arange(30) % 3, 0.6, 0.05))
    values = np.clip(np.round(3 + rng.standard_normal(30)[cols] + 0.7 * rng.standard_normal(len(rows))), 1, 5)
    options = {"rank": 1, "regularization": "learned", "shape": (61, 31), "ranking": True}
    return lr.MatrixCompletion(**options).fit(np.column_stack([rows, cols]), values)


def test_recommend_fits_nothing_and_changes_nothing(model):
    plain = lr.MatrixCompletion(rank=1, regularization="learned", shape=(61, 31))
    indptr, indices = model.state_.training_pattern()
    rows = np.repeat(np.arange(61), np.diff(indptr))
    plain.fit(np.column_stack([rows, indices]), model.state_.training.entries.values)
    for one in (model, plain):
        before = dict(vars(one))
        one.recommend([0, 5, 60], n=4, by="affinity" if one is model else "rating")
        one.recommend([0, 5], n=4, by="rating", exclude_seen=False)
        one.predict([[0, 1]])
        one.fold_in([1, 2], [3.0, 4.0])
        assert vars(one).keys() == before.keys()
        assert all(vars(one)[name] is value for name, value in before.items())
    for call in (lambda: plain.recommend(0), lambda: plain.similar_items(0), lambda: plain.explain(0, 1)):
        with pytest.raises(ValueError, match=r"ranking=True.*fit_ranking"):
            call()
    plain.fit_ranking()
    for by in ("auto", "affinity"):
        np.testing.assert_array_equal(plain.recommend([0, 9], by=by)[0], model.recommend([0, 9], by=by)[0])


def test_similar_items_and_users_have_the_largest_cosines(model):
    for found, factors, size in (
        (model.similar_items([4, 8], n=5), model.state_.ranking.cols, 30),
        (model.similar_users([4, 8], n=5), model.state_.ranking.rows, 60),
    ):
        unit = factors[:size] / np.linalg.norm(factors[:size], axis=1, keepdims=True)
        for at, places, cosines in zip((4, 8), *found, strict=True):
            cosine = unit[at] @ unit.T
            cosine[at] = -np.inf
            np.testing.assert_allclose(cosines, np.sort(cosine)[::-1][:5], atol=1e-5)
            np.testing.assert_allclose(cosine[places], cosines, atol=1e-5)
    assert (model.similar_items(4, n=5)[0] % 3 == 1).all()  # of the same kind
    everything = model.similar_items(4, n=1000)[0][0]
    assert 30 not in everything
    assert (everything[29:] == -1).all()


def test_an_explanation_adds_up_to_the_score(model):
    model, row = copy.copy(model), 7
    ranking = dataclasses.replace(model.state_.ranking, order="affinity", items=None, item_settings=None)
    model.state_ = dataclasses.replace(model.state_, ranking=ranking)
    indptr, indices = model.state_.training_pattern()
    part = slice(*indptr[row : row + 2])
    own, liked = indices[part], model.state_.training.liked[part]
    item = int(model.recommend(row, n=1)[0][0, 0])
    found = model.explain(row, item)
    assert sorted(found.items) == own.tolist()
    assert (np.diff(found.contributions) <= 0).all()
    assert found.contributions.sum() == pytest.approx(found.score)
    assert found.score == pytest.approx(ranking.rows[row] @ ranking.cols[item], abs=2e-3)
    Y, w = ranking.cols.astype(float), np.where(liked, 1.0, ranking.disliked)
    M = (Y[own].T * w) @ Y[own] + ranking.settings.zeros * Y.T @ Y
    M += ranking.settings.regularization * (w.sum() + ranking.settings.zeros * len(Y)) * np.eye(Y.shape[1])
    by_item = dict(zip(own, w * (Y[own] @ np.linalg.solve(M, Y[item])), strict=True))
    np.testing.assert_allclose(found.contributions, [by_item[i] for i in found.items], rtol=1e-8)
    nobody = model.explain(60, 3)
    assert (len(nobody.items), nobody.score) == (0, 0.0)


def test_explanations_survive_a_file(model, tmp_path):
    again = lr.load(model.save(tmp_path / "m.lorank"))
    for a, b in zip(again.explain(3, 5), model.explain(3, 5), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: m.similar_items(31), "cols must lie in 0 .. 30, got 31"),
        (lambda m: m.similar_users(-1), "rows must be whole numbers"),
        (lambda m: m.similar_users(0, n=0), "n must be"),
        (lambda m: m.similar_items("x"), "cols must be"),
        (lambda m: m.explain(0, 99), "cols must lie in 0 .. 30, got 99"),
        (lambda m: m.explain([0, 1], 2), "explain takes one row and one column"),
        (lambda m: m.explain(0.5, 2), "rows must be whole numbers"),
    ],
)
def test_what_is_refused(model, call, said):
    with pytest.raises(ValueError, match=said):
        call(model)


@pytest.mark.parametrize("by", ["affinity", "popularity", "rating"])
def test_only_asked_items_are_recommended(model, by):
    everything = model.recommend([2, 60], n=31, by=by)
    some, without = [3, 8, 9, 30], [8, 11]
    found = model.recommend([2, 60], n=31, by=by, items=some, exclude=without)
    for k in range(2):
        expected = [item for item in everything.items[k] if item in (3, 9)]
        assert found.items[k][: len(expected)].tolist() == expected
        assert (found.items[k][len(expected) :] == -1).all()
    with pytest.raises(ValueError, match="cols must lie"):
        model.recommend(0, items=[99])


def test_the_default_order_is_the_one_that_found_most(model, tmp_path):
    assert {"affinity", "similarity", "popularity", "rating"} == {one.order for one in model.orders_}
    assert max(model.orders_, key=lambda one: one.ndcg).order == model.order_
    found = model.recommend([2, 5], n=4)
    np.testing.assert_array_equal(found.items, model.recommend([2, 5], n=4, by=model.order_).items)
    again = lr.load(model.save(tmp_path / "m.lorank"))
    assert (again.order_, again.orders_) == (model.order_, model.orders_)
    np.testing.assert_array_equal(again.recommend([2, 5], n=4).items, found.items)


def test_ratings_missing_at_random_are_ordered_by_rating():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 60))
    pairs = np.argwhere(rng.random(X.shape) < 0.3)
    model = lr.MatrixCompletion(rank=2, regularization="learned", ranking=True).fit(pairs, X[tuple(pairs.T)])
    assert model.order_ == "rating"
    np.testing.assert_array_equal(model.recommend([0, 5]).items, model.recommend([0, 5], by="rating").items)


def test_a_new_user_gets_the_items_of_a_known_user_with_the_same_items(model):
    row = 7
    indptr, indices = model.state_.training_pattern()
    part = slice(*indptr[row : row + 2])
    liked = indices[part][model.state_.training.liked[part]]
    found = model.recommend_for(liked, n=3)
    assert (found.items[0] % 3 == np.bincount(liked % 3).argmax()).all()  # of the same kind
    with pytest.raises(ValueError, match="counts"):
        model.recommend_for(liked, counts=np.ones(len(liked)))
