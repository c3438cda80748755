"""Recovery of exact data by all solvers."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.loop.steps import Constant, Exact
from lorank.loop.steps import Theory as TheoryStep
from lorank.metrics import FullShampoo, Median, RelativeMax, RowColumn, Theory
from solver_cases import BY_TRUNCATED_SVD

NAMES = list(lr.plans.SOLVERS)


def relative(truth: lr.FixedRank, X: lr.FixedRank) -> float:
    return truth.distance(X) / truth.norm()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", NAMES)
def test_easy_problems_are_recovered_to_ten_digits(name, dtype, backend):
    problem, truth = lr.datasets.random_completion(
        60, 50, 2, oversampling=6, factors="gaussian", dtype=dtype, seed=3, backend=backend
    )
    result = lr.solve(problem, 2, name, tol=1e-11, max_iter=1500)
    assert result.converged, result
    assert relative(truth, result.X) < 1e-10
    assert result.X.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", NAMES)
def test_single_precision_is_used_to_its_accuracy(name, dtype):
    problem, truth = lr.datasets.random_completion(60, 50, 2, oversampling=6, factors="gaussian", dtype=dtype, seed=3)
    result = lr.solve(problem, 2, name, tol=5e-6, max_iter=1000)
    assert result.converged, result
    assert result.X.U.dtype == result.X.V.dtype == dtype
    assert result.X.s.dtype == np.float32
    assert relative(truth, result.X) < 1e-4


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("factors", "spread"), [("uniform", 0.0), ("gaussian", 0.0), ("ill-scaled", 0.5), ("ill-scaled", 1.0)])
def test_prgd_needs_no_tuning(factors, spread, seed):
    problem, truth = lr.datasets.random_completion(400, 350, 5, oversampling=6, factors=factors, spread=spread, seed=seed)
    result = lr.solve(problem, 5, "prgd", tol=1e-7, max_iter=1500)
    assert result.converged, result
    assert relative(truth, result.X) < 1e-5


@pytest.mark.parametrize(
    "solver",
    [
        lr.solvers.RGD(RowColumn(Theory()), TheoryStep(), None),
        lr.solvers.RGD(RowColumn(Median()), Exact(0.7), None),
        lr.solvers.RGD(RowColumn(RelativeMax(0.1)), Constant(0.5)),
        lr.solvers.RGD(FullShampoo(RelativeMax(1.0)), Constant(0.7)),
        lr.solvers.RGD(FullShampoo(), Exact()),
        lr.solvers.NIHT(safeguard=None),
        lr.solvers.IHT(0.4, safeguard=None),
    ],
    ids=lambda solver: repr(solver)[:60],
)
def test_compositions_recover_too(solver):
    # well sampled, as the proof of the theory policy asks for
    problem, truth = lr.datasets.random_completion(40, 30, 2, oversampling=7, factors="gaussian", seed=5)
    result = lr.solve(problem, 2, solver, tol=1e-9, max_iter=3000)
    assert result.converged, result
    assert relative(truth, result.X) < 1e-8


def test_noise_is_not_amplified():
    problem, truth = lr.datasets.random_completion(300, 250, 3, oversampling=6, noise=1e-3, seed=2)
    result = lr.solve(problem, 3, "prgd", stop=lr.stopping.RelativeChange(1e-6))
    assert result.status == "settled"
    assert relative(truth, result.X) < 1e-3


def test_a_wide_and_a_tall_matrix_of_full_rank_side():
    for shape in ((3, 80), (80, 3)):
        rng = np.random.default_rng(0)
        a = rng.standard_normal(shape)
        problem = lr.Completion.from_dense(a)
        result = lr.solve(problem, 3, tol=1e-10)
        assert result.converged
        np.testing.assert_allclose(result.X.to_dense(), a, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_ranks_above_the_true_rank(name):
    # The data are fitted, but not always by the truth: the spare rank is free wherever a block of rows and columns was not
    # observed at all.
    problem, _ = lr.datasets.random_completion(80, 70, 2, oversampling=12, factors="gaussian", seed=1)
    result = lr.solve(problem, 4, name, tol=1e-3, max_iter=1500)
    assert result.converged, result
    misfit = result.X.entries(problem.rows, problem.cols) - problem.y
    assert np.linalg.norm(misfit) <= 1.0001e-3 * np.linalg.norm(problem.y)


def test_scaling_the_data_scales_the_iterates():
    problem, _ = lr.datasets.random_completion(60, 50, 2, seed=3)
    scaled = lr.Completion(problem.rows, problem.cols, 1e6 * problem.y, problem.shape)
    for name in NAMES:
        one, two = (lr.solve(p, 2, name, max_iter=8, tol=0).history.residual for p in (problem, scaled))
        rtol = 1e-4 if name in BY_TRUNCATED_SVD else 1e-6  # as their truncated SVD is promised to be; below that, rounding
        np.testing.assert_allclose(one, two, rtol=rtol, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bits(name):
    problem, _ = lr.datasets.random_completion(200, 150, 3, seed=8)
    one, two = (lr.solve(problem, 3, name, max_iter=10, tol=0, seed=4) for _ in range(2))
    np.testing.assert_array_equal(one.X.U, two.X.U)
    np.testing.assert_array_equal(one.X.s, two.X.s)
    np.testing.assert_array_equal(one.X.V, two.X.V)


def test_results_do_not_depend_on_the_number_of_threads():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    problem, _ = lr.datasets.random_completion(2000, 1500, 4, seed=8)
    assert problem.m + 1500 > 65536  # enough for two threads
    results = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads, user_api="openmp"):
            results.append(lr.solve(problem, 4, "adaptive-prgd", max_iter=4, tol=0))
    np.testing.assert_array_equal(results[0].X.U, results[1].X.U)
    np.testing.assert_array_equal(results[0].X.V, results[1].X.V)


def test_backends_have_the_same_iterates(backend):
    one, two = (
        lr.solve(lr.datasets.random_completion(80, 70, 3, seed=2, backend=name)[0], 3, "adaptive-prgd", max_iter=10, tol=0)
        for name in (backend, "numpy")
    )
    np.testing.assert_allclose(one.history.residual, two.history.residual, rtol=1e-6)
    assert one.X.distance(two.X) < 1e-6 * one.X.norm()
