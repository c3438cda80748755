"""The regressor on index pairs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import lorank as lr

pytestmark = pytest.mark.filterwarnings("error::lorank.ConvergenceWarning")


def ratings(n1=120, n2=80, rank=2, sigma=0.3, density=0.3, seed=0):
    """A table of low rank with biases and noise, some of its entries, and all of it."""
    rng = np.random.default_rng(seed)
    truth = 3 + rng.standard_normal((n1, rank)) @ rng.standard_normal((rank, n2))
    truth += rng.standard_normal((n1, 1)) + rng.standard_normal(n2)
    rows, cols = np.nonzero(rng.random((n1, n2)) < density)
    values = truth[rows, cols] + sigma * rng.standard_normal(len(rows))
    return np.column_stack([rows, cols]), values, truth


@pytest.fixture(scope="module")
def data():
    return ratings()


@pytest.fixture(scope="module")
def fitted(data):
    return lr.MatrixCompletion().fit(*data[:2])


def error(model, truth):
    i, j = np.indices(truth.shape)
    return np.sqrt(np.mean((model.predict(np.column_stack([i.ravel(), j.ravel()])) - truth.ravel()) ** 2))


def test_defaults_find_rank_and_regularization(fitted, data):
    pairs, values, truth = data
    assert fitted.rank_ in (2, 3)
    assert fitted.regularization_ == "learned"
    assert error(fitted, truth) < 0.25
    assert fitted.score(pairs, values) > 0.95
    assert fitted.n_iter_ > 0
    assert len(fitted.history_) > 0
    errors = {c.rank: c.error for c in fitted.curve_ if c.regularization is None}
    assert errors[2] < 0.6 * errors[0]
    assert any(c.regularization for c in fitted.curve_)


def test_a_given_rank_is_kept():
    """Components that vanish among learned priors stay in the model: their number was asked for."""
    pairs, values, truth = ratings(rank=1, sigma=1.0)
    model = lr.MatrixCompletion(4).fit(pairs, values)
    assert model.rank_ == model.U_.shape[1] == 4
    assert {c.rank for c in model.curve_} == {4}
    assert error(model, truth) < 1.05 * error(lr.MatrixCompletion(1).fit(pairs, values), truth)


def test_learned_priors_that_are_selected_are_fitted_from_the_beginning(data):
    """The fit to a part of the data may be in a poor local minimum, which the fit to all of them must not inherit."""
    pairs, values, _ = data
    selected, given = lr.MatrixCompletion(2).fit(pairs, values), lr.MatrixCompletion(2, "learned").fit(pairs, values)
    assert selected.regularization_ == "learned"
    np.testing.assert_allclose(selected.predict(pairs), given.predict(pairs), rtol=1e-10)


def test_attributes_are_the_model(fitted):
    whole = fitted.mean_ + (fitted.U_ * fitted.s_) @ fitted.V_.T + fitted.row_bias_[:, None] + fitted.col_bias_
    i, j = np.indices(whole.shape)
    np.testing.assert_allclose(fitted.predict(np.column_stack([i.ravel(), j.ravel()])), whole.ravel(), atol=1e-10)
    assert fitted.U_.shape == (120, fitted.rank_)
    np.testing.assert_allclose(fitted.U_.T @ fitted.U_, np.eye(fitted.rank_), atol=1e-10)


def test_a_sparse_matrix_equals_its_pairs(data):
    pairs, values, truth = data
    S = scipy.sparse.coo_array((values, (pairs[:, 0], pairs[:, 1])), shape=truth.shape)
    options = {"rank": 2, "regularization": "learned"}
    a, b = lr.MatrixCompletion(**options).fit(S.tocsr()), lr.MatrixCompletion(**options).fit(pairs, values)
    np.testing.assert_array_equal(a.predict(pairs), b.predict(pairs))


def test_scikit_learn_model_selection(data):
    pairs, values, _ = data
    scores = cross_val_score(
        lr.MatrixCompletion(rank=2, regularization="learned"), pairs, values, cv=KFold(3, shuffle=True, random_state=0)
    )
    assert scores.min() > 0.9
    grid = {"rank": [0, 2], "regularization": [1.0, 100.0]}
    cv = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(lr.MatrixCompletion(), grid, cv=cv).fit(pairs, values)
    assert search.best_params_ == {"rank": 2, "regularization": 1.0}


@pytest.mark.parametrize("penalty", ["nuclear", "frobenius"])
def test_penalties_shrink(data, penalty):
    pairs, values, _ = data
    norms = [
        np.sum(lr.MatrixCompletion(4, strength, penalty=penalty, tol=1e-4).fit(pairs, values).s_)
        for strength in (0.01, 1.0, 5.0)
    ]
    assert norms[0] > norms[1] > norms[2]


def test_a_path_of_penalties_selects_the_best(data):
    pairs, values, truth = data
    model = lr.MatrixCompletion(solver="alternating").fit(pairs, values)
    assert isinstance(model.regularization_, float)
    assert len(model.curve_) > 2
    assert error(model, truth) < 0.4


def test_biases_can_be_left_out(data):
    pairs, values, _ = data
    model = lr.MatrixCompletion(rank=4, regularization="learned", biases=False).fit(pairs, values)
    assert not model.row_bias_.any()
    assert not model.col_bias_.any()
    assert model.score(pairs, values) > 0.9


def test_weights_are_repetitions(data):
    pairs, values, _ = data
    w = np.random.default_rng(0).integers(0, 3, len(values))
    model = lr.MatrixCompletion(rank=1, regularization="learned")
    weighted = clone(model).fit(pairs, values, sample_weight=w)
    repeated = clone(model).fit(np.repeat(pairs, w, axis=0), np.repeat(values, w))
    np.testing.assert_allclose(weighted.predict(pairs), repeated.predict(pairs), rtol=1e-8)


def test_bounds_are_those_of_a_rating_scale():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((60, 40)) < 0.4)
    values = 3 + rng.standard_normal(60)[pairs[:, 0]] + rng.standard_normal(40)[pairs[:, 1]]
    stars = np.clip(np.round(values), 1, 5)
    for given, y, bounds in (("auto", stars, (1, 5)), ("auto", values, None), (None, stars, None), ((0, 4), stars, (0, 4))):
        model = lr.MatrixCompletion(rank=1, regularization="learned", bounds=given).fit(pairs, y)
        assert model.bounds_ == bounds
        everywhere = model.predict(np.argwhere(np.ones((60, 40))))
        if bounds is None:
            assert everywhere.max() > 5
        else:
            assert bounds[0] <= everywhere.min()
            assert everywhere.max() == bounds[1]
    few = lr.MatrixCompletion(rank=1, regularization="learned").fit(pairs[:15], values[:15])  # few values are no scale
    assert few.bounds_ is None
    yes = lr.MatrixCompletion(rank=1, regularization="learned", loss="logistic").fit(pairs, values > 3)
    assert yes.bounds_ is None


def test_bounds_clip(data):
    pairs, values, _ = data
    model = lr.MatrixCompletion(rank=2, regularization="learned", bounds=(2, 4)).fit(pairs, values)
    guess = model.predict(pairs)
    assert guess.min() == 2
    assert guess.max() == 4


def test_same_seed_same_bits(data):
    pairs, values, _ = data
    a, b = (lr.MatrixCompletion(rank=2, random_state=3).fit(pairs, values) for _ in range(2))
    np.testing.assert_array_equal(a.predict(pairs), b.predict(pairs))


def test_unseen_rows_and_columns_are_flagged_and_get_an_average(fitted):
    new = np.array([[500, 3], [2, 900], [500, 900], [2, 3]])
    assert fitted.known(new).tolist() == [False, False, False, True]
    with pytest.warns(UserWarning, match="3 of 4 pairs"):
        guess = fitted.predict(new)
    assert np.isfinite(guess).all()
    average = fitted.predict(np.column_stack([np.arange(120), np.full(120, 3)])).mean()
    assert guess[0] == pytest.approx(average, abs=0.3)


def test_fold_in_is_close_to_a_fit(data):
    pairs, values, truth = data
    last = pairs[:, 0] == 119
    model = lr.MatrixCompletion(rank=2, regularization="learned").fit(pairs[~last], values[~last])
    new = model.fold_in(pairs[last, 1], values[last])
    assert new.predictions.shape == (80,)
    assert np.sqrt(np.mean((new.predictions - truth[119]) ** 2)) < 0.5
    np.testing.assert_allclose(model.mean_ + model.model_.cols @ new.factors, new.predictions)
    # without entries it is the average row; with contradicting ones, their mean
    with pytest.warns(UserWarning, match="never observed"):
        fallback = model.predict(np.array([[10_000, 5]]))
    np.testing.assert_allclose(model.fold_in(np.array([], int), []).predictions[5], fallback[0])
    np.testing.assert_allclose(model.fold_in([4, 4], [1.0, 3.0]).predictions, model.fold_in([4], [2.0]).predictions)
    with pytest.raises(ValueError, match=r"0 \.\. 79"):
        model.fold_in([80], [1.0])


def test_fold_in_against_a_dense_ridge_regression(data):
    pairs, values, _ = data
    model = lr.MatrixCompletion(rank=2, regularization=3.0, biases=False).fit(pairs, values)
    cols, new = np.array([3, 10, 20]), np.array([1.0, 4.0, 2.0])
    V = model.model_.cols[cols]
    x = np.linalg.solve(V.T @ V + 3 * np.eye(2), V.T @ (new - model.mean_))
    np.testing.assert_allclose(model.fold_in(cols, new).factors, x, rtol=1e-9)


def test_recommendations_are_the_largest_predictions(fitted, data):
    pairs = data[0]
    best, scores = fitted.recommend([0, 7, 7], n=5, by="rating")
    assert best.shape == scores.shape == (3, 5)
    np.testing.assert_array_equal(best[1], best[2])
    for row, cols, value in zip([0, 7], best, scores, strict=False):
        everything = fitted.predict(np.column_stack([np.full(80, row), np.arange(80)]))
        seen = pairs[pairs[:, 0] == row, 1]
        everything[seen] = -np.inf
        np.testing.assert_array_equal(cols, np.argsort(-everything)[:5])
        np.testing.assert_allclose(value, np.sort(everything)[::-1][:5])
    assert np.isin(fitted.recommend(0, n=80, exclude_seen=False, by="rating")[0], np.arange(80)).all()
    left, predicted = fitted.fit_ranking().recommend(0, n=80)
    assert (left[0] == -1).sum() == (pairs[:, 0] == 0).sum()
    there = left[0][left[0] >= 0]
    np.testing.assert_allclose(predicted[0][: len(there)], fitted.predict(np.column_stack([np.zeros_like(there), there])))
    with pytest.raises(ValueError, match="by must be one of"):
        fitted.recommend(0, by="price")
    with pytest.raises(ValueError, match="n must be"):
        fitted.recommend(0, n=0)


def test_orders_are_attributes_of_models_with_a_ranking_model(data):
    model = lr.MatrixCompletion(1, "learned").fit(*data[:2])
    with pytest.raises(AttributeError, match="fit_ranking"):
        model.order_  # noqa: B018


def test_affinity_ranks_better_than_ratings_and_popularity():
    from lorank.evaluation import HeldOutItems, Popularity, compare, leave_some_out

    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, (120, 1))
    own = kind == np.arange(45) % 3
    rows, cols = np.nonzero(rng.random((120, 45)) < np.where(own, 0.5, 0.05))  # who rates what says what they are after
    values = np.clip(np.round(3 + rng.standard_normal(45)[cols] + 0.7 * rng.standard_normal(len(rows))), 1, 5)
    out = leave_some_out(rows, 0.2)
    pairs = np.column_stack([rows, cols])
    options = {"rank": 1, "regularization": "learned", "shape": (121, 45), "ranking": True}
    model = lr.MatrixCompletion(**options).fit(pairs[~out], values[~out])
    liked = out & (values >= np.median(values))
    held, counts = HeldOutItems.from_pairs(rows[liked], cols[liked], 120), np.bincount(cols[~out], minlength=45)

    class ByRating:
        def recommend(self, users, n):
            return model.recommend(users, n, by="rating")

    models = {"affinity": model, "rating": ByRating(), "popularity": Popularity(rows[~out], cols[~out], 45)}
    found = {name: scores[0].ndcg for name, scores in compare(models, held, counts, 120, n=5).items()}
    assert found["affinity"] > 1.3 * max(found["rating"], found["popularity"])
    popular = np.argsort(-np.bincount(cols[~out & (values >= np.median(values[~out]))], minlength=45), kind="stable")
    for stranger in (120, 5000):  # never observed, and beyond the matrix
        assert model.recommend(stranger, n=4)[0][0].tolist() == popular[:4].tolist()


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_have_the_asked_coverage(coverage):
    pairs, values, truth = ratings(300, 200, sigma=0.7, seed=4)
    new = np.random.default_rng(1)
    model = lr.MatrixCompletion(rank=2, regularization="learned", intervals=True).fit(pairs, values)
    i, j = new.integers(0, 300, 5000), new.integers(0, 200, 5000)
    low, high = model.predict_interval(np.column_stack([i, j]), coverage)
    y = truth[i, j] + 0.7 * new.standard_normal(5000)
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(coverage, abs=0.03)
    assert (low <= high).all()


def test_intervals_need_held_out_observations(data):
    pairs, values, _ = data
    model = lr.MatrixCompletion(rank=2, regularization="learned").fit(pairs, values)
    with pytest.raises(ValueError, match="intervals=True"):
        model.predict_interval(pairs)


def test_folds_in_parallel_are_the_same(data):
    pairs, values, _ = data
    one, two = (lr.MatrixCompletion(cv=3, n_jobs=k, regularization="learned").fit(pairs, values) for k in (None, 2))
    assert [c.error for c in two.curve_] == pytest.approx([c.error for c in one.curve_], rel=1e-9)  # other threads, other bits
    assert one.curve_[0].fits == 3


def test_constant_values_are_fitted():
    pairs = np.argwhere(np.ones((5, 4)))
    assert lr.MatrixCompletion().fit(pairs, np.full(20, 2.5)).predict(pairs) == pytest.approx(2.5)


def test_fit_warns_where_parts_cannot_be_related():
    rng = np.random.default_rng(0)
    block = np.argwhere(np.ones((20, 20)))
    pairs = np.concatenate([block, block + 20])
    with pytest.warns(UserWarning, match="cannot be unique.*2 parts"):
        lr.MatrixCompletion(rank=2, regularization="learned").fit(pairs, rng.standard_normal(len(pairs)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rank": "high"}, "rank must be"),
        ({"rank": 81}, "at most 80"),
        ({"rank": True}, "rank must be"),
        ({"regularization": -1}, "regularization must be"),
        ({"regularization": "strong"}, "'auto', 'learned'"),
        ({"penalty": "l1"}, "penalty must be one of"),
        ({"solver": "sgd"}, "solver must be one of"),
        ({"solver": "variational", "regularization": 2.0}, "learns its regularization"),
        ({"solver": "alternating", "regularization": "learned"}, "solver=.alternating. needs"),
        ({"rank": 0, "biases": False}, "nothing to fit"),
        ({"bounds": (5, 1)}, "low < high"),
        ({"holdout": 1.5}, "holdout"),
        ({"shape": (3, 3)}, "does not hold row"),
    ],
)
def test_invalid_parameters_are_refused(data, options, match):
    with pytest.raises(ValueError, match=match):
        lr.MatrixCompletion(**options).fit(*data[:2])


@pytest.mark.parametrize(
    ("pairs", "values", "match"),
    [
        ([[0, 1.5], [1, 1]], [1, 2], r"X\[0, 1\] = 1.5 is not a whole number"),
        ([[0, -1], [1, 1]], [1, 2], "count from 0"),
        ([[0, 1], [1, 1]], [1, np.nan], "NaN"),
        ([[0, 1], [1, 1]], [1, 2, 3], "alike in length"),
        ([[0, 1, 2], [1, 1, 3]], [1, 2], "two columns"),
        ([[0, 1], [10**9, 1]], [1, 2], "map ids"),
        ([[0, 1]], [1], "at least 2"),
    ],
)
def test_invalid_data_are_refused(pairs, values, match):
    with pytest.raises(ValueError, match=match):
        lr.MatrixCompletion(rank=1).fit(np.array(pairs), np.array(values))


def test_not_fitted():
    with pytest.raises(NotFittedError):
        lr.MatrixCompletion().predict([[0, 0]])
    with pytest.raises(NotFittedError):
        lr.MatrixCompletion().recommend(0)


@pytest.mark.parametrize(
    "estimator", [lr.MatrixCompletion(1), lr.TableImputer(method="low-rank", rank=1)], ids=lambda e: type(e).__name__
)
def test_imaginary_parts_are_refused_and_never_cut_off(estimator):
    import scipy.sparse

    dense = np.outer(np.arange(1, 5), np.arange(1, 4)) * (1 + 1j)
    for data in (scipy.sparse.coo_array(dense), scipy.sparse.csr_array(dense), dense):
        with pytest.raises((ValueError, TypeError), match=r"Complex data|Sparse data|y to be passed"):
            estimator.fit(data)
    if isinstance(estimator, lr.MatrixCompletion):
        pairs = np.argwhere(np.ones((4, 3)))
        for y, weights in ((dense.ravel(), None), (dense.real.ravel(), dense.ravel())):
            with pytest.raises(ValueError, match="Complex data not supported"):
                estimator.fit(pairs, y, sample_weight=weights)


@pytest.mark.slow
def test_same_bits_on_one_thread_and_on_two():
    program = """
import hashlib, numpy as np, lorank as lr
rng = np.random.default_rng(0)
X = np.einsum("ik,jk->ij", rng.standard_normal((700, 4)), rng.standard_normal((500, 4))) + 1  # no BLAS
rows, cols = np.nonzero(rng.random(X.shape) < 0.2)
y = X[rows, cols] + 0.3 * rng.standard_normal(len(rows))
pairs = np.column_stack([rows, cols])
for options in ({"rank": 4}, {"rank": 3, "regularization": 1.0}):
    model = lr.MatrixCompletion(intervals=True, **options).fit(pairs, y)
    for a in (model.predict(pairs), *model.predict_interval(pairs), model.U_, model.s_, model.V_):
        print(hashlib.md5(np.ascontiguousarray(a).tobytes()).hexdigest())
"""
    said = []
    for threads in "12":
        env = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        said.append(subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout)
    assert said[0] == said[1]
    assert len(said[0].split()) == 12


@pytest.mark.parametrize("size", [1e-100, 1e-12, 1e100])
@pytest.mark.parametrize("options", [{}, {"nonnegative": True}])
def test_regularization_has_the_unit_of_small_values(size, options):
    """A floor of 1e-9 under the strength would be a strong penalty where values are smaller than that."""
    rng = np.random.default_rng(0)
    X = abs(rng.standard_normal((30, 2))) @ abs(rng.standard_normal((2, 25)))
    pairs = np.argwhere(rng.random(X.shape) < 0.6)
    y = X[tuple(pairs.T)]
    plain = lr.MatrixCompletion(2, 0.01, **options).fit(pairs, y).predict(pairs)
    scaled = lr.MatrixCompletion(2, 0.01 * size, **options).fit(pairs, y * size).predict(pairs)
    np.testing.assert_allclose(scaled / size, plain, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("size", [1e-300, 1e-60, 1e60, 1e300])
def test_only_the_ratios_of_weights_count(size):
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((20, 15)) < 0.7)
    y, weights = rng.standard_normal(len(pairs)), rng.choice([0.5, 1.0, 2.0], len(pairs))
    found = lr.MatrixCompletion(1).fit(pairs, y, sample_weight=size * weights).predict(pairs)
    largest = lr.MatrixCompletion(1).fit(pairs, y, sample_weight=weights / 2).predict(pairs)
    np.testing.assert_allclose(found, largest, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:recovery cannot be unique")
@pytest.mark.parametrize("regularization", ["auto", "learned"])
def test_observations_of_weight_zero_are_as_if_they_were_not_there(regularization):
    """Held out, they would judge nothing: an error of 0 / 0."""
    rng = np.random.default_rng(0)
    pairs = rng.permutation(np.argwhere(np.ones((12, 9))))
    y = rng.standard_normal(len(pairs))
    kept = np.arange(len(pairs)) < 60
    model = lr.MatrixCompletion("auto", regularization, handle_unknown="ignore").fit(pairs, y, sample_weight=1.0 * kept)
    assert np.isfinite([candidate.error for candidate in model.curve_]).all()
    assert model.diagnosis_.duplicates == 0
    alone = lr.MatrixCompletion("auto", regularization, handle_unknown="ignore", shape=(12, 9))
    alone.fit(pairs[kept], y[kept], sample_weight=np.ones(60))
    np.testing.assert_allclose(model.predict(pairs), alone.predict(pairs), rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="found 1 sample with a weight above 0"):
        lr.MatrixCompletion().fit(pairs, y, sample_weight=np.arange(len(y)) == 3)
