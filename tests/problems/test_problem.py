"""A user's own measurement model through the protocol: two methods are enough."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse.linalg

import lorank as lr
from solver_cases import OF_ANY_MATRIX


class DenseSensing(lr.problems.MatrixProblem):
    """y_i = <A_i, X> with Gaussian A_i of variance 1/m, so that the operator_scale is 1."""

    def __init__(self, shape, m, truth, *, dtype=np.float64, seed=0):
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((m, *shape))
        if np.dtype(dtype).kind == "c":
            a = (a + 1j * rng.standard_normal(a.shape)) / np.sqrt(2)
        self.a = (a / np.sqrt(m)).astype(dtype)
        super().__init__(np.zeros(m, dtype), shape)
        y = self.forward(truth.U * truth.s, truth.V).astype(dtype)
        super().__init__(y, shape)

    def forward(self, left, right):
        return np.einsum("kij,ij->k", self.a.conj(), left @ right.conj().T)

    def adjoint(self, p):
        return np.einsum("kij,k->ij", self.a, p)


class ByProducts(DenseSensing):
    """The same, with an adjoint that only shows its products."""

    def adjoint(self, p):
        return scipy.sparse.linalg.aslinearoperator(super().adjoint(p))


class Sparse(DenseSensing):
    """The same, with an adjoint in SciPy's sparse form."""

    def adjoint(self, p):
        return scipy.sparse.csr_array(super().adjoint(p))


def make(kind, *, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    left, right = (rng.standard_normal((n, 2)) + 0 for n in (12, 10))
    if np.dtype(dtype).kind == "c":
        left, right = left + 1j * rng.standard_normal(left.shape), right + 1j * rng.standard_normal(right.shape)
    truth = lr.FixedRank.from_factors(left, right)
    return kind((12, 10), 200, truth, dtype=dtype, seed=seed), truth


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("kind", [DenseSensing, Sparse])
@pytest.mark.parametrize("name", OF_ANY_MATRIX)
def test_every_solver_runs_on_a_users_operator(kind, dtype, name):
    problem, truth = make(kind, dtype=dtype)
    lr.testing.dot_test(problem)
    lr.testing.check_gradient(problem, 2)
    result = lr.solve(problem, 2, name, tol=1e-9, max_iter=3000)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-7 * truth.norm()


@pytest.mark.parametrize("name", ["rgd", "adaptive-rgd", "niht", "iht"])
def test_products_are_enough_without_row_weights(name):
    problem, truth = make(ByProducts)
    result = lr.solve(problem, 2, name, tol=1e-9, max_iter=3000)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-7 * truth.norm()


def test_row_weights_refuse_an_operator_without_entries():
    problem, _ = make(ByProducts)
    with pytest.raises(ValueError, match=r"ByProducts\.adjoint returns a LinearOperator.*solver='rgd'"):
        lr.solve(problem, 2, "prgd")


def test_theorem_1_contracts_with_the_theory_policy():
    problem, truth = make(DenseSensing, seed=3)
    errors = lr.callbacks.TruthError(truth)
    solver = lr.solvers.RGD(lr.metrics.RowColumn(lr.metrics.Theory()), lr.steps.Theory(), None)
    result = lr.solve(problem, 2, solver, tol=1e-8, callbacks=[errors])
    assert result.converged
    assert (errors.error[1:] / errors.error[:-1]).max() < 0.995


def test_abstract_methods_are_asked_for():
    with pytest.raises(TypeError, match="abstract"):
        lr.Problem(np.ones(3), (2, 2))


def test_a_gradient_with_weights_that_a_step_chooses():
    rng = np.random.default_rng(8)
    truth, X = (lr.FixedRank.from_factors(rng.standard_normal((7, 2)), rng.standard_normal((5, 2))) for _ in range(2))
    weights = rng.uniform(0.5, 2, 60)
    sensing = DenseSensing((7, 5), 60, truth)
    misfit = np.einsum("kij,ij->k", sensing.a, X.to_dense() - truth.to_dense())
    dense = np.einsum("kij,k->ij", sensing.a, weights * misfit)
    G = sensing.gradient(X).weighted(weights)
    np.testing.assert_allclose(G.GV, dense @ X.V, atol=1e-12)
    np.testing.assert_allclose(G.GhU, dense.T @ X.U, atol=1e-12)
    xi = X.manifold.gradient(X, G, lr.geometry.Weights())
    left, right = xi.factors()
    image = np.einsum("kij,ij->k", sensing.a, left @ right.T)
    assert G.squared_image_norm(xi) == pytest.approx(weights @ image**2, rel=1e-12)

    completion = lr.Completion.from_dense(truth.to_dense(), loss="huber")
    weights = rng.uniform(0.5, 2, 35)
    dense = weights.reshape(7, 5) * (X.to_dense() - truth.to_dense())
    np.testing.assert_allclose(completion.gradient(X).weighted(weights).GV, dense @ X.V, atol=1e-12)


def test_fingerprints_tell_measurements_apart():
    rng = np.random.default_rng(8)
    truth = lr.FixedRank.from_factors(rng.standard_normal((7, 2)), rng.standard_normal((5, 2)))
    one, same, other = (DenseSensing((7, 5), 60, truth, seed=seed) for seed in (0, 0, 1))
    other.y = one.y  # the same numbers, measured otherwise
    assert one.fingerprint() == same.fingerprint()
    assert one.fingerprint() != other.fingerprint()
    same.y = same.y + 1e-9
    assert one.fingerprint() != same.fingerprint()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda problem: pickle.loads(pickle.dumps(problem))])
@pytest.mark.parametrize("solver", ["auto", "rcg"])
def test_copies_of_a_solved_problem_give_the_same_bits(solver, duplicate):
    for problem in (
        lr.datasets.random_completion(60, 50, 2, oversampling=3)[0],
        lr.datasets.random_sensing(12, 10, 2, oversampling=3)[0],
        lr.CountTable(np.random.default_rng(0).poisson(2.0, (20, 15))),
    ):
        found = lr.solve(problem, 2, solver, stop=lr.stopping.Iterations(30)).X
        again = lr.solve(duplicate(problem), 2, solver, stop=lr.stopping.Iterations(30)).X
        np.testing.assert_array_equal(again.U, found.U)
