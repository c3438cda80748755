"""Runs of phase retrieval: products with A, reused images, and recovery."""

from __future__ import annotations

import copy
import itertools
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lorank as lr
from helpers import (
    assert_close,
    dense_point,
    double,
    host,
    random_array,
    random_point,
    real_dtype,
    skip_where_numpy_cannot_go,
)
from lorank.geometry import FixedRank, Tangent, retract
from lorank.phase import gradient as phase_gradient
from phase_models import KINDS, N, count, hermitian_point, hermitian_tangent, make

FISHER = lr.solvers.RCG(reweighting=lr.phase.Fisher())


# -- images kept from one iteration to the next ------------------------------------------------------------------------
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_image_after_a_retraction_needs_no_product(kind, rank, dtype, backend):
    problem, A = make(kind, dtype, backend)
    rng, dtype = np.random.default_rng(11), problem.dtype
    X = hermitian_point(rng, A.shape[1], rank, dtype, backend)
    counter = count(problem)
    xi, G = hermitian_tangent(rng, X), problem.gradient(X)
    G.squared_image_norm(xi)
    assert counter.applied == 2  # A U and A P
    for alpha in (-0.3, 1e-3, 2.0):  # also several from one point, as a safeguard tries them
        Y = retract(xi, alpha)
        assert_close(G.at(Y).image, A @ host(Y.U), dtype, 100)
    assert counter.applied == 2


def test_points_off_the_line_get_a_product(backend):
    """Their images are computed by A."""
    problem, A = make("matrix", np.complex128, backend)
    rng = np.random.default_rng(12)
    X = hermitian_point(rng, N, 2, np.complex128, backend)
    counter = count(problem)
    xi, G = hermitian_tangent(rng, X), problem.gradient(X)
    G.squared_image_norm(xi)
    Y = retract(xi, 0.5)
    off = Y.U + backend.asarray(1e-10 * random_array(rng, Y.U.shape, np.complex128))
    far, wide = (hermitian_point(rng, N, rank, np.complex128, backend).U for rank in (2, 3))
    others = [far, off, backend.copy(Y.U[:, :1]), wide]
    for k, U in enumerate(others, 1):
        np.testing.assert_allclose(host(G.images.after(U).AU), A @ host(U), atol=1e-13)
        assert counter.applied == 2 + k


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_step_without_length_leaves_no_line(dtype):
    """``P^H P`` has no inverse there."""
    problem, A = make("matrix", dtype)
    X, Y = (hermitian_point(np.random.default_rng(k), N, 2, dtype) for k in range(2))
    nothing = np.zeros_like(X.U)
    G = problem.gradient(X)
    G.squared_image_norm(Tangent(X, np.eye(2, dtype=dtype), nothing, nothing))
    assert_close(G.at(Y).image, A @ Y.U, dtype)


def test_images_are_refreshed(monkeypatch):
    monkeypatch.setattr(phase_gradient, "MAX_REUSES", 3)
    problem, A = make("matrix", np.float64)
    rng = np.random.default_rng(13)
    G, fresh = problem.gradient(hermitian_point(rng, N, 1, np.float64)), []
    counter = count(problem)
    for _ in range(9):
        xi = hermitian_tangent(rng, G.X)
        G.squared_image_norm(xi)
        X, before = retract(xi, 0.1), counter.applied
        G = G.at(X)
        np.testing.assert_allclose(G.image, A @ X.U, atol=1e-13)
        fresh.append(counter.applied > before)
    assert fresh == [False, False, False, True] * 2 + [False]


def test_images_stay_exact_to_rounding_during_a_run():
    problem, _ = lr.datasets.random_phase(20, dtype=np.complex128, seed=3)
    A, off, ages = problem.linear_map.A, [], []

    def compare(problem, state, clock):
        image = A @ state.X.U
        off.append(np.abs(state.gradient.image - image).max() / np.abs(image).max())
        ages.append(state.gradient.images.age)

    result = lr.solve(problem, 1, "adaptive-prgd", tol=1e-10, max_iter=300, callbacks=[compare])
    assert max(off) < 1e-13
    assert result.n_iter > 2 * phase_gradient.MAX_REUSES
    period = phase_gradient.MAX_REUSES + 1  # put together from earlier ones as long as allowed
    assert ages == [k % period for k in range(len(ages))]


@pytest.mark.parametrize("n", [2, 12])
def test_a_run_does_not_depend_on_the_one_before(n):
    """Not to the last bit, though with two unknowns every point lies in the span of another run's last step."""
    problem, _ = lr.datasets.random_phase(n, dtype=np.complex128, oversampling=8, seed=1)
    for name in ("adaptive-prgd", "rcg"):
        one, two = (lr.solve(problem, 1, name, tol=1e-9) for _ in range(2))
        np.testing.assert_array_equal(one.X.U, two.X.U)
        np.testing.assert_array_equal(one.X.s, two.X.s)


@pytest.mark.parametrize("kind", ["matrix", "functions"])
def test_runs_in_other_threads_change_nothing(kind):
    """One problem shared by four threads, each with its own solver: the same histories as one after the other."""
    problem, _ = lr.datasets.random_phase(24, oversampling=3, dtype=np.complex128, seed=1)
    if kind == "functions":
        A = problem.linear_map.A
        problem = lr.PhaseRetrieval.from_functions(lambda v: A @ v, lambda w: A.conj().T @ w, problem.y, 24)
    names = ["adaptive-prgd", "rcg", FISHER, "auto"]

    def history(name):
        return lr.solve(problem, 1, name, tol=0, max_iter=40).history.residual

    expected = [history(name) for name in names]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(names)) as pool:
            found = [list(pool.map(history, names)) for _ in range(3)]
    finally:
        sys.setswitchinterval(interval)
    for histories in found:
        for one, other in zip(histories, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_problems_keep_no_state_of_a_run():
    problem, _ = lr.datasets.random_phase(12, seed=1)
    caches = {
        "max_abs",
        "gram_operator",
        "probes",
        "probe_image",
        "single_precision_map",
        "single_precision_gram",
    }  # made of the data alone
    before = {name: id(value) for name, value in vars(problem).items()}
    for name in ("adaptive-prgd", "rcg", "auto", lr.phase.MessagePassing()):
        lr.solve(problem, 1, name, max_iter=5)
    assert {name: id(value) for name, value in vars(problem).items() if name not in caches} == before


# -- how much is computed ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row_norms", ["exact", 16])
@pytest.mark.parametrize("name", ["prgd", "adaptive-prgd", "rgd", "adaptive-rgd", "rcg", FISHER, "auto"])
def test_two_products_an_iteration(name, row_norms):
    """With A, or its adjoint; beyond that only a fresh image now and then. With probes, G is never formed.

    Counted step by step, and as long as there is something to fit: where only rounding is left, the residual need not fall
    any more, and each shorter step that is tried then may cost a product.
    """
    problem, _ = lr.datasets.random_phase(70, seed=4, row_norms=row_norms)
    counter, so_far = count(problem, exact=row_norms == "exact"), []
    lr.solve(problem, 1, name, tol=1e-10, max_iter=60, callbacks=[lambda p, s, c: so_far.append(counter.products)])
    products, fresh = np.diff(so_far), 0 if name in ("prgd", "rgd") else len(so_far) // phase_gradient.MAX_REUSES
    assert len(products) > 10
    assert counter.widest <= 17  # one column and 16 probes, and never 70
    assert set(products[1:]) <= {2, 3}
    assert products[0] <= 2  # the probes' images may come from the start
    assert (products == 3).sum() <= fresh


def test_two_products_when_messages_are_passed(backend):
    problem, _ = lr.datasets.random_phase(30, oversampling=4, seed=1, backend=backend)
    assert problem.gram_operator.energy > 0  # factorised once, and not in a step
    counter, so_far = count(problem), []
    solver = lr.phase.MessagePassing(near=0)
    lr.solve(problem, 1, solver, tol=0, max_iter=8, callbacks=[lambda p, s, c: so_far.append(counter.products)])
    assert set(np.diff(so_far)) == {2}


@pytest.mark.parametrize("name", ["prgd", "adaptive-prgd"])
def test_exact_row_norms_once_an_iteration(name):
    problem, _ = lr.datasets.random_diffraction(12, masks=4, seed=4)
    calls, exact = [], problem.linear_map.row_squares
    problem.linear_map.row_squares = lambda d: calls.append(1) or exact(d)
    result = lr.solve(problem, 1, name, tol=0, max_iter=20)
    assert len(calls) == result.n_iter == 20


# -- recovery ----------------------------------------------------------------------------------------------------------
def random_signal(kind):
    if kind.startswith("diffraction"):
        shape, masks, seed = (9, 6, 1) if kind == "diffraction 1-D" else ((4, 3), 8, 2)
        return lr.datasets.random_diffraction(shape, masks=masks, seed=seed)
    return lr.datasets.random_phase(16, oversampling=8, dtype=np.complex128 if kind == "complex" else np.float64, seed=1)


@pytest.mark.parametrize("kind", ["real", "complex", "diffraction 1-D", "diffraction 2-D"])
@pytest.mark.parametrize("name", ["prgd", "adaptive-prgd", "rgd", "adaptive-rgd", "rcg", FISHER, "auto"])
def test_signals_are_recovered(name, kind):
    problem, x = random_signal(kind)
    result = lr.solve(problem, 1, name, tol=1e-10, max_iter=2000)
    assert result.converged, result
    assert result.signal.shape == x.shape
    assert result.signal.dtype == x.dtype
    assert lr.phase.phase_distance(result.signal, x) < 1e-8
    X, signal = result.X, result.signal.ravel()
    assert X.hermitian
    assert (X.s > 0).all()
    np.testing.assert_allclose(X.to_dense(), np.outer(signal, signal.conj()), atol=1e-12)
    np.testing.assert_allclose(X.to_dense(), np.outer(x.ravel(), x.ravel().conj()), atol=1e-7)
    assert np.linalg.eigvalsh(X.to_dense()).min() > -1e-12


@pytest.mark.parametrize("kind", ["real", "diffraction 2-D"])
@pytest.mark.parametrize("name", ["prgd", "adaptive-prgd"])
def test_signals_are_recovered_with_probes(name, kind):
    problem, x = random_signal(kind)
    result = lr.solve(problem.with_row_norms(3), 1, name, tol=1e-10, max_iter=2000)
    assert result.converged, result
    assert lr.phase.phase_distance(result.signal, x) < 1e-8


@pytest.mark.parametrize("name", ["adaptive-prgd", "auto"])
def test_signals_are_recovered_through_functions(name, backend):
    skip_where_numpy_cannot_go(backend)
    problem, x = lr.datasets.random_phase(16, oversampling=8, dtype=np.complex128, seed=2)
    A = problem.linear_map.A
    twin = lr.PhaseRetrieval.from_functions(
        lambda v: A @ v, lambda w: A.conj().T @ w, problem.y, 16, check=True, backend=backend
    )
    result = lr.solve(twin, 1, name, tol=1e-10, max_iter=1000)
    assert result.converged, result
    assert lr.phase.phase_distance(result.signal, x) < 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_single_precision_stays_single(kind, dtype):
    """Also where a user's functions compute in double."""
    if kind.startswith("diffraction"):
        shape = 9 if kind == "diffraction 1-D" else (4, 3)
        x = random_array(np.random.default_rng(3), shape, np.complex64)
        problem, _ = lr.datasets.random_diffraction(x, masks=6, seed=3)
    else:
        problem, x = lr.datasets.random_phase(16, oversampling=8, dtype=dtype, seed=3)
    if kind == "functions":
        A = double(problem.linear_map.A)
        pair = (lambda v: A @ v), (lambda w: A.conj().T @ w)
        problem = lr.PhaseRetrieval.from_functions(*pair, problem.y, 16, dtype=dtype)
    assert problem.dtype == x.dtype
    for name in ("adaptive-prgd", "rcg"):
        result = lr.solve(problem, 1, name, tol=1e-5)
        assert result.converged, result
        assert result.X.U.dtype == result.signal.dtype == x.dtype
        assert result.X.s.dtype == np.float32
        assert lr.phase.phase_distance(result.signal, x) < 1e-4


def test_every_iterate_is_hermitian():
    seen = []
    for kind, name in itertools.product(("complex", "diffraction 2-D"), ("prgd", "adaptive-rgd", "rcg")):
        problem, _ = random_signal(kind)
        lr.solve(problem, 1, name, max_iter=10, tol=0, callbacks=[lambda problem, state, clock: seen.append(state.X)])
    assert len(seen) == 6 * 11
    assert all(X.hermitian and (X.s > 0).all() for X in seen)


@pytest.mark.filterwarnings("ignore:phase retrieval of one signal")
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_two_signals_at_once(dtype):
    """Rank 2: incoherent intensities |A x_1|^2 + |A x_2|^2, of which result.signal is the leading part."""
    rng = np.random.default_rng(14)
    A, factor = random_array(rng, (200, 8), dtype), random_array(rng, (8, 2), dtype)
    truth = FixedRank.semidefinite(factor)
    for name in ("adaptive-prgd", "rcg", "auto"):
        result = lr.solve(lr.PhaseRetrieval(A, (np.abs(A @ factor) ** 2).sum(1)), 2, name, tol=1e-10, max_iter=2000)
        assert result.converged, result
        assert result.X.hermitian
        assert truth.distance(result.X) < 1e-8 * truth.norm()
        assert lr.phase.phase_distance(result.signal, np.sqrt(truth.s[0]) * truth.U[:, 0]) < 1e-7


def test_a_user_defined_start(backend):
    problem, x = lr.datasets.random_phase(16, oversampling=8, dtype=np.complex128, seed=5, backend=backend)
    near = (x + 0.1)[:, None]
    for start in (FixedRank.semidefinite(near), FixedRank.from_factors(near, near + 0.05j)):
        result = lr.solve(problem, 1, "adaptive-rgd", start=start, tol=1e-10)
        assert result.X.hermitian
        assert lr.phase.phase_distance(result.signal, x) < 1e-8


@pytest.mark.parametrize("rank", [1, 3])
def test_project_feasible_is_the_nearest_semidefinite_matrix(rank, dtype, backend):
    problem, _ = make("matrix", dtype, backend)
    rng = np.random.default_rng(15)
    X = random_point(rng, (N, N), rank, dtype, backend)
    near = FixedRank.from_factors(X.U * X.s, X.U + 0.3 * X.V, backend=backend)
    for Y in (X, near, FixedRank(X.U, X.s, backend.copy(X.U), backend), FixedRank(X.U, X.s, -X.U, backend)):
        Z = problem.project_feasible(Y)
        dense = dense_point(Y)
        values, vectors = np.linalg.eigh((dense + dense.conj().T) / 2)
        values, vectors = np.maximum(values[::-1][:rank], 0), vectors[:, ::-1][:, :rank]
        assert Z.hermitian
        assert Z.dtype == dtype
        assert Z.real_dtype == real_dtype(dtype)
        assert (np.diff(host(Z.s)) <= 0).all()
        assert_close(Z.s, values, dtype, 100, scale=2)
        assert_close(dense_point(Z), (vectors * values) @ vectors.conj().T, dtype, 200, scale=2)
    Z = hermitian_point(rng, N, rank, dtype, backend)
    assert problem.project_feasible(Z) is Z


def test_zero_measurements_give_zero():
    result = lr.solve(lr.PhaseRetrieval.coded_diffraction(np.ones((3, 4, 2)), np.zeros((3, 4, 2))), 1)
    assert result.converged
    assert not result.X.to_dense().any()
    assert result.signal.shape == (4, 2)
    assert not result.signal.any()


def test_problems_can_be_pickled_and_copied():
    for problem in (lr.datasets.random_phase(8, seed=1, row_norms=2)[0], lr.datasets.random_diffraction((3, 4), seed=1)[0]):
        expected = lr.solve(problem, 1, "adaptive-prgd", max_iter=10).X.U
        for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
            np.testing.assert_array_equal(lr.solve(twin, 1, "adaptive-prgd", max_iter=10).X.U, expected)
