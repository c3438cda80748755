"""Another manifold in the same loop: tensors of fixed multilinear rank (Tucker), written here in one file.

``X = C x_1 U_1 x_2 U_2 x_3 U_3`` with orthonormal U_i. Everything is dense: the point is that solvers, step rules, stopping
rules, history and checkpoints need nothing else than what stands here.
"""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.backends import backend_of
from lorank.loop.steps import Exact
from lorank.metrics import Canonical
from lorank.plans.noise_test import NoiseFloor


def unfold(a, k):
    return np.moveaxis(a, k, 0).reshape(a.shape[k], -1)


def times(a, matrices):
    """``a x_1 M_1 x_2 M_2 x_3 M_3``."""
    for k, m in enumerate(matrices):
        a = np.moveaxis(np.tensordot(m, a, (1, k)), 0, k)
    return a


class Tucker:
    """A point."""

    def __init__(self, core, factors):
        self.core, self.factors, self.backend = core, factors, backend_of(core)
        self.manifold, self.dtype = TUCKER, core.dtype
        self.shape, self.rank = tuple(len(u) for u in factors), core.shape

    def dense(self):
        return times(self.core, self.factors)

    def norm(self):
        return float(np.linalg.norm(self.core))

    def distance(self, other):
        return float(np.linalg.norm(self.dense() - other.dense()))

    def is_finite(self):
        return bool(np.isfinite(self.core).all())

    def padded(self, rank):
        return self

    def numpy(self):
        return self


class TuckerTangent:
    """``dC x U + sum_k C x_k dU_k x_others U`` with ``U_k^T dU_k = 0``, kept as a dense tensor."""

    def __init__(self, X, dense):
        self.X, self.dense = X, dense

    def __mul__(self, c):
        return TuckerTangent(self.X, float(c) * self.dense)

    __rmul__ = __mul__

    def __neg__(self):
        return -1.0 * self

    def __add__(self, other):
        return TuckerTangent(self.X, self.dense + other.dense)

    def __sub__(self, other):
        return self + -other

    def norm(self):
        return float(np.linalg.norm(self.dense))

    def inner(self, G):
        return float(np.vdot(G.dense, self.dense))


def project(X, z):
    """The orthogonal projection on the tangent space at X."""
    inside = times(z, [u @ u.T for u in X.factors])
    total = inside
    for k in range(3):
        others = [u.T for u in X.factors]
        others[k] = np.eye(X.shape[k])
        a, c = unfold(times(z, others), k), unfold(X.core, k)
        moved = (a - X.factors[k] @ (X.factors[k].T @ a)) @ c.T @ np.linalg.inv(c @ c.T)
        factors = list(X.factors)
        factors[k] = moved
        total = total + times(X.core, factors)
    return total


class TuckerManifold:
    def check_rank(self, rank, shape):
        if len(rank) != len(shape) or any(r > n for r, n in zip(rank, shape, strict=True)):
            raise ValueError(f"rank must be one number per dimension, at most {shape}: got {rank!r}")
        return tuple(rank)

    def dof(self, shape, rank, dtype):
        return int(np.prod(rank)) + sum((n - r) * r for n, r in zip(shape, rank, strict=True))

    def zero(self, shape, rank, dtype, backend):
        return Tucker(np.zeros(rank, dtype), [np.eye(n, r, dtype=dtype) for n, r in zip(shape, rank, strict=True)])

    def check_point(self, X, shape, rank, dtype, backend):
        if not isinstance(X, Tucker) or X.shape != shape or X.rank != rank:
            raise ValueError(f"start must be a Tucker point of shape {shape} and rank {rank}")
        return X

    def gradient(self, X, G, weights):
        return TuckerTangent(X, project(X, G.dense))

    def prepare(self, X, G, vectors):
        pass

    def forget(self, xi):
        pass

    def retract(self, xi, alpha):
        return truncated(xi.X.dense() + alpha * xi.dense, xi.X.rank)

    def transport(self, old, X):
        class Projection:
            def vector(self, xi):
                return TuckerTangent(X, project(X, xi.dense))

            def slope(self, xi, G):
                return self.vector(xi).inner(G)

        return Projection()

    def arrays(self, X):
        return {"core": X.core, **{f"U{k}": u for k, u in enumerate(X.factors)}}

    def from_arrays(self, arrays, backend):
        return Tucker(arrays["core"], [arrays[f"U{k}"] for k in range(3)])


TUCKER = TuckerManifold()


def truncated(a, rank):
    """The higher-order SVD, cut off."""
    factors = [np.linalg.svd(unfold(a, k), full_matrices=False)[0][:, :r] for k, r in enumerate(rank)]
    return Tucker(times(a, [u.T for u in factors]), factors)


class TuckerGradient:
    def __init__(self, problem, X):
        self.problem, self.X = problem, X
        self.dense = np.where(problem.mask, X.dense() - problem.data, 0.0)
        self.residual = self.dual = self.dense[problem.mask]
        self.residual_norm = float(np.linalg.norm(self.dense))

    def at(self, X):
        return TuckerGradient(self.problem, X)

    def squared_image_norm(self, xi):
        return float((xi.dense[self.problem.mask] ** 2).sum())


class TensorCompletion(lr.Problem):
    manifold = TUCKER

    def __init__(self, data, mask):
        self.data, self.mask = data, mask
        super().__init__(data[mask], data.shape, operator_scale=mask.mean())

    def gradient(self, X):
        return TuckerGradient(self, X)


class WithSpectralNorm(TensorCompletion):
    """With the one member that the noise test needs."""

    def spectral_norm(self, p):
        a = np.zeros(self.shape)
        a[self.mask] = p
        return max(np.linalg.norm(unfold(a, k), 2) for k in range(3))


def case(seed=0, shape=(14, 12, 10), rank=(3, 2, 2)):
    rng = np.random.default_rng(seed)
    core = rng.standard_normal(rank)
    truth = Tucker(core, [np.linalg.qr(rng.standard_normal((n, r)))[0] for n, r in zip(shape, rank, strict=True)])
    problem = TensorCompletion(truth.dense(), rng.random(shape) < 0.5)
    start = truncated(np.where(problem.mask, problem.data, 0) / problem.operator_scale, rank)
    return problem, truth, start


def test_the_problem_keeps_all_its_dimensions():
    problem, truth, _ = case()
    assert problem.shape == (14, 12, 10)
    assert problem.dof(truth.rank) == 12 + 11 * 3 + 10 * 2 + 8 * 2


def test_the_projection_is_one():
    problem, _, X = case()
    z = np.random.default_rng(1).standard_normal(problem.shape)
    p = project(X, z)
    np.testing.assert_allclose(project(X, p), p, atol=1e-12)
    np.testing.assert_allclose(np.vdot(z - p, p), 0, atol=1e-10)
    h = 1e-6  # a curve through X on the manifold has its tangent in the space
    factors = [np.linalg.qr(u + h * np.random.default_rng(2).standard_normal(u.shape))[0] for u in X.factors]
    factors = [q * np.sign((q * u).sum(0)) for q, u in zip(factors, X.factors, strict=True)]
    moved = (times(X.core, factors) - X.dense()) / h
    assert np.linalg.norm(moved - project(X, moved)) < 1e-4 * np.linalg.norm(moved)


@pytest.mark.parametrize("solver", [lr.solvers.RCG(), lr.solvers.RGD(Canonical(), Exact())], ids=["rcg", "rgd"])
def test_it_runs_in_the_same_loop(solver):
    problem, truth, start = case()
    error = lr.callbacks.TruthError(truth)
    result = lr.solve(problem, truth.rank, solver, start=start, callbacks=[error], tol=1e-8)
    assert result.converged
    assert truth.distance(result.X) < 1e-6 * truth.norm()
    assert error.error[-1] < 1e-6
    assert len(result.history) == result.n_iter + 1


def test_its_checkpoints_go_on(tmp_path):
    problem, truth, start = case()
    path = tmp_path / "tucker.lorank"
    few = lr.stopping.Iterations(4)
    first = lr.solve(problem, truth.rank, lr.solvers.RCG(), start=start, stop=few, checkpoint=path, checkpoint_every=0)
    again = lr.solve(problem, truth.rank, lr.solvers.RCG(), start=start, checkpoint=path)
    assert again.history.residual[0] == pytest.approx(first.residual)
    assert again.converged


def test_bad_ranks_and_points_are_refused():
    problem, _, start = case()
    with pytest.raises(ValueError, match="one number per dimension"):
        lr.solve(problem, (3, 2), lr.solvers.RCG(), start=start)
    with pytest.raises(ValueError, match="Tucker point of shape"):
        lr.solve(problem, (2, 2, 2), lr.solvers.RCG(), start=start)


def test_the_default_solver_and_start_run_on_another_manifold():
    problem, truth, _ = case()
    problem.initial_point = lambda rank, rng: case()[2]
    result = lr.solve(problem, truth.rank, tol=1e-8)
    assert result.converged
    assert truth.distance(result.X) < 1e-6 * truth.norm()


@pytest.mark.parametrize("solver", ["prgd", "shampoo", "gauss-newton", "niht", "iht", lr.solvers.IRLS(), lr.solvers.ALS()])
def test_solvers_for_matrices_are_refused_by_name(solver):
    problem, truth, start = case()
    with pytest.raises(lr.ParameterError, match=r"solver .* needs .*TensorCompletion"):
        lr.solve(problem, truth.rank, solver, start=start)


@pytest.mark.parametrize("start", [None, "spectral", "staged", lr.starts.Staged()])
def test_starts_for_matrices_are_refused_by_name(start):
    problem, truth, _ = case()
    if start is not None:
        problem.initial_point = lambda rank, rng: case()[2]  # used by default only
    with pytest.raises(lr.ParameterError, match=r"start .* needs a FixedRankManifold .*TensorCompletion has none"):
        lr.solve(problem, truth.rank, start=start)


def test_rank_search_and_checks_of_matrices_are_refused_by_name():
    problem, _, _ = case()
    with pytest.raises(lr.ParameterError, match=r"rank 'auto' needs"):
        lr.solve(problem, "auto")
    for test in (lr.testing.dot_test, lr.testing.check_gradient):
        with pytest.raises(lr.ParameterError, match=r"problem needs .*TensorCompletion"):
            test(problem, rank=2)


@pytest.mark.parametrize(("rank", "status"), [((3, 2, 2), "noise"), ((2, 2, 2), "stalled")])
def test_noise_ends_runs_on_another_manifold_and_a_rank_too_low_is_no_noise(rank, status):
    problem, truth, _ = case(shape=(20, 18, 16))
    noise = 0.1 * problem.y_norm / problem.m**0.5
    data = truth.dense() + noise * np.random.default_rng(5).standard_normal(problem.shape)
    problem = WithSpectralNorm(data, problem.mask)
    start = truncated(np.where(problem.mask, data, 0) / problem.operator_scale, rank)
    stop = lr.stopping.RelativeResidual(1e-6) | NoiseFloor() | lr.stopping.Stall()
    result = lr.solve(problem, rank, lr.solvers.RCG(), start=start, stop=stop)
    assert result.status == status
    if status == "noise":
        assert result.noise == pytest.approx(noise, rel=0.1)
