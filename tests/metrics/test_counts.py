"""The metric of uneven observations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import lorank as lr
from helpers import host, random_point
from lorank.geometry import DiagonalWeight, riemannian_gradient
from lorank.geometry.weights import Identity
from lorank.metrics import Canonical, Counts
from lorank.problems.capabilities import HasCounts, supports

POWERS = {"even": (0.0, 0.0), "mild": (0.5, 0.7), "steep": (0.6, 0.8)}


def uneven(powers, seed, shape=(300, 200), rank=3, m=None, least=None, backend=None):
    rng = np.random.default_rng(seed)
    truth = lr.FixedRank.from_factors(*(rng.standard_normal((n, rank)) for n in shape))
    rows, cols = lr.datasets.uneven_pattern(
        rng, shape, m or 5 * rank * sum(shape), powers=powers, least=2 * rank if least is None else least
    )
    return lr.Completion(rows, cols, truth.entries(rows, cols), shape, backend=backend), truth


def test_the_weights_against_their_formula(backend):
    problem, _ = uneven((0.5, 0.7), 1, shape=(40, 30), rank=2, m=400, backend=backend)
    X = random_point(np.random.default_rng(0), problem.shape, 2, np.float64, problem.backend)
    G = problem.gradient(X)
    weights, memory = Counts().weights(G, Counts().start(G))
    assert weights is memory
    for weight, index, n in ((weights.mode(0), problem.rows, 40), (weights.mode(1), problem.cols, 30)):
        c = np.bincount(host(index), minlength=n)
        expected = (c + np.median(c) / 2) / (c + np.median(c) / 2).mean()
        np.testing.assert_allclose(host(weight.w), expected, rtol=1e-12)
    products = np.outer(host(weights.mode(0).w), host(weights.mode(1).w))
    assert weights.low == pytest.approx(products.min())
    assert weights.high == pytest.approx(products.max())


def test_the_gradient_in_this_metric_against_its_dense_twin():
    """The tangent vector xi with <L xi R, Z> = <G, Z> for all tangent Z."""
    problem, _ = uneven((0.5, 0.7), 2, shape=(14, 12), rank=2, m=70, least=2)
    X = random_point(np.random.default_rng(1), problem.shape, 2, np.float64, problem.backend)
    G = problem.gradient(X)
    weights = Counts().start(G)
    xi = riemannian_gradient(X, G, weights)
    basis = tangent_basis(X)
    w = np.outer(weights.mode(0).w, weights.mode(1).w)
    dense = np.zeros(problem.shape)
    dense[problem.rows, problem.cols] = X.entries(problem.rows, problem.cols) - problem.y
    gram = np.einsum("kij,ij,lij->kl", basis, w, basis)
    expected = np.tensordot(np.linalg.solve(gram, np.einsum("kij,ij->k", basis, dense)), basis, 1)
    np.testing.assert_allclose(xi.to_dense(), expected, atol=1e-10 * np.abs(expected).max())


def test_the_weights_are_the_expected_energy():
    """E |A Z|^2 = m <P Z Q, Z> where entries are drawn with frequencies p_i q_j, by drawing many."""
    rng = np.random.default_rng(3)
    p, q = (rng.random(n) ** 2 for n in (6, 5))
    p, q = p / p.sum(), q / q.sum()
    Z = rng.standard_normal((6, 5))
    rows, cols = rng.choice(6, 200_000, p=p), rng.choice(5, 200_000, p=q)
    energies = Z[rows, cols] ** 2
    expected = (p[:, None] * Z * q * Z).sum()
    assert abs(energies.mean() - expected) < 5 * energies.std() / np.sqrt(len(rows))


def tangent_basis(X):
    """An orthonormal basis of the tangent space at a real X, as dense matrices: L V^T for all L; U R^T, R orthogonal to V."""
    (n1, n2), r = X.shape, X.rank
    outside = scipy.linalg.null_space(X.V.T)
    left = np.einsum("ai,jk->akij", np.eye(n1), X.V).reshape(-1, n1, n2)
    right = np.einsum("ik,ja->akij", X.U, outside).reshape(-1, n1, n2)
    assert len(left) + len(right) == (n1 + n2 - r) * r
    return np.concatenate([left, right])


def restricted_hessian(problem, X):
    """A*A on the tangent space at X, in an orthonormal basis of it, and that basis sampled everywhere it is needed."""
    rows, cols, (n1, n2), r = problem.rows, problem.cols, problem.shape, X.rank
    outside = scipy.linalg.null_space(X.V.T)
    J = np.zeros((problem.m, (n1 + n2 - r) * r))
    k = np.arange(problem.m)
    for a in range(r):
        J[k, rows * r + a] = X.V[cols, a]
        J[:, n1 * r + a :: r] = X.U[rows, a][:, None] * outside[cols]
    return J.T @ J, outside


def metric_matrix(X, outside, left, right):
    """<diag(l) Z diag(rho), Z> on the tangent space, in the same basis."""
    (n1, n2), r = X.shape, X.rank
    size = (n1 + n2 - r) * r
    W = np.zeros((size, size))
    W[: n1 * r, : n1 * r] = np.kron(np.diag(left), X.V.T @ (right[:, None] * X.V))
    mixed = outside.T @ (right[:, None] * X.V)  # of U R^T with L V^T
    W[n1 * r :, : n1 * r] = np.einsum("ik,ac->akic", left[:, None] * X.U, mixed).reshape(size - n1 * r, n1 * r)
    W[: n1 * r, n1 * r :] = W[n1 * r :, : n1 * r].T
    W[n1 * r :, n1 * r :] = np.kron(outside.T @ (right[:, None] * outside), X.U.T @ (left[:, None] * X.U))
    return W


def block_matrix(problem, X, outside):
    """The sum of both sides' block inverses, in the same basis."""
    (n1, n2), r = X.shape, X.rank
    by_rows, by_cols = (np.linalg.inv(b) for b in problem.blocks(X))
    left, right = scipy.linalg.block_diag(*by_rows), scipy.linalg.block_diag(*by_cols)  # on L and R in L V^T + U R^T
    # of U R^T, what lies in the span of V is U (V^T R)^T V^T: the part of L that the basis has for it
    to_basis = np.zeros(((n1 + n2 - r) * r, n2 * r))
    to_basis[: n1 * r] = np.einsum("ik,jc->icjk", X.U, X.V).reshape(n1 * r, n2 * r)
    to_basis[n1 * r :] = np.kron(outside.T, np.eye(r))
    P = to_basis @ right @ to_basis.T
    P[: n1 * r, : n1 * r] += left
    return P


def condition(H, W):
    values = scipy.linalg.eigh(H, W, eigvals_only=True)
    return values[-1] / values[0]


@pytest.mark.parametrize(("pattern", "canonical", "counts"), [("even", 20, 16), ("mild", 200, 32), ("steep", 400, 60)])
def test_condition_numbers_at_the_truth(pattern, canonical, counts):
    """The Hessian of the misfit on the tangent space at the truth: what decides how many steps are needed near it."""
    problem, truth = uneven(POWERS[pattern], 1001, shape=(120, 80))
    H, outside = restricted_hessian(problem, truth)
    weights = Counts(uneven=0).start(problem.gradient(truth))
    plain = condition(H, np.eye(len(H)))
    weighted = condition(H, metric_matrix(truth, outside, weights.mode(0).w, weights.mode(1).w))
    assert weighted < counts
    assert plain < canonical
    assert weighted < 1.05 * plain
    if pattern != "even":
        assert weighted < 0.6 * plain
    blocks = condition(H, np.linalg.inv(block_matrix(problem, truth, outside)))
    assert blocks < 16
    assert blocks < weighted


def test_equal_counts_need_no_weights():
    rng = np.random.default_rng(0)
    problem = lr.Completion.from_dense(rng.standard_normal((12, 10)))
    weights = Counts().start(problem.gradient(random_point(rng, (12, 10), 2, np.float64, problem.backend)))
    assert isinstance(weights.mode(0), Identity)
    assert isinstance(weights.mode(1), Identity)


def test_a_model_without_counts_gets_no_weights():
    problem, _ = lr.datasets.random_sensing(8, 7, 2, seed=0)
    assert not supports(problem, HasCounts)
    weights = Counts().start(problem.gradient(random_point(np.random.default_rng(0), (8, 7), 2, np.float64, problem.backend)))
    assert isinstance(weights.mode(0), Identity)
    assert lr.solve(problem, 2, lr.solvers.RCG(Counts())).converged


def test_rows_that_were_never_seen_keep_a_weight():
    with pytest.warns(UserWarning, match="no observation"):
        problem = lr.Completion([0, 0, 1, 1, 3], [0, 1, 0, 1, 1], [1.0, 2, 2, 4, 4], (5, 3))
    weights = Counts().start(problem.gradient(random_point(np.random.default_rng(0), (5, 3), 1, np.float64, problem.backend)))
    assert isinstance(weights.mode(0), DiagonalWeight)
    assert weights.mode(0).w.min() > 0
    assert weights.mode(1).w.min() > 0
    with pytest.raises(ValueError, match="floor"):
        Counts(floor=0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_single_precision_stays_so(dtype):
    problem, _ = uneven((0.5, 0.7), 5, shape=(60, 40), rank=2)
    problem = lr.Completion(problem.rows, problem.cols, problem.y.astype(dtype), problem.shape)
    result = lr.solve(problem, 2, lr.solvers.RCG(Counts()), tol=1e-4)
    assert result.converged
    assert result.X.dtype == dtype


@pytest.mark.parametrize("seed", [1001, 1002, 1003])
@pytest.mark.parametrize("pattern", ["mild", "steep"])
def test_fewer_iterations_where_observations_are_uneven(pattern, seed):
    problem, truth = uneven(POWERS[pattern], seed, shape=(600, 400), rank=4)
    rule = lr.stopping.TruthDistance(truth, 1e-4)
    plain, counted = (lr.solve(problem, 4, lr.solvers.RCG(metric), stop=rule) for metric in (Canonical(), Counts()))
    assert counted.converged
    assert counted.n_iter < 0.6 * plain.n_iter
