"""ImplicitFactorization: ids, recommendations, explanations, files, and what is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import lorank as lr
from lorank.estimators import implicit_factorization as module
from lorank.evaluation import HeldOutItems, Popularity, compare, leave_some_out

OPTIONS = {"rank": 3, "regularization": 0.02, "zeros": 0.2, "max_iter": 8}


@pytest.fixture(scope="module")
def taken():
    """Who took what: three kinds of users and of items, and how popular items are beside that."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, (90, 1))
    chance = np.where(kind == np.arange(36) % 3, 0.5, 0.04) * np.linspace(0.4, 1.2, 36)
    return np.argwhere(rng.random((90, 36)) < chance)


@pytest.fixture(scope="module")
def model(taken):
    return lr.ImplicitFactorization(**OPTIONS).fit(taken)


def test_it_finds_what_was_held_out(taken):
    out = leave_some_out(taken[:, 0], 0.2, seed=1)
    kept, held = taken[~out], HeldOutItems.from_pairs(*taken[out].T, 90)
    auto = lr.ImplicitFactorization(rank=8).fit(kept)
    counts = np.bincount(kept[:, 1], minlength=36)
    found = compare({"auto": auto, "popularity": Popularity(*kept.T, 36)}, held, counts, 90, n=5)
    assert found["auto"][0].ndcg > 1.5 * found["popularity"][0].ndcg
    assert auto.curve_
    assert (auto.zeros_, auto.regularization_) in [(c.zeros, c.regularization) for c in auto.curve_]


def test_recommendations_are_the_largest_scores_without_what_was_seen(model, taken):
    seen = np.zeros((90, 36), bool)
    seen[tuple(taken.T)] = True
    scores = model.user_factors_ @ model.item_factors_.T
    best, values = model.recommend(np.arange(90), n=36)
    for user in range(90):
        left = np.flatnonzero(~seen[user] & seen.any(0))
        assert sorted(best[user][: len(left)]) == left.tolist()
        assert (best[user][len(left) :] == -1).all()
        np.testing.assert_allclose(values[user][: len(left)], np.sort(scores[user, left])[::-1], rtol=1e-5, atol=1e-6)
    again = model.recommend(7, n=3, exclude_seen=False).items[0]
    assert scores[7, again[0]] == pytest.approx(scores[7].max(), rel=1e-5)
    np.testing.assert_allclose(model.predict(taken[:9]), scores[tuple(taken[:9].T)], rtol=1e-5)


def test_ids_of_any_kind_give_the_same_model(model, taken):
    names = np.column_stack([[f"u{u:03}" for u in taken[:, 0]], [f"i{i:02}" for i in taken[:, 1]]])
    mixed = [(f"u{u:03}", int(i)) for u, i in taken]
    numbers = taken * 7 + 3
    matrix = scipy.sparse.coo_array((np.ones(len(taken)), taken.T), (90, 36))
    first = model.recommend([0], n=4).items[0]
    for data, user, item in (
        (names, "u000", lambda i: f"i{i:02}"),
        (mixed, "u000", lambda i: i),
        (numbers, 3, lambda i: 7 * i + 3),
        (matrix, 0, lambda i: i),
    ):
        other = lr.ImplicitFactorization(**OPTIONS).fit(data)
        np.testing.assert_array_equal(other.item_factors_, model.item_factors_)
        assert other.recommend(user, n=4).items[0].tolist() == [item(i) for i in first]


def test_data_frames(model, taken):
    pandas = pytest.importorskip("pandas")
    columns = {"user": [f"u{u:03}" for u in taken[:, 0]], "item": taken[:, 1]}
    frame = lr.ImplicitFactorization(**OPTIONS).fit(pandas.DataFrame(columns))
    np.testing.assert_array_equal(frame.item_factors_, model.item_factors_)
    polars = pytest.importorskip("polars")
    counted = polars.DataFrame(columns | {"count": np.ones(len(taken))})
    np.testing.assert_array_equal(lr.ImplicitFactorization(**OPTIONS).fit(counted).item_factors_, model.item_factors_)
    with pytest.raises(ValueError, match="which column is which"):
        lr.ImplicitFactorization().fit(pandas.DataFrame(columns | {"a": 1, "b": 2}))


def test_counts_are_confidence(taken):
    counts = 1 + np.arange(len(taken)) % 4
    fits = {c: lr.ImplicitFactorization(**OPTIONS, confidence=c).fit(taken, counts) for c in module.CONFIDENCES}
    repeated = lr.ImplicitFactorization(**OPTIONS, confidence="counts").fit(np.repeat(taken, counts, axis=0))
    np.testing.assert_array_equal(repeated.item_factors_, fits["counts"].item_factors_)
    plain = lr.ImplicitFactorization(**OPTIONS).fit(taken)
    np.testing.assert_array_equal(plain.item_factors_, fits["equal"].item_factors_)
    assert abs(fits["log"].item_factors_ - fits["counts"].item_factors_).max() > 1e-3
    nothing = np.zeros(len(taken))
    nothing[:5] = 1
    few = lr.ImplicitFactorization(**OPTIONS).fit(taken, nothing)
    assert len(few.state_.training.counts) == 5


def test_weights_are_factors_on_confidence(taken, tmp_path):
    pandas = pytest.importorskip("pandas")
    counts, weights = 1 + np.arange(len(taken)) % 4, 0.25 + np.arange(len(taken)) % 3
    options = OPTIONS | {"confidence": "counts"}
    weighted = lr.ImplicitFactorization(**options).fit(taken, counts, sample_weight=weights)
    as_counts = lr.ImplicitFactorization(**options).fit(taken, counts * weights)
    np.testing.assert_allclose(weighted.item_factors_, as_counts.item_factors_, atol=1e-5)
    logs = lr.ImplicitFactorization(**OPTIONS).fit(taken, counts, weights)
    by_hand = lr.ImplicitFactorization(**options).fit(taken, np.log2(1 + counts) * weights)
    np.testing.assert_allclose(logs.item_factors_, by_hand.item_factors_, atol=1e-5)
    frame = pandas.DataFrame({"user": taken[:, 0], "item": taken[:, 1], "n": counts, "w": weights})
    named = lr.ImplicitFactorization(**OPTIONS).fit(frame[["user", "item", "n", "w"]], sample_weight="w", rows="user",
                                                    cols="item", values="n")  # fmt: skip
    np.testing.assert_array_equal(named.item_factors_, logs.item_factors_)
    matrix = scipy.sparse.csr_array((counts.astype(float), taken.T), (90, 36)).tocoo()
    place = {(i, j): w for i, j, w in zip(*taken.T.tolist(), weights.tolist(), strict=True)}
    stored = [place[i, j] for i, j in zip(matrix.row.tolist(), matrix.col.tolist(), strict=True)]
    sparse = lr.ImplicitFactorization(**OPTIONS).fit(matrix, sample_weight=stored)
    np.testing.assert_array_equal(sparse.item_factors_, logs.item_factors_)
    again = lr.load(logs.save(tmp_path / "w.lorank"))
    for one in (logs, again):
        why = one.explain(0, 1)
        assert why.contributions.sum() == pytest.approx(why.score)
    np.testing.assert_array_equal(again.explain(0, 1).contributions, logs.explain(0, 1).contributions)
    none = np.where(np.arange(len(taken)) < 10, 0.0, 1.0)
    without = lr.ImplicitFactorization(**OPTIONS).fit(taken, sample_weight=none)
    assert len(without.state_.training.counts) == len(taken) - 10
    halves = lr.ImplicitFactorization(**OPTIONS).fit(taken[::2], counts[::2], weights[::2])
    halves.partial_fit(taken[1::2], counts[1::2], weights[1::2])
    np.testing.assert_array_equal(halves.state_.training.weights, logs.state_.training.weights)
    halves.partial_fit(taken[:1], [3])  # without a weight: 1
    first = weights[0] * counts[0]
    assert halves.state_.training.weights[0] == pytest.approx((first + 3) / (counts[0] + 3))


@pytest.mark.parametrize("weights", [[1.0, -1.0], [math.nan, 1.0], [1.0], ["a", "b"], [0.0, 0.0]])
def test_weights_that_are_refused(weights):
    with pytest.raises(ValueError, match="sample_weight"):
        lr.ImplicitFactorization(**OPTIONS).fit([[0, 1], [1, 0]], sample_weight=weights)


def test_an_explanation_adds_up_to_the_score(model, taken):
    user, item = 5, int(model.recommend(5, n=1).items[0, 0])
    found = model.explain(user, item)
    own = taken[taken[:, 0] == user, 1]
    assert sorted(found.items) == own.tolist()
    assert (np.diff(found.contributions) <= 0).all()
    assert found.contributions.sum() == pytest.approx(found.score)
    assert found.score == pytest.approx(model.predict([[user, item]])[0], abs=1e-3)
    Y = model.item_factors_.astype(float)
    M = Y[own].T @ Y[own] + 0.2 * Y.T @ Y + 0.02 * (len(own) + 0.2 * 36) * np.eye(3)
    plain = Y[found.items] @ np.linalg.solve(M, Y[item])
    np.testing.assert_allclose(found.contributions, plain)


def test_recommend_for_equals_a_user_with_the_same_items(model, taken):
    own = taken[taken[:, 0] == 5, 1]
    new, old = model.recommend_for(own, n=5), model.recommend(5, n=5)
    np.testing.assert_allclose(new.scores, old.scores, atol=1e-3)
    assert not set(new.items[0]) & set(own)


def test_similar_items_have_the_largest_cosines(model):
    for found, factors in (
        (model.similar_items(3, n=4), model.item_factors_),
        (model.similar_users([3, 8], n=4), model.user_factors_),
    ):
        unit = factors / np.linalg.norm(factors, axis=1, keepdims=True)
        cosine = unit[3] @ unit.T
        cosine[3] = -np.inf
        np.testing.assert_allclose(found.scores[0], np.sort(cosine)[::-1][:4], atol=1e-5)
        assert 3 not in found.items[0]
    assert (model.similar_items(3, n=5).items[0] % 3 == 0).all()  # of the same kind


def test_partial_fit_continues_from_the_fitted_factors(taken):
    rng = np.random.default_rng(1)
    late = rng.random(len(taken)) < 0.05
    late |= (taken[:, 0] == 11) | (taken[:, 1] == 7)  # a user and an item that are new
    model = lr.ImplicitFactorization(**OPTIONS).fit(taken[~late])
    model.partial_fit(taken[late])
    assert 11 in model.user_ids_
    assert 7 in model.item_ids_
    again = lr.ImplicitFactorization(**{**OPTIONS, "max_iter": 30}).fit(taken)
    scores = [m.user_factors_ @ m.item_factors_.T for m in (model, again)]
    assert np.linalg.norm(scores[0] - scores[1]) < 0.1 * np.linalg.norm(scores[1])
    first = lr.ImplicitFactorization(**OPTIONS).partial_fit(taken)
    np.testing.assert_array_equal(first.item_factors_, lr.ImplicitFactorization(**OPTIONS).fit(taken).item_factors_)
    with pytest.raises(ValueError, match="user ids were whole numbers in fit, and are text now"):
        model.partial_fit([("anna", 3)])


def test_files(model, taken, tmp_path):
    named = lr.ImplicitFactorization(**OPTIONS).fit([(f"u{u}", int(i)) for u, i in taken])
    for one in (model, named):
        again = lr.load(one.save(tmp_path / "m.lorank"))
        assert again.get_params() == one.get_params()
        user = one.user_ids_[4]
        assert again.recommend(user).items.tolist() == one.recommend(user).items.tolist()
        np.testing.assert_array_equal(again.recommend(user).scores, one.recommend(user).scores)
        assert again.explain(user, one.item_ids_[0]).score == one.explain(user, one.item_ids_[0]).score
        again.partial_fit([(user, one.item_ids_[1].item())])
    from lorank.estimators.persistence import read_implicit, write_implicit
    from lorank.io.archive import write_archive

    meta, arrays = write_implicit(model)
    for name, bad in (("user_factors", np.zeros((2, 3))), ("training.indices", arrays["training.indices"] + 90)):
        with pytest.raises(ValueError, match="its "):
            read_implicit(meta, arrays | {name: bad})
    head = {"class": "ImplicitFactorization"}
    write_archive(tmp_path / "bad.lorank", "model", head | meta, {k: a for k, a in arrays.items() if k != "item_ids"})
    with pytest.raises(ValueError, match="complete"):
        lr.load(tmp_path / "bad.lorank")


def test_users_and_items_without_any_pair(taken):
    matrix = scipy.sparse.csr_array((np.ones(len(taken)), taken.T), (92, 40))  # two users and four items are empty
    model = lr.ImplicitFactorization(**OPTIONS).fit(matrix)
    assert not model.user_factors_[90:].any()
    best, scores = model.recommend([0, 91], n=40)
    counts = np.bincount(taken[:, 1], minlength=40)
    assert best[1][:36].tolist() == np.argsort(-counts, kind="stable")[:36].tolist()  # the most popular items
    np.testing.assert_allclose(scores[1][:36], counts[best[1][:36]] / 92, rtol=1e-6)
    assert (best[1][36:] == -1).all()
    assert best[0].max() < 36  # what nobody took is never recommended
    assert model.explain(91, 3).score == 0
    assert model.similar_items(39, n=3).scores[0].max() == 0


def test_clone_and_not_fitted_errors(taken):
    model = lr.ImplicitFactorization(rank=2, zeros=0.3)
    assert clone(model).get_params() == model.get_params()
    for call in (lambda: model.recommend(0), lambda: model.predict([[0, 0]]), lambda: model.save("x")):
        with pytest.raises(NotFittedError):
            call()
    twin = lr.ImplicitFactorization(**OPTIONS, random_state=np.random.RandomState(0)).fit(taken)
    assert twin.fit(taken) is twin


def test_ctrl_c_keeps_the_factors_so_far(taken, monkeypatch):
    calls = []

    def sweep(*args, **kwargs):
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return plain(*args, **kwargs)

    plain = module.fit_implicit.__globals__["half_sweep"]
    monkeypatch.setitem(module.fit_implicit.__globals__, "half_sweep", sweep)
    model = lr.ImplicitFactorization(**OPTIONS).fit(taken)
    assert model.status_ == "interrupted"
    assert model.n_iter_ == 3
    assert (model.recommend(0).items >= 0).all()


@pytest.mark.parametrize(
    ("data", "counts", "said"),
    [
        ([[0, 1], [1, 0]], [1.0, -2.0], r"counts\[1\] = -2"),
        ([[0, 1], [1, 0]], [math.nan, 1.0], r"counts\[0\] = nan"),
        ([[0, 1], [1, 0]], [math.inf, 1.0], r"counts\[0\] = inf"),
        ([[0, 1], [1, 0]], [1.0], "one number for each of 2 pairs"),
        ([[0, 1], [1, 0]], ["a", "b"], "counts must be numbers"),
        ([[0, 1], [1, 0]], [0, 0], "nothing to learn from"),
        (np.zeros((0, 2), int), None, "nothing to learn from"),
        ([[0.5, 1]], None, "user ids must be whole numbers or text, got 0.5"),
        ([[0, math.nan]], None, "item ids must be whole numbers or text, got nan"),
        (np.array([["a", None]], object), None, "item ids must be whole numbers or text, got None"),
        (np.array([[1, 2], ["a", 3]], object), None, "a mixture of numbers and text"),
        ([1, 2, 3], None, "X must be an"),
        ("abc", None, "X must be an"),
        (np.ones((3, 3)), None, "X must be an"),
        (scipy.sparse.eye_array(3), [1, 1, 1], "comes with its own counts"),
        (-scipy.sparse.eye_array(3), None, r"counts\[0\] = -1"),
    ],
)
def test_data_that_are_refused(data, counts, said):
    with pytest.raises(ValueError, match=said):
        lr.ImplicitFactorization(**OPTIONS).fit(data, counts)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("rank", [0, -1, 1.5, "a", None, True]),
        ("regularization", [0, -1, math.nan, "b", None, True]),
        ("zeros", [0, -1, math.inf, "b", None]),
        ("confidence", ["squares", None, 1]),
        ("scaling", [-1, math.nan, "a"]),
        ("max_iter", [0, 2.5]),
        ("inner_max_iter", [0, "a"]),
        ("nonnegative", ["yes", 1, None]),
    ],
)
def test_parameters_that_are_refused(name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"{name} must"):
            lr.ImplicitFactorization(**{name: value}).fit([[0, 1], [1, 0]])


def test_invalid_queries_are_refused(model):
    for call, said in (
        (lambda: model.recommend(1000), "unknown user 1000"),
        (lambda: model.recommend("anna"), "user ids are whole numbers"),
        (lambda: model.recommend([[1]]), "one id or a list"),
        (lambda: model.recommend(0, n=0), "n must be"),
        (lambda: model.predict([[0, 99]]), "unknown item 99"),
        (lambda: model.explain(0, -4), "unknown item -4"),
        (lambda: model.explain([0, 1], 2), "one user and one item"),
        (lambda: model.recommend_for([]), "items is empty"),
        (lambda: model.recommend_for([3], [0]), "positive count"),
        (lambda: model.recommend_for([3], [math.nan]), r"counts\[0\] = nan"),
        (lambda: model.similar_items(99), "unknown item 99"),
        (lambda: model.similar_users(0, n=1.5), "n must be"),
    ):
        with pytest.raises(ValueError, match=said):
            call()


@pytest.mark.needs("torch")
def test_a_device_by_name(model, taken):
    other = lr.ImplicitFactorization(**OPTIONS, device="cpu").fit(taken)
    scores = [m.user_factors_ @ m.item_factors_.T for m in (model, other)]
    np.testing.assert_allclose(scores[1], scores[0], atol=0.02)  # single precision, after eight sweeps
    assert other.recommend(3, n=5).items.shape == (1, 5)


def test_rank_auto_selects_the_order_and_the_rank(tmp_path):
    rng = np.random.default_rng(0)
    bundle = np.repeat(rng.random((300, 20)) < 0.15, 4, axis=1)  # items are taken in bundles of four
    taken = np.argwhere(rng.random(bundle.shape) < np.where(bundle, 0.7, 0.01))
    model = lr.ImplicitFactorization().fit(taken)
    orders = {one.order for one in model.orders_}
    assert orders == {"affinity", "similarity", "popularity"}
    best = max(model.orders_, key=lambda one: one.ndcg)
    chosen = [one for one in model.orders_ if one.order == model.order_]
    assert max(one.ndcg for one in chosen) > 0.97 * best.ndcg
    assert model.rank_ in (64, 128, 256)
    again = lr.load(model.save(tmp_path / "m.lorank"))
    np.testing.assert_array_equal(again.recommend(model.user_ids_).items, model.recommend(model.user_ids_).items)
    assert lr.ImplicitFactorization(rank=3).fit(taken).orders_ == []


def test_the_item_to_item_order_is_used_throughout(taken):
    model = lr.ImplicitFactorization(**OPTIONS).fit(taken)
    twin, ease = model.state_, lr.EASE(5.0).fit(taken)
    parts = {"order": "similarity", "items": ease.state_.ranking.items, "item_settings": ease.state_.ranking.item_settings}
    model.state_ = dataclasses.replace(twin, ranking=dataclasses.replace(twin.ranking, **parts))
    np.testing.assert_array_equal(model.recommend([2, 5]).items, ease.recommend([2, 5]).items)
    np.testing.assert_array_equal(model.predict(taken[:5]), ease.predict(taken[:5]))
    assert model.explain(2, 5).score == ease.explain(2, 5).score
    np.testing.assert_array_equal(
        model.recommend(2, by="affinity").items, lr.ImplicitFactorization(**OPTIONS).fit(taken).recommend(2).items
    )
    model.partial_fit([(200, 3), (200, 6)])
    ease.partial_fit([(200, 3), (200, 6)])
    np.testing.assert_array_equal(model.recommend(200).items, ease.recommend(200).items)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_recommendations_as_a_frame(model, package):
    pytest.importorskip(package)
    found, frame = model.recommend([2, 5], n=3), model.recommend([2, 5], n=3, as_frame=package)
    assert list(frame.columns) == ["user", "item", "place", "score"]
    assert frame["item"].to_list() == found.items.ravel().tolist()
    assert frame["place"].to_list() == [1, 2, 3, 1, 2, 3]
