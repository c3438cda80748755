"""Completion in the tensor-train format: passes against dense tensors, recovery, files, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.geometry import TRAIN, Weights
from lorank.geometry.train import dense_train
from lorank.losses import Huber
from lorank.tensors.train_start import enlarged, means, spectral

SHAPES = {
    "order 3": ((7, 9, 5), (3, 2)),
    "order 4": ((6, 5, 4, 7), (2, 3, 2)),
    "order 6": ((4, 3, 4, 3, 4, 3), (2, 3, 3, 3, 2)),
}


@pytest.fixture(params=SHAPES, ids=list(SHAPES))
def case(request):
    return made(*SHAPES[request.param])


def made(shape, rank, seed=0, **options):
    """A problem with noisy values, a point, and the dense mask and data."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < 0.3
    data = rng.standard_normal(shape)
    indices = rng.permutation(np.argwhere(mask))
    problem = lr.TensorCompletion(indices, data[tuple(indices.T)], shape, format="train", **options)
    X = lr.TensorTrain([rng.standard_normal(sides) for sides in zip((1, *rank), shape, (*rank, 1), strict=True)])
    return problem, X, mask, data


def test_the_gradient_is_the_projection_of_the_dense_residual(case):
    problem, X, mask, data = case
    G, dense = problem.gradient(X), np.where(mask, X.to_dense() - data, 0.0)
    assert G.residual_norm == pytest.approx(np.linalg.norm(dense))
    for k, found in enumerate(G.cores):
        left, right = X.cores[:k], X.right[k + 1 :]
        for position in [(0, 0, 0), tuple(n - 1 for n in found.shape)]:
            unit = np.zeros(found.shape)
            unit[position] = 1
            assert found[position] == pytest.approx(np.vdot(dense, dense_train([*left, unit, *right])), abs=1e-10)
        axes = tuple(j for j in range(dense.ndim) if j != k)
        np.testing.assert_allclose(G.squared_norms[k], (dense**2).sum(axes), atol=1e-10)
        np.testing.assert_allclose(problem.counts()[k], mask.sum(axes))


def test_the_adjoint_is_that_of_the_image(case):
    problem, X, *_ = case
    G, rng = problem.gradient(X), np.random.default_rng(1)
    xi = TRAIN.gradient(X, G, Weights())
    image, p = G.image(xi), rng.standard_normal(problem.m)
    np.testing.assert_allclose(image, dense_train(xi.train())[tuple(problem.indices.T)], atol=1e-10)
    products = sum(np.vdot(a, b) for a, b in zip(G.adjoint(p), xi.cores, strict=True))
    assert products == pytest.approx(image @ p, rel=1e-10, abs=1e-10 * np.linalg.norm(image) * np.linalg.norm(p))


@pytest.mark.parametrize("loss", [{}, {"weights": True}, {"loss": Huber(scale=0.3)}], ids=["squares", "weights", "huber"])
def test_the_slope_is_the_derivative_of_the_objective(loss):
    if "weights" in loss:
        loss = {"weights": np.random.default_rng(5).random(made((7, 6, 5), (2, 2))[0].m)}
    problem, X, *_ = made((7, 6, 5), (2, 2), **loss)
    G = problem.gradient(X)
    xi = TRAIN.gradient(X, G, Weights())

    def value(t):
        return problem.gradient(TRAIN.retract(xi, t)).residual_norm ** 2 / 2

    h = 1e-5
    slope = (value(h) - value(-h)) / (2 * h)
    assert abs(slope - xi.inner(G)) < 1e-5 * abs(slope)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sweep_fits_one_core_after_the_other(weighted):
    rng = np.random.default_rng(2)
    problem, X, *_ = made((6, 5, 4, 7), (2, 3, 2))
    if weighted:
        problem = lr.TensorCompletion(
            problem.indices, problem.y, problem.shape, weights=rng.random(problem.m) + 0.1, format="train"
        )
    solver = lr.tensors.TrainALS(damping=1e-14)
    found = solver.sweep(problem, X, problem.gradient(X))
    w = np.ones(problem.m) if problem.objective.weights is None else problem.objective.weights
    cores = [X.centres[0], *X.right[1:]]
    for k, core in enumerate(cores):
        units = np.eye(core.size).reshape(-1, *core.shape)
        columns = [dense_train([*cores[:k], unit, *cores[k + 1 :]])[tuple(problem.indices.T)] for unit in units]
        design = np.stack(columns, axis=1) * w[:, None] ** 0.5
        cores[k] = np.linalg.lstsq(design, problem.y * w**0.5, rcond=None)[0].reshape(core.shape)
    dense = dense_train(cores)
    np.testing.assert_allclose(found.to_dense(), dense, atol=1e-6 * np.linalg.norm(dense))


CASES = [
    ((10,) * 4, 3, 8, "gaussian"),
    ((20, 18, 16), (2, 3), 8, "gaussian"),
    ((6,) * 5, 2, 8, "uniform"),
    ((5,) * 6, (2, 2, 3, 2, 2), 8, "uniform"),
]


@pytest.mark.parametrize(("shape", "rank", "oversampling", "factors"), CASES)
def test_exact_data_are_recovered(shape, rank, oversampling, factors):
    problem, truth = lr.datasets.random_tensor(shape, rank, oversampling=oversampling, factors=factors, seed=3, format="train")
    result = lr.solve(problem, rank, tol=1e-10)
    assert result.converged
    assert truth.distance(result.X) < 1e-8 * truth.norm()


@pytest.mark.parametrize("solver", ["prgd", "adaptive-prgd", "rgd", "adaptive-rgd", "shampoo", "rcg", "lrgeomcg"])
def test_first_order_solvers_run_on_trains(solver):
    problem, truth = lr.datasets.random_tensor((9,) * 4, 2, oversampling=20, seed=1, format="train")
    result = lr.solve(problem, 2, solver, max_iter=2000, tol=1e-5)
    assert result.converged
    assert truth.distance(result.X) < 1e-3 * truth.norm()


def test_counts_take_fewer_iterations_on_unevenly_sampled_modes():
    problem, _ = lr.datasets.random_tensor((20,) * 4, 2, oversampling=30, powers=0.7, seed=2, format="train")
    start = spectral(problem, (2, 2, 2))
    metrics = lr.metrics.Canonical(), lr.metrics.Counts()
    plain, counted = (lr.solve(problem, 2, lr.solvers.RCG(metric), start=start) for metric in metrics)
    assert counted.converged
    assert counted.n_iter < plain.n_iter


@pytest.mark.parametrize("seed", range(1, 5))
def test_outliers_are_fitted_by_a_robust_loss(seed):
    clean, truth = lr.datasets.random_tensor((9,) * 4, 2, oversampling=15, factors="uniform", seed=seed, format="train")
    y = clean.y.copy()
    y[::20] += 10.0
    problem = lr.TensorCompletion(clean.indices, y, clean.shape, loss=Huber(scale=0.05), format="train")
    result = lr.solve(problem, 2, stop=lr.stopping.RelativeChange(1e-8))
    assert truth.distance(result.X) < 0.02 * truth.norm()


def test_sweeps_decrease_a_discrete_loss():
    clean, _ = lr.datasets.random_tensor((9,) * 4, 2, oversampling=20, seed=1, format="train")
    signs = np.random.default_rng(0).random(clean.m) < 1 / (1 + np.exp(-2 * clean.y))
    problem = lr.TensorCompletion(clean.indices, signs.astype(int), clean.shape, loss="logistic", format="train")
    result = lr.solve(problem, 2, stop=lr.stopping.Iterations(20))
    assert (np.diff(result.history.residual) < 1e-6).all()
    assert np.corrcoef(result.X.entries(*clean.indices.T), clean.y)[0, 1] > 0.8


def test_noisy_data_end_at_the_noise_floor_and_too_low_a_rank_does_not():
    problem, truth = lr.datasets.random_tensor((12,) * 4, 3, oversampling=10, noise=0.1, seed=300, format="train")
    result = lr.solve(problem, 3)
    assert result.status == "noise"
    assert result.noise == pytest.approx(0.1 * np.linalg.norm(problem.y) / problem.m**0.5, rel=0.1)
    assert truth.distance(result.X) < 0.1 * truth.norm()
    with pytest.warns(lr.ConvergenceWarning):
        assert lr.solve(problem, 2).status == "stalled"


@pytest.mark.parametrize("shape", [(10, 11, 12, 13), (12, 14, 3, 5, 4)])
def test_the_spectral_train_of_all_entries_is_near_the_tensor(shape):
    _, truth = lr.datasets.random_tensor(shape, 2, oversampling=1, format="train")
    problem = lr.TensorCompletion.from_dense(truth.to_dense(), format="train")
    X = spectral(problem, truth.rank)
    assert X.rank == truth.rank
    assert X.distance(truth) < 0.1 * truth.norm()  # the Gram matrix lacks its diagonal


def test_growing_keeps_the_point_nearly():
    problem, *_ = made((6, 5, 4, 7), (2, 3, 2))
    X = means(problem)
    assert X.rank == (1, 1, 1)
    Y = enlarged(X, (2, 2, 2), np.random.default_rng(0))
    assert Y.rank == (2, 2, 2)
    assert X.distance(Y) < 0.5 * X.norm()


def test_results_are_saved_and_loaded(tmp_path):
    problem, _ = lr.datasets.random_tensor((8,) * 4, 2, oversampling=10, seed=1, format="train")
    result = lr.solve(problem, 2)
    result.save(tmp_path / "train.lorank")
    again = lr.load(tmp_path / "train.lorank")
    assert again.X.rank == (2, 2, 2)
    assert again.X.distance(result.X) == pytest.approx(0, abs=1e-13 * result.X.norm())


def test_results_are_plotted():
    pytest.importorskip("matplotlib").use("Agg")
    problem, _ = lr.datasets.random_tensor((8,) * 4, 2, oversampling=10, seed=1, format="train")
    figure = lr.solve(problem, 2).plot()
    assert len(figure.axes[1].lines) == 3  # one curve for each split of the modes


def test_checkpoints_are_of_their_problem(tmp_path):
    problem, _ = lr.datasets.random_tensor((8,) * 4, 2, oversampling=10, seed=1, format="train")
    path, few = tmp_path / "train.lorank", lr.stopping.Iterations(3)
    first = lr.solve(problem, 2, "rcg", stop=few, checkpoint=path, checkpoint_every=0)
    again = lr.solve(problem, 2, "rcg", checkpoint=path)
    assert again.history.residual[0] == pytest.approx(first.residual)
    assert again.converged
    tucker = lr.TensorCompletion(problem.indices, problem.y, problem.shape)
    with pytest.raises(ValueError, match="checkpoint"):
        lr.solve(tucker, 2, "rcg", checkpoint=path)


def test_float32_is_kept():
    problem, truth = lr.datasets.random_tensor((9,) * 4, 2, oversampling=12, seed=1, format="train")
    single = lr.TensorCompletion(problem.indices, problem.y.astype(np.float32), problem.shape, format="train")
    for solver in ("auto", "rcg"):
        result = lr.solve(single, 2, solver, tol=1e-4)
        assert result.X.dtype == np.float32
        assert truth.distance(result.X) < 1e-2 * truth.norm()


@pytest.mark.parametrize("solver", ["gauss-newton", "niht", lr.solvers.IRLS(), lr.solvers.ALS()])
def test_solvers_for_matrices_are_refused_by_name(solver):
    problem, _ = lr.datasets.random_tensor((8,) * 4, 2, format="train")
    with pytest.raises(lr.ParameterError, match=r"solver .* needs .*TensorCompletion"):
        lr.solve(problem, 2, solver)


def test_sweeps_are_refused_for_tucker_tensors():
    problem, _ = lr.datasets.random_tensor((20, 18, 16), 2)
    with pytest.raises(lr.ParameterError, match="TrainALS needs a TrainManifold"):
        lr.solve(problem, 2, lr.tensors.TrainALS())


def test_entries_of_indices_without_observations_are_zero_and_named():
    problem, truth = lr.datasets.random_tensor((8,) * 4, 2, oversampling=12, factors="uniform", seed=1, format="train")
    kept = problem.indices[:, 2] != 5
    result = lr.solve(lr.TensorCompletion(problem.indices[kept], problem.y[kept], problem.shape, format="train"), 2)
    assert result.converged
    assert "1 of mode 2 (the first is 5)" in result.status.advice
    dense, others = result.X.to_dense(), np.arange(8) != 5
    assert not dense[:, :, 5].any()
    assert abs(dense - truth.to_dense())[:, :, others].max() < 1e-3


def test_repeated_indices_and_unknown_formats_are_refused():
    with pytest.raises(lr.ParameterError, match=r"indices repeat \(1, 0, 2, 1\)"):
        lr.TensorCompletion(np.array([[1, 0, 2, 1], [0, 0, 0, 0], [1, 0, 2, 1]]), np.ones(3), format="train")
    with pytest.raises(lr.ParameterError, match="format"):
        lr.TensorCompletion([[1, 0, 2], [0, 0, 0]], np.ones(2), format="tt")


@pytest.mark.needs("torch")
def test_devices_are_refused():
    problem, _ = lr.datasets.random_tensor((8,) * 4, 2, format="train")
    with pytest.raises(lr.ParameterError, match="NumPy"):
        lr.solve(problem, 2, device="cpu")


def test_unfoldings_of_tensors_with_more_entries_than_64_bits_count():
    indices = np.zeros((12, 40), np.int64)
    indices[:, 0], indices[:, -1] = np.arange(12) // 3, np.arange(12) % 3  # 4**34 is 0 in 64 bits
    problem = lr.TensorCompletion(indices, np.arange(12.0) + 1, (4,) * 40, format="train")
    for k in (10, 35, 39):
        assert sorted(problem.unfoldings[k - 1].shape) == [3, 4]
