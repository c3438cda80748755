"""Models of Hermitian positive semidefinite matrices: the manifold is named once, and all solvers keep the structure."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import random_array, real_dtype
from lorank.geometry import FIXED_RANK, SEMIDEFINITE, FixedRank
from lorank.problems import MatrixProblem

N, RANK = 24, 2


class Expectations(MatrixProblem):
    """``y_k = Re trace(H_k X)`` for Hermitian matrices H_k: real measurements, X real or complex."""

    manifold = SEMIDEFINITE

    def __init__(self, H, y):
        self.H = H
        super().__init__(y, H.shape[1:], operator_scale=len(y))

    @property
    def dtype(self):
        return self.H.dtype

    def forward(self, left, right):
        return np.einsum("kij,jl,il->k", self.H, left, right.conj(), optimize=True).real

    def adjoint(self, p):
        return np.tensordot(p, self.H, 1)


def case(dtype=np.complex128, oversampling=3.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = FixedRank.semidefinite(random_array(rng, (N, RANK), dtype))
    H = random_array(rng, (int(oversampling * SEMIDEFINITE.dof((N, N), RANK, dtype)), N, N), dtype)
    H = (H + H.conj().transpose(0, 2, 1)) / 2
    y = np.einsum("kij,ji->k", H, truth.to_dense(), optimize=True).real
    return Expectations(H, np.ascontiguousarray(y.astype(real_dtype(dtype)))), truth


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("solver", ["auto", "gauss-newton", "rcg", "adaptive-prgd"])
def test_solvers_keep_the_structure_and_recover_at_three_measurements_per_degree_of_freedom(solver, dtype):
    problem, truth = case(dtype)
    kept = []
    result = lr.solve(problem, RANK, solver, tol=1e-8, callbacks=[lambda problem, state, clock: kept.append(state.X.hermitian)])
    assert all(kept)
    assert result.converged
    assert result.X.manifold is SEMIDEFINITE
    assert truth.distance(result.X) < 1e-6 * truth.norm()


@pytest.mark.parametrize(
    "solver", ["prgd", "rgd", "shampoo", "niht", "iht", "adaptive-rgd", lr.solvers.RCG(lr.metrics.Blocks())]
)
def test_every_solver_keeps_the_structure(solver):
    problem, truth = case(oversampling=6)
    result = lr.solve(problem, RANK, solver, stop=lr.stopping.Iterations(30))
    assert result.X.hermitian
    assert truth.distance(result.X) < 0.5 * truth.norm()


@pytest.mark.parametrize("start", ["spectral", "staged", "continuation"])
def test_every_start_is_semidefinite(start):
    problem, _ = case()
    X = lr.solve(problem, RANK, start=start, stop=lr.stopping.Iterations(0)).X
    assert X.hermitian
    assert (X.s > 0).all()


def test_the_rank_search_keeps_the_structure():
    problem, truth = case(oversampling=6)
    result = lr.solve(problem, "auto", tol=1e-8)
    assert (result.X.rank, result.X.hermitian) == (RANK, True)
    assert truth.distance(result.X) < 1e-6 * truth.norm()


def test_degrees_of_freedom_are_the_rank_of_the_tangent_space():
    for dtype in (np.float64, np.complex128):
        problem, truth = case(dtype)
        units = [1.0] if dtype == np.float64 else [1.0, 1j]
        basis = [c * np.outer(np.eye(N)[i], np.eye(RANK)[j]) for i in range(N) for j in range(RANK) for c in units]
        images = [a @ truth.U.conj().T + truth.U @ a.conj().T for a in basis]
        J = np.array([np.r_[Z.real.ravel(), Z.imag.ravel()] for Z in images])
        assert problem.dof(RANK) == np.linalg.matrix_rank(J)


def test_degrees_of_freedom_are_counted_in_measurements():
    rng = np.random.default_rng(0)
    for y_dtype, x_dtype, factor in ((float, float, 1), (complex, complex, 1), (float, complex, 2)):

        class Model(Expectations):
            manifold = FIXED_RANK
            dtype = np.dtype(x_dtype)

        assert Model(rng.standard_normal((9, 5, 5)), np.ones(9, y_dtype)).dof(2) == 16 * factor


def test_the_dot_test_and_the_gradient_check_accept_real_measurements_of_a_complex_matrix():
    problem, _ = case()
    assert lr.testing.dot_test(problem) < 1e-12
    assert abs(lr.testing.check_gradient(problem, RANK) - 2) < 0.1
    wrong = Expectations(problem.H.conj(), problem.y)
    wrong.forward = problem.forward
    with pytest.raises(AssertionError, match="adjoint"):
        lr.testing.dot_test(wrong)


def test_other_starting_points_are_replaced_by_the_nearest_semidefinite_matrix():
    rng, (problem, _) = np.random.default_rng(1), case()
    X = FixedRank.from_factors(*(random_array(rng, (N, RANK), complex) for _ in range(2)))
    near = lr.solve(problem, RANK, start=X, stop=lr.stopping.Iterations(0)).X
    W = X.to_dense()
    values, vectors = np.linalg.eigh((W + W.conj().T) / 2)
    expected = (vectors[:, -RANK:] * np.maximum(values[-RANK:], 0)) @ vectors[:, -RANK:].conj().T
    np.testing.assert_allclose(near.to_dense(), expected, atol=1e-10)


def test_a_model_of_another_manifold_may_start_at_a_hermitian_point():
    rng = np.random.default_rng(2)
    truth = FixedRank.from_factors(rng.standard_normal((20, 1)), rng.standard_normal((20, 1)))
    rows, cols = np.nonzero(rng.random((20, 20)) < 0.6)
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), (20, 20))
    result = lr.solve(problem, 1, start=FixedRank.semidefinite(rng.standard_normal((20, 1))))
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_shapes_that_are_not_square_are_refused():
    with pytest.raises(lr.ParameterError, match="shape"):
        lr.solve(Expectations(np.ones((3, 4, 5)), np.ones(3)), 1)


def test_checkpoints_keep_the_structure(tmp_path):
    problem, _ = case()
    path = tmp_path / "run.lorank"
    lr.solve(problem, RANK, "rcg", stop=lr.stopping.Iterations(3), checkpoint=path, checkpoint_every=0)
    assert lr.solve(problem, RANK, "rcg", checkpoint=path).X.hermitian
