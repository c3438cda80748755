"""The noise floor: stopping, estimated noise, and the selected rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lorank as lr
from lorank.loop.state import State
from lorank.losses import LOSSES
from lorank.plans.noise_test import NoiseFloor, is_stationary, residual_is_white

SIGMA = 0.3


def noisy(seed, loss="squares", weights=False, shape=(90, 70), rank=3, share=0.6):
    """Data of rank ``rank``; with weights, the noise of each observation is SIGMA over the root of its weight."""
    rng = np.random.default_rng(seed)
    truth = lr.FixedRank.from_factors(rng.standard_normal((shape[0], rank)), rng.standard_normal((shape[1], rank)))
    rows, cols = np.nonzero(rng.random(shape) < share)
    z, w = truth.entries(rows, cols), rng.uniform(0.25, 4, len(rows)) if weights else None
    if loss == "logistic":
        y = rng.random(len(z)) < 1 / (1 + np.exp(-z))
    elif loss == "ordinal":
        y = np.digitize(z + rng.logistic(size=len(z)), [-1, 1])
    elif loss == "poisson":
        y = rng.poisson(np.exp(0.5 * z))
    else:
        y = z + SIGMA * rng.standard_normal(len(z)) / (1 if w is None else np.sqrt(w))
    return lr.Completion(rows, cols, y, shape, weights=w, loss=loss), truth


@pytest.mark.parametrize(("loss", "weights"), [("squares", True), *((loss, False) for loss in ("squares", *sorted(LOSSES)))])
def test_runs_end_at_the_noise_floor_and_estimate_it(loss, weights):
    problem, _ = noisy(0, loss, weights)
    result = lr.solve(problem, 3)
    assert result.status == "noise"
    assert result.n_iter < 150
    if problem.loss is not None and problem.loss.redescending:  # whose runs end with that scale: the same misfit, further on
        problem = problem.with_loss(replace(problem.loss, breakdown=0.5))
    longer = lr.solve(problem, 3, start=result.X, solver="rcg", stop=lr.stopping.Iterations(30))
    left = result.residual**2 - longer.residual**2
    assert left < 0.05 * result.residual**2 * problem.dof(3) / (problem.m - problem.dof(3))  # what noise gives away by chance
    expected = 1.0 if problem.loss is not None and problem.loss.discrete else SIGMA
    assert result.noise == pytest.approx(expected, rel=0.25 if expected == 1 else 0.12)
    assert f"{result.noise:.2g}"[:3] in result.status.advice or f"{result.noise:.2e}" in result.status.advice


@pytest.mark.parametrize("solver", ["rcg", "gauss-newton", "adaptive-prgd"])
def test_the_noise_floor_ends_runs_of_other_solvers(solver):
    problem, truth = noisy(1)
    result = lr.solve(problem, 3, solver)
    assert result.status == "noise"
    assert truth.distance(result.X) < 0.2 * truth.norm()


def test_exact_data_are_fitted_to_the_tolerance():
    problem, _ = lr.datasets.random_completion(80, 60, 3, oversampling=3, factors="gaussian", seed=2)
    result = lr.solve(problem, 3, tol=1e-10)
    assert result.status == "converged"
    assert result.noise < 1e-8


def test_structure_in_the_residual_is_not_noise():
    problem, _ = noisy(3)
    assert lr.solve(problem, 2, "rcg", max_iter=60).status == "max_iter"


def test_noise_is_nan_without_spare_measurements():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((20, 15)) < 0.28)
    problem = lr.Completion(rows, cols, rng.standard_normal(len(rows)), (20, 15))
    with pytest.warns(UserWarning, match="fewer than|did not reach"):
        result = lr.solve(problem, 3, max_iter=10)
    assert np.isnan(result.noise)


@pytest.mark.parametrize(("seed", "rank"), [(0, 1), (0, 2), (0, 3), (2, 4), (4, 5)])
def test_solve_and_estimators_find_the_same_rank(seed, rank):
    pytest.importorskip("sklearn")
    problem, _ = noisy(10 + seed, rank=rank)
    found = lr.solve(problem, "auto")
    pairs = np.column_stack([problem.rows, problem.cols])
    model = lr.MatrixCompletion(biases=False, regularization="learned").fit(pairs, problem.y)
    assert found.X.rank == model.rank_ == rank


def test_invalid_parameters_of_the_rule_are_refused():
    with pytest.raises(ValueError, match="NoiseFloor: share must"):
        NoiseFloor(share=0)


def test_noise_scaled_by_weights_is_no_outlier():
    rng = np.random.default_rng(4)
    rows, cols = np.nonzero(rng.random((90, 70)) < 0.6)
    truth = lr.FixedRank.from_factors(rng.standard_normal((90, 2)), rng.standard_normal((70, 2)))
    spread = np.where(rng.random(len(rows)) < 0.02, 30.0, 0.1)
    y = truth.entries(rows, cols) + spread * rng.standard_normal(len(rows))
    assert lr.solve(lr.Completion(rows, cols, y, (90, 70), weights=1 / spread**2), 2).status == "noise"
    with pytest.warns(lr.OutlierWarning, match="robust"):
        lr.solve(lr.Completion(rows, cols, y, (90, 70)), 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_few_exact_data_do_not_end_at_the_noise_floor(seed):
    """With fewer than two measurements per degree of freedom, the residual of a wrong matrix looks like noise."""
    problem, _ = lr.datasets.random_completion(300, 300, 5, oversampling=1.6, factors="gaussian", seed=seed)
    result = lr.solve(problem, 5, max_iter=300)
    assert result.status != "noise"
    assert not result.converged or result.residual < 1e-6


class DenseSensing(lr.problems.MatrixProblem):
    """A user's model: two methods, no capabilities."""

    def __init__(self, A, y):
        super().__init__(y, A.shape[1:], operator_scale=len(A))
        self.A = A.reshape(len(A), -1)

    def forward(self, left, right):
        return self.A @ (left @ right.T).ravel()

    def adjoint(self, p):
        return (self.A.T @ p).reshape(self.shape)


def gaussian_measurements(seed, rank, m=500, noise=0.1, outliers=0.0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, 30, 20))
    y = np.tensordot(A, rng.standard_normal((30, rank)) @ rng.standard_normal((rank, 20)))
    size = y.std()
    y = y + noise * size * rng.standard_normal(m)
    return A, y + 4 * size * (rng.random(m) < outliers), noise * size


@pytest.mark.parametrize("model", [lr.Sensing, DenseSensing])
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_noisy_measurements_by_any_operator_end_at_the_noise_floor(model, noise):
    A, y, size = gaussian_measurements(0, 2, noise=noise)
    result = lr.solve(model(A, y), 2)  # a ConvergenceWarning would be an error
    assert result.status == "noise"
    assert result.noise == pytest.approx(size, rel=0.15)
    assert result.n_iter < 40


@pytest.mark.parametrize(("true_rank", "rank", "outliers"), [(3, 2, 0.0), (2, 1, 0.0), (2, 2, 0.03)])
def test_a_rank_too_low_and_outliers_are_no_noise(true_rank, rank, outliers):
    A, y, _ = gaussian_measurements(0, true_rank, outliers=outliers)
    problem = DenseSensing(A, y)
    result = lr.solve(problem, rank, "rcg", stop=lr.stopping.Iterations(40))
    assert is_stationary(problem, rank, result.history.residual)
    assert not residual_is_white(problem, State.at(problem, result.X))


@pytest.mark.parametrize(("dtype", "oversampling"), [(float, 4), (complex, 6)])
def test_noisy_phase_retrieval_ends_at_the_noise_floor(dtype, oversampling):
    for seed in range(2):
        problem, x = lr.datasets.random_phase(80, oversampling=oversampling, noise=0.05, seed=seed, dtype=dtype)
        result = lr.solve(problem, 1)
        assert result.status == "noise"
        assert result.noise == pytest.approx(0.05 * problem.y_norm / problem.m**0.5, rel=0.15)
        assert lr.phase.phase_distance(result.signal, x) < 0.1


def test_photon_counts_in_phase_retrieval_are_no_outliers():
    """Counts have a variance that grows with the intensity, which random signs allow for."""
    rng = np.random.default_rng(0)
    A, x = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for shape in ((600, 60), 60))
    y = rng.poisson(0.1 * abs(A @ x) ** 2) / 0.1
    assert lr.solve(lr.PhaseRetrieval(A, y), 1).status == "noise"


@pytest.mark.parametrize("seed", range(4))
def test_a_wrong_signal_is_no_noise(seed):
    """Local minima of phase retrieval from few measurements, whose residuals look white."""
    problem, x = lr.datasets.random_phase(60, oversampling=3, seed=seed)
    v = np.random.default_rng(seed).standard_normal((60, 1)) * problem.y.mean() ** 0.5
    result = lr.solve(problem, 1, "rcg", start=lr.FixedRank.from_factors(v, v), stop=NoiseFloor(), max_iter=100)
    assert result.status == "max_iter" or lr.phase.phase_distance(result.signal, x) < 1e-3
