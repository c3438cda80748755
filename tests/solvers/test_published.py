"""Solvers of other authors against dense computations of their published formulas, and the metric of R3MC."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import lorank as lr
from helpers import random_array, random_point, random_problem, random_tangent
from lorank.geometry import retract_orthographic, riemannian_gradient
from lorank.loop.state import State
from lorank.metrics import Canonical, Counts, Quotient
from lorank.plans.registry import named_solver
from lorank.solvers import CGIHT, GNMR, R2RILS, RTRMC, GaussNewton, LMaFit, SoftImpute
from lorank.solvers.gnmr import least_norm_factors
from lorank.solvers.least_squares import require_two_factors
from lorank.solvers.rtrmc import Eliminated, truncated_cg
from solver_cases import OF_ENTRIES, dense_case, ill_conditioned, steps

DOUBLE = [np.dtype("float64"), np.dtype("complex128")]
EXACT = {"tol": 1e-13, "inner_max_iter": 2000}


def truncated(a, rank):
    u, s, vt = np.linalg.svd(a)
    return (u[:, :rank] * s[:rank]) @ vt[:rank]


def least_norm(L, R, mask, data):
    """B and C of least norm with ``mask * (C R^T + L B^T)`` nearest to data: a dense least squares problem."""
    (n1, r), n2 = L.shape, len(R)
    by_left, by_right = np.zeros((n1, n2, n1, r)), np.zeros((n1, n2, n2, r))
    for i in range(n1):
        by_left[i, :, i, :] = mask[i, :, None] * R
    for j in range(n2):
        by_right[:, j, j, :] = mask[:, j, None] * L
    matrix = np.concatenate([by_left.reshape(n1 * n2, -1), by_right.reshape(n1 * n2, -1)], axis=1)
    found = np.linalg.lstsq(matrix, (mask * data).ravel(), rcond=1e-10)[0]
    return found[: n1 * r].reshape(n1, r), found[n1 * r :].reshape(n2, r)


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_the_quotient_metric_against_its_dense_twin(dtype):
    """<xi, Z> = <G, Z> for all tangent Z, with |Z|^2 the least |dL R^H|^2 + |L dR^H|^2 over all dL R^H + L dR^H = Z."""
    rng = np.random.default_rng(0)
    problem = random_problem(rng, (9, 8), dtype)
    X = random_point(rng, (9, 8), 2, dtype, problem.backend)
    G = problem.gradient(X)
    weights, _ = Quotient().weights(G, Quotient().start(G))
    xi = riemannian_gradient(X, G, weights)
    V, U = X.V @ X.V.conj().T, X.U @ X.U.conj().T

    def norm(Z):
        # dL R^H = Z V - T and L dR^H = U Z - U Z V + T for T in U . V: least where T = U Z V / 2
        return np.linalg.norm(Z @ V - U @ Z @ V / 2) ** 2 + np.linalg.norm(U @ Z - U @ Z @ V / 2) ** 2

    def inner(Y, Z):
        return (norm(Y + Z) - norm(Y - Z)) / 4

    dense = np.zeros(problem.shape, dtype)
    dense[problem.rows, problem.cols] = G.dual
    for _ in range(3):
        Z = np.asarray(random_tangent(rng, X).to_dense())
        assert inner(np.asarray(xi.to_dense()), Z) == pytest.approx(np.vdot(Z, dense).real, rel=1e-10)


def test_with_weights_the_inverses_are_added():
    problem, _ = ill_conditioned(20, 2)
    X = random_point(np.random.default_rng(1), problem.shape, 2, np.float64, problem.backend)
    G, metric = problem.gradient(X), Quotient(Counts(uneven=0))
    weights, _ = metric.weights(G, metric.start(G))
    left, right = (np.diag(weights.mode(k).w) for k in (0, 1))
    dense = np.zeros(problem.shape)
    dense[problem.rows, problem.cols] = G.dual
    by_rows = np.linalg.inv(left) @ dense @ X.V @ np.linalg.inv(X.V.T @ right @ X.V) @ X.V.T
    by_cols = X.U @ np.linalg.inv(X.U.T @ left @ X.U) @ X.U.T @ dense @ np.linalg.inv(right)
    xi = riemannian_gradient(X, G, weights)
    np.testing.assert_allclose(xi.to_dense(), by_rows + by_cols, atol=1e-12 * np.abs(by_rows).max())


@pytest.mark.parametrize("seed", range(5000, 5003))
def test_rcg_converges_where_the_euclidean_metric_stalls(seed):
    """At condition number 50; the seeds that the page on solvers reports."""
    problem, truth = ill_conditioned(500, 10, kappa=50, oversampling=4, seed=seed)
    result = lr.solve(problem, 10, "rcg")
    assert result.converged
    assert result.n_iter <= 75  # 30 to 50 as measured, and room for another rounding
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_the_default_of_rcg_is_that_metric_and_lrgeomcg_the_euclidean():
    assert named_solver("rcg") == lr.solvers.RCG(Quotient())
    assert named_solver("lrgeomcg") == lr.solvers.RCG(Canonical())


# -- second order ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_the_orthographic_retraction_against_its_formula(dtype):
    rng = np.random.default_rng(2)
    X = random_point(rng, (9, 7), 2, dtype, lr.backends.get_backend())
    xi = random_tangent(rng, X)
    Y = np.asarray(X.to_dense()) + 0.3 * np.asarray(xi.to_dense())
    expected = Y @ X.V @ np.linalg.inv(X.U.conj().T @ Y @ X.V) @ X.U.conj().T @ Y
    found = np.asarray(retract_orthographic(xi, 0.3).to_dense())
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_risro_is_recursive_importance_sketching():
    """Two dense steps: least squares for the parts of the sketches, then ``X_U B^-1 X_V^T`` (Luo and others, Algorithm 1)."""
    problem, truth = ill_conditioned(14, 2, kappa=3, oversampling=2.5)
    rng = np.random.default_rng(3)
    X = lr.FixedRank.from_dense(truth.to_dense() + 0.02 * random_array(rng, truth.shape, np.float64), 2)
    mask, data = np.zeros((14, 14)), np.zeros((14, 14))
    mask[problem.rows, problem.cols], data[problem.rows, problem.cols] = 1, problem.y
    found = steps(GaussNewton(retraction="orthographic", tol=1e-13, inner_max_iter=2000), problem, X, 2)
    U, V = X.U, X.V
    for _ in range(2):
        u, v = scipy.linalg.null_space(U.T), scipy.linalg.null_space(V.T)
        bases = [(U, V), (u, V), (U, v)]
        columns = [np.outer(a, b)[mask > 0] for left, right in bases for a in left.T for b in right.T]
        part = np.linalg.lstsq(np.array(columns).T, data[mask > 0], rcond=None)[0]
        B, D1, D2 = part[:4].reshape(2, 2), part[4:28].reshape(12, 2), part[28:].reshape(2, 12)
        XU, XV = U @ B + u @ D1, B @ V.T + D2 @ v.T
        expected = XU @ np.linalg.inv(B) @ XV
        p, _, qt = np.linalg.svd(expected)
        U, V = p[:, :2], qt[:2].T
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_least_norm_factors_against_dense_least_squares(dtype):
    rng = np.random.default_rng(4)
    X = random_point(rng, (8, 7), 2, dtype, lr.backends.get_backend())
    turn = random_array(rng, (2, 2), dtype)
    L, R = X.U @ turn, X.V * X.s @ np.linalg.inv(turn).conj().T
    xi = random_tangent(rng, X)
    dL, dR = least_norm_factors(xi, L, R)
    dense = np.asarray(xi.to_dense())
    np.testing.assert_allclose(dL @ R.conj().T + L @ dR.conj().T, dense, atol=1e-10 * np.abs(dense).max())
    for _ in range(5):  # no other solution has a smaller norm
        K = 0.1 * random_array(rng, (2, 2), dtype)
        more = np.linalg.norm(dL + L @ K) ** 2 + np.linalg.norm(dR - R @ K.conj().T) ** 2
        assert more >= (np.linalg.norm(dL) ** 2 + np.linalg.norm(dR) ** 2) * (1 - 1e-12)


@pytest.mark.parametrize("variant", ["updating", "averaging", "setting"])
def test_gnmr_is_the_least_norm_solution_of_zilber_and_nadler(variant):
    problem, X, L, R, mask, data = dense_case(5)
    alpha = {"updating": -1, "averaging": 0, "setting": 1}[variant]
    found = steps(GNMR(variant, **EXACT), problem, X, 2)
    for _ in range(2):
        dL, dR = least_norm(L, R, mask, data + alpha * L @ R.T)
        L, R = (1 - alpha) / 2 * L + dL, (1 - alpha) / 2 * R + dR
    np.testing.assert_allclose(found, L @ R.T, atol=1e-7 * np.abs(L @ R.T).max())


def test_r2rils_is_that_of_bauch_nadler_and_zilber():
    problem, X, _, _, mask, data = dense_case(6)
    found = steps(R2RILS(**EXACT), problem, X, 3)
    L, R = X.U, X.V

    def unit(a):
        return a / np.linalg.norm(a, axis=0)

    for _ in range(3):
        C, B = least_norm(L, R, mask, data)
        expected = truncated(L @ B.T + C @ R.T, 2)
        L, R = unit(L + unit(C)), unit(R + unit(B))
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


class DenseRTRMC:
    """The objective of Boumal and Absil with its derivatives, in loops over the columns."""

    def __init__(self, U, mask, data, penalty):
        self.U, self.mask, self.data, self.penalty = U, mask, data, penalty
        self.kept = 1 - penalty
        grams = [self.kept * U[m > 0].T @ U[m > 0] + penalty * np.eye(U.shape[1]) for m in mask.T]
        self.grams = grams
        self.W = np.array([np.linalg.solve(g, U[m > 0].T @ d[m > 0]) for g, m, d in zip(grams, mask.T, data.T, strict=True)]).T
        Z = U @ self.W
        self.value = ((mask * (Z - data)) ** 2).sum() / 2 + penalty * ((1 - mask) * Z**2).sum() / 2
        self.slope = mask * (self.kept * Z - data)
        self.gradient = self.project(self.slope @ self.W.T)

    def project(self, a):
        return a - self.U @ (self.U.T @ a)

    def hessian(self, H):
        right = H.T @ self.slope + self.U.T @ (self.mask * (self.kept * H @ self.W))
        dW = -np.array([np.linalg.solve(g, b) for g, b in zip(self.grams, right.T, strict=True)]).T
        change = self.mask * (self.kept * (H @ self.W + self.U @ dW))
        return self.project(change @ self.W.T + self.slope @ dW.T) + self.penalty * H @ self.W @ self.W.T


def grassmann_case(seed=7, penalty=1e-2):
    problem, X, *_, mask, data = dense_case(seed)
    data /= np.linalg.norm(data)
    return problem, X, mask, data, Eliminated(problem, X.U, penalty**0.5), DenseRTRMC(X.U, mask, data, penalty)


def test_the_objective_of_rtrmc_and_its_derivatives():
    _, X, mask, data, found, dense = grassmann_case()
    assert found.value == pytest.approx(dense.value, rel=1e-12)
    np.testing.assert_allclose(found.W, dense.W.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.gradient, dense.gradient, rtol=1e-9, atol=1e-9)
    rng = np.random.default_rng(8)
    H = dense.project(rng.standard_normal(X.U.shape))
    np.testing.assert_allclose(found.hessian(H), dense.hessian(H), rtol=1e-9, atol=1e-8)
    t = 1e-5  # against finite differences along the curve qr(U + t H)
    ahead, behind = (DenseRTRMC(np.linalg.qr(X.U + s * H)[0], mask, data, 1e-2) for s in (t, -t))
    assert (ahead.value - behind.value) / (2 * t) == pytest.approx((dense.gradient * H).sum(), rel=1e-6)
    curvature = (ahead.value - 2 * dense.value + behind.value) / t**2
    assert curvature == pytest.approx((H * dense.hessian(H)).sum(), rel=1e-3)


def test_a_step_of_rtrmc_minimizes_the_model_in_the_trust_region():
    *_, found, dense = grassmann_case()
    basis = scipy.linalg.null_space(dense.U.T)
    coordinates = [np.outer(b, e) for b in basis.T for e in np.eye(2)]
    matrix = np.array([[(a * dense.hessian(b)).sum() for b in coordinates] for a in coordinates])
    gradient = np.array([(a * dense.gradient).sum() for a in coordinates])
    assert np.linalg.eigvalsh(matrix)[0] > 0
    eta, decrease, outside = truncated_cg(found, found.gradient, 1e-3, 1e-12, 500)
    gram = dense.W @ dense.W.T / np.linalg.norm(dense.W @ dense.W.T, 2)
    assert outside
    assert (eta @ gram * eta).sum() == pytest.approx(1e-6, rel=1e-9)  # on the boundary
    x = np.array([(a * eta).sum() for a in coordinates])
    assert decrease > 0
    assert -(gradient @ x + x @ matrix @ x / 2) == pytest.approx(decrease, rel=1e-8)
    eta, decrease, outside = truncated_cg(found, found.gradient, 1e6, 1e-12, 500)
    expected = -np.linalg.solve(matrix, gradient)
    assert not outside
    np.testing.assert_allclose([(a * eta).sum() for a in coordinates], expected, atol=1e-7 * np.abs(expected).max())
    assert decrease == pytest.approx(-gradient @ expected / 2, rel=1e-8)


def test_rtrmc_is_quadratic_near_the_solution():
    problem, truth = ill_conditioned(60, 3, oversampling=4)
    rng = np.random.default_rng(0)
    near = lr.FixedRank.from_dense(truth.to_dense() + 1e-3 * rng.standard_normal(truth.shape), 3)
    state = State.at(problem, near)
    solver = RTRMC(tol=1e-6, regularization=1e-9)
    state, residuals = state.with_memory(solver.start(problem, state)), []
    for _ in range(3):
        state = solver.step(problem, state)
        residuals.append(state.residual)
    assert residuals[1] < 1e3 * residuals[0] ** 2
    assert residuals[-1] < 1e-10


# -- first order -------------------------------------------------------------------------------------------------------
def test_cgiht_is_that_of_blanchard_tanner_and_wei():
    problem, X, _, _, mask, data = dense_case(9)
    found = steps(CGIHT(accuracy=1e-12, safeguard=None), problem, X, 4)
    Z, last = X.to_dense(), None
    for _ in range(4):
        u = np.linalg.svd(Z)[0][:, :2]
        r = mask * (data - Z)
        pr = mask * (u @ (u.T @ r))
        d, pd = r, pr
        if last is not None:
            pl = mask * (u @ (u.T @ last))
            beta = (pr * pl).sum() / (pl**2).sum()
            d, pd = r - beta * last, pr - beta * pl
        Z, last = truncated(Z + (pd * r).sum() / (pd**2).sum() * d, 2), d
    np.testing.assert_allclose(found, Z, atol=1e-7 * np.abs(Z).max())


def test_lmafit_is_the_over_relaxation_of_wen_yin_and_zhang():
    problem, X, L, R, mask, data = dense_case(10, oversampling=2.5)
    A, B = L, R.T
    omega, increment, factors = 1.0, 1.0, []
    for _ in range(20):
        rest = mask * (data - A @ B)

        def relaxed(omega, A=A, B=B, rest=rest):
            Z = A @ B + omega * rest
            left = Z @ B.T @ np.linalg.pinv(B @ B.T)
            right = np.linalg.pinv(left.T @ left) @ left.T @ Z
            return left, right, np.linalg.norm(mask * (data - left @ right)) / np.linalg.norm(rest)

        new = relaxed(omega)
        if new[2] >= 1:
            omega, increment = 1.0, max(0.1 * (omega - 1), 0.1 * increment)
            new = relaxed(omega)
        A, B = new[:2]
        factors.append(omega)
        if new[2] >= 0.7:
            increment = max(increment, 0.25 * (omega - 1))
            omega += increment
    assert max(factors) > 1
    np.testing.assert_allclose(steps(LMaFit(), problem, X, 20), A @ B, atol=1e-7 * np.abs(A @ B).max())


def test_soft_impute_is_that_of_mazumder_hastie_and_tibshirani():
    problem, X, *_, mask, data = dense_case(11)
    solver = SoftImpute(regularization=0.02, accuracy=1e-12)
    state = State.at(problem, X)
    state = state.with_memory(solver.start(problem, state))
    Z = X.to_dense()
    for _ in range(8):
        state = solver.step(problem, state)
        u, s, vt = np.linalg.svd(mask * data + (1 - mask) * Z)
        Z = (u[:, :2] * np.maximum(s[:2] - state.step, 0)) @ vt[:2]
        np.testing.assert_allclose(state.X.to_dense(), Z, atol=1e-8 * np.abs(Z).max())
    assert state.step >= 0.02 * float(X.s[0])


def test_soft_impute_als_is_that_of_hastie_mazumder_lee_and_zadeh():
    problem, X, *_, mask, data = dense_case(12)
    solver = SoftImpute(alternating=True)
    state = State.at(problem, X)
    state = state.with_memory(solver.start(problem, state))
    U, D, V = X.U, np.diag(np.sqrt(X.s)), X.V
    for _ in range(5):
        state = solver.step(problem, state)
        shift = np.linalg.inv(D**2 + state.step * np.eye(2))
        Z = mask * (data - U @ D**2 @ V.T) + U @ D**2 @ V.T
        p, s, qt = np.linalg.svd((shift @ D @ U.T @ Z).T @ D, full_matrices=False)
        V, D, U = p, np.diag(np.sqrt(s)), U @ qt.T
        shift = np.linalg.inv(D**2 + state.step * np.eye(2))
        Z = mask * (data - U @ D**2 @ V.T) + U @ D**2 @ V.T
        p, s, qt = np.linalg.svd((shift @ D @ V.T @ Z.T).T @ D, full_matrices=False)
        U, D, V = p, np.diag(np.sqrt(s)), V @ qt.T
        expected = U @ D**2 @ V.T
        np.testing.assert_allclose(state.X.to_dense(), expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("alternating", [False, True])
def test_soft_impute_minimizes_the_nuclear_norm_objective(alternating):
    """Optimality of the convex problem at rank enough: the slope has spectral norm lambda and is U V^T on the support."""
    rng = np.random.default_rng(13)
    problem, _ = lr.datasets.random_completion(30, 25, 2, oversampling=4, factors="gaussian", noise=0.1, seed=2)
    solver = SoftImpute(regularization=0.1, alternating=alternating, accuracy=1e-10)
    start = lr.starts.Spectral()(problem, 8, rng)
    stop = lr.stopping.Iterations(4000)
    result = lr.solve(problem, 8, solver, start=start, stop=stop, max_iter=4000)
    penalty, used = 0.1 * float(start.s[0]), int((result.X.s > 1e-6 * result.X.s[0]).sum())
    G = np.zeros(problem.shape)
    G[problem.rows, problem.cols] = result.X.entries(problem.rows, problem.cols) - problem.y
    assert used < 8
    assert np.linalg.norm(G, 2) == pytest.approx(penalty, rel=1e-3)
    U, V = result.X.U[:, :used], result.X.V[:, :used]
    np.testing.assert_allclose(U.T @ G @ V, -penalty * np.eye(used), atol=2e-3 * penalty)


# -- names ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", OF_ENTRIES)
def test_solvers_of_observed_entries_refuse_other_models_by_name(name):
    problem, _ = lr.datasets.random_sensing(12, 10, 2, seed=1)
    with pytest.raises(lr.ParameterError, match=r"solver \w+ needs a .*: Sensing"):
        lr.solve(problem, 2, name)


def test_two_factors_and_least_squares_are_needed():
    phase, _ = lr.datasets.random_phase(20)
    problem, _ = ill_conditioned()
    huber = lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, loss="huber")
    for name in ("gnmr", "r2rils", "risro", "rtrmc", "lmafit", "softimpute", "cgiht"):
        for other in (huber,) if name == "cgiht" else (phase, huber):
            with pytest.raises(lr.ParameterError, match=rf"solver \w+ .*{type(other).__name__}"):
                lr.solve(other, 1, name)
    with pytest.raises(lr.ParameterError, match="RTRMC moves two factors: PhaseRetrieval has one"):
        require_two_factors(RTRMC(), phase, State.at(phase, phase.zero(1)))


# -- a rank that is too large --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["auto", "rcg", "r3mc", "precgd", "gauss-newton", "risro", "gnmr", "r2rils"])
def test_twice_the_rank_costs_neither_accuracy_nor_the_rate(name):
    """Exact data, measured by nearly isometric operators; the empty directions are named."""
    problem, truth = lr.datasets.random_sensing(30, 25, 2, m=1200, seed=1)
    right, twice = (lr.solve(problem, rank, name, tol=1e-8) for rank in (2, 4))
    assert twice.converged
    assert twice.n_iter <= 2 * right.n_iter + 10
    assert truth.distance(twice.X) < 1e-7 * truth.norm()
    assert "Only 2 of 4 directions are used" in twice.status.advice
    assert "rank=2" in twice.status.advice


@pytest.mark.parametrize("name", ["auto", "irls", "gauss-newton", "risro", "gnmr", "r2rils"])
def test_twice_the_rank_in_completion(name):
    problem, truth = lr.datasets.random_completion(100, 80, 2, oversampling=12)
    right, twice = (lr.solve(problem, rank, name, tol=1e-8) for rank in (2, 4))
    assert twice.converged
    assert twice.n_iter <= 2 * right.n_iter + 10
    assert truth.distance(twice.X) < 1e-5 * truth.norm()
    assert "rank=2" in twice.status.advice


@pytest.mark.parametrize(("oversampling", "seed"), [(1.4, 3), (1.2, 2)])
@pytest.mark.parametrize("retraction", ["projection", "orthographic"])
def test_gauss_newton_keeps_the_size_of_the_data(oversampling, seed, retraction):
    """Ill-conditioned and barely sampled: without the bound the first case ends at 6.8 times the norm of the data."""
    problem, truth = ill_conditioned(60, 5, kappa=1e3, oversampling=oversampling, seed=seed)
    with pytest.warns(lr.ConvergenceWarning):
        result = lr.solve(problem, 5, GaussNewton(retraction=retraction), tol=1e-10, max_iter=40)
    assert result.X.norm() <= 2.001 * problem.y_norm / problem.operator_scale**0.5
    assert truth.distance(result.X) < 4 * truth.norm()
