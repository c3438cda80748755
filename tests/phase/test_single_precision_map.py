"""The map in single precision, its Gram matrix and the spectral initialization, compared with dense computations."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import eps, host, random_array
from lorank.phase.gram import SinglePrecisionGram
from lorank.phase.linear_maps import single_precision_map
from lorank.phase.start import spectral_signal
from phase_models import KINDS, make, of_problem


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind, dtype, backend):
    problem, A = make(kind, dtype, backend)
    rng, dtype = np.random.default_rng(1), of_problem(kind, dtype)
    rough = problem.single_precision_map
    v, w = (random_array(rng, (n, 1), dtype) for n in A.shape[::-1])
    B = A if rough.d is None else A / host(rough.d)[:, 0]
    tolerance = 100 * (np.finfo(np.float32).eps if rough.rounds else eps(dtype)) * np.linalg.norm(B)
    np.testing.assert_allclose(host(rough.apply(backend.asarray(v))), B @ v, atol=tolerance * np.linalg.norm(v))
    np.testing.assert_allclose(host(rough.adjoint(backend.asarray(w))), B.conj().T @ w, atol=tolerance * np.linalg.norm(w))
    exact = 100 * eps(dtype) * np.linalg.norm(B) * np.linalg.norm(v)
    np.testing.assert_allclose(host(rough.exact(backend.asarray(v))), B @ v, atol=exact)
    there_and_back = rough.scaled(rough.signal(backend.asarray(v)))
    np.testing.assert_allclose(host(there_and_back), v, rtol=100 * eps(dtype))
    if rough.row_energy is not None:
        np.testing.assert_allclose(host(rough.row_energy), (np.abs(B) ** 2).mean(1), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_uneven_columns_become_even(dtype, unit):
    rng = np.random.default_rng(2)
    A = (unit * random_array(rng, (60, 5), dtype) * np.array([1, 30, 0.1, 1e3, 0])).astype(dtype)
    rough = single_precision_map(lr.PhaseRetrieval(A, np.ones(60)).linear_map, lr.PhaseRetrieval(A, np.ones(60)).backend)
    B = A / rough.d[:, 0]
    norms = np.linalg.norm(B, axis=0)
    np.testing.assert_allclose(norms[:4], norms[0], rtol=1e-4)
    assert norms[4] == 0
    if rough.rounds:
        np.testing.assert_allclose(rough.B, B, rtol=1e-5)
        assert 1e-3 < norms[0] / np.sqrt(60) < 1e3  # far from the ends of single precision


def test_even_columns_are_left_alone():
    problem, _ = lr.datasets.random_phase(20, oversampling=6, seed=1)
    assert problem.single_precision_map.d is None
    np.testing.assert_array_equal(problem.single_precision_map.B, problem.linear_map.A.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_the_gram_matrix_is_solved(dtype):
    rng = np.random.default_rng(3)
    B, b = random_array(rng, (40, 6), dtype), random_array(rng, (6, 1), dtype)
    gram = SinglePrecisionGram(B)
    assert gram.usable
    expected = np.linalg.solve(B.conj().T @ B, b)
    np.testing.assert_allclose(gram.solve(b), expected, atol=1e-3 * np.abs(expected).max())
    assert not SinglePrecisionGram(0 * B).usable


@pytest.mark.parametrize("columns", ["even", "uneven"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_start_is_the_leading_eigenvector(kind, columns, backend):
    problem, A = make(kind, np.complex128 if kind != "matrix" else np.float64, backend)
    if columns == "uneven":
        if kind != "matrix":
            pytest.skip("arrays show it")
        A = A * np.geomspace(1, 30, A.shape[1])
        problem = lr.PhaseRetrieval(A, host(problem.y), backend=backend)
    rough, (m, n) = problem.single_precision_map, A.shape
    B, y = A if rough.d is None else A / host(rough.d)[:, 0], host(problem.y)
    found = host(spectral_signal(rough, problem.y, backend, np.random.default_rng(0), steps=n))
    q, t = y / y.mean(), np.ones(m)
    if rough.row_energy is not None:
        energy = (np.abs(B) ** 2).sum(1)
        relative = energy / energy.mean() + 1e-3
        q, t = q / relative, 1 / relative
    t = t * (q - 1) / (q + np.sqrt(m / n) - 1)
    vectors = np.linalg.eigh(B.conj().T @ (t[:, None] * B))[1]
    assert abs(np.vdot(vectors[:, -1], found)) > 0.99 * np.linalg.norm(found)
    squares = np.abs(B @ found)[:, 0] ** 2
    assert squares @ y == pytest.approx(squares @ squares, rel=1e-3)  # in the best scale


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_the_start_is_better_than_the_plain_spectral_one(dtype):
    errors = []
    for seed in range(5):
        problem, x = lr.datasets.random_phase(100, oversampling=4, dtype=dtype, seed=seed)
        rng = np.random.default_rng(seed)
        points = problem.rank_one_point(rng), lr.starts.Spectral()(problem, 1, rng)
        errors.append([lr.phase.phase_distance(problem.signal(X), x) for X in points])
    better, plain = np.median(errors, 0)
    assert better < 0.8 * plain


def test_the_staged_start_is_this_one():
    problem, _ = lr.datasets.random_phase(30, oversampling=4, seed=1)
    one, other = (
        start(np.random.default_rng(0)) for start in (problem.rank_one_point, lambda rng: lr.starts.Staged()(problem, 1, rng))
    )
    np.testing.assert_array_equal(one.U, other.U)
