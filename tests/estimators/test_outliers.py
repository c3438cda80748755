"""``MatrixCompletion(loss="robust")``, and the warning of the default."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lorank as lr


def ratings(share, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 50)) + 3
    pairs = np.argwhere(rng.random(X.shape) < 0.5)
    pairs = pairs[rng.permutation(len(pairs))]
    values = X[pairs[:, 0], pairs[:, 1]] + 0.1 * rng.standard_normal(len(pairs))
    wrong = rng.random(len(values)) < share
    values[wrong] += rng.choice([-30.0, 30.0], wrong.sum())
    return X, pairs, values, wrong


def test_outliers_are_left_out_and_flagged():
    X, pairs, values, wrong = ratings(0.08)
    options = {"rank": 2, "regularization": "learned"}
    robust = lr.MatrixCompletion(loss="robust", **options).fit(pairs, values, np.ones(len(values)))
    oracle = lr.MatrixCompletion(**options).fit(pairs[~wrong], values[~wrong])
    assert robust.outliers_[wrong].all()
    assert robust.outliers_[~wrong].mean() < 0.01
    everywhere = np.argwhere(np.ones(X.shape))
    errors = [np.sqrt(np.mean((model.predict(everywhere) - X.ravel()) ** 2)) for model in (robust, oracle)]
    assert errors[0] < 1.1 * errors[1]


def test_the_default_warns_of_outliers_and_of_nothing_else():
    _, pairs, values, _ = ratings(0.08)
    with pytest.warns(lr.OutlierWarning, match="loss='robust'"):
        model = lr.MatrixCompletion(rank=2, regularization="learned").fit(pairs, values)
    assert model.outliers_ is None
    _, pairs, values, _ = ratings(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lr.OutlierWarning)
        lr.MatrixCompletion(rank=2, regularization="learned").fit(pairs, values)
        stars = np.clip(np.round(values), 1, 5)
        lr.MatrixCompletion(rank=2, regularization="learned").fit(pairs, stars)


def test_solve_warns_of_outliers_but_not_of_noise_or_a_low_rank():
    rng = np.random.default_rng(1)
    problem, _ = lr.datasets.random_completion(120, 100, 3, oversampling=6, factors="gaussian", noise=0.1)
    y = np.array(problem.y)
    y[rng.random(len(y)) < 0.1] += 40
    bad = lr.Completion(problem.rows, problem.cols, y, problem.shape)
    with pytest.warns(lr.OutlierWarning, match="loss='robust'"):
        result = lr.solve(bad, 3)
    assert "loss='robust'" in result.status.advice
    exact, _ = lr.datasets.random_completion(120, 100, 3, oversampling=6, factors="gaussian")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lr.ConvergenceWarning)
        warnings.simplefilter("error", lr.OutlierWarning)
        lr.solve(problem, 3)
        lr.solve(exact, 3)
        lr.solve(exact, 2)
        lr.solve(problem, 5)


def test_weights_scale_residuals_in_outlier_detection():
    rng = np.random.default_rng(3)
    pairs = np.argwhere(rng.random((120, 80)) < 0.5)
    truth = (rng.standard_normal((120, 2))[pairs[:, 0]] * rng.standard_normal((80, 2))[pairs[:, 1]]).sum(1)
    spread = np.where(rng.random(len(pairs)) < 0.03, 30.0, 0.1)
    values = truth + spread * rng.standard_normal(len(pairs))
    with warnings.catch_warnings():
        warnings.simplefilter("error", lr.OutlierWarning)
        lr.MatrixCompletion(rank=2, intervals=False).fit(pairs, values, sample_weight=1 / spread**2)
    with pytest.warns(lr.OutlierWarning, match="robust"):
        lr.MatrixCompletion(rank=2, intervals=False).fit(pairs, values)


@pytest.mark.parametrize("loss", ["tukey", "cauchy"])
@pytest.mark.parametrize("seed", [0, 2, 9])
def test_redescending_losses_start_without_outliers(loss, seed):
    """With three in ten wrong they settled on a part of the data (errors of 0.3 and 0.7)."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 80))
    rows, cols = np.nonzero(rng.random(truth.shape) < 0.35)
    values = truth[rows, cols] + 0.05 * rng.standard_normal(len(rows))
    wrong = rng.random(len(rows)) < 0.3
    values[wrong] += 12 * rng.standard_normal(wrong.sum())
    model = lr.MatrixCompletion(rank=2, regularization="learned", loss=loss).fit(np.column_stack([rows, cols]), values)
    found = model.predict(np.column_stack([k.ravel() for k in np.indices(truth.shape)])).reshape(truth.shape)
    assert np.linalg.norm(found - truth) < 0.1 * np.linalg.norm(truth)
    assert 0.5 < model.loss_.scale / 0.05 < 2


def test_outliers_are_not_recommended(tmp_path):
    """Outliers are not recommended to who rated them, and count as nothing that was liked."""
    rng = np.random.default_rng(0)
    X = 3 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    pairs = np.argwhere(rng.random(X.shape) < 0.6)
    values = X[pairs[:, 0], pairs[:, 1]] + 0.1 * rng.standard_normal(len(pairs))
    values[::50] = 1000.0
    model = lr.MatrixCompletion(rank=2, regularization="learned", loss="robust", ranking=True).fit(pairs, values)
    assert model.outliers_[::50].all()
    for one in (model, lr.load(model.save(tmp_path / "m.lorank"))):
        np.testing.assert_array_equal(one.outliers_, model.outliers_)
        for by in ("affinity", "rating"):
            best, _ = one.recommend(np.arange(60), 30, by=by)
            assert all(j not in best[i] for i, j in pairs)
        indptr, indices = one.state_.training_pattern()
        assert len(indices) == len(pairs)
        at = [indptr[i] + np.searchsorted(indices[indptr[i] : indptr[i + 1]], j) for i, j in pairs[::50]]
        assert not one.state_.training.liked[at].any()
        assert one.state_.training.liked.sum() > 0.4 * len(pairs)


def test_observations_without_weight_do_not_change_the_scale():
    """More than half of the observations count for nothing: their deviations, times 0, are no measure of the others."""
    _, pairs, values, wrong = ratings(0.05)
    weights = np.where(np.arange(len(values)) % 5 < 2, 1.0, 0.0)
    counts = weights > 0
    options = {"rank": 2, "regularization": "learned", "shape": (60, 50)}
    found = lr.MatrixCompletion(loss="robust", **options).fit(pairs, values, weights)
    alone = lr.MatrixCompletion(loss="robust", **options).fit(pairs[counts], values[counts], weights[counts])
    assert np.array_equal(found.outliers_[counts], alone.outliers_)
    assert not found.outliers_[~counts].any()
    assert alone.outliers_[wrong[counts]].mean() > 0.9
    with pytest.warns(lr.OutlierWarning, match="loss='robust'"):
        lr.MatrixCompletion(**options).fit(pairs, values, weights)


def test_amounts_with_a_heavy_tail_get_the_advice_to_take_logarithms():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((80, 50)) < 0.5)
    hours = rng.lognormal(1, 2, len(pairs))
    with pytest.warns(lr.OutlierWarning, match="ImplicitFactorization"):
        lr.MatrixCompletion(rank=1, regularization="learned").fit(pairs, hours)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lr.OutlierWarning)
        lr.MatrixCompletion(rank=1, regularization="learned").fit(pairs, np.log1p(hours))
