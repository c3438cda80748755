"""The noise floor: stopping, estimated noise, and the selected rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lorank as lr
from lorank.losses import LOSSES
from lorank.plans.noise_test import NoiseFloor

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
