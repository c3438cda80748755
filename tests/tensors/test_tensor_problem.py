"""Tensor completion against dense tensors: passes, gradient, recovery, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import assert_close as close
from lorank.geometry.tucker import except_mode, multiply, unfold
from lorank.losses import Huber

SHAPES = {"order 3": ((7, 9, 5), (3, 2, 2)), "order 4": ((6, 5, 4, 7), (2, 3, 2, 2)), "long mode": ((40, 3, 6), (4, 2, 3))}


@pytest.fixture(params=SHAPES, ids=list(SHAPES))
def case(request, backend):
    return made(*SHAPES[request.param], backend)


def assert_close(actual, expected):
    close(np.asarray(actual), np.asarray(expected), np.float64, factor=200.0)


def made(shape, rank, backend, seed=0, **options):
    """A problem with noisy values, a point, and the dense mask and data."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < 0.3
    mask.flat[0] = True
    data = rng.standard_normal(shape)
    indices = rng.permutation(np.argwhere(mask))
    problem = lr.TensorCompletion(indices, data[tuple(indices.T)], shape, backend=backend, **options)
    core = rng.standard_normal(rank)
    X = lr.Tucker.from_factors(core, [rng.standard_normal((n, r)) for n, r in zip(shape, rank, strict=True)])
    return problem, problem.manifold.check_point(X, shape, rank, problem.dtype, problem.backend), mask, data


def test_products_of_the_gradient_are_those_of_the_dense_tensor(case):
    problem, X, mask, data = case
    G = problem.gradient(X)
    dense = np.where(mask, X.to_dense() - data, 0.0)
    transposed = [u.T for u in X.numpy().factors]
    assert_close(G.residual_norm, np.linalg.norm(dense))
    assert_close(G.core, multiply(dense, transposed))
    for k, found in enumerate(G.modes):
        c = unfold(X.core, k)
        assert_close(problem.backend.to_numpy(found), unfold(multiply(dense, except_mode(k, transposed)), k) @ c.T)
        axes = tuple(j for j in range(dense.ndim) if j != k)
        assert_close(problem.backend.to_numpy(G.squared_norms[k]), (dense**2).sum(axes))
        assert_close(problem.backend.to_numpy(problem.counts()[k]), mask.sum(axes))


def test_the_image_of_a_tangent_vector_is_its_observed_part(case):
    problem, X, mask, _ = case
    G = problem.gradient(X)
    xi = X.manifold.gradient(X, G, lr.geometry.Weights())
    assert_close(G.squared_image_norm(xi), np.linalg.norm(dense_tangent(xi)[mask]) ** 2)


def dense_tangent(xi):
    X = xi.X.numpy()
    changes = [xi.X.backend.to_numpy(xi.X.backend.asarray(u)) for u in xi.factors]
    total = multiply(xi.core, X.factors)
    for k, change in enumerate(changes):
        total = total + multiply(X.core, [change if j == k else u for j, u in enumerate(X.factors)])
    return total


@pytest.mark.needs("native")
def test_native_passes_agree_with_numpy_at_all_widths():
    for rank in ((1, 1, 1), (8, 3, 5), (9, 9, 9), (17, 4, 8), (30, 33, 7)):
        found = []
        for name in ("native", "numpy"):
            problem, X, *_ = made((34, 35, 36), rank, name)
            G = problem.gradient(X)
            found.append([G.residual, *G.modes])
        for a, b in zip(*found, strict=True):
            assert_close(a, b)


@pytest.mark.parametrize("n", [40, 310])  # formed, and by products
@pytest.mark.parametrize("device", ["host", pytest.param("device", marks=pytest.mark.needs("torch"))])
def test_unfoldings_have_the_eigenpairs_of_the_dense_gram_matrix(n, device, monkeypatch):
    backend = lr.backends.get_backend("numpy" if device == "host" else "torch")
    monkeypatch.setattr(backend, "in_main_memory", device == "host")  # a GPU's products
    problem, _ = lr.datasets.random_tensor((n, 12, 10), (3, 2, 2), oversampling=5, powers=0.3, seed=1, backend=backend)
    c = [backend.to_numpy(a) for a in problem.counts()]
    roots = [np.sqrt((a + np.median(a) / 2) / a.mean()) for a in c]
    dense = np.zeros(problem.shape)
    dense[tuple(problem.indices.T)] = backend.to_numpy(problem.y)
    M = unfold(dense / np.multiply.outer(np.multiply.outer(roots[0], roots[1]), roots[2]), 0)
    known = np.random.default_rng(0).standard_normal((n, 2))
    for given in (None, known):
        Q = np.zeros((n, 0)) if given is None else np.linalg.qr(roots[0][:, None] * given)[0]
        out = np.eye(n) - Q @ Q.T
        values, vectors = np.linalg.eigh(out @ (M @ M.T - np.diag((M**2).sum(1))) @ out)
        found, basis = problem.unfoldings[0].leading(problem.y, 2, given)
        np.testing.assert_allclose(found, values[::-1][:2], rtol=1e-3)
        cosines = np.linalg.svd(vectors[:, ::-1][:, :2].T @ np.linalg.qr(roots[0][:, None] * basis)[0], compute_uv=False)
        assert cosines.min() > 0.999


@pytest.mark.parametrize("loss", [{}, {"weights": True}, {"loss": Huber(scale=0.3)}], ids=["squares", "weights", "huber"])
def test_the_slope_is_the_derivative_of_the_objective(loss):
    if "weights" in loss:
        loss = {"weights": np.random.default_rng(5).random(made((7, 6, 5), (2, 2, 2), "numpy")[0].m)}
    problem, X, *_ = made((7, 6, 5), (2, 2, 2), "numpy", **loss)
    G = problem.gradient(X)
    xi = X.manifold.gradient(X, G, lr.geometry.Weights())

    def value(t):
        return problem.gradient(X.manifold.retract(xi, t)).residual_norm ** 2 / 2

    h = 1e-5
    slope = (value(h) - value(-h)) / (2 * h)
    assert abs(slope - xi.inner(G)) < 1e-5 * abs(slope)


@pytest.mark.parametrize("factors", ["gaussian", "uniform"])
@pytest.mark.parametrize(("shape", "rank"), [((30, 25, 20), (3, 2, 4)), ((14, 12, 10, 9), 2)])
def test_exact_data_are_recovered(shape, rank, factors, backend):
    problem, truth = lr.datasets.random_tensor(shape, rank, oversampling=12, factors=factors, seed=3, backend=backend)
    result = lr.solve(problem, rank, tol=1e-9)
    assert result.converged
    assert truth.distance(result.X.numpy()) < 1e-8 * truth.norm()


def test_noisy_data_end_at_the_noise_floor_and_too_low_a_rank_does_not():
    problem, truth = lr.datasets.random_tensor((30, 28, 26), 3, oversampling=10, noise=0.1, seed=300)
    result = lr.solve(problem, 3)
    assert result.status == "noise"
    assert result.noise == pytest.approx(0.1 * np.linalg.norm(problem.y) / problem.m**0.5, rel=0.1)
    assert truth.distance(result.X) < 0.1 * truth.norm()
    with pytest.warns(lr.ConvergenceWarning):
        assert lr.solve(problem, 2).status == "stalled"


def test_counts_take_fewer_iterations_on_unevenly_sampled_modes():
    problem, _ = lr.datasets.random_tensor((60, 50, 40), 3, oversampling=20, powers=0.7, seed=2)
    start = lr.tensors.start.spectral(problem, (3, 3, 3))
    metrics = lr.metrics.Canonical(), lr.metrics.Counts()
    plain, counted = (lr.solve(problem, 3, lr.solvers.RCG(metric), start=start) for metric in metrics)
    assert counted.converged
    assert counted.n_iter < plain.n_iter


@pytest.mark.parametrize("solver", ["prgd", "adaptive-prgd", "rgd", "adaptive-rgd", "shampoo", "rcg"])
def test_first_order_solvers_run_on_tensors(solver):
    problem, truth = lr.datasets.random_tensor((20, 18, 16), 2, oversampling=20, seed=1)
    start = lr.tensors.start.spectral(problem, (2, 2, 2))
    result = lr.solve(problem, 2, solver, start=start, max_iter=2000, tol=1e-5)
    assert result.converged
    assert truth.distance(result.X) < 1e-3 * truth.norm()


@pytest.mark.parametrize("solver", ["gauss-newton", "niht", "iht", lr.solvers.IRLS(), lr.solvers.ALS()])
def test_solvers_for_matrices_are_refused_by_name(solver):
    problem, _ = lr.datasets.random_tensor((20, 18, 16), 2)
    with pytest.raises(lr.ParameterError, match=r"solver .* needs .*TensorCompletion"):
        lr.solve(problem, 2, solver)


def test_missing_entries_of_a_dense_tensor_are_nan():
    a = np.einsum("i,j,k->ijk", *(np.arange(1.0, n + 1) for n in (6, 5, 4)))
    hidden = a.copy()
    hidden[::2, ::2, ::2] = np.nan
    result = lr.solve(lr.TensorCompletion.from_dense(hidden), rank=1, tol=1e-10)
    assert abs(result.X.to_dense() - a).max() < 1e-6


def test_indices_without_observations_are_reported_and_zero():
    full, truth = lr.datasets.random_tensor((20, 18, 16), 2, oversampling=15, seed=1)
    assert "without observations" not in lr.solve(full, 2).status.advice
    kept = full.indices[:, 0] != 3
    result = lr.solve(lr.TensorCompletion(full.indices[kept], full.y[kept], (20, 18, 17)), 2)
    assert result.converged
    assert "0: 1 of mode 0 (the first is 3), 1 of mode 2 (the first is 16)." in result.status.advice
    dense = result.X.to_dense()
    assert not dense[3].any()
    assert not dense[:, :, 16].any()
    others = np.arange(20) != 3
    assert abs(dense[others, :, :16] - truth.to_dense()[others]).max() < 1e-4


def test_the_image_is_the_adjoint_of_the_gradient(case):
    problem, X, *_ = case
    G = problem.gradient(X)
    xi = X.manifold.gradient(X, G, lr.geometry.Weights())
    assert_close(problem.backend.inner(G.image(xi), G.dual), xi.inner(G))


def test_what_needs_a_matrix_is_refused_by_name():
    problem, _ = lr.datasets.random_tensor((20, 18, 16), 2)
    for check in (lr.testing.dot_test, lambda model: lr.testing.check_gradient(model, rank=2)):
        with pytest.raises(lr.ParameterError, match=r"problem needs a .*TensorCompletion"):
            check(problem)


@pytest.mark.needs("cuda")
@pytest.mark.parametrize("n", [30, 320])  # unfoldings on the host, and on the device
def test_a_device_gives_the_same_tensor(n):
    problem, truth = lr.datasets.random_tensor((n, 25, 20), 2, oversampling=12, seed=1)
    result = lr.solve(problem, 2, device="cuda")
    assert result.converged
    assert truth.distance(result.X.numpy()) < 1e-4 * truth.norm()


def test_index_arrays_may_be_given_by_mode():
    problem, _ = lr.datasets.random_tensor((20, 18, 16), 2)
    again = lr.TensorCompletion(list(problem.indices.T), problem.y, problem.shape)
    assert (again.indices == problem.indices).all()
    assert (again.y == problem.y).all()


def test_checkpoints_are_of_their_problem(tmp_path):
    problem, _ = lr.datasets.random_tensor((20, 18, 16), 2, oversampling=20, seed=1)
    path, few = tmp_path / "tensor.lorank", lr.stopping.Iterations(3)
    first = lr.solve(problem, 2, "rcg", stop=few, checkpoint=path, checkpoint_every=0)
    again = lr.solve(problem, 2, "rcg", checkpoint=path)
    assert again.history.residual[0] == pytest.approx(first.residual)
    assert again.converged
    other = lr.TensorCompletion(problem.indices[:, ::-1], problem.y, problem.shape[::-1])
    with pytest.raises(ValueError, match="checkpoint"):
        lr.solve(other, 2, "rcg", checkpoint=path)


GOOD = np.array([[0, 0, 0], [1, 1, 1], [2, 0, 1]])


@pytest.mark.parametrize(
    ("indices", "values", "options", "name"),
    [
        (GOOD[:, :2], np.ones(3), {}, "indices"),
        (np.vstack([GOOD, GOOD[:1]]), np.ones(4), {}, "indices"),
        (GOOD - 1, np.ones(3), {}, "indices"),
        (GOOD.astype(float), np.ones(3), {}, "indices"),
        (GOOD[:0], np.ones(0), {}, "indices"),
        (GOOD, np.ones(3), {"shape": (2, 2, 2)}, "indices"),
        (GOOD, np.ones(3), {"shape": (3, 3)}, "shape"),
        (GOOD, np.ones(2), {}, "values"),
        (GOOD, np.array([1.0, np.nan, 1.0]), {}, "values"),
        (GOOD, np.ones(3) * 1j, {}, "values"),
        (GOOD, np.ones(3), {"weights": [1.0, -1.0, 1.0]}, "weights"),
        (GOOD, np.ones(3), {"weights": [0.0, 0.0, 0.0]}, "weights"),
    ],
)
def test_invalid_data_are_refused_by_name(indices, values, options, name):
    with pytest.raises(lr.ParameterError) as error:
        lr.TensorCompletion(indices, values, **options)
    assert error.value.name == name


@pytest.mark.parametrize("rank", [0, 21, (2, 2), (2, 2, 17), (5, 2, 2), (2.0, 2, 2), True])
def test_invalid_ranks_are_refused_by_name(rank):
    problem, _ = lr.datasets.random_tensor((20, 18, 16), 2)
    with pytest.raises(lr.ParameterError) as error:
        lr.solve(problem, rank)
    assert error.value.name == "rank"
