"""ImplicitFactorization on partitions agrees with the same pairs in memory."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.backends import get_backend
from lorank.distributed import graph
from lorank.distributed import memory_mapped as mapped
from lorank.estimators import implicit_factorization, implicit_state
from lorank.factorization.implicit import ImplicitFactors, ImplicitSettings, half_sweep, ridge_penalties


@pytest.fixture(autouse=True)
def everything_to_disk(monkeypatch):
    monkeypatch.setattr(mapped, "MIN_MAPPED_BYTES", 0)
    monkeypatch.setattr(graph, "LARGE_ROW", 2)


def taken(counted=True, seed=0):
    """Three groups of users and items; one user and one item without pairs."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, (80, 1))
    there = rng.random((80, 45)) < np.where(kind == np.arange(45) % 3, 0.5, 0.05)
    there[7], there[:, 11] = False, False
    there[-1, -1] = True
    users, items = np.nonzero(there)
    return users, items, rng.integers(1, 6, len(users)).astype(float) if counted else np.ones(len(users))


@pytest.fixture
def folder(tmp_path):
    def written(users, items, counts, dtype=np.float32, n_partitions=4):
        with pytest.warns(UserWarning, match="no observation"):
            problem = lr.Completion(users, items, counts.astype(dtype), (80, 45))
        lr.distributed.save_partitions(problem, tmp_path / "p", n_partitions=n_partitions)
        return tmp_path / "p"

    return written


def opened(place, **options):
    with pytest.warns(UserWarning, match="no observation"):
        return lr.distributed.from_partitions(place, **options)


def in_memory(users, items, counts, model=None, **options):
    import scipy.sparse

    return (model or lr.ImplicitFactorization)(**options).fit(scipy.sparse.coo_array((counts, (users, items)), shape=(80, 45)))


def scores(model):
    return model.user_factors_.astype(float) @ model.item_factors_.astype(float).T


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("holder", ["numpy", pytest.param("torch:cpu", marks=pytest.mark.needs("torch"))])
def test_half_a_sweep_solves_ridge_regressions(columns, weighted, holder):
    """Against a dense solve of each row's equations."""
    users, items, counts = taken()
    backend, settings = get_backend(f"partitions:3:{holder}"), ImplicitSettings(4, 0.2, 0.05, 0.7, inner_max_iter=40)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=80))])
    observed = backend.make_observations(indptr, items.astype(np.int32), np.ones(len(users)), 45)
    observed = observed.with_weights(counts) if weighted else observed
    rng = np.random.default_rng(3)
    U, V = rng.standard_normal((80, 4)), rng.standard_normal((45, 4))
    W = np.zeros((80, 45))
    W[users, items] = counts if weighted else 1
    sides = half_sweep(
        observed, backend, columns, ImplicitFactors(U, V), ridge_penalties(observed, backend, settings)[columns], settings
    )
    got = backend.to_numpy(sides.rows) @ backend.to_numpy(sides.cols).T
    other, W, n = (U, W.T, 80) if columns else (V, W, 45)
    penalty = 0.05 * (W.sum(1) + 0.2 * n) ** 0.7
    systems = zip(W, penalty, strict=True)
    solved = [np.linalg.solve((other.T * w) @ other + 0.2 * other.T @ other + c * np.eye(4), other.T @ w) for w, c in systems]
    np.testing.assert_allclose(got.T if columns else got, np.stack(solved) @ other.T, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("counted", "confidence"), [(False, "log"), (True, "log"), (True, "counts"), (True, "equal")])
def test_given_settings(folder, counted, confidence, dtype):
    """Nothing is selected, so that both run the same sweeps."""
    data = taken(counted)
    options = {"rank": 3, "regularization": 0.02, "zeros": 0.1, "confidence": confidence}
    one = in_memory(*data, **options)
    two = lr.ImplicitFactorization(**options).fit(opened(folder(*data, dtype)))
    np.testing.assert_allclose(scores(two), scores(one), atol=1e-4)
    assert two.n_iter_ == one.n_iter_
    np.testing.assert_array_equal(two.recommend([7]).items, one.recommend([7]).items)  # without items: the most popular ones
    assert not (two.recommend(np.arange(80), 45, exclude_seen=False).items == 11).any()  # what nobody took
    for a, b in zip(two.state_.training[:3], one.state_.training[:3], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("counted", [False, True])
def test_ease_of_low_rank_is_that_in_memory(folder, counted):
    data = taken(counted)
    place = folder(*data, np.float64)
    for options in ({"regularization": 5.0, "rank": 4}, {"rank": 4}):
        one, two = in_memory(*data, lr.EASE, **options), lr.EASE(**options).fit(opened(place))
        assert (two.regularization_, two.rank_) == (pytest.approx(one.regularization_), 4)
        every = np.argwhere(np.ones((80, 45)))
        np.testing.assert_allclose(two.predict(every), one.predict(every), atol=2e-3)
        np.testing.assert_array_equal(two.state_.counts[1], one.state_.counts[1])
    for options in ({"rank": None}, {"neighbors": 3}):
        with pytest.raises(ValueError, match="rank must be a number or 'auto' for partitions"):
            lr.EASE(**options).fit(opened(place))


def test_settings_are_chosen_by_the_same_lists(folder):
    """Few pairs are all gathered, and the selection is that in memory."""
    data = taken()
    one = in_memory(*data, rank=3, max_iter=4)
    two = lr.ImplicitFactorization(rank=3, max_iter=4).fit(opened(folder(*data)))
    assert two.zeros_ == pytest.approx(one.zeros_)
    assert two.regularization_ == pytest.approx(one.regularization_)
    assert len(two.curve_) == len(one.curve_)


def test_few_users_choose_for_many(folder, monkeypatch):
    """Of many pairs, those of some users are gathered."""
    users, items, counts = taken()
    monkeypatch.setattr(implicit_state, "MANY", len(users) // 2)
    asked, choose = [], implicit_factorization.select_implicit
    monkeypatch.setattr(
        implicit_factorization, "select_implicit", lambda data, *a, **k: asked.append(data) or choose(data, *a, **k)
    )
    model = lr.ImplicitFactorization(rank=3, max_iter=2).fit(opened(folder(users, items, counts)))
    (data,) = asked
    assert 0 < data.shape[0] < 80
    assert len(data.rows) < len(users)
    lists = {tuple(model.state_.training.of_user(u)[0]) for u in range(80)}
    assert {tuple(data.cols[data.rows == u]) for u in np.unique(data.rows)} <= lists


def test_the_same_bits_each_time_and_few_round_trips(folder):
    """Half a sweep is one program, with the sums over columns in it."""
    place, found = folder(*taken()), []
    for _ in range(2):
        problem = opened(place)
        model = lr.ImplicitFactorization(3, 0.02, zeros=0.1, max_iter=5).fit(problem)
        found.append((model.user_factors_, model.item_factors_))
        assert problem.observations.graph.trips <= 2 * 5 + 12
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_too_many_to_remember(folder, monkeypatch, tmp_path):
    data = taken()
    monkeypatch.setattr(implicit_state, "MAX_STORED", 10)
    model = lr.ImplicitFactorization(3, 0.02, zeros=0.1).fit(opened(folder(*data)))
    again = lr.load(model.save(tmp_path / "model"))
    for one in (model, again):
        with pytest.raises(ValueError, match=r"in partitions.*exclude_seen=False"):
            one.recommend([0])
        with pytest.raises(ValueError, match="in partitions"):
            one.partial_fit(np.array([[0, 1]]))
        assert one.recommend([0], 5, exclude_seen=False).items.shape == (1, 5)
        popular = np.argsort(-one.state_.item_counts, kind="stable")[:5]
        assert one.recommend([7], 5, exclude_seen=False).items[0].tolist() == popular.tolist()
        assert one.similar_items(3).items.shape == (1, 10)
    np.testing.assert_array_equal(again.predict(np.array([[0, 1]])), model.predict(np.array([[0, 1]])))


def test_a_completion_in_memory():
    users, items, counts = taken()
    with pytest.warns(UserWarning, match="no observation"):
        problem = lr.Completion(users, items, counts, (80, 45))
    options = {"rank": 3, "regularization": 0.02, "zeros": 0.1}
    np.testing.assert_array_equal(
        lr.ImplicitFactorization(**options).fit(problem).user_factors_, in_memory(users, items, counts, **options).user_factors_
    )


@pytest.mark.parametrize(
    ("change", "model", "match"),
    [
        ({"values": 0.0}, {}, "smallest value of the Completion is 0"),
        ({"values": -1.0}, {}, "disliked"),
        ({"weights": True}, {}, "has weights"),
        ({"y": True}, {}, "leave out y"),
        ({}, {"device": "cpu"}, "leave out device"),
        ({"max_memory": "50MB"}, {"rank": 20_000}, "factors of rank 20000 take about"),
    ],
)
def test_what_is_refused(tmp_path, change, model, match):
    users, items, counts = taken()
    counts[3] = change.get("values", 1.0)
    weights = np.ones(len(users)) if "weights" in change else None
    with pytest.warns(UserWarning, match="no observation"):
        lr.distributed.save_partitions(
            lr.Completion(users, items, counts, (80, 45), weights=weights), tmp_path / "p", n_partitions=3
        )
    problem = opened(tmp_path / "p", max_memory=change.get("max_memory"))
    with pytest.raises((ValueError, MemoryError), match=match):
        lr.ImplicitFactorization(**model).fit(problem, counts if "y" in change else None)
