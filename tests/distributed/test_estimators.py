"""MatrixCompletion on partitions agrees with the same ratings in memory."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.distributed import graph
from lorank.distributed import memory_mapped as mapped


@pytest.fixture(autouse=True)
def everything_to_disk(monkeypatch):
    monkeypatch.setattr(mapped, "MIN_MAPPED_BYTES", 0)
    monkeypatch.setattr(graph, "LARGE_ROW", 2)


def ratings(loss="squares", noise=0.3, seed=0):
    """Pairs and values of rank 2 with offsets, and weights."""
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random((70, 50)) < 0.4)
    truth = rng.standard_normal((70, 2)) @ rng.standard_normal((2, 50)) + rng.standard_normal((70, 1)) + 3
    values = truth[rows, cols] + noise * rng.standard_normal(len(rows))
    if loss == "logistic":
        values = 1.0 * (values > 3)
    elif loss == "ordinal":
        values = np.clip(np.round(values / 2), 0, 3)
    elif loss == "poisson":
        values = rng.poisson(np.exp(values / 4)).astype(float)
    return np.column_stack([rows, cols]), values, rng.uniform(0.5, 2, len(rows)), truth


def folder(place, pairs, values, weights=None, n_partitions=4):
    problem = lr.Completion(pairs[:, 0], pairs[:, 1], values, weights=weights)
    lr.distributed.save_partitions(problem, place / "p", n_partitions=n_partitions)
    return lr.distributed.from_partitions(place / "p")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"regularization": 2.0}, {"biases": False}, {"regularization": 1.0, "count_scaling": 0.5}]
)
def test_a_given_rank(tmp_path, weighted, options):
    """Nothing is selected, so that both run the same sweeps."""
    pairs, values, weights, _ = ratings()
    weights = weights if weighted else None
    options = {"rank": 2, "regularization": "learned"} | options
    one = lr.MatrixCompletion(**options).fit(pairs, values, weights)
    two = lr.MatrixCompletion(**options).fit(folder(tmp_path, pairs, values, weights))
    np.testing.assert_allclose(two.predict(pairs), one.predict(pairs), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(two.model_.spread(*pairs.T), one.model_.spread(*pairs.T), rtol=1e-4)
    assert two.n_iter_ == one.n_iter_
    assert two.diagnosis_.observations == one.diagnosis_.observations
    patterns = ((*m.state_.training_pattern(), m.state_.training.liked) for m in (two, one))
    for a, b in zip(*patterns, strict=True):  # the training data of the ranking model
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("loss", ["huber", "logistic", "ordinal", "poisson"])
def test_losses(tmp_path, loss):
    pairs, values, _, _ = ratings(loss)
    one = lr.MatrixCompletion(2, "learned", loss=loss).fit(pairs, values)
    two = lr.MatrixCompletion(2, "learned", loss=loss).fit(folder(tmp_path, pairs, values))
    np.testing.assert_allclose(two.predict(pairs), one.predict(pairs), rtol=1e-3, atol=1e-3)
    if loss in ("logistic", "ordinal"):
        np.testing.assert_array_equal(two.classes_, one.classes_)
        np.testing.assert_allclose(two.predict_proba(pairs[:50]), one.predict_proba(pairs[:50]), atol=1e-3)


def test_a_rank_is_chosen_and_intervals_are_calibrated(tmp_path):
    """On other held-out observations than in memory: similar, not equal."""
    pairs, values, _, truth = ratings(noise=0.5)
    problem = folder(tmp_path, pairs, values)
    model = lr.MatrixCompletion(intervals=True).fit(problem)
    assert model.rank_ in (2, 3)
    twin = lr.MatrixCompletion(intervals=True).fit(pairs, values)
    everywhere = np.argwhere(np.ones(truth.shape, bool))
    errors = [np.sqrt(np.mean((m.predict(everywhere) - truth.ravel()) ** 2)) for m in (model, twin)]
    assert errors[0] < 1.1 * errors[1]
    low, high = model.predict_interval(everywhere, 0.9)
    fresh = truth.ravel() + 0.5 * np.random.default_rng(3).standard_normal(truth.size)
    assert 0.84 < np.mean((low < fresh) & (fresh < high)) < 0.96


def test_a_model_file_of_partitions_too_many_to_remember(tmp_path, monkeypatch):
    from lorank.estimators import fitting

    monkeypatch.setattr(fitting, "MAX_STORED", 10)
    pairs, values, _, _ = ratings()
    model = lr.MatrixCompletion(2, "learned").fit(folder(tmp_path, pairs, values))
    again = lr.load(model.save(tmp_path / "model.lorank"))
    np.testing.assert_array_equal(again.predict(pairs), model.predict(pairs))
    for call in (again.fit_ranking, lambda: again.recommend([0], by="rating")):
        with pytest.raises(ValueError, match="fitted to partitions"):
            call()
    assert (again.recommend([0], 3, exclude_seen=False, by="rating")[0] >= 0).all()


def test_covariances_of_very_many_rows_are_left_out(tmp_path, monkeypatch):
    from lorank.factorization import folds

    pairs, values, _, truth = ratings(noise=0.5)
    monkeypatch.setattr(folds, "MAX_COVARIANCE_BYTES", 10)
    model = lr.MatrixCompletion(2, "learned", intervals=True).fit(folder(tmp_path, pairs, values))
    assert model.model_.row_cov is None
    low, high = model.predict_interval(np.argwhere(np.ones(truth.shape, bool)), 0.9)
    fresh = truth.ravel() + 0.5 * np.random.default_rng(3).standard_normal(truth.size)
    assert 0.82 < np.mean((low < fresh) & (fresh < high)) < 0.97  # calibrated without them


@pytest.mark.parametrize(
    ("model", "problem", "extra", "match"),
    [
        ({"loss": "robust"}, {}, {}, "tukey"),
        ({"device": "cpu"}, {}, {}, "where they are"),
        ({"cv": 3}, {}, {}, "cv=3"),
        ({"shape": (3, 3)}, {}, {}, "has shape"),
        ({}, {"loss": "huber"}, {}, "give the loss to MatrixCompletion"),
        ({}, {}, {"sample_weight": [1.0]}, "leave out y"),
    ],
)
def test_what_is_refused(tmp_path, model, problem, extra, match):
    pairs, values, _, _ = ratings()
    folder(tmp_path, pairs, values)
    data = lr.distributed.from_partitions(tmp_path / "p", **problem)
    with pytest.raises(ValueError, match=match):
        lr.MatrixCompletion(**model).fit(data, **extra)
