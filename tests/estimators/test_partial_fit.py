"""MatrixCompletion.partial_fit: more observations, rows and columns without starting over."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

import lorank as lr
from lorank.backends import get_backend
from lorank.factorization.training_data import Growth, TrainingData
from lorank.factorization.update import Update

OPTIONS = {"rank": 3, "regularization": "learned"}


@pytest.fixture(scope="module")
def data():
    """Pairs and values of 120 rows and 80 columns; a tenth that comes later, and a test."""
    rng = np.random.default_rng(1)
    X = 3 + rng.standard_normal((120, 3)) @ rng.standard_normal((3, 80))
    pairs = np.argwhere(rng.random(X.shape) < 0.35)
    values = X[pairs[:, 0], pairs[:, 1]] + 0.5 * rng.standard_normal(len(pairs))
    later = (rng.random(len(pairs)) < 0.05) | (pairs[:, 0] >= 116) | (pairs[:, 1] >= 78)
    test = rng.random(len(pairs)) < 0.2
    return pairs, values, later & ~test, ~later & ~test, test


def error(model, data):
    pairs, values, _, _, test = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(np.sqrt(np.mean((model.predict(pairs[test]) - values[test]) ** 2)))


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        {"rank": 3, "regularization": 2.0},
        {"rank": 4, "regularization": 2.0, "count_scaling": 0.5, "biases": False},  # the mean is a component
        OPTIONS | {"loss": "huber"},
    ],
)
def test_it_predicts_nearly_as_a_new_fit_would(data, options):
    pairs, values, later, before, _ = data
    model = lr.MatrixCompletion(**options).fit(pairs[before], values[before])
    ignorant = error(model, data)
    assert model.partial_fit(pairs[later], values[later]) is model
    anew = lr.MatrixCompletion(**options).fit(pairs[~data[4]], values[~data[4]])
    assert model.model_.shape == anew.model_.shape == (120, 80)
    assert model.known([[119, 79]]).all()
    learned, best = error(model, data), error(anew, data)
    assert learned - best < 0.1 * (ignorant - best)
    assert (model.row_bias_.shape, model.V_.shape) == ((120,), (80, options["rank"]))


def test_rows_are_solved_again_and_others_stay(data):
    pairs, values, _, before, _ = data
    model = lr.MatrixCompletion(**OPTIONS, shape=(120, 80)).fit(pairs[before], values[before])
    old = model.model_
    more, new = np.array([[2, 0], [2, 5], [9, 5]]), np.array([1.0, 4.0, 2.0])
    grown = Growth(np.arange(120), np.arange(80), (120, 80))
    memory = model.state_.training.with_more(*more.T, new, None, grown)
    fitted, pending = Update(share=2.0)(old, memory, np.array([2, 9]), memory.pending, grown)  # no column is ever due
    others = np.setdiff1d(np.arange(120), [2, 9])
    np.testing.assert_array_equal(fitted.rows[others], old.rows[others])
    np.testing.assert_array_equal(fitted.cols, old.cols)
    assert pending.sum() == 3
    entries, k, free = memory.entries, old.rows.shape[1], np.arange(5) != 4
    for row in (2, 9):  # the normal equations, written down
        part = slice(*entries.indptr[row : row + 2])
        M, h = old.row_precision.copy(), old.row_shift.copy()
        weights = np.ones(part.stop - part.start) if entries.weights is None else entries.weights[part]
        for j, value, weight in zip(entries.indices[part], entries.values[part], weights, strict=True):
            y, T = old.cols[j], np.zeros((k, k))
            T[np.triu_indices(k)] = old.col_cov[j]
            T = T + np.triu(T, 1).T
            w = weight * old.noise * old.row_noise[row] * old.col_noise[j]
            M += w * (np.outer(y, y) + T)
            h += w * (value - old.mean) * y
        x = np.linalg.solve(M[np.ix_(free, free)], h[free] - M[free, 4])
        np.testing.assert_allclose(fitted.rows[row, free], x, rtol=1e-6, atol=1e-9)
    fitted, pending = Update(share=0.0)(old, memory, np.array([2, 9]), memory.pending, grown)
    assert not pending.any()
    np.testing.assert_array_equal(fitted.cols[[1, 2, 3, 4]], old.cols[[1, 2, 3, 4]])
    assert (abs(fitted.cols[[0, 5]] - old.cols[[0, 5]]).max(1) > 1e-6).all()


def test_the_transposed_update_is_the_same():
    rng = np.random.default_rng(0)
    S = rng.random((20, 12)) < 0.6
    pairs = np.argwhere(S)
    values = rng.standard_normal(len(pairs))
    model = lr.MatrixCompletion(rank=2, regularization="learned").fit(pairs, values)
    entries = model.state_.training.entries
    update, other = Update(), get_backend("numpy")
    some, fitted = np.array([1, 4]), model.model_.grown(np.arange(20), np.arange(12), (20, 12))
    update._solve(fitted, TrainingData(entries), some, True)
    old = model.model_
    observed = other.make_observations(entries.indptr, entries.indices, entries.values - old.mean, 12)
    weights = old.row_noise[observed.rows] * old.col_noise[entries.indices]
    dense, cov, _ = observed.normal_equations(
        True, old.rows, old.col_precision, old.col_shift, moments=old.row_cov, weights=weights, fixed=2, noise=old.noise,
        covariance=True,
    )  # fmt: skip
    np.testing.assert_allclose(fitted.cols[some], dense[some], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted.col_cov[some], cov[some], rtol=1e-6, atol=1e-9)


def test_ids_grow_in_their_order(data, tmp_path):
    pairs, values, later, before, _ = data
    names = np.array([f"u{k * 37 % 997:03}" for k in range(120)]), 5000 - 3 * np.arange(80)

    def listed(part):
        return [(str(names[0][i]), int(names[1][j])) for i, j in pairs[part]]

    by_index = lr.MatrixCompletion(**OPTIONS).fit(pairs[before], values[before]).partial_fit(pairs[later], values[later])
    model = lr.MatrixCompletion(**OPTIONS).fit(listed(before), values[before])
    model = lr.load(model.save(tmp_path / "m.lorank"))  # and goes on from a file
    model.partial_fit(listed(later), values[later])
    assert (np.diff(model.ids_["cols"]) > 0).all()
    assert len(model.ids_["rows"]) == 120
    np.testing.assert_allclose(model.predict(listed(data[4])), by_index.predict(pairs[data[4]]), atol=5e-3)
    with pytest.raises(ValueError, match="fitted to ids, and these are index pairs"):
        model.partial_fit(pairs[:3], values[:3])
    with pytest.raises(ValueError, match="column ids were whole numbers in fit, and are text now"):
        model.partial_fit([("u001", "x")], [1.0])


def test_partial_fit_updates_the_ranking_model(data):
    pairs, values, later, before, _ = data
    stars = np.clip(np.round(values), 1, 5)
    model = lr.MatrixCompletion(**OPTIONS, ranking=True).fit(pairs[before], stars[before])
    settings = model.state_.ranking.settings
    model.partial_fit(pairs[later], stars[later])
    lists, predicted = model.recommend([0, 119], n=80)
    assert model.state_.ranking.settings == settings
    for row, cols in zip((0, 119), lists, strict=True):
        seen = set(pairs[(later | before) & (pairs[:, 0] == row), 1].tolist())
        assert seen == set(range(80)) - set(cols.tolist())
    assert np.isfinite(predicted[1, 0])
    assert len(model.state_.ranking.rows) == 120
    assert model.similar_items(79, n=3)[0].shape == (1, 3)


def test_weights_and_repeated_pairs(data):
    pairs, values, later, before, _ = data
    start = lr.MatrixCompletion(**OPTIONS).fit(pairs[before], values[before])
    twice = lr.MatrixCompletion(**OPTIONS).fit(pairs[before], values[before])
    again = np.concatenate([pairs[later], pairs[later]])
    start.partial_fit(again, np.concatenate([values[later] - 1, values[later] + 1]))
    twice.partial_fit(pairs[later], values[later], sample_weight=np.full(later.sum(), 2.0))
    np.testing.assert_allclose(start.predict(pairs), twice.predict(pairs))
    nothing = lr.MatrixCompletion(**OPTIONS).fit(pairs[before], values[before])
    expected = nothing.predict(pairs[before])
    nothing.partial_fit(pairs[:0], values[:0])
    np.testing.assert_array_equal(nothing.predict(pairs[before]), expected)


def test_the_first_call_is_a_fit(data):
    pairs, values, _, before, _ = data
    first = lr.MatrixCompletion(**OPTIONS).partial_fit(pairs[before], values[before])
    np.testing.assert_array_equal(first.V_, lr.MatrixCompletion(**OPTIONS).fit(pairs[before], values[before]).V_)


def test_classes_are_those_of_the_fit(data):
    pairs, values, later, before, _ = data
    stars = np.clip(np.round(values), 1, 5)
    model = lr.MatrixCompletion(rank=1, loss="ordinal").fit(pairs[before], stars[before])
    model.partial_fit(pairs[later], stars[later])
    assert model.predict_proba(pairs[:4]).shape == (4, 5)
    with pytest.raises(ValueError, match="the value 7 is none of the classes of the fit, 1, 2, 3, 4, 5"):
        model.partial_fit(pairs[:1], [7.0])


def test_what_is_refused(data):
    pairs, values, later, before, _ = data
    robust = lr.MatrixCompletion(rank=1, regularization="learned", loss="robust").fit(pairs[before], values[before])
    with pytest.raises(ValueError, match="loss='robust'"):
        robust.partial_fit(pairs[later], values[later])
    model = lr.MatrixCompletion(**OPTIONS).fit(pairs[before], values[before])
    with pytest.raises(ValueError, match="fitted to index pairs, and these are ids"):
        model.partial_fit([("a", "b")], [1.0])
    with pytest.raises(ValueError, match=r"indices .* reach"):
        model.partial_fit([[10**7, 0]], [1.0])
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(pairs[:1], [np.nan])
    with pytest.raises(ValueError, match="sample_weight must have one number"):
        model.partial_fit(pairs[:1], [1.0], sample_weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="not a Completion"):
        model.partial_fit(lr.Completion(pairs[:, 0], pairs[:, 1], values))
    model.state_ = dataclasses.replace(model.state_, training=None)
    with pytest.raises(ValueError, match="fitted to partitions"):
        model.partial_fit(pairs[:1], [1.0])


def test_classes_of_a_pair_that_was_observed_before_are_refused():
    rng = np.random.default_rng(2)
    pairs = np.argwhere(rng.random((30, 20)) < 0.5)
    stars = rng.integers(1, 6, len(pairs))
    model = lr.MatrixCompletion(rank=1, loss="ordinal").fit(pairs, stars)
    before = model.predict(pairs)
    with pytest.raises(ValueError, match="1 pair was observed before, or twice, and classes have no mean"):
        model.partial_fit(pairs[:1], stars[:1])
    np.testing.assert_array_equal(model.predict(pairs), before)


def test_a_fit_that_is_refused_leaves_the_model_as_it_was():
    rng = np.random.default_rng(2)
    pairs = np.argwhere(rng.random((30, 20)) < 0.5)
    names = np.array([[f"r{i}", f"c{j}"] for i, j in pairs])
    model = lr.MatrixCompletion(rank=1).fit(names, rng.standard_normal(len(pairs)))
    before = model.predict(names)
    model.set_params(loss="ordinal")
    with pytest.raises(ValueError, match="class"):
        model.fit(np.array([[f"s{i}", f"d{j}"] for i, j in pairs]), np.ones(len(pairs)))
    np.testing.assert_array_equal(model.ids_["rows"], np.unique(names[:, 0]))
    np.testing.assert_array_equal(model.predict(names), before)


def test_rows_and_columns_without_weight_stay_unseen(data):
    pairs, values, _, first, _ = data
    model = lr.MatrixCompletion(**OPTIONS).fit(pairs[first], values[first])
    n1, n2 = model.model_.shape
    model.partial_fit([[n1, 3], [0, n2], [1, 1]], [99.0, 99.0, 3.0], [0.0, 0.0, 1.0])
    found = model.model_
    assert found.shape == (n1 + 1, n2 + 1)
    assert np.abs(found.row_unseen).max() > 1e-6
    np.testing.assert_array_equal(found.rows[n1], found.sides[0].unseen_factors)
    np.testing.assert_array_equal(found.cols[n2], found.sides[1].unseen_factors)


def test_more_counts(data):
    """Whole and not negative, as in fit."""
    pairs, values, later, before, _ = data
    counts = np.random.default_rng(0).poisson(np.exp(values / 4)).astype(float)
    model = lr.MatrixCompletion(rank=1, loss="poisson").fit(pairs[before], counts[before])
    for wrong in (-1.0, 0.5):
        with pytest.raises(ValueError, match="loss='poisson' takes"):
            model.partial_fit(pairs[later][:1], [wrong])
    pairs, counts = pairs[later], counts[later]
    known = model.known(pairs)
    ignorant = model.predict(pairs[known])
    model.partial_fit(pairs, counts)
    assert ((model.predict(pairs[known]) - counts[known]) ** 2).mean() < ((ignorant - counts[known]) ** 2).mean()
    assert model.known(pairs).all()
