"""Features of rows and columns: encoding, fits with them, and cold starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

import pandas

import lorank as lr
from lorank.backends import get_backend
from lorank.estimators.features import TEXT_BUCKETS, Encoder
from lorank.factorization.feature_priors import FeatureRegression, Features, shifted

OPTIONS = {"rank": 2, "regularization": "learned"}


@pytest.fixture(scope="module")
def world():
    """Ratings whose factors follow from features, nearly; the last rows and columns are rated by nobody in training."""
    rng = np.random.default_rng(5)
    n1, n2 = 160, 90
    F, G = rng.standard_normal((n1, 3)), rng.integers(0, 4, n2)
    left = F @ rng.standard_normal((3, 2)) + 0.3 * rng.standard_normal((n1, 2))
    right = rng.standard_normal((4, 2))[G] + 0.3 * rng.standard_normal((n2, 2))
    X = 3 + left @ right.T + 0.5 * F[:, :1]
    pairs = np.argwhere(rng.random(X.shape) < 0.3)
    values = X[pairs[:, 0], pairs[:, 1]] + 0.4 * rng.standard_normal(len(pairs))
    warm = (pairs[:, 0] < 140) & (pairs[:, 1] < 80)
    users = pandas.DataFrame({"user": [f"u{i:03}" for i in range(n1)], "a": F[:, 0], "b": F[:, 1], "c": F[:, 2]})
    items = pandas.DataFrame({"item": np.arange(n2) + 500, "genre": np.array(["x", "y", "z", "w"])[G]})
    ratings = pandas.DataFrame({"user": users["user"][pairs[:, 0]].to_numpy(), "item": pairs[:, 1] + 500, "stars": values})
    return ratings, users, items, warm, F, G, pairs


@pytest.fixture(scope="module")
def model(world):
    ratings, users, items, warm = world[:4]
    return lr.MatrixCompletion(**OPTIONS).fit(ratings[warm], row_features=users, col_features=items)


def rmse(model, ratings):
    return float(np.sqrt(np.mean((model.predict(ratings) - ratings["stars"]) ** 2)))


def test_cold_rows_and_columns_are_predicted_from_features(world, model):
    ratings, _, _, warm = world[:4]
    plain = lr.MatrixCompletion(**OPTIONS, handle_unknown="ignore").fit(ratings[warm])
    rows, cols = world[6].T
    for cold in ((rows >= 140) & (cols < 80), (rows < 140) & (cols >= 80), (rows >= 140) & (cols >= 80)):
        assert rmse(model, ratings[cold]) < 0.75 * rmse(plain, ratings[cold])  # and no warning
        assert not model.known(ratings[cold]).any()
    assert rmse(model, ratings[warm]) < 1.02 * rmse(plain, ratings[warm])
    assert model.model_.shape == (160, 90)


def test_arrays_and_sparse_matrices_are_features_too(world, model):
    ratings, _, _, warm, F, G, pairs = world
    values = ratings["stars"].to_numpy()
    onehot = np.eye(4)[G]
    for rows, cols in ((F, onehot), (scipy.sparse.csr_array(F), scipy.sparse.coo_array(onehot))):
        other = lr.MatrixCompletion(**OPTIONS).fit(pairs[warm], values[warm], row_features=rows, col_features=cols)
        np.testing.assert_allclose(other.predict(pairs), model.predict(ratings), atol=0.05)


def test_recommendations_for_cold_rows(world, model):
    lists, predicted = model.fit_ranking().recommend(["u150", "u003"], 5)
    assert np.isfinite(predicted).all()
    assert lists.shape == (2, 5)
    by_rating, scores = model.recommend("u150", 90, by="rating")
    assert set(by_rating[0]) == set(range(500, 590))  # columns that nobody has rated, too
    assert (np.diff(scores[0]) <= 1e-12).all()


def test_new_rows_by_their_features(world, tmp_path):
    ratings, users, items, warm = world[:4]
    some = warm & (world[6][:, 0] < 120)
    model = lr.MatrixCompletion(**OPTIONS).fit(ratings[some], row_features=users[:120], col_features=items)
    model = lr.load(model.save(tmp_path / "m.lorank"))
    assert model.partial_fit(row_features=users[110:150]) is model
    cold = (world[6][:, 0] >= 120) & (world[6][:, 0] < 150)
    twin = lr.MatrixCompletion(**OPTIONS).fit(ratings[some], row_features=users[:150], col_features=items)
    assert rmse(model, ratings[cold]) < 1.1 * rmse(twin, ratings[cold])
    model.partial_fit(ratings[warm & ~some], row_features=users)
    late = warm & ~some
    assert model.known(ratings[late]).all()
    assert rmse(model, ratings[late]) < 0.7 * rmse(twin, ratings[late & cold])


def test_a_shifted_prior_is_solved_by_the_covariances():
    rng = np.random.default_rng(0)
    indptr, indices = np.array([0, 3, 5, 5]), np.array([0, 2, 3, 1, 3], np.int32)
    values, other, k = rng.standard_normal(5), rng.standard_normal((4, 4)), 4
    other[:, 2] = 1.0
    A = rng.standard_normal((k, k))
    free = np.arange(k) != 3
    P = np.where(np.outer(free, free), A @ A.T + np.eye(k), 0.0)
    h, means = np.where(free, rng.standard_normal(k), 0.0), rng.standard_normal((3, k)) * free
    moments = 0.1 * np.tile(np.eye(k)[np.triu_indices(k)], (4, 1))
    observed = get_backend("numpy").make_observations(indptr, indices, values, 4)
    options = {"moments": moments, "fixed": 3, "noise": 2.0, "covariance": True}
    x, cov, squares = observed.normal_equations(False, other, P, h, **options)
    found, left = shifted(x, cov, squares, (P, h), means, 2.0)
    for i in range(3):
        y, expected, _ = observed.normal_equations(False, other, P, h + P @ means[i], **options)
        np.testing.assert_allclose(found[i], y[i], atol=1e-12)
        squares = observed.normal_equations(False, other, P, h + P @ means[i], **options)[2]
        np.testing.assert_allclose(left[i], squares[i], atol=1e-12)
        np.testing.assert_allclose(expected[i], cov[i], atol=1e-12)


def test_the_regression_is_ridge():
    rng = np.random.default_rng(1)
    F, W = rng.standard_normal((200, 4)) + 2, rng.standard_normal((4, 3))
    x = F @ W + 0.1 * rng.standard_normal((200, 3)) + 5
    for numbers in (F, scipy.sparse.csr_array(F)):
        features = Features(numbers)
        link, used = features.regress(x, np.eye(3) / 0.01, None)
        C = F - F.mean(0)
        dense = np.linalg.solve(C.T @ C + link.regularization * np.eye(4), C.T @ (x - x.mean(0)))
        np.testing.assert_allclose(link.coefficients, dense, rtol=1e-6)
        np.testing.assert_allclose(features.means(link, 3), C @ dense, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(np.c_[F, np.ones(200)] @ features.affine(link), C @ dense, rtol=1e-6, atol=1e-9)
        assert 3.9 < used <= 4
    noise, _ = Features(rng.standard_normal((200, 4))).regress(rng.standard_normal((200, 3)), np.eye(3), None)
    assert noise.regularization > 20 * link.regularization  # features that explain nothing are shrunk away
    assert isinstance(noise, FeatureRegression)


def test_encoding_of_numbers_categories_and_text():
    table = pandas.DataFrame(
        {
            "age": [20.5, 30.0, np.nan, 50.0],
            "job": [3, 4, 3, 9],
            "sex": ["M", "F", None, "M"],
            "genres": ["Comedy|Drama", "Drama", "Sci-Fi", None],
            "kind": pandas.Categorical([1, 2, 1, 1]),
        }
    )
    encoder = Encoder.fit(table, list(table.columns), "row")
    kinds = [(one["name"], one["kind"]) for one in encoder.columns]
    assert kinds == [
        ("age", "number"), ("job", "number"), ("job", "category"), ("sex", "category"), ("genres", "text"), ("kind", "category")
    ]  # fmt: skip
    F = encoder.encode(table, "row").toarray()
    assert F.shape == (4, encoder.width)
    assert encoder.width == 1 + 1 + 3 + 2 + TEXT_BUCKETS + 2
    np.testing.assert_allclose(F[:, 0].mean(), 0, atol=1e-12)
    assert F[2, 0] == 0  # missing: average
    assert F[2, 5:7].sum() == 0
    assert F[:, 7 : 7 + TEXT_BUCKETS].sum(1).tolist() == [2, 1, 2, 0]
    new = encoder.encode(table.assign(job=[3, 4, 77, 9], sex=["M", "X", "F", "M"]), "row").toarray()
    assert new[2, 2:5].sum() == 0  # a category that was not there
    assert new[1, 5:7].sum() == 0


def test_what_is_refused(world, model):
    ratings, users, items, warm = world[:4]
    fresh = lr.MatrixCompletion(**OPTIONS)
    for options, message in (
        ({"row_features": users[5:]}, "row_features have no line for row 'u000' and 4 others"),
        ({"row_features": users.drop(columns="user")}, "no column 'user' with ids"),
        ({"col_features": pandas.concat([items, items[:1]])}, "more than one line for 500"),
        ({"row_features": users[["user"]]}, "no column except the ids"),
        ({"row_features": np.ones((160, 2))}, "must be a data frame with the ids"),
        ({"row_features": users.assign(a=np.inf)}, "infinite in line 0"),
    ):
        with pytest.raises(ValueError, match=message):
            fresh.fit(ratings[warm], **options)
    with pytest.raises(ValueError, match="learned priors"):
        lr.MatrixCompletion(2, 1.0).fit(ratings[warm], row_features=users)
    pairs, values = world[6], ratings["stars"].to_numpy()
    with pytest.raises(ValueError, match="have 5 lines, and observations reach row 159"):
        fresh.fit(pairs, values, row_features=np.ones((5, 2)))
    with pytest.raises(ValueError, match="one line for each row and at least one column"):
        fresh.fit(pairs, values, row_features=np.ones(160))
    with pytest.raises(ValueError, match="u999"):
        model.partial_fit(pandas.DataFrame({"user": ["u999"], "item": [500], "stars": [1.0]}))
    with pytest.raises(ValueError, match="have no column 'c', which the fit had"):
        model.partial_fit(row_features=users.drop(columns="c").assign(user="u999")[:1])
    plain = lr.MatrixCompletion(**OPTIONS).fit(ratings[warm])
    with pytest.raises(ValueError, match="fitted without row_features"):
        plain.partial_fit(row_features=users)


def test_unknown_features_widen_the_prior():
    rng = np.random.default_rng(0)
    F, W, V = (rng.standard_normal(shape) for shape in ((200, 4), (4, 2), (2, 60)))
    X, new = F @ W @ V, rng.standard_normal((30, 4)) @ W @ V
    pairs = np.argwhere(rng.random(X.shape) < 0.4)
    values = X[pairs[:, 0], pairs[:, 1]] + 0.1 * rng.standard_normal(len(pairs))
    model = lr.MatrixCompletion(2, intervals=True, handle_unknown="ignore").fit(pairs, values, row_features=F)
    for k in (3, 10):
        off = [model.fold_in(np.arange(k), row[:k]).predictions[k:] - row[k:] for row in new]
        assert np.sqrt(np.mean(np.square(off))) < 0.15 * new.std()
    low, high = model.predict_interval(np.column_stack([np.full(60, 205), np.arange(60)]), 0.9)
    assert 0.8 < np.mean((low <= new) & (new <= high)) < 0.98


@pytest.mark.parametrize("seen", [0, 1, 2])
def test_the_marginal_prior_of_few_rows(model, seen):
    counts = np.where(np.arange(160) < seen, 1, 0)
    fitted = replace(model.model_, row_counts=counts)
    own, means = fitted.sides[0].with_unknown_features(), fitted.row_means[:2]
    P, h = own.precision, own.shift
    free = slice(0, 3)  # the last coordinate of a row is held
    wider = np.linalg.inv(P[free, free]) - np.linalg.inv(fitted.row_precision[free, free])
    across = (means[1] - means[0])[free] / 2
    np.testing.assert_allclose(wider, np.outer(across, across) * (seen == 2), atol=1e-8)
    expected = np.linalg.solve(fitted.row_precision[free, free], fitted.row_shift[free])
    np.testing.assert_allclose(np.linalg.solve(P[free, free], h[free]), expected, atol=1e-8)


def test_a_new_row_by_its_features_and_some_ratings(world, model):
    ratings, users, _, warm, _, _, pairs = world
    names, cols = users["user"].to_numpy(), np.arange(80) + 500
    plain, told, alone = [], [], []
    for i in range(140, 160):
        own = ratings[warm ^ True][(pairs[~warm, 0] == i) & (pairs[~warm, 1] < 80)]
        few, rest = own[:3], own[3:]
        features = users[users["user"] == names[i]]
        at = np.searchsorted(cols, rest["item"])
        for found, given in ((plain, {}), (told, {"features": features})):
            guess = model.fold_in(few["item"].to_numpy(), few["stars"].to_numpy(), **given).predictions[at]
            found.extend(guess - rest["stars"])
        alone.extend(model.fold_in([], [], features=features).predictions[at] - rest["stars"])
        line = dict(features.iloc[0].drop("user"))
        same = model.fold_in(few["item"].to_numpy(), few["stars"].to_numpy(), features=line)
        np.testing.assert_allclose(same.predictions[at], guess)
        np.testing.assert_allclose(
            model.fold_in([], [], features=features).predictions[at], model.predict(rest[["user", "item"]]), atol=0.05
        )
    errors = [np.sqrt(np.mean(np.square(e))) for e in (plain, told, alone)]
    assert errors[1] < 0.9 * errors[0]
    assert errors[1] < errors[2]


def test_fold_in_by_features_is_a_ridge_around_their_mean(world):
    """The dense twin of one row."""
    ratings, users, _, warm = world[:4]
    model = lr.MatrixCompletion(**OPTIONS, biases=False).fit(ratings[warm], row_features=users)
    m, line = model.model_, users.iloc[[150]]
    numbers = model.state_.features["row"].encoder.encode(line, "row").toarray()
    mean = np.linalg.solve(m.row_precision, m.row_shift) + (np.append(numbers, 1.0) @ m.row_coefficients)
    cols, values = np.array([500, 504, 511]), np.array([1.0, 4.0, 3.0])
    at = cols - 500
    k = m.rows.shape[1]
    covs = np.zeros((k, k))
    for j in at:
        S = np.zeros((k, k))
        S[np.triu_indices(k)] = m.col_cov[j]
        covs += m.col_noise[j] * (S + np.triu(S, 1).T)
    V, w = m.cols[at], m.col_noise[at]
    A = m.noise * (V.T @ (w[:, None] * V) + covs) + m.row_precision
    x = np.linalg.solve(A, m.noise * V.T @ (w * (values - m.mean)) + m.row_precision @ mean)
    np.testing.assert_allclose(model.fold_in(cols, values, features=line).factors, x, rtol=1e-8)


def test_invalid_features_of_a_new_row_are_refused(world, model):
    ratings, users, _, warm = world[:4]
    with pytest.raises(ValueError, match="those of one row, got 2 lines"):
        model.fold_in([500], [3.0], features=users[:2])
    with pytest.raises(ValueError, match="no column 'c', which the fit had"):
        model.fold_in([500], [3.0], features={"a": 1.0, "b": 2.0})
    with pytest.raises(ValueError, match="column a: infinite in line 0"):
        model.fold_in([500], [3.0], features={"a": np.inf, "b": 2.0, "c": 0.0})
    with pytest.raises(ValueError, match="column a: infinite in line 0"):
        model.partial_fit(row_features=pandas.DataFrame({"user": ["new"], "a": [np.inf], "b": [0.0], "c": [0.0]}))
    without = lr.MatrixCompletion(0, 1.0).fit(ratings[warm][:50], col_features=None)
    with pytest.raises(ValueError, match="fitted without row_features"):
        without.fold_in([500], [3.0], features={"a": 1.0})


def test_what_is_refused_leaves_no_features_behind(world):
    ratings, users, _, warm, *_ = world
    model = lr.MatrixCompletion(**OPTIONS).fit(ratings[warm], row_features=users[:140])
    shape, ids = model.model_.shape, model.ids_
    more = pandas.DataFrame({"user": ["u141", "nobody"], "item": [500, 501], "stars": [3.0, 3.0]})
    with pytest.raises(ValueError, match="nobody"):
        model.partial_fit(more, row_features=users[141:142])
    assert model.model_.shape == shape
    assert model.ids_ is ids
    assert model.state_.features["row"].numbers.shape[0] == 140


def test_a_line_of_any_sparse_format(world):
    *_, F, _, pairs = world
    values = F[pairs[:, 0], 0]
    model = lr.MatrixCompletion(**OPTIONS).fit(pairs, values, row_features=F)
    plain = model.fold_in([], [], features=F[0]).predictions
    for kind in (scipy.sparse.coo_matrix, scipy.sparse.coo_array, scipy.sparse.dia_matrix):
        np.testing.assert_array_equal(model.fold_in([], [], features=kind(F[:1])).predictions, plain)


def test_arrays_of_features_have_as_many_columns_as_in_fit(world):
    *_, F, _, pairs = world
    model = lr.MatrixCompletion(**OPTIONS).fit(pairs, F[pairs[:, 0], 0], row_features=F)
    d = F.shape[1]
    for other in (np.append(F[0], 7.0), F[0, :-1], scipy.sparse.csr_array(np.append(F[0], 7.0)[None])):
        with pytest.raises(ValueError, match=f"row_features had {d} columns in fit, .* and have {other.size} now: "):
            model.fold_in([], [], features=other)
    with pytest.raises(ValueError, match=f"row_features had {d} columns in fit"):
        model.partial_fit(row_features=np.ones((len(F) + 1, d + 1)))


def test_new_rows_by_features_after_a_fit_to_index_pairs(world):
    """Of index pairs: lines beyond the last row are new ones, and lists of recommendations know them."""
    ratings, _, _, warm, F, _, pairs = world
    some = warm & (pairs[:, 0] < 120)
    stars = np.asarray(ratings["stars"])
    model = lr.MatrixCompletion(**OPTIONS, ranking=True).fit(pairs[some], stars[some], row_features=F[:120])
    known = model.predict(pairs[some])
    model.partial_fit(row_features=F[:150])
    assert model.model_.shape[0] == 150
    np.testing.assert_allclose(model.predict(pairs[some]), known)
    cold = warm & (pairs[:, 0] >= 120)
    twin = lr.MatrixCompletion(**OPTIONS).fit(pairs[some], stars[some], row_features=F[:150])
    a, b = (np.sqrt(np.mean((m.predict(pairs[cold]) - stars[cold]) ** 2)) for m in (model, twin))
    assert a < 1.1 * b < 0.8 * stars[cold].std()
    assert sorted(model.recommend([130], n=80)[0][0].tolist()) == list(range(80))
    before = model.predict(pairs[cold])
    model.partial_fit(row_features=F[:150])  # nothing that is new
    np.testing.assert_array_equal(model.predict(pairs[cold]), before)
