"""The problem of phase retrieval: conformance, and comparisons with dense computations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lorank as lr
from helpers import (
    assert_close,
    dense_point,
    dense_tangent,
    double,
    eps,
    host,
    random_array,
    random_point,
    random_tangent,
    real_dtype,
)
from lorank.geometry import Weights, riemannian_gradient
from lorank.phase import linear_maps
from lorank.problems.testing import check_gradient, dot_test
from phase_models import (
    KINDS,
    M,
    N,
    combination,
    count,
    dense_diffraction,
    hermitian_point,
    hermitian_tangent,
    inner_products,
    make,
    of_problem,
)


# -- conformance and dense twins ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_conformance(kind, dtype, backend):
    problem, _ = make(kind, dtype, backend)
    assert problem.dtype == of_problem(kind, dtype)
    assert backend.dtype(problem.y) == real_dtype(dtype)
    assert dot_test(problem) <= 100 * eps(dtype)
    for rank in (1, 2):
        assert abs(check_gradient(problem, rank) - 2) < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_frames_against_dense(kind, dtype):
    problem, A = make(kind, dtype)
    rng, dtype = np.random.default_rng(1), problem.dtype
    frame = problem.linear_map
    assert (frame.m, frame.n) == A.shape
    v, w = random_array(rng, (A.shape[1], 3), dtype), random_array(rng, (A.shape[0], 3), dtype)
    assert_close(frame.apply(v), A @ v, dtype)
    assert_close(frame.adjoint(w), A.conj().T @ w, dtype)
    assert frame.apply(v).dtype == frame.adjoint(w).dtype == dtype
    if kind != "functions":
        assert_close(frame.fourth_power(), ((np.abs(A) ** 2).sum(1) ** 2).sum(), dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_forward_and_adjoint_against_their_definitions(kind, dtype, backend):
    problem, A = make(kind, dtype, backend)
    rng, dtype = np.random.default_rng(2), problem.dtype
    left, right = (random_array(rng, (A.shape[1], 2), dtype) for _ in range(2))
    there, other = backend.asarray(left), backend.asarray(right)
    assert_close(problem.forward(there, other), inner_products(A, double(left) @ double(right).conj().T), dtype, 100)
    assert_close(problem.forward(there, there), inner_products(A, double(left) @ double(left).conj().T), dtype, 100)
    p = random_array(rng, A.shape[0], dtype)
    matrix, dense = problem.adjoint(backend.asarray(p)), combination(A, double(p))
    scale = np.linalg.norm(dense)
    assert_close(matrix @ there, dense @ left, dtype, scale=scale * 3)
    assert_close(matrix.rmatmat(there), dense.conj().T @ left, dtype, scale=scale * 3)
    if not hasattr(backend, "device"):  # as a SciPy LinearOperator, which takes vectors, too
        assert_close(matrix @ left[:, 0], dense @ left[:, 0], dtype, scale=scale * 3)
        assert_close(matrix.rmatvec(left[:, 0]), dense.conj().T @ left[:, 0], dtype, scale=scale * 3)


@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_against_its_dense_twin(kind, rank, hermitian, dtype, backend):
    problem, A = make(kind, dtype, backend)
    rng, dtype, n = np.random.default_rng(3), problem.dtype, A.shape[1]
    X = hermitian_point(rng, n, rank, dtype, backend) if hermitian else random_point(rng, (n, n), rank, dtype, backend)
    G = problem.gradient(X)
    residual = inner_products(A, dense_point(X)) - host(problem.y)
    dense = combination(A, residual)
    scale = np.linalg.norm(dense)
    assert_close(G.residual, residual, dtype, 100)
    assert backend.is_complex(G.residual) == (dtype.kind == "c" and not hermitian)
    assert (G.GhU is G.GV) == hermitian
    v = random_array(rng, (n, 2), dtype)
    there = backend.asarray(v)
    for actual, expected in (
        (G.GV, dense @ host(X.V)),
        (G.GhU, dense.conj().T @ host(X.U)),
        (G.times(there), dense @ v),
        (G.adjoint_times(there), dense.conj().T @ v),
        (G.matrix @ there, dense @ v),
    ):
        assert backend.dtype(actual) == dtype
        assert_close(actual, expected, dtype, 100, scale)
    if problem.probes is None:
        assert_close(G.squared_norms[0], (np.abs(dense) ** 2).sum(1), dtype, 200, scale**2)
        assert_close(G.squared_norms[1], (np.abs(dense) ** 2).sum(0), dtype, 200, scale**2)
    else:  # an estimate, and this is what it is made of
        probes = double(problem.probes)
        assert_close(G.squared_norms[0], (np.abs(dense @ probes) ** 2).mean(1), dtype, 200, scale**2)
        assert_close(G.squared_norms[1], (np.abs(dense.conj().T @ probes) ** 2).mean(1), dtype, 200, scale**2)
    assert (G.squared_norms[1] is G.squared_norms[0]) == (hermitian or dtype.kind != "c")


@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_energy_and_slope(kind, rank, hermitian, dtype, backend):
    problem, A = make(kind, dtype, backend)
    rng, dtype, n = np.random.default_rng(4), problem.dtype, A.shape[1]
    X = hermitian_point(rng, n, rank, dtype, backend)
    xi = hermitian_tangent(rng, X) if hermitian else random_tangent(rng, X)
    image, G = inner_products(A, dense_tangent(xi)), problem.gradient(X)
    assert_close(problem.squared_image_norm(xi), np.linalg.norm(image) ** 2, dtype, 200)
    scale = np.linalg.norm(image) * G.residual_norm
    assert_close(xi.inner(G), np.vdot(image, double(G.residual)).real, dtype, 200, scale)


def test_operator_scale_is_the_mean_of_fourth_powers():
    """Over random unit vectors z, ``|A(z z^H)|^2 / |z z^H|_F^2``."""
    for kind, dtype in (("matrix", np.float64), ("matrix", np.complex128), ("diffraction 1-D", np.complex128)):
        problem, A = make(kind, dtype)
        z = random_array(np.random.default_rng(5), (A.shape[1], 20_000), problem.dtype)
        z /= np.linalg.norm(z, axis=0)
        assert problem.operator_scale == pytest.approx((np.abs(A @ z) ** 4).sum(0).mean(), rel=0.02)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_operator_scale_of_functions_is_an_estimate(scale, dtype):
    rng = np.random.default_rng(5)
    A, y = scale * random_array(rng, (400, 7), dtype), rng.random(400)
    twin = lr.PhaseRetrieval.from_functions(lambda v: A @ v, lambda w: A.conj().T @ w, y, 7, dtype=dtype)
    assert twin.operator_scale == pytest.approx(lr.PhaseRetrieval(A, y).operator_scale, rel=0.15)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("columns", [0, 1, 3, N - 1, N, N + 1])
def test_row_norms_in_blocks(columns, dtype, monkeypatch):
    """G by blocks of columns, of at least one."""
    monkeypatch.setattr(linear_maps, "BLOCK_ENTRIES", columns * M)
    problem, A = make("matrix", dtype)
    d = random_array(np.random.default_rng(6), M, dtype)
    expected = (np.abs(combination(A, d)) ** 2).sum(1)
    assert_close(problem.linear_map.row_squares(d), expected, dtype, 100)


@pytest.mark.parametrize("signal", [(8,), (7,), (1,), (4, 6), (5, 3), (1, 5), (3, 1)], ids=str)
@pytest.mark.parametrize("masks", [1, 2, 5])
@pytest.mark.parametrize("residual", [np.float32, np.complex64])
def test_row_norms_of_coded_diffraction(masks, signal, residual, dtype):
    """Exact by Fourier transforms, for real and complex masks, in 1-D and 2-D, for odd and even sizes."""
    rng = np.random.default_rng(7)
    D = random_array(rng, (masks, *signal), dtype)
    d = random_array(rng, D.size, np.result_type(real_dtype(dtype), residual))
    A = dense_diffraction(D)
    expected = (np.abs(A.conj().T @ (double(d)[:, None] * A)) ** 2).sum(1)
    squares = linear_maps.DiffractionMap(D).row_squares(d)
    assert squares.shape == (A.shape[1],)
    assert (squares >= 0).all()
    assert_close(squares, expected, dtype, 100)


# -- probes ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_probes_are_unbiased(dtype):
    """The mean over all probes that can be drawn is the exact row norm, to rounding."""
    rng = np.random.default_rng(8)
    problem = lr.PhaseRetrieval(random_array(rng, (12, 3), dtype), rng.random(12))
    X = random_point(rng, (3, 3), 1, dtype)
    exact = problem.gradient(X)
    entries = [1, -1] if dtype == np.float64 else [1, 1j, -1, -1j]
    probing = problem.with_row_norms(4)
    assert set(problem.with_row_norms(50).probes.ravel()) == set(entries)
    probing.probes = np.array(list(itertools.product(entries, repeat=3))).T.astype(dtype)
    G = probing.gradient(X)
    np.testing.assert_allclose(G.squared_norms[0], exact.squared_norms[0], rtol=1e-12)
    np.testing.assert_allclose(G.squared_norms[1], exact.squared_norms[1], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("kind", ["matrix", "diffraction 2-D"])
def test_more_probes_mean_smaller_errors(kind, dtype):
    problem, _ = make(kind, dtype)
    X = hermitian_point(np.random.default_rng(9), problem.shape[0], 1, problem.dtype)
    exact, error = problem.gradient(X).squared_norms[0], {}
    for number in (4, 64):
        drawn = np.array([problem.with_row_norms(number, seed).gradient(X).squared_norms[0] / exact for seed in range(60)])
        error[number] = np.sqrt(((drawn - 1) ** 2).mean())
        assert abs(drawn.mean() - 1) < 4 * error[number] / np.sqrt(60)
    assert 3 < error[4] / error[64] < 5.3  # like 1 / sqrt(number): 4
    assert error[64] < 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_products_batched_with_probes_are_the_same(kind, dtype, backend):
    problem, _ = make(kind, dtype, backend, row_norms=5)
    X = hermitian_point(np.random.default_rng(10), problem.shape[0], 1, problem.dtype, backend)
    plain, batched = problem.gradient(X), problem.gradient(X)
    counter = count(problem, exact=False)
    _ = batched.squared_norms[0]
    assert counter.adjoined == 1
    assert counter.widest == 6
    assert_close(batched.GV, double(plain.GV), problem.dtype, scale=np.linalg.norm(host(plain.GV)))
    assert counter.adjoined == 2  # the plain one's; the batched product was there already
    assert batched.GV.is_contiguous() if hasattr(batched.GV, "is_contiguous") else batched.GV.flags.c_contiguous


def test_probes_by_number_and_seed():
    problem, _ = make("matrix", np.complex64)
    assert problem.probes is None
    twin = problem.with_row_norms(5, seed=3)
    assert twin.probes.shape == (N, 5)
    assert twin.probes.dtype == np.complex64
    assert problem.probes is None
    assert twin.linear_map is problem.linear_map
    np.testing.assert_allclose(twin.probe_image, problem.linear_map.A @ twin.probes, rtol=1e-5)
    other = twin.with_row_norms(5, seed=4)  # and not with the image of the first one's probes
    np.testing.assert_allclose(other.probe_image, problem.linear_map.A @ other.probes, rtol=1e-5)
    assert not np.array_equal(other.probes, twin.probes)
    again, _ = make("matrix", np.complex64, row_norms=np.int64(5))
    np.testing.assert_array_equal(again.probes, problem.with_row_norms(5, seed=0).probes)
    assert twin.with_row_norms("exact").probes is None


def test_auto_takes_exact_row_norms_where_they_are_cheap():
    def probes(model, *data):
        drawn = model(*data).probes
        return 0 if drawn is None else drawn.shape[1]

    assert probes(lr.PhaseRetrieval, np.ones((70, 64)), np.ones(70)) == 0
    assert probes(lr.PhaseRetrieval, np.ones((70, 65)), np.ones(70)) == 16
    assert probes(lr.PhaseRetrieval.coded_diffraction, np.ones((16, 99)), np.ones((16, 99))) == 0
    assert probes(lr.PhaseRetrieval.coded_diffraction, np.ones((17, 9)), np.ones((17, 9))) == 16
    A = np.ones((9, 3))
    pair = (lambda v: A @ v), (lambda w: A.T @ w)
    assert probes(lr.PhaseRetrieval.from_functions, *pair, np.ones(9), 3) == 16


def test_the_gradient_in_the_metric_is_hermitian(dtype):
    """Both sides of the metric and of the gradient are equal, so that one factor suffices."""
    problem, _ = make("matrix", dtype)
    G = problem.gradient(hermitian_point(np.random.default_rng(18), N, 1, dtype))
    for metric in (lr.metrics.Canonical(), lr.metrics.RowColumn(), lr.metrics.Shampoo()):
        weights, _ = metric.weights(G, metric.start(G))
        assert riemannian_gradient(G.X, G, weights).hermitian
    assert riemannian_gradient(G.X, G, Weights()).hermitian
