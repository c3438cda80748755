"""Gauss-Newton, IRLS and the linear systems inside them, against dense twins."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import PlainSensing, dense_data, dense_tangent, host, random_array, random_point, random_problem, random_tangent
from lorank.geometry import Tangent
from lorank.loop.state import State
from lorank.solvers.gauss_newton import GaussNewton
from lorank.solvers.irls import IRLS, IRLSState
from lorank.solvers.tangent_system import Damping, TangentSystem, inner

DOUBLE = [np.dtype("float64"), np.dtype("complex128")]


def coordinates(X):
    """An orthonormal basis (over the reals) of the tangent space at X, as tangent vectors."""
    rng, vectors = np.random.default_rng(0), []
    n1, n2 = X.shape
    r = X.rank
    real = (n1 + n2 - r) * r
    count = real * (2 if X.dtype.kind == "c" else 1)
    dense = []
    while len(vectors) < count:
        xi = random_tangent(rng, X)
        a = dense_tangent(xi)
        for _ in range(2):
            for k, b in enumerate(dense):
                c = np.vdot(b, a).real
                a, xi = a - c * b, (xi + -c * vectors[k]).computed()
        size = np.linalg.norm(a)
        dense.append(a / size)
        vectors.append((1 / size) * xi)
    return vectors


def setup(dtype, backend=None, shape=(9, 8), rank=2, seed=0):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, shape, dtype, backend, density=0.9)
    X = random_point(rng, shape, rank, dtype, problem.backend)
    core = rng.random((rank, rank)) + 0.1
    return problem, X, Damping(core, rng.random(rank) + 0.1)


def dense_damping(damping, xi):
    M, Up, Vp = (abs(host(a)) ** 2 for a in (xi.M, *xi.X.backend.asarrays(xi.Up, xi.Vp)))
    return float((damping.core * M).sum() + (damping.side * Up).sum() + (damping.side * Vp).sum())


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_the_system_is_the_normal_equation(dtype, backend):
    problem, X, damping = setup(dtype, backend)
    system, rng = TangentSystem(problem, X, damping), np.random.default_rng(1)
    xi, eta = random_tangent(rng, X), random_tangent(rng, X)
    mask = dense_data(problem)[1]
    a, b = dense_tangent(xi), dense_tangent(eta)
    expected = np.vdot(b[mask], a[mask]).real + inner(damping(xi), eta)
    assert inner(system.apply(xi), eta) == pytest.approx(expected, rel=1e-12)
    assert inner(system.apply(eta), xi) == pytest.approx(expected, rel=1e-12)  # Hermitian
    quadratic = np.linalg.norm(a[mask]) ** 2 + dense_damping(damping, xi)
    assert inner(system.apply(xi), xi) == pytest.approx(quadratic, rel=1e-12)


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_blocks_against_their_dense_twin(dtype, backend):
    problem, X, _ = setup(dtype, backend)
    by_rows, by_cols = map(host, problem.blocks(X))
    mask, X = dense_data(problem)[1], X.numpy()
    for i in range(problem.shape[0]):
        V = X.V[mask[i]]
        np.testing.assert_allclose(by_rows[i], V.conj().T @ V, atol=1e-13)
    for j in range(problem.shape[1]):
        U = X.U[mask[:, j]]
        np.testing.assert_allclose(by_cols[j], U.conj().T @ U, atol=1e-13)
    # and they are what A*A does to a row of L in L V^H
    L = random_array(np.random.default_rng(2), X.U.shape, dtype)
    sampled = np.where(mask, L @ X.V.conj().T, 0)
    np.testing.assert_allclose(np.einsum("ij,ijk->ik", L, by_rows), sampled @ X.V, atol=1e-12)


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_preconditioners_are_hermitian_and_positive(dtype, blocks, backend, monkeypatch):
    problem, X, damping = setup(dtype, backend)
    if not blocks:
        monkeypatch.setattr(problem, "blocks", lambda X: None)
    system, rng = TangentSystem(problem, X, damping), np.random.default_rng(1)
    xi, eta = random_tangent(rng, X), random_tangent(rng, X)
    z = system.precondition(xi)
    assert np.abs(X.backend.gram(X.U, z.Up)).max() < 1e-13
    assert np.abs(X.backend.gram(X.V, z.Vp)).max() < 1e-13
    assert inner(z, eta) == pytest.approx(inner(xi, system.precondition(eta)), rel=1e-10)
    assert inner(z, xi) > 0


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_the_solution_against_dense_least_squares(dtype, blocks, backend, monkeypatch):
    problem, X, damping = setup(dtype, backend)
    if not blocks:
        monkeypatch.setattr(problem, "blocks", lambda X: None)
    system, basis = TangentSystem(problem, X, damping), coordinates(X)
    matrix = np.array([[inner(system.apply(b), c) for c in basis] for b in basis])
    rhs = system.pull_back(problem.y)
    dense = sum(
        c * dense_tangent(b) for c, b in zip(np.linalg.solve(matrix, [inner(rhs, b) for b in basis]), basis, strict=True)
    )
    xi, count = system.solve(rhs, tol=1e-12, max_iter=500)
    np.testing.assert_allclose(dense_tangent(xi), dense, atol=1e-9)
    again, few = system.solve(rhs, xi, tol=1e-1)  # from the solution there is little to do
    assert few < count
    np.testing.assert_allclose(dense_tangent(again), dense, atol=1e-8)


def test_zero_on_the_right_gives_zero():
    problem, X, damping = setup(np.float64)
    system = TangentSystem(problem, X, damping)
    xi, count = system.solve(0.0 * random_tangent(np.random.default_rng(0), X))
    assert count == 0
    assert xi.norm() == 0


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_a_gauss_newton_step_against_its_dense_twin(dtype):
    problem, truth = lr.datasets.random_completion(14, 12, 2, oversampling=2.5, factors="gaussian", dtype=dtype, seed=3)
    rng = np.random.default_rng(4)
    near = lr.FixedRank.from_dense(truth.to_dense() + 0.02 * random_array(rng, truth.shape, dtype), 2, problem.backend)
    state = State.at(problem, near)
    solver = GaussNewton(tol=1e-12, inner_max_iter=1000)
    new = solver.step(problem, state.with_memory(solver.start(problem, state)))
    mask = np.zeros(problem.shape, bool)
    mask[problem.rows, problem.cols] = True
    basis = coordinates(near)
    columns = np.array([dense_tangent(b)[mask] for b in basis]).T
    misfit = (problem.y - near.entries(problem.rows, problem.cols)).ravel()
    stack = (lambda a: np.concatenate([a.real, a.imag])) if dtype.kind == "c" else (lambda a: a)
    step = np.linalg.lstsq(stack(columns), stack(misfit), rcond=None)[0]
    dense = near.to_dense() + sum(c * dense_tangent(b) for c, b in zip(step, basis, strict=True))
    expected = lr.FixedRank.from_dense(dense, 2)
    assert expected.distance(new.X) < 1e-8 * truth.norm()
    assert truth.distance(new.X) < 0.1 * truth.distance(near)


def test_gauss_newton_is_quadratic_near_the_solution():
    problem, truth = lr.datasets.random_completion(60, 50, 3, oversampling=3, factors="gaussian", seed=1)
    rng = np.random.default_rng(0)
    near = lr.FixedRank.from_factors(
        truth.U * truth.s + 0.3 * rng.standard_normal(truth.U.shape), truth.V + 0.01 * rng.standard_normal(truth.V.shape)
    )
    result = lr.solve(problem, 3, GaussNewton(tol=1e-10, inner_max_iter=1000), start=near, tol=1e-13)
    assert result.converged
    residual = result.history.residual
    assert (residual[1:] <= np.maximum(2 * residual[:-1] ** 2, 1e-13)).all()


def test_gauss_newton_never_raises_the_residual():
    problem, _ = lr.datasets.random_completion(60, 50, 4, oversampling=1.6, factors="gaussian", seed=2)
    residual = lr.solve(problem, 4, "gauss-newton", start="spectral", max_iter=15, tol=1e-12).history.residual
    assert (np.diff(residual) <= 0).all()
    assert residual[-1] < 0.5 * residual[0]


def sensing(seed=0, shape=(12, 10), rank=2, ratio=1.6):
    rng = np.random.default_rng(seed)
    truth = lr.FixedRank.from_factors(*(rng.standard_normal((n, rank)) for n in shape))
    m = int(ratio * (sum(shape) - rank) * rank)
    A = rng.standard_normal((m, *shape))
    return PlainSensing(A, np.tensordot(A, truth.to_dense())), truth


def test_gauss_newton_on_a_model_of_ones_own():
    problem, truth = sensing(ratio=2.5)
    result = lr.solve(problem, 2, "gauss-newton", tol=1e-12, max_iter=50)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-9 * truth.norm()


def dense_reweighted(problem, X, epsilon):
    """The minimiser of ``sum |(U^H Z V)_ij|^2 / (s_i s_j)``, s at least epsilon, U, V complete, among Z that fit."""
    n1, n2 = problem.shape
    U, V = (np.linalg.svd(a, full_matrices=True)[0] for a in (X.U, X.V))
    U[:, : X.rank], V[:, : X.rank] = X.U, X.V
    su, sv = (np.concatenate([np.maximum(X.s, epsilon), np.full(n - X.rank, epsilon)]) for n in (n1, n2))

    def inverse_weight(Z):
        return U @ ((U.conj().T @ Z @ V) * np.outer(su, sv)) @ V.conj().T

    m = problem.m
    images = []
    for k in range(m):
        Z = np.zeros(problem.shape, X.dtype)
        Z[problem.rows[k], problem.cols[k]] = 1
        images.append(inverse_weight(Z)[problem.rows, problem.cols])
    p = np.linalg.solve(np.array(images).T, problem.y)
    Z = np.zeros(problem.shape, X.dtype)
    Z[problem.rows, problem.cols] = p
    return inverse_weight(Z)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.2])
@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_an_irls_step_against_its_dense_twin(dtype, epsilon):
    """Also where epsilon is above some of the singular values."""
    problem = random_problem(np.random.default_rng(0), (12, 11), dtype, density=0.5)
    X = random_point(np.random.default_rng(1), (12, 11), 3, dtype, problem.backend, s=[4.0, 2.0, 1.0])
    solver = IRLS(tol=1e-12, inner_max_iter=2000, extra=1)
    state = State.at(problem, X).with_memory(IRLSState(epsilon, X, (epsilon,)))
    xi = solver._smoothed(problem, X, epsilon)
    Z = dense_tangent(xi)
    Z[problem.rows, problem.cols] += problem.y - Z[problem.rows, problem.cols]
    expected = dense_reweighted(problem, X, epsilon)
    np.testing.assert_allclose(Z, expected, atol=5e-3 * np.abs(expected).max())  # s is kept 0.1 % above epsilon
    new = solver.step(problem, state)
    assert new.X.rank == 3
    assert new.memory.point.rank == 4
    assert lr.FixedRank.from_dense(Z, 3).distance(new.X) < 0.05 * new.X.norm()


def test_irls_needs_a_frame_and_room():
    problem, _ = sensing()
    with pytest.raises(ValueError, match="IRLS needs a TightFrame"):
        lr.solve(problem, 2, IRLS())
    small = random_problem(np.random.default_rng(0), (5, 4), np.float64, density=1.0)
    with pytest.raises(ValueError, match="IRLS needs a rank below 4"):
        lr.solve(small, 4, IRLS())
    with pytest.raises(ValueError, match="rate"):
        IRLS(rate=1.0)


def test_irls_frees_one_direction_after_the_other():
    rng = np.random.default_rng(5)
    u, v = (np.linalg.qr(rng.standard_normal((120, 3)))[0] for _ in range(2))
    truth = lr.FixedRank(u, np.array([100.0, 3.0, 0.1]), v)
    rows, cols = lr.datasets.sample_pattern(rng, (120, 120), 3 * 3 * 237)
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), (120, 120))
    solver, active = IRLS(0.8), []
    state = State.at(problem, truth)
    state = state.with_memory(solver.start(problem, state))
    while not state.finished and state.iteration < 300:
        state = solver.step(problem, state)
        active.append(state.memory.active)
    assert state.finished
    assert set(active) >= {1, 2, 3}
    assert active[-1] == 3
    assert truth.distance(state.X) < 1e-3 * truth.norm()


def test_tangent_vectors_of_single_precision_stay_so():
    problem, X, _ = setup(np.dtype("float32"))
    system = TangentSystem(problem, X, Damping.constant(X, 0.1))
    xi, _ = system.solve(system.pull_back(problem.y))
    assert isinstance(xi, Tangent)
    assert xi.M.dtype == xi.Up.dtype == xi.Vp.dtype == np.float32


def test_damping_stays_a_number_in_single_precision():
    """Where no step betters the residual, each of many is damped ten times as much as the one before."""
    X = np.linspace(1, 2, 6, dtype=np.float32)
    result = lr.solve(lr.Completion.from_dense(np.outer(X, X)), 1, "gauss-newton", stop=lr.stopping.Iterations(30))
    assert np.isfinite(result.X.to_dense()).all()


def test_gauss_newton_stays_near_the_data_where_the_matrix_is_hardly_determined():
    """At condition number 1000 and 1.5 measurements per degree of freedom, undamped steps led to ten times the norm."""
    n, rank, rng = 100, 5, np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for _ in range(2))
    truth = lr.FixedRank(U, np.geomspace(1, 1e-3, rank) * n, V)
    chosen = np.sort(rng.choice(n * n, int(1.5 * rank * (2 * n - rank)), replace=False))
    rows, cols = chosen // n, chosen % n
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), (n, n))
    result = lr.solve(problem, rank, "gauss-newton", stop=lr.stopping.Iterations(25))
    assert truth.distance(result.X) < 3.5 * truth.norm()
