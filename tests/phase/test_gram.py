"""Normal equations of phase retrieval, compared with dense computations."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import lorank as lr
from helpers import assert_close, eps, host, random_array
from lorank.phase import PhaseRetrieval
from lorank.phase import gram as module
from lorank.phase.gram import Iterations, Spectrum
from phase_models import KINDS, count, hermitian_point, hermitian_tangent, inner_products, make, of_problem


@pytest.mark.parametrize("kind", KINDS)
def test_solutions_and_traces(kind, dtype, backend):
    problem, A = make(kind, dtype, backend)
    kept, gram = problem.gram_operator, A.conj().T @ A
    assert isinstance(kept, Iterations if kind == "functions" else Spectrum)
    n, exact = len(gram), kind != "functions"
    b = random_array(np.random.default_rng(1), (n, 1), of_problem(kind, dtype))
    for shift in (0.5, 30.0):
        solution = kept.solve(backend.asarray(b), shift)
        x, trace = solution.x, solution.trace
        system = gram + shift * np.eye(n)
        expected = np.linalg.solve(system, b)
        tolerance = 1e-3 if not exact else 1e4 * eps(dtype)
        assert np.abs(host(x) - expected).max() <= tolerance * np.abs(expected).max() * np.linalg.cond(system)
        assert trace == pytest.approx(np.trace(gram @ np.linalg.inv(system)).real, rel=1e-3 if exact else 0.4)
    assert kept.energy == pytest.approx((np.abs(A) ** 2).sum(), rel=1e-4 if exact else 0.3)


def test_large_arrays_are_not_factorised(monkeypatch):
    monkeypatch.setattr(module, "FACTORED_MAX_UNKNOWNS", 5)
    problem, A = make("matrix", np.complex128)
    assert isinstance(problem.gram_operator, Iterations)
    b = random_array(np.random.default_rng(2), (A.shape[1], 1), np.complex128)
    guess = None
    for shift in (2.0, 1.0):  # the second time from the first solution
        solution = problem.gram_operator.solve(b, shift, guess)
        guess = solution.guess
        np.testing.assert_allclose(solution.x, np.linalg.solve(A.conj().T @ A + shift * np.eye(len(b)), b), atol=1e-3)
    nothing = problem.gram_operator.solve(0 * b, 1.0).x
    assert np.abs(nothing).max() < 1e-3


@pytest.mark.parametrize("kind", ["matrix", "diffraction 2-D"])
def test_the_spectrum_applies_what_it_solves(kind, dtype, backend):
    problem, A = make(kind, dtype, backend)
    a = backend.asarray(random_array(np.random.default_rng(3), (A.shape[1], 2), of_problem(kind, dtype)))
    assert_close(problem.gram_operator.apply(a, 0.25), A.conj().T @ (A @ host(a)) + 0.25 * host(a), dtype, 1000, scale=100)


@pytest.mark.parametrize("kind", KINDS)
def test_weighted_gradient_and_energy(kind, dtype, backend):
    """Against ``A^H diag(w d) A`` and ``sum_i w_i (A xi)_i^2``."""
    problem, A = make(kind, dtype, backend)
    rng, dtype = np.random.default_rng(4), of_problem(kind, dtype)
    X = hermitian_point(rng, A.shape[1], 1, dtype, backend)
    w = rng.random(problem.m).astype(host(problem.y).dtype)
    G = problem.gradient(X)
    dense = A.conj().T @ ((w * host(G.residual))[:, None] * A)
    weighted = G.weighted(backend.asarray(w))
    assert_close(weighted.GV, dense @ host(X.U), dtype, 1000, scale=100)
    assert weighted.GhU is weighted.GV
    xi = hermitian_tangent(rng, X)
    image = inner_products(A, host(xi.to_dense())).real
    expected = (w * image**2).sum()
    assert weighted.squared_image_norm(xi) == pytest.approx(expected, rel=1e4 * eps(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_weighted_gradient_by_differences(dtype):
    problem, x = lr.datasets.random_phase(6, dtype=dtype, seed=1)
    rng = np.random.default_rng(5)
    x = x + 0.3 * random_array(rng, x.shape, dtype)
    w = rng.random(problem.m)

    def misfit(x):
        return (w * (np.abs(problem.linear_map.A @ x) ** 2 - problem.y) ** 2).sum() / 2

    X = lr.FixedRank.semidefinite(x[:, None])
    gradient = 2 * problem.gradient(X).weighted(w).times(x[:, None])[:, 0]  # of the misfit as a function of x
    for _ in range(5):
        v, t = random_array(rng, x.shape, dtype), 1e-5
        slope = (misfit(x + t * v) - misfit(x - t * v)) / (2 * t)
        assert slope == pytest.approx(np.vdot(gradient, v).real, rel=1e-6)


def test_a_point_whose_image_is_known_needs_no_product(backend):
    problem, A = make("matrix", np.complex128, backend)
    x = random_array(np.random.default_rng(6), (A.shape[1], 1), np.complex128)
    counter = count(problem)
    G = problem.gradient_of_signal(backend.asarray(x), backend.asarray(A @ x))
    np.testing.assert_allclose(host(G.X.to_dense()), x @ x.conj().T, atol=1e-13)
    np.testing.assert_allclose(host(G.residual), (np.abs(A @ x) ** 2)[:, 0] - host(problem.y), atol=1e-12)
    assert counter.products == 0
    assert G.X.hermitian


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_solved_problems_can_be_copied_and_pickled(dtype):
    rng = np.random.default_rng(0)
    A = random_array(rng, (200, 20), dtype)
    problem = PhaseRetrieval(A, np.abs(A @ random_array(rng, 20, dtype)) ** 2)
    found = lr.solve(problem, 1).X
    for twin in (copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        np.testing.assert_array_equal(lr.solve(twin, 1).X.U, found.U)
