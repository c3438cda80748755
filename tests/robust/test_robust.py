"""Robust completion: outliers, noise, clean data, and comparisons with dense computations."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import lorank as lr
import partitioned  # noqa: F401  (registers itself)
from helpers import host
from lorank.backends import get_backend
from lorank.losses.residual_tails import quantile, tails
from lorank.robust.options import SmoothingSchedule
from lorank.robust.row_repair import Side, _by_subsets, flag_rows, repaired
from lorank.robust.validation import validate
from lorank.robust.weights import biweight, sqrt_weights, threshold_weights


def contaminated(shape=(120, 100), rank=3, per_dof=6.0, share=0.1, noise=0.0, seed=0, size=10.0, dtype=float, **options):
    """A problem with outliers in a shuffled order, the true matrix, and the mask of outliers."""
    rng = np.random.default_rng(seed)

    def normal(*size):
        real = rng.standard_normal(size)
        return real + 1j * rng.standard_normal(size) if np.dtype(dtype).kind == "c" else real

    truth = lr.FixedRank.from_factors(normal(shape[0], rank), normal(shape[1], rank))
    m = int(per_dof * rank * (sum(shape) - rank))
    rows, cols = np.unravel_index(rng.permutation(shape[0] * shape[1])[:m], shape)
    values = truth.entries(rows, cols)
    typical = np.sqrt(np.mean(abs(values) ** 2))
    values = values + noise * typical * normal(m)
    wrong = rng.random(m) < share
    values[wrong] += size * typical * normal(wrong.sum())
    return lr.Completion(rows, cols, values.astype(dtype), shape, loss="robust", **options), truth, wrong


def error(X, truth):
    return truth.distance(X.numpy() if hasattr(X, "numpy") else X) / truth.norm()


def backends():
    names = ["native", "numpy", "partitioned:3", "torch"]
    return [pytest.param(n, marks=[pytest.mark.needs(n)] if n in ("native", "torch") else []) for n in names]


@pytest.mark.parametrize("name", backends())
def test_outliers_are_found_on_every_backend(name):
    problem, truth, wrong = contaminated(backend=name)
    result = lr.solve(problem, 3, tol=1e-9)
    assert result.converged
    assert error(result.X, truth) < 1e-6
    assert np.array_equal(result.outliers.mask, wrong)
    assert result.outliers.share == wrong.mean()
    assert (result.outliers.weights[wrong] == 0).all()
    assert (result.outliers.weights[~wrong] > 0.9).all()


@pytest.mark.parametrize(("per_dof", "share"), [(2.5, 0.1), (6.0, 0.3)])
def test_hard_problems_are_solved_exactly(per_dof, share):
    exact = 0
    for seed in range(3):
        problem, truth, _ = contaminated((300, 250), 5, per_dof, share, seed=seed)
        exact += error(lr.solve(problem, 5, tol=1e-9).X, truth) < 1e-6
    assert exact >= 2  # all three, as measured; one may fall to the way that rounding takes


@pytest.mark.parametrize("uniform", [False, True])
def test_uneven_patterns_and_data_with_a_mean(uniform):
    """Unevenly sampled rows, and data with a dominant mean."""
    rng, shape, exact = np.random.default_rng(0), (150, 100), 0
    for _ in range(3):
        left, right = (rng.random((n, 3)) if uniform else rng.standard_normal((n, 3)) for n in shape)
        truth = lr.FixedRank.from_factors(left, right)
        rows, cols = lr.datasets.uneven_pattern(rng, shape, 6 * 3 * 247, powers=(0.5, 0.7), least=8)
        y = truth.entries(rows, cols)
        wrong = rng.random(len(y)) < 0.15
        y[wrong] += 10 * np.sqrt(np.mean(y**2)) * rng.standard_normal(wrong.sum())
        exact += error(lr.solve(lr.Completion(rows, cols, y, shape, loss="robust"), 3, tol=1e-9).X, truth) < 1e-6
    assert exact >= 2  # all three, as measured


def test_many_observations_in_single_precision_first():
    problem, truth, wrong = contaminated((600, 500), 3, 32.0)
    assert problem.single_precision().unit == 1
    result = lr.solve(problem, 3, tol=1e-10)
    assert error(result.X, truth) < 1e-9  # and all digits last
    assert result.X.dtype == np.float64
    assert (result.outliers.mask != wrong).mean() < 1e-3


def test_unidentifiable_outliers_are_no_success():
    problem, truth, _ = contaminated((120, 100), 4, 2.4, 0.4)
    with pytest.warns(lr.ConvergenceWarning):
        result = lr.solve(problem, 4)
    assert not result.converged
    assert error(result.X, truth) > 0.1


@pytest.mark.parametrize(("shape", "rank", "per_dof", "share"), [((100, 80), 3, 2.0, 0.15), ((100, 100), 3, 5.5, 0.55)])
def test_a_wrong_matrix_is_no_success(shape, rank, per_dof, share):
    """Too few observations, or too many outliers: the residual looks like noise, or a part of the matrix fits exactly."""
    for seed in range(2):
        problem, truth, _ = contaminated(shape, rank, per_dof, share, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lr.ConvergenceWarning)
            result = lr.solve(problem, rank, max_iter=300)
        assert not result.status.success or error(result.X, truth) < 1e-3


def test_validation_of_a_fit():
    problem, _, _ = contaminated((100, 80), 2, 8.0, 0.1, noise=0.05)
    right = lr.solve(problem, 2)
    limit = right.outliers.limit
    assert validate(problem, right.X, limit, noisy=True) == ""
    left = right.X.U * right.X.s
    left[3] += 50 * left[4]  # all of its observations are beyond the limit now
    found = validate(problem, lr.FixedRank.from_factors(left, right.X.V), limit, noisy=False)
    assert found.startswith("1 row and 0 columns")
    rng = np.random.default_rng(0)
    nonsense = lr.Completion(problem.rows, problem.cols, rng.standard_normal(problem.m), problem.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = lr.solve(nonsense, 12, max_iter=100).X  # 1.4 for each degree of freedom
    assert "per degree of freedom" in validate(nonsense, fitted, 3.0, noisy=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = lr.solve(nonsense, 7, max_iter=100).X
    assert "Held-out observations" in validate(nonsense, fitted, math.inf, noisy=True)


@pytest.mark.needs("native")
def test_als_finds_outliers_in_fewer_steps():
    problem, truth, wrong = contaminated((200, 150), 3, 7.0, 0.2)
    solvers = lr.robust.Robust(), lr.robust.Robust(schedules=(SmoothingSchedule(),))
    swept, plain = (lr.solve(problem, 3, solver, tol=1e-9) for solver in solvers)
    for result in (swept, plain):
        assert error(result.X, truth) < 1e-6
        assert np.array_equal(result.outliers.mask, wrong)
    assert swept.n_iter < plain.n_iter


@pytest.mark.parametrize("solver", ["auto", "rcg"])
@pytest.mark.parametrize("loss", ["tukey", "cauchy"])
def test_redescending_losses_start_from_a_robust_fit(loss, solver):
    """With 30 % outliers, they end in a local minimum from a least-squares start."""
    robust, truth, _ = contaminated((120, 100), 3, 8.0, 0.3, noise=0.02)
    values = robust.in_given_order(robust.y)
    rows, cols = (robust.in_given_order(a) for a in (robust.rows, robust.cols))
    result = lr.solve(lr.Completion(rows, cols, values, robust.shape, loss=loss), 3, solver)
    assert result.converged
    assert error(result.X, truth) < 1.3 * error(lr.solve(robust, 3).X, truth)
    assert 0.5 < result.noise / (0.02 * math.sqrt(3)) < 2


def test_redescending_losses_warn_if_outliers_are_not_identified():
    hard, _, _ = contaminated((120, 100), 4, 2.4, 0.4)
    problem = lr.Completion(hard.rows, hard.cols, hard.y, hard.shape, loss="tukey")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lr.ConvergenceWarning)  # it may end this way or that
        result = lr.solve(problem, 4, max_iter=60)
    assert "huber" in result.status.advice


def test_complex_and_single_precision():
    problem, truth, wrong = contaminated(dtype=complex)
    result = lr.solve(problem, 3, tol=1e-9)
    assert error(result.X, truth) < 1e-6
    assert np.array_equal(result.outliers.mask, wrong)
    problem, truth, wrong = contaminated(dtype=np.float32)
    result = lr.solve(problem, 3, tol=1e-4)
    assert error(result.X, truth) < 1e-2
    assert (result.outliers.mask != wrong).mean() < 0.01


def test_noisy_fits_are_nearly_as_good_as_with_known_outliers():
    problem, truth, wrong = contaminated((200, 150), 3, 8.0, noise=0.05)
    result = lr.solve(problem, 3)
    entries = problem.observations.host()
    rows = np.repeat(np.arange(200), np.diff(entries.indptr))
    keep = np.ones(problem.m, bool)
    keep[problem._given.order.argsort()[wrong]] = False
    oracle = lr.solve(lr.Completion(rows[keep], entries.indices[keep], entries.values[keep], problem.shape), 3)
    assert result.status == "noise"
    assert error(result.X, truth) < 1.1 * error(oracle.X, truth)
    assert 0.9 < result.noise / oracle.noise < 1.1
    assert result.outliers.mask[wrong].mean() > 0.9
    assert result.outliers.mask[~wrong].mean() < 1e-3


def test_clean_data_have_the_result_of_least_squares():
    problem, truth = lr.datasets.random_completion(150, 120, 3, oversampling=5, factors="gaussian")
    plain, robust = lr.solve(problem, 3), lr.solve(problem, 3, lr.robust.Robust())
    assert plain.n_iter == robust.n_iter  # the same steps
    assert error(robust.X, truth) == error(plain.X, truth)
    assert not robust.outliers.mask.any()
    assert robust.outliers.limit == math.inf
    noisy, _ = lr.datasets.random_completion(150, 120, 3, oversampling=6, factors="gaussian", noise=0.1)
    found = lr.solve(noisy, 3, lr.robust.Robust())
    assert found.status == "noise"
    assert not found.outliers.mask.any()


def test_the_rank_is_found_among_outliers():
    problem, truth, _ = contaminated(per_dof=8.0)
    result = lr.solve(problem, "auto")
    assert result.X.rank == 3
    assert error(result.X, truth) < 1e-4


@pytest.mark.slow
def test_automatic_rank_does_not_absorb_outliers():
    """A real matrix without an exact rank: the rank stays small enough that outliers can be identified."""
    table = pytest.importorskip("sklearn.datasets").load_breast_cancer().data[:300]
    table = (table - table.mean(0)) / table.std(0)
    rng = np.random.default_rng(11)
    wrong = rng.random(table.shape) < 0.05
    corrupted = table + wrong * 10 * rng.choice([-1, 1], table.shape) * (1 + rng.random(table.shape))
    rows, cols = np.nonzero(rng.random(table.shape) < 0.9)
    problem = lr.Completion(rows, cols, corrupted[rows, cols], table.shape, loss="robust")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lr.ConvergenceWarning)
        result = lr.solve(problem, "auto")
    assert result.outliers.mask[wrong[rows, cols]].mean() > 0.9
    assert np.linalg.norm(result.X.to_dense() - table) < 0.8 * np.linalg.norm(table)


def test_a_fit_that_flags_a_third_of_the_data_is_doubtful():
    """Digits: most pixels at the border are zero in all images, and any fit of these calls the others outliers."""
    data = pytest.importorskip("sklearn.datasets")
    table = data.load_digits().data[:400]
    table = table[:, table.std(0) > 0]
    table = (table - table.mean(0)) / table.std(0)
    rng = np.random.default_rng(11)
    corrupted = table + (rng.random(table.shape) < 0.1) * 10 * rng.choice([-1, 1], table.shape) * (1 + rng.random(table.shape))
    rows, cols = np.nonzero(rng.random(table.shape) < 0.9)
    problem = lr.Completion(rows, cols, corrupted[rows, cols], table.shape, loss="robust")
    with pytest.warns(lr.ConvergenceWarning, match="outliers"):
        result = lr.solve(problem, 3)
    assert result.outliers.share > 1 / 3
    assert not result.converged


def test_masks_are_in_the_order_given_with_weights_and_duplicates():
    rng = np.random.default_rng(3)
    table = np.outer(rng.standard_normal(30) + 2, rng.standard_normal(20) + 2)
    rows, cols = np.divmod(rng.permutation(600)[:400], 20)
    values, weights = table[rows, cols], rng.uniform(0.5, 2, 400)
    wrong = np.zeros(400, bool)
    wrong[rng.permutation(400)[:20]] = True
    values[wrong] += 50
    weights[:7] = 0
    rows, cols, values, weights = (np.append(a, a[10:13]) for a in (rows, cols, values, weights))  # three of them twice
    problem = lr.Completion(rows, cols, values, (30, 20), weights=weights, duplicates="mean", loss="robust")
    mask = lr.solve(problem, 1).outliers.mask
    expected = np.append(wrong, wrong[10:13])
    expected[:7] = False  # left out by their weights, and not judged
    assert np.array_equal(mask, expected)


def test_fully_observed_tables():
    rng = np.random.default_rng(0)
    low = rng.standard_normal((80, 3)) @ rng.standard_normal((3, 70))
    sparse = np.where(rng.random(low.shape) < 0.15, 20 * rng.standard_normal(low.shape), 0.0)
    result = lr.solve(lr.Completion.from_dense(low + sparse, loss="robust"), 3, tol=1e-9)
    assert np.linalg.norm(result.X.to_dense() - low) < 1e-6 * np.linalg.norm(low)
    assert np.array_equal(result.outliers.mask.reshape(low.shape), sparse != 0)


def test_unsupported_problems_are_refused():
    problem, _, _ = contaminated()
    with pytest.raises(lr.ParameterError, match="solver must be 'auto'"):
        lr.solve(problem, 3, "rcg")
    sensing, _ = lr.datasets.random_sensing(12, 10, 1)
    with pytest.raises(lr.ParameterError, match=r"Robust needs a Completion"):
        lr.solve(sensing, 1, lr.robust.Robust())
    with pytest.raises(ValueError, match="'robust'"):
        lr.Completion([0], [0], [1.0], loss="robus")


# -- dense twins -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", backends())
def test_deviations_against_numpy(name):
    backend = get_backend(name)
    problem, _, _ = contaminated((40, 30), 2, backend=backend)
    d, a = problem.y, abs(host(problem.backend.to_numpy(problem.y)))
    for share in (0.1, 0.5, 0.9):
        assert abs(quantile(d, share, backend) / np.quantile(a, share) - 1) < 0.1
    weights, mean = sqrt_weights(d, 0.7)
    np.testing.assert_allclose(backend.to_numpy(weights), (1 + (a / 0.7) ** 2) ** -0.75, rtol=1e-12)
    np.testing.assert_allclose(mean, np.mean((1 + (a / 0.7) ** 2) ** -0.75), rtol=1e-12)
    kept, share = threshold_weights(d, 1.5)
    assert np.array_equal(backend.to_numpy(kept), a <= 1.5)
    np.testing.assert_allclose(share, np.mean(a <= 1.5))
    np.testing.assert_allclose(backend.to_numpy(biweight(d, 2.0)), np.where(a < 2, (1 - (a / 2) ** 2) ** 2, 0), atol=1e-12)
    found = tails(d, 0, backend)
    assert abs(found.ratio / (np.sqrt(np.mean(a**2)) / (np.median(a) / 0.6745)) - 1) < 0.15
    assert found.heavy


@pytest.mark.parametrize("side", [0, 1])
def test_rows_are_fitted_as_by_dense_least_squares(side):
    problem, truth, _ = contaminated((40, 30), 2)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.1, 1, problem.m)
    here = Side(problem, truth, side)
    found = here.fitted(weights, 1e-12)
    rows = (problem.rows, problem.cols)[side]
    others = here.other[(problem.cols, problem.rows)[side]]
    for i in range(3):
        k, root = rows == i, np.sqrt(weights[rows == i])
        expected = np.linalg.lstsq(root[:, None] * others[k], root * problem.y[k], rcond=None)[0]
        np.testing.assert_allclose(found[i], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [float, complex])
def test_a_row_with_a_minority_of_inliers(dtype):
    problem, truth, _ = contaminated((60, 50), 2, 8.0, 0.0, dtype=dtype)
    for side in (0, 1):
        rng = np.random.default_rng(side)
        values, place = np.array(problem.y), np.flatnonzero((problem.rows, problem.cols)[side] == 5)
        bad = rng.permutation(place)[: len(place) - 6]  # six are right
        values[bad] += 20 * rng.standard_normal(len(bad))
        worse = lr.Completion(problem.rows, problem.cols, values, problem.shape)
        factors = [truth.U * truth.s, truth.V.copy()]
        factors[side][5] = 0
        flags = np.arange(problem.shape[side]) == 5
        new, count = repaired(worse, lr.FixedRank.from_factors(*factors), side, flags, 1e-6, 0.5)
        assert count == 1
        assert error(new, truth) < 1e-8


def test_a_diverged_row_is_refitted():
    problem, truth, _ = contaminated((60, 50), 2, 8.0)
    left = truth.U * truth.s
    left[5] = 40 * left[6]
    X = lr.FixedRank.from_factors(left, truth.V)
    d = problem.observations.residual(X.U * X.s, X.V)
    weights, share = threshold_weights(d, 1e-6)
    flags = flag_rows(problem, weights, share, 2, 0)
    assert np.flatnonzero(flags).tolist() == [5]
    assert not flag_rows(problem, weights, share, 2, 1).any()
    new, count = repaired(problem, X, 0, flags, 1e-6, 0.5)
    assert count == 1
    assert error(new, truth) < 1e-8
    _, none = repaired(problem, truth, 0, flags, 1e-6, 0.5)
    assert none == 0


@pytest.mark.parametrize("dtype", [float, complex])
def test_columns_with_a_minority_of_inliers(dtype):
    """By random subsets, as for rows of the transposed problem."""
    rng = np.random.default_rng(6)
    left, right = (rng.standard_normal((n, 2)) + (1j if dtype is complex else 0) * rng.standard_normal((n, 2)) for n in (40, 9))
    truth = left @ right.conj().T
    values = truth.copy()
    wrong = rng.permutation(40)[:22]  # more than half of them
    values[wrong, 3] += 10 + 5 * rng.standard_normal(22)
    X = lr.FixedRank.from_factors(left, right)
    flags = np.arange(9) == 3
    for side, a, point in ((1, values, X), (0, values.conj().T, lr.FixedRank.from_factors(right, left))):
        here = Side(lr.Completion.from_dense(a), point, side)
        own = np.array(here.own)
        own[3] += 1.0
        found, count = _by_subsets(here, own, flags, 1e-6)
        assert count == 1
        np.testing.assert_allclose(found, here.own, atol=1e-9)
