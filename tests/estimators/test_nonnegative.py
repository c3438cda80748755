"""Factors that are not negative: MatrixCompletion and ImplicitFactorization."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import lorank as lr
from lorank.factorization.fit import Settings, centred_problem, fit_factors
from lorank.factorization.implicit import ImplicitSettings, fit_implicit, ridge_penalties
from lorank.factorization.implicit_selection import Positives
from lorank.factorization.nonnegative import NonNegativeALS, centre_of, random_start
from lorank.loop.runner import run
from lorank.loop.stopping import Iterations


def ratings(seed=0, n1=50, n2=40, rank=3, noise=0.02, share=0.6):
    """Sums of parts that rows and columns have or have not, most of them observed."""
    rng = np.random.default_rng(seed)
    U, V = (rng.random((n, rank)) * (rng.random((n, rank)) < 0.6) for n in (n1, n2))
    X = U @ V.T + 0.1
    pairs = np.argwhere(rng.random(X.shape) < share)
    y = np.maximum(X[pairs[:, 0], pairs[:, 1]] + noise * rng.standard_normal(len(pairs)), 0)
    return X, pairs, y


def everything(shape):
    return np.argwhere(np.ones(shape, bool))


def objective(problem, factors, scaling=0.0):
    """The objective of NonNegativeALS, by plain formulas."""
    U, V, y = (problem.backend.to_numpy(a) for a in (factors.rows, factors.cols, problem.y))
    rows, cols = (problem.backend.to_numpy(a) for a in (problem.rows, problem.cols))
    weights = problem.observations.weights
    squares = (np.einsum("ij,ij->i", U[rows], V[cols]) - y) ** 2
    total = float((squares if weights is None else problem.backend.to_numpy(weights) * squares).sum())
    for side, index, prior in ((U, rows, factors.row_prior), (V, cols, factors.col_prior)):
        counts, centre = np.bincount(index, minlength=len(side)), centre_of(prior)
        scale = (np.maximum(counts, 1) / counts[counts > 0].mean()) ** scaling
        total += prior[0][0, 0] * float(scale @ ((side - centre) ** 2).sum(1) + centre @ centre)
    return total / 2


def error(model, X):
    return float(np.sqrt(np.mean((model.predict(everything(X.shape)) - X.ravel()) ** 2)))


# -- ratings -----------------------------------------------------------------------------------------------------------
def test_parts_are_found_and_predictions_are_sums_of_them():
    X, pairs, y = ratings()
    model = lr.MatrixCompletion(rank=4, nonnegative=True).fit(pairs, y)
    assert error(model, X) < 0.1 * X.std()
    assert (model.row_factors_ >= 0).all()
    assert (model.col_factors_ >= 0).all()
    assert model.mean_ == 0
    assert not model.row_bias_.any()
    assert not model.col_bias_.any()
    whole = model.row_factors_ @ model.col_factors_.T
    np.testing.assert_allclose(model.predict(pairs), whole[pairs[:, 0], pairs[:, 1]])
    sizes = np.linalg.norm(model.row_factors_, axis=0) * np.linalg.norm(model.col_factors_, axis=0)
    assert (np.diff(sizes) <= 1e-12).all()
    assert len(model.curve_) > 1
    assert all(c.regularization is not None for c in model.curve_)


def test_a_table_without_noise_is_recovered():
    X, pairs, _ = ratings(noise=0.0, share=0.8, rank=2)
    y = X[pairs[:, 0], pairs[:, 1]]
    model = lr.MatrixCompletion(rank=3, nonnegative=True, regularization=0.0, tol=1e-9, max_iter=2000).fit(pairs, y)
    assert error(model, X) < 0.01 * X.std()


@pytest.mark.parametrize("scaling", [0.0, 0.5])
def test_iterations_never_increase_the_objective_and_end_at_a_minimum(backend, scaling):
    _, pairs, y = ratings(seed=1)
    weights = np.random.default_rng(5).random(len(y)) + 0.5
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")
        problem = lr.Completion(pairs[:, 0], pairs[:, 1], y, (52, 40), weights=weights, backend=backend)
    start = random_start(problem, 3, np.random.default_rng(0))
    found = []
    solver = NonNegativeALS(0.3, scaling, initial=start)
    run(problem, solver, start.point(), Iterations(80), callbacks=[lambda problem, state, clock: found.append(state.memory)])
    heights = [objective(problem, factors, scaling) for factors in found[1:]]
    assert len(heights) >= 80
    assert (np.diff(heights) <= 1e-10 * heights[0]).all()
    last = replace(found[-1], rows=backend.to_numpy(found[-1].rows), cols=backend.to_numpy(found[-1].cols))
    compare_with_scipy(problem, last, pairs, y, weights, scaling)
    np.testing.assert_allclose(last.rows[50:], np.tile(centre_of(last.row_prior), (2, 1)))  # without observations


def compare_with_scipy(problem, factors, pairs, y, weights, scaling):
    """At the end of the sweeps columns are SciPy's, given the rows and their own centre."""
    n2 = problem.shape[1]
    counts = np.bincount(pairs[:, 1], minlength=n2)
    scale = (np.maximum(counts, 1) / counts[counts > 0].mean()) ** scaling
    centre, strength = centre_of(factors.col_prior), 0.3
    for j in range(0, n2, 7):
        at = pairs[:, 1] == j
        root = np.sqrt(weights[at])[:, None]
        A = np.vstack([root * factors.rows[pairs[at, 0]], np.sqrt(strength * scale[j]) * np.eye(3)])
        b = np.concatenate([root[:, 0] * y[at], np.sqrt(strength * scale[j]) * centre])
        np.testing.assert_allclose(factors.cols[j], scipy.optimize.nnls(A, b)[0], atol=2e-3)


def test_new_rows_and_new_observations_have_such_factors_too():
    X, pairs, y = ratings(seed=2)
    early = pairs[:, 0] < 45
    model = lr.MatrixCompletion(rank=3, nonnegative=True, regularization=0.1).fit(pairs[early], y[early])
    row = pairs[:, 0] == 47
    folded = model.fold_in(pairs[row, 1], y[row])
    A = np.vstack([model.col_factors_[pairs[row, 1]], np.sqrt(0.1) * np.eye(3)])
    centre = model.model_.sides[0].prior_mean
    b = np.concatenate([y[row], np.sqrt(0.1) * centre])
    np.testing.assert_allclose(folded.factors, scipy.optimize.nnls(A, b)[0], atol=1e-7)
    assert (folded.predictions >= 0).all()
    model.partial_fit(pairs[~early], y[~early])
    assert model.row_factors_.shape == (50, 3)
    assert (model.row_factors_ >= 0).all()
    assert (model.col_factors_ >= 0).all()
    assert error(model, X) < 0.2 * X.std()
    with pytest.warns(UserWarning, match="never observed"):
        average = model.predict([[1000, 3]])
    assert average[0] >= 0


def test_a_model_file_keeps_it(tmp_path):
    _, pairs, y = ratings(seed=3)
    model = lr.MatrixCompletion(rank=3, nonnegative=True, regularization=0.1, intervals=True).fit(pairs, y)
    again = lr.load(model.save(tmp_path / "parts.lorank"))
    assert again.nonnegative
    np.testing.assert_array_equal(again.row_factors_, model.row_factors_)
    np.testing.assert_array_equal(again.fold_in([1, 2], [0.3, 0.0]).factors, model.fold_in([1, 2], [0.3, 0.0]).factors)
    low, high = again.predict_interval(pairs)
    assert 0.8 < np.mean((low <= y) & (y <= high)) <= 1


def test_weights_count_observations():
    _, pairs, y = ratings(seed=4)
    twice = np.arange(len(y)) % 3 == 0
    options = {"rank": 2, "nonnegative": True, "regularization": 0.2}
    weighted = lr.MatrixCompletion(**options).fit(pairs, y, sample_weight=1.0 + twice)
    repeated = lr.MatrixCompletion(**options).fit(np.concatenate([pairs, pairs[twice]]), np.concatenate([y, y[twice]]))
    np.testing.assert_allclose(weighted.predict(pairs), repeated.predict(pairs), atol=1e-6)


def test_a_robust_loss_goes_with_it():
    X, pairs, y = ratings(seed=5)
    wrong = np.random.default_rng(0).random(len(y)) < 0.03
    spoiled = np.where(wrong, y + 20, y)
    options = {"rank": 3, "nonnegative": True, "regularization": 0.1}
    model = lr.MatrixCompletion(**options, loss="huber").fit(pairs, spoiled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lr.OutlierWarning)
        plain = lr.MatrixCompletion(**options).fit(pairs, spoiled)
    assert error(model, X) < 0.3 * error(plain, X)
    assert (model.row_factors_ >= 0).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"regularization": "learned"}, "no learned priors.*held-out"),
        ({"solver": "variational"}, "no learned priors"),
        ({"penalty": "frobenius"}, "leave penalty at 'nuclear'"),
        ({"loss": "poisson"}, "loss='poisson' has them on another scale"),
        ({"rank": 0}, "rank=0.*a rank of 1"),
        ({"nonnegative": "yes"}, "nonnegative must be True or False"),
    ],
)
def test_what_does_not_go_together_is_refused(options, words):
    _, pairs, y = ratings()
    with pytest.raises(ValueError, match=words):
        lr.MatrixCompletion(**{"nonnegative": True} | options).fit(pairs, np.round(10 * y))


def test_negative_values_are_refused_with_the_remedy():
    _, pairs, y = ratings()
    for values in (y - 1, np.where(np.arange(len(y)) == 7, -1e-9, y)):
        with pytest.raises(ValueError, match=r"nonnegative=True takes values that are not negative.*least is -.*shift them"):
            lr.MatrixCompletion(nonnegative=True).fit(pairs, values)
    model = lr.MatrixCompletion(2, 0.1, nonnegative=True).fit(pairs, y)
    before = model.row_factors_.copy()
    for call in (lambda: model.fold_in([1], [-1.0]), lambda: model.partial_fit([[0, 0]], [-2.0])):
        with pytest.raises(ValueError, match="not negative"):
            call()
    np.testing.assert_array_equal(model.row_factors_, before)
    with pytest.raises(ValueError, match="leave out nonnegative"):
        lr.MatrixCompletion(nonnegative=True).fit(pairs, y, row_features=np.ones((50, 1)))


def test_a_completion_in_memory_is_fitted_too():
    _, pairs, y = ratings()
    model = lr.MatrixCompletion(2, 0.1, nonnegative=True).fit(lr.Completion(pairs[:, 0], pairs[:, 1], y))
    assert (model.row_factors_ >= 0).all()
    with pytest.raises(ValueError, match="not negative"):
        lr.MatrixCompletion(2, 0.1, nonnegative=True).fit(lr.Completion(pairs[:, 0], pairs[:, 1], y - 1))


@pytest.mark.needs("torch")
def test_tensors_find_the_same():
    _, pairs, y = ratings(seed=6)
    problem, mean = centred_problem(pairs[:, 0], pairs[:, 1], y, (50, 40), centre=False)
    on_device, _ = centred_problem(pairs[:, 0], pairs[:, 1], y, (50, 40), device="cpu", centre=False)
    settings = Settings(2, 0.2, biases=False, nonnegative=True, max_iter=60, tol=1e-10)
    heights = []
    for one in (problem, on_device):
        fit = fit_factors(one, mean, settings)
        heights.append(objective(one, fit.factors))
        assert (fit.model.host().rows >= 0).all()
    assert heights[1] == pytest.approx(heights[0], rel=1e-3)


# -- what people took --------------------------------------------------------------------------------------------------
def takings(seed=0, n1=60, n2=24):
    """Three kinds of people and of things."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, (n1, 1))
    there = rng.random((n1, n2)) < np.where(kind == np.arange(n2) % 3, 0.6, 0.02)
    return kind[:, 0], scipy.sparse.csr_array(there.astype(float))


def test_implicit_parts_are_groups_of_items(tmp_path):
    kind, data = takings()
    model = lr.ImplicitFactorization(rank=3, nonnegative=True, regularization=0.01, zeros=0.1, max_iter=20).fit(data)
    assert (model.user_factors_ >= 0).all()
    assert (model.item_factors_ >= 0).all()
    part = model.item_factors_.argmax(1)
    assert len(set(zip(part.tolist(), (np.arange(24) % 3).tolist(), strict=True))) == 3  # each part is one kind
    best = model.recommend(np.arange(60), n=3).items
    assert np.mean(best[:, 0] % 3 == kind) > 0.9
    again = lr.load(model.save(tmp_path / "taken.lorank"))
    assert again.nonnegative
    np.testing.assert_array_equal(again.recommend_for([0, 3]).items, model.recommend_for([0, 3]).items)
    assert (again.predict(everything((60, 24))) >= 0).all()


def test_nonnegative_factors_of_new_users_and_explanations(tmp_path):
    _, data = takings(1)
    model = lr.ImplicitFactorization(rank=4, nonnegative=True, regularization=0.02, zeros=0.1, max_iter=12).fit(data)
    x, M = model.state_.ranking.solve_row(np.array([0, 3, 6]), np.ones(3))
    y = model.item_factors_.astype(float)
    root = np.linalg.cholesky(M).T
    plain = scipy.optimize.nnls(root, np.linalg.solve(root.T, y[[0, 3, 6]].sum(0)))[0]
    np.testing.assert_allclose(x, plain, atol=1e-7)
    for user, item in itertools.product((0, 7), (1, 5)):
        why = model.explain(user, item)
        taken = data[[user]].indices
        solved, _ = model.state_.ranking.solve_row(taken, np.ones(len(taken)))
        assert why.score == pytest.approx(float(solved @ y[item]), abs=1e-6)
        assert why.contributions.sum() == pytest.approx(why.score)
    more = lr.ImplicitFactorization(rank=4, nonnegative=True, regularization=0.02, zeros=0.1).fit(data[:50])
    more.partial_fit(np.argwhere(data.toarray()[50:] > 0) + np.array([50, 0]))
    assert (more.user_factors_ >= 0).all()
    assert more.user_factors_[50:].any()


def test_implicit_nonnegative_iterations_never_increase_the_objective(backend):
    _, data = takings(2)
    rows, cols = data.nonzero()
    weights = np.random.default_rng(0).random(len(rows)) + 0.5
    observations = Positives(rows.astype(np.int64), cols.astype(np.int64), weights, (60, 24)).observations(backend, np.float64)
    settings = ImplicitSettings(3, 0.1, 0.02, max_iter=15, nonnegative=True)
    W = np.zeros((60, 24))
    W[rows, cols] = weights
    heights = []

    def after(sides):
        U, V = map(backend.to_numpy, sides)
        X, penalties = U @ V.T, map(backend.to_numpy, ridge_penalties(observations, backend, settings))
        penalty = sum(float((ridge * (side**2).sum(1)).sum()) for ridge, side in zip(penalties, (U, V), strict=True))
        heights.append((W * (X - 1) ** 2).sum() + settings.zeros * (X**2).sum() + penalty)

    sides = fit_implicit(observations, backend, settings, after_sweep=after)
    assert (np.diff(heights) <= 1e-9 * heights[0]).all()
    assert (backend.to_numpy(sides.rows) >= 0).all()


@pytest.mark.parametrize("kind", [lr.MatrixCompletion, lr.ImplicitFactorization])
def test_partitions_are_refused(tmp_path, kind):
    _, pairs, y = ratings()
    lr.distributed.save_partitions(lr.Completion(pairs[:, 0], pairs[:, 1], y), tmp_path / "parts")
    with pytest.raises(ValueError, match=r"nonnegative=True takes .* in main memory"):
        kind(nonnegative=True).fit(lr.distributed.from_partitions(tmp_path / "parts"))


@pytest.mark.parametrize("unit", [1e-10, 1e10])
def test_the_unit_of_values_does_not_matter(unit):
    _, pairs, y = ratings()
    one, other = (lr.MatrixCompletion(rank=2, nonnegative=True).fit(pairs, u * y) for u in (1.0, unit))
    np.testing.assert_allclose(other.predict(pairs) / unit, one.predict(pairs), atol=0.02)
