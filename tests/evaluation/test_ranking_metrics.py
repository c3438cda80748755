"""Ranking measures against plain loops over users and places."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

from lorank import evaluation as ev


def made_up(seed, users=30, items=25, k=8):
    """Lists of different lengths, and held-out items; some users have none."""
    rng = np.random.default_rng(seed)
    lists = np.array([rng.permutation(items)[:k] for _ in range(users)])
    for user in range(users):
        lists[user, k - rng.integers(0, 4) :] = -1
    held = [np.flatnonzero(rng.random(items) < rng.choice([0.0, 0.1, 0.5])) for _ in range(users)]
    return lists, held


def plainly(found, wanted, n):
    """precision, recall, hit rate, NDCG and average precision of one list."""
    found, wanted = list(found)[:n], set(map(int, wanted))
    if not wanted:
        return [math.nan] * 5
    hits, gain, precisions = 0, 0.0, 0.0
    for place, item in enumerate(found, start=1):
        if int(item) in wanted:
            hits += 1
            gain += 1 / math.log2(place + 1)
            precisions += hits / place
    best = sum(1 / math.log2(place + 1) for place in range(1, min(n, len(wanted)) + 1))
    return [hits / n, hits / len(wanted), float(hits > 0), gain / best, precisions / min(n, len(wanted))]


MEASURES = (ev.precision, ev.recall, ev.hit_rate, ev.ndcg, ev.average_precision)


@pytest.mark.parametrize("n", [1, 3, 8, 20])
def test_measures_are_those_of_plain_loops(n):
    lists, held = made_up(n)
    twin = np.array([plainly(one, wanted, n) for one, wanted in zip(lists, held, strict=True)])
    assert np.isnan(twin).any()  # somebody has no held-out items
    for k, measure in enumerate(MEASURES):
        np.testing.assert_allclose(measure(lists, held, n), twin[:, k], rtol=1e-12)


def test_sparse_matrices_and_lists_are_the_same():
    lists, held = made_up(0)
    matrix = scipy.sparse.lil_array((30, 25))
    for user, items in enumerate(held):
        matrix[user, items] = 1
    for measure in MEASURES:
        np.testing.assert_array_equal(measure(lists, matrix, 5), measure(lists, held, 5))
    pairs = [(user, item) for user, items in enumerate(held) for item in items] * 2  # repeated ones count once
    users, items = np.array(pairs).T
    np.testing.assert_array_equal(ev.HeldOutItems.from_pairs(users, items, 30).items, ev.HeldOutItems.of(held).items)


def test_coverage_and_novelty():
    lists, _ = made_up(2)
    counts = np.arange(25) * 2
    named = [int(i) for row in lists[:, :5] for i in row if i >= 0]
    assert ev.catalog_coverage(lists, 25, 5) == len(set(named)) / 25
    bits = [-math.log2(max(int(counts[i]), 1) / 60) for i in named]
    assert ev.novelty(lists, counts, 60, 5) == pytest.approx(sum(bits) / len(bits))
    assert math.isnan(ev.novelty([[-1, -1]], [1], 1, 2))


def test_all_at_once_is_the_mean_over_users_with_something_held_out():
    lists, held = made_up(3)
    some = [user for user in range(30) if len(held[user])]
    scores = ev.ranking_scores(lists, held, np.ones(25), 30, n=5)
    assert scores.users == len(some) < 30
    for name, measure in (("precision", ev.precision), ("recall", ev.recall), ("ndcg", ev.ndcg), ("map", ev.average_precision)):
        assert getattr(scores, name) == pytest.approx(np.nanmean(measure(lists, held, 5)))
    assert scores.coverage == ev.catalog_coverage(lists[some], 25, 5)


@pytest.mark.parametrize(
    ("recommended", "held", "n", "said"),
    [
        ([[1, 1]], [[0]], 2, "names item 1 twice"),
        ([[1, 2], [1, 2]], [[0]], 2, "2 rows, and held has 1 user:"),
        ([[1.5]], [[0]], 2, "recommended must be"),
        ([1, 2], [[0]], 2, "recommended must be"),
        ([[-2]], [[0]], 2, "-1 stands for none"),
        ([[1]], [[-3]], 2, r"held\[0\] must be"),
        ([[1]], [["a"]], 2, r"held\[0\] must be"),
        ([[1]], 5, 2, "held must be"),
        ([[1]], [[0]], 0, "n must be"),
        ([[1]], [[0]], 1.5, "n must be"),
    ],
)
def test_what_is_refused(recommended, held, n, said):
    for measure in MEASURES:
        with pytest.raises(ValueError, match=said):
            measure(recommended, held, n)


def test_nothing_held_out_is_an_error():
    with pytest.raises(ValueError, match="nothing to compare"):
        ev.ranking_scores([[1]], [[]], [1, 1], 1, 1)
    with pytest.raises(ValueError, match="nothing to compare"):
        ev.compare({"a": ev.Popularity([0], [0])}, [[]], [1], 1)
    with pytest.raises(ValueError, match="item_counts"):
        ev.novelty([[0]], [math.nan], 1)
    with pytest.raises(ValueError, match="n_items is 1"):
        ev.catalog_coverage([[3]], 1)


# -- splits ------------------------------------------------------------------------------------------------------------
def test_some_of_each_user_are_left_out():
    rng = np.random.default_rng(0)
    users = rng.permutation(np.repeat(np.arange(40), rng.integers(1, 30, 40)))
    out = ev.leave_some_out(users, 0.25, keep=2, seed=3)
    counts, held = np.bincount(users), np.bincount(users[out], minlength=40)
    assert (counts - held >= np.minimum(counts, 2)).all()
    assert (abs(held - 0.25 * counts)[counts > 3] < 1).all()
    np.testing.assert_array_equal(out, ev.leave_some_out(users, 0.25, keep=2, seed=3))
    assert (out != ev.leave_some_out(users, 0.25, keep=2, seed=4)).any()


def test_the_latest_of_each_user_are_left_out():
    rng = np.random.default_rng(1)
    users, times = rng.integers(0, 20, 400), rng.integers(0, 50, 400)  # with equal times
    out = ev.leave_last_out(users, times, 0.3)
    for user in range(20):
        own = np.flatnonzero(users == user)
        order = sorted(own, key=lambda k: (times[k], k))
        last = set(order[len(order) - out[own].sum() :])
        assert last == set(own[out[own]])
    days = np.array(["2020-01-01", "2020-01-03", "2020-01-02", "2020-01-04"], "M8[D]")
    assert ev.leave_last_out([0] * 4, days, 0.5).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ev.leave_some_out([], 0.2), "users must be"),
        (lambda: ev.leave_some_out([0.5], 0.2), "users must be"),
        (lambda: ev.leave_some_out([-1], 0.2), "users must be"),
        (lambda: ev.leave_some_out([10**9], 0.2), "map ids"),
        (lambda: ev.leave_some_out([0], 1.0), "share must"),
        (lambda: ev.leave_some_out([0], 0.2, keep=-1), "keep must"),
        (lambda: ev.leave_last_out([0, 1], [1], 0.2), "times must"),
        (lambda: ev.leave_last_out([0], [math.nan], 0.2), r"times\[0\] is not finite"),
        (lambda: ev.leave_last_out([0], ["a"], 0.2), "times must"),
    ],
)
def test_invalid_splits_are_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# -- baselines ---------------------------------------------------------------------------------------------------------
def test_baselines_recommend_in_their_order_without_what_was_seen():
    rng = np.random.default_rng(2)
    seen = rng.random((15, 12)) < 0.4
    seen[:, 3] = False  # nobody had it
    users, items = np.nonzero(seen)
    values = rng.integers(1, 6, len(users)).astype(float)
    popular, means = ev.Popularity(users, items, 12), ev.ItemMean(users, items, values, 12, shrinkage=2.0)
    counts = seen.sum(0)
    score = [(values[items == j].sum() + 2 * values.mean()) / (counts[j] + 2) for j in range(12)]
    for model, by in ((popular, counts), (means, np.array(score))):
        found, scores = model.recommend(np.arange(16), n=5)  # user 15 has seen nothing
        for user in range(16):
            left = [j for j in range(12) if counts[j] and not (user < 15 and seen[user, j])]
            order = sorted(left, key=lambda j: (-round(by[j], 12), j))[:5]
            assert found[user, : len(order)].tolist() == order
            assert (found[user, len(order) :] == -1).all()
            np.testing.assert_allclose(scores[user, : len(order)], by[order])
    assert (popular.recommend([0], n=12, exclude_seen=False)[0] >= 0).sum() == 11
    np.testing.assert_allclose(means.predict([0, 1]), score[:2])


def test_invalid_data_of_baselines_are_refused():
    for make in (lambda: ev.Popularity([0], [0, 1]), lambda: ev.Popularity([], []), lambda: ev.Popularity([0], [-1])):
        with pytest.raises(ValueError, match=r"users|items"):
            make()
    with pytest.raises(ValueError, match="n_items is 1"):
        ev.Popularity([0], [3], n_items=1)
    with pytest.raises(ValueError, match="values must be finite"):
        ev.ItemMean([0], [0], [math.nan])
    with pytest.raises(ValueError, match="rows must be"):
        ev.Popularity([0], [0]).recommend([-1])
    with pytest.raises(ValueError, match="models"):
        ev.compare({"a": 3}, [[0]], [1], 1)
