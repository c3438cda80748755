"""Starts against dense twins."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import double, eps, host, on, random_array
from lorank.backends import backend_of
from lorank.problems.capabilities import HasRankOnePoint, supports
from lorank.starts import STARTS, Continuation, Staged
from lorank.starts.normalized import Normalization, normalized_pairs
from lorank.starts.registry import check_point
from lorank.starts.staged import COARSE, fit, grow


def dense_residual(problem, X):
    """``P(y - X)`` as a dense matrix."""
    out = np.zeros(problem.shape, problem.dtype)
    rows, cols = host(problem.rows), host(problem.cols)
    out[rows, cols] = host(problem.y) - host(X.entries(rows, cols))
    return out


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_growing_adds_the_leading_pairs_with_the_best_step(dtype, backend):
    rng = np.random.default_rng(0)
    # strong pairs beyond rank 1, so that a rough computation finds them
    u, v = (
        np.linalg.qr(rng.standard_normal((n, 3)) + (1j * rng.standard_normal((n, 3)) if dtype == np.complex128 else 0))[0]
        for n in (30, 25)
    )
    truth = lr.FixedRank(u.astype(dtype), np.array([100.0, 60.0, 40.0]), v.astype(dtype))
    rows, cols = lr.datasets.sample_pattern(rng, (30, 25), 740)
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), (30, 25), backend=backend)
    X = on(backend, lr.FixedRank(truth.U[:, :1].copy(), truth.s[:1], truth.V[:, :1].copy()))
    Y = grow(problem, X, 2, np.random.default_rng(1))
    residual = dense_residual(problem, X)
    pairs = lr.FixedRank.from_dense(residual, 2).to_dense()
    rows, cols = host(problem.rows), host(problem.cols)
    sampled = pairs[rows, cols]
    step = np.vdot(sampled, residual[rows, cols]).real / np.linalg.norm(sampled) ** 2
    expected = host(X.to_dense()) + step * pairs
    Y = Y.numpy()
    assert np.linalg.norm(Y.to_dense() - expected) < 1e-2 * np.linalg.norm(pairs)
    assert Y.rank == 3
    np.testing.assert_allclose(Y.U.conj().T @ Y.U, np.eye(3), atol=1e-12)
    assert np.linalg.norm(dense_residual(problem, Y)) < 0.2 * np.linalg.norm(residual)


def test_growing_where_nothing_is_left():
    problem, truth = lr.datasets.random_completion(30, 25, 2, oversampling=5, seed=0)
    X = grow(problem, truth, 2, np.random.default_rng(0))
    assert X.is_finite()
    assert truth.distance(X) < 1e-8 * truth.norm()


def test_staged_is_better_than_spectral_on_data_with_a_mean():
    problem, truth = lr.datasets.random_completion(400, 300, 6, oversampling=4, factors="uniform", seed=1)
    staged, spectral = (STARTS[name](problem, 6, np.random.default_rng(0)) for name in ("staged", "spectral"))
    assert truth.distance(staged) < 0.5 * truth.distance(spectral)


def test_rank_one_is_alternating_least_squares(dtype, backend):
    rng = np.random.default_rng(3)
    mask = rng.random((12, 9)) < 0.7
    mask[4], mask[:, 2] = False, False  # nothing is known of these
    a = random_array(rng, mask.shape, dtype) + dtype.type(1)
    with pytest.warns(UserWarning, match="no observation"):
        problem = lr.Completion(*np.nonzero(mask), a[mask], mask.shape, backend=backend)
    X = problem.rank_one_point(np.random.default_rng(0))
    left = backend_of(np.zeros(0)).random_normal(np.random.default_rng(0), (12, 1), dtype)[:, 0] + 1
    a = np.where(mask, double(a), 0)

    def fitted(a, mask, other):
        weights, least = mask @ abs(other) ** 2, 0.1 * mask.sum(1) * abs(other).mean() ** 2
        return a @ other / np.where(least > 0, np.maximum(weights, least), 1)

    for _ in range(3):
        right = fitted(a.conj().T, mask.T, left)
        left = fitted(a, mask, right)
    np.testing.assert_allclose(double(X.to_dense()), np.outer(left, right.conj()), atol=1e3 * eps(dtype))
    assert not host(X.U)[4].any()
    assert not host(X.V)[2].any()


def test_rank_one_finds_a_matrix_of_rank_one(backend):
    problem, truth = lr.datasets.random_completion(60, 50, 1, oversampling=6, factors="gaussian", seed=5, backend=backend)
    X = problem.rank_one_point(np.random.default_rng(0)).numpy()
    assert truth.numpy().distance(X) < 0.1 * truth.norm()


def test_rank_one_does_not_blow_up_rows_that_say_little():
    """A row seen once, where the other factor is next to nothing."""
    rng = np.random.default_rng(0)
    u, v = 1 + rng.random(30), 1 + rng.random(20)
    v[0] = 1e-9
    a = np.outer(u, v)
    a[0, 1:] = np.nan
    a[0, 0] = 1.0
    X = lr.Completion.from_dense(a).rank_one_point(np.random.default_rng(0))
    assert np.abs(X.to_dense()[1:] - a[1:]).max() < 0.1
    assert np.abs(X.to_dense()[0]).max() < 1


def test_staged_fits_rank_one_by_steps_where_the_model_has_no_way_of_its_own():
    problem, _ = lr.datasets.random_completion(40, 30, 3, oversampling=4, seed=1)

    class Plain(lr.problems.MatrixProblem):
        """The same measurements, and nothing but what a model must have."""

        def __init__(self):
            super().__init__(problem.y, problem.shape, operator_scale=problem.operator_scale)

        forward, adjoint = (staticmethod(f) for f in (problem.forward, problem.adjoint))

    plain, rng = Plain(), np.random.default_rng(0)
    assert not supports(plain, HasRankOnePoint)
    X = Staged(inner_max_iter=4)(plain, 3, np.random.default_rng(0))
    Y = grow(plain, fit(plain, COARSE(plain, 1, rng), 4, 4), 2, rng, tol=0.2 * 2**0.5)
    np.testing.assert_array_equal(X.to_dense(), Y.to_dense())


def test_staged_starts_in_rescaled_units_where_rows_differ_much_in_size():
    problem, _ = lr.datasets.random_completion(80, 60, 3, oversampling=4, factors="ill-scaled", spread=1.0, seed=1)
    rescaled = problem.rescaled()
    assert rescaled is not None
    X = rescaled.back(Staged()._start(rescaled.problem, 3, np.random.default_rng(0)))
    np.testing.assert_array_equal(Staged()(problem, 3, np.random.default_rng(0)).to_dense(), X.to_dense())


def test_staged_at_rank_one_and_at_full_rank():
    problem, _ = lr.datasets.random_completion(40, 6, 3, oversampling=1.5, seed=1)
    for rank in (1, 2, 6):
        X = Staged()(problem, rank, np.random.default_rng(0))
        assert X.rank == rank
        assert X.is_finite()


@pytest.mark.parametrize("rank", [5, 8])
def test_staged_finds_every_direction_where_rank_one_is_noise(rank, monkeypatch, backend):
    """As with millions of rows, where a few sweeps from a random vector have found nothing."""
    problem, truth = lr.datasets.random_completion(500, 400, rank, oversampling=10, factors="gaussian", seed=0, backend=backend)
    assert problem.rescaled() is None
    truth, rng = truth.numpy(), np.random.default_rng(1)
    left, right = (a - q @ (q.T @ a) for a, q in ((rng.standard_normal((len(q), 1)), q) for q in (truth.U, truth.V)))
    size = 0.4 * truth.s[0] / np.linalg.norm(left) / np.linalg.norm(right)  # what the noise of sampling is fitted with
    noise = on(backend, lr.FixedRank.from_factors(size * left, right))
    monkeypatch.setattr(lr.Completion, "rank_one_point", lambda self, rng: noise)
    X = Staged()(problem, rank, np.random.default_rng(0)).numpy()
    assert X.rank == rank
    for found, wanted in ((X.U, truth.U), (X.V, truth.V)):
        assert np.linalg.svd(wanted.T @ found, compute_uv=False).min() > 0.8


def test_staged_keeps_rank_one_where_it_is_most_of_the_data():
    problem, _ = lr.datasets.random_completion(200, 150, 4, oversampling=6, factors="uniform", seed=0)
    assert problem.rescaled() is None
    rng = np.random.default_rng(0)
    X = normalized_pairs(problem, 4, rng, problem.rank_one_point(rng))
    np.testing.assert_array_equal(Staged()(problem, 4, np.random.default_rng(0)).to_dense(), X.to_dense())


def normalization(counts):
    """The plain twin of the weights of rows or columns: counts shrunk towards their mean, with half the median added."""
    mean, variance = counts.mean(), counts.var()
    c = mean + max(0, 1 - mean / variance) * (counts - mean)
    c = c + 0.5 * np.median(c)
    return (c / c.mean()) ** -0.5


@pytest.mark.parametrize("kept", [0, 1])
def test_normalized_pairs_against_a_dense_twin(dtype, backend, kept):
    rng = np.random.default_rng(2)
    mask = rng.random((40, 12)) < np.geomspace(0.15, 1, 12)
    a = random_array(rng, mask.shape, dtype)
    a[:, 3] *= dtype.type(8)
    problem = lr.Completion(*np.nonzero(mask), a[mask], mask.shape, backend=backend)
    data = np.where(mask, double(a), 0)
    X = lr.FixedRank.from_dense(data.astype(dtype), 1) if kept else None
    found = normalized_pairs(problem, 3 + kept, np.random.default_rng(0), X and check_point(X, problem, 1))
    # few enough columns for an SVD without iterations
    residual = np.where(mask, double(a) - (double(X.to_dense()) if kept else 0), 0)
    by_row, by_col = normalization(mask.sum(1)), normalization(mask.sum(0))
    T = by_row[:, None] * residual * by_col
    d1, d2 = (np.minimum(1, (q.mean() / q) ** 0.5) for q in ((abs(T) ** 2).sum(k) for k in (1, 0)))
    u, _, vh = np.linalg.svd(d1[:, None] * T * d2, full_matrices=False)
    left, right = (by_row / d1)[:, None] * u[:, :3], (by_col / d2)[:, None] * vh[:3].conj().T
    if kept:
        left, right = np.hstack([double(X.U), left]), np.hstack([double(X.V), right])
    U, V = np.linalg.qr(left)[0], np.linalg.qr(right)[0]
    direction = U @ (U.conj().T @ residual @ V) @ V.conj().T
    step = np.vdot(direction[mask], residual[mask]).real / np.linalg.norm(direction[mask]) ** 2
    wanted = step * direction + (double(X.to_dense()) if kept else 0)
    np.testing.assert_allclose(double(found.to_dense()), wanted, atol=1e4 * eps(dtype) * abs(wanted).max())


def test_an_even_pattern_is_not_normalized():
    problem, _ = lr.datasets.random_completion(300, 200, 3, oversampling=8, factors="gaussian")
    G = problem.gradient(problem.zero(1))
    even = Normalization.of(G)
    assert np.ptp(even.rows * even.left) < 0.05
    assert np.ptp(even.cols * even.right) < 0.05


def test_staged_start_on_uneven_data():
    """Largest principal angles between the start's and the true column spaces: cosines below 0.5 without normalization."""
    rng = np.random.default_rng(5)
    left, right = rng.standard_normal((3000, 6)), rng.standard_normal((600, 6))
    rows = rng.choice(3000, 80_000, p=(p := np.arange(1, 3001) ** -0.6) / p.sum())
    cols = rng.choice(600, 80_000, p=(p := np.arange(1, 601) ** -0.8) / p.sum())
    rows, cols = np.divmod(np.unique(rows * 600 + cols), 600)
    problem = lr.Completion(rows, cols, (left[rows] * right[cols]).sum(1), (3000, 600))
    X = Staged()(problem, 6, np.random.default_rng(0))
    assert np.linalg.svd(np.linalg.qr(right)[0].T @ X.V, compute_uv=False).min() > 0.8
    assert problem.gradient(X).residual_norm < 0.6 * problem.y_norm


def test_staged_is_not_drawn_to_heavy_columns(backend):
    """Singular vectors of a sparse matrix are theirs where it is not trimmed: cosines below 0.3 in place of 0.94."""
    rng = np.random.default_rng(0)
    left, right = (a / np.linalg.norm(a, axis=1)[:, None] for a in (rng.standard_normal((n, 5)) for n in (600, 500)))
    right[:4] *= 4
    rows, cols = lr.datasets.sample_pattern(rng, (600, 500), 30_000)
    problem = lr.Completion(rows, cols, (left[rows] * right[cols]).sum(1), (600, 500), backend=backend)
    assert problem.rescaled() is None
    X = Staged()(problem, 5, np.random.default_rng(0)).numpy()
    assert np.linalg.svd(np.linalg.qr(left)[0].T @ X.U, compute_uv=False).min() > 0.8


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_continuation_of_a_full_table_is_the_truncated_svd(dtype, backend):
    """With every entry observed each rank's best fit is known: the leading singular triples."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((20, 15)) + (1j * rng.standard_normal((20, 15)) if dtype == np.complex128 else 0)
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    a = (u * np.geomspace(100, 1e-3, 15)) @ vh
    problem = lr.Completion.from_dense(a.astype(dtype), backend=backend)
    X = Continuation()(problem, 4, np.random.default_rng(1)).numpy()
    best = lr.FixedRank.from_dense(a, 4)
    assert X.rank == 4
    for k in range(3):  # fitted; the last pair is only begun
        assert X.s[k] == pytest.approx(best.s[k], rel=1e-3)
        assert abs(np.vdot(X.U[:, k], best.U[:, k])) > 1 - 1e-3
        assert abs(np.vdot(X.V[:, k], best.V[:, k])) > 1 - 1e-3
    assert X.s[3] == pytest.approx(best.s[3], rel=0.1)


def test_continuation_is_growing_and_fitting_in_turn():
    problem, _ = lr.datasets.random_completion(40, 30, 3, oversampling=4, seed=1)
    rng = np.random.default_rng(0)
    X = COARSE(problem, 1, rng)
    for _ in range(2):
        X = grow(problem, fit(problem, X, 5, 30), 1, rng)
    Y = Continuation()(problem, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(X.to_dense(), Y.to_dense())


def test_continuation_recovers_what_staged_does_not():
    rng = np.random.default_rng(1000)
    u, v = (np.linalg.qr(rng.standard_normal((300, 5)))[0] for _ in range(2))
    truth = lr.FixedRank(u, np.geomspace(300, 3e-2, 5), v)
    rows, cols = lr.datasets.sample_pattern(rng, (300, 300), 4 * 5 * 595)
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), (300, 300))
    results = [lr.solve(problem, 5, "rcg", start=name, tol=1e-9) for name in ("staged", "continuation")]
    assert [r.converged for r in results] == [False, True]
    assert truth.distance(results[1].X) < 1e-7 * truth.norm()


def test_fitting_stops_when_it_is_told_to():
    problem, truth = lr.datasets.random_completion(60, 50, 2, oversampling=5, factors="gaussian", seed=1)
    start = STARTS["spectral"](problem, 2, np.random.default_rng(0))

    def misfit(X):
        return problem.gradient(X).residual_norm / problem.y_norm

    assert misfit(fit(problem, start, 5, 200, tol=1e-4)) <= 1e-4
    assert misfit(fit(problem, start, 5, 200, tol=1e-4)) > 1e-6  # and not much further
    assert truth.distance(fit(problem, truth, 5, 200)) < 1e-12 * truth.norm()  # nothing to do
    low = fit(problem, lr.FixedRank(truth.U[:, :1].copy(), truth.s[:1], truth.V[:, :1].copy()), 5, 200)
    G = problem.gradient(low)
    slope = lr.geometry.riemannian_gradient(low, G, lr.geometry.Weights())
    assert slope.norm() < 0.05 * G.residual_norm  # settled: hardly a slope is left


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_staged_in_single_precision_is_as_good_a_start(dtype, backend, monkeypatch):
    monkeypatch.setattr("lorank.problems.units.MIN_SINGLE", 0)
    made, _ = lr.datasets.random_completion(90, 80, 4, oversampling=5, dtype=dtype, seed=2)
    arrays = made.rows, made.cols, 1e30 * made.y, made.shape
    found = {}
    for precision in ("double", "auto"):
        problem = lr.Completion(*arrays, backend=backend, precision=precision)
        X = Staged()(problem, 4, np.random.default_rng(0))
        assert problem.backend.dtype(X.U) == dtype
        u = host(X.U)
        assert np.abs(u.conj().T @ u - np.eye(4)).max() < 1e-13  # orthonormal in double, whatever it was computed in
        found[precision] = host(X.to_dense())
    assert 0 < np.linalg.norm(found["auto"] - found["double"]) < 1e-4 * np.linalg.norm(found["double"])


def test_the_single_twin_of_a_problem(backend, monkeypatch):
    small = lr.Completion([0], [0], [1.0], backend=backend)
    assert small.single_precision() is None
    monkeypatch.setattr("lorank.problems.units.MIN_SINGLE", 0)
    for size, expected in ((1.0, 1.0), (1e30, 3e30), (1e-30, 3e-30)):  # in units of the largest where float32 has no room
        problem = lr.Completion([0, 1, 1], [0, 0, 1], np.array([1.0, -3.0, 2.0]) * size, backend=backend)
        single = problem.single_precision()
        twin, unit = single.problem, single.unit
        assert unit == pytest.approx(expected, rel=1e-14)
        assert twin.dtype == np.float32
        np.testing.assert_allclose(host(twin.y), np.array([1, -3, 2]) * size / unit, rtol=1e-6)
        assert twin.max_abs == pytest.approx(3 * size / unit, rel=1e-6)
        assert problem.dtype == np.float64
    for same in (twin, lr.Completion([0], [0], [0.0], backend=backend), lr.Completion([0], [0], [1.0], precision="double")):
        assert same.single_precision() is None
