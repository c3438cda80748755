"""The default solver for matrices."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.loop.state import State
from lorank.plans.noise_test import residual_is_white
from machine import NUMPY_BACKENDS


def ill_conditioned(n, rank, oversampling, kappa, seed, noise=0.0):
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for _ in range(2))
    truth = lr.FixedRank(u, np.geomspace(n, n / kappa, rank), v)
    rows, cols = lr.datasets.sample_pattern(rng, (n, n), int(oversampling * (2 * n - rank) * rank))
    values = truth.entries(rows, cols)
    values = values + noise * np.linalg.norm(values) / np.sqrt(len(values)) * rng.standard_normal(len(values))
    return lr.Completion(rows, cols, values, (n, n)), truth


def test_well_sampled_data_take_a_few_steps():
    problem, truth = lr.datasets.random_completion(500, 400, 5, seed=1)
    result = lr.solve(problem, 5, stop=lr.stopping.TruthDistance(truth, 1e-4))
    assert result.converged
    assert result.n_iter <= 20
    assert all("block metric" in note for note in result.history.notes.values())


@pytest.mark.parametrize("seed", [0, 1])
def test_irls_and_gauss_newton_follow_a_stall(seed):
    problem, truth = ill_conditioned(200, 4, 4.0, 1e4, seed)
    first = lr.solve(problem, 4, "rcg", tol=1e-10)
    assert not first.converged  # the problem is built so
    result = lr.solve(problem, 4, tol=1e-10)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-8 * truth.norm()
    assert "IRLS" in result.status.advice
    notes = [note for note in result.history.notes.values() if "block metric" not in note]
    assert "restarted" in notes[0]
    assert "directions active" in notes[1]
    assert "Gauss-Newton" in notes[-1]


@pytest.mark.parametrize("kappa", [10.0, 1e4])
def test_barely_sampled_data(kappa):
    """All rows and columns have at least twice the rank of observations, so that they are determined."""
    rng = np.random.default_rng(7)
    n, rank = 200, 3
    u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for _ in range(2))
    truth = lr.FixedRank(u, np.geomspace(n, n / kappa, rank), v)
    band = (np.arange(n)[:, None] + np.array([0, 17, 41, 78, 120, 167])) % n  # a pattern of 6 a row and a column
    keys = np.unique(np.concatenate([(np.arange(n)[:, None] * n + band).ravel(), rng.integers(0, n * n, 800)]))
    rows, cols = np.divmod(keys, n)
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), (n, n))
    assert problem.m < 1.7 * problem.dof(rank)
    result = lr.solve(problem, rank, tol=1e-11)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-7 * truth.norm()
    assert not lr.solve(problem, rank, "rcg", tol=1e-11).converged  # the problem is built so


class Plain(lr.Completion):
    """A model without optional capabilities."""

    frame_constant = None

    def blocks(self, X):
        return None

    def rescaled(self):
        return None


def test_models_without_a_tight_frame_increase_the_rank_one_by_one():
    problem, truth = ill_conditioned(300, 5, 4.0, 1e4, 0)
    problem = Plain(problem.rows, problem.cols, problem.y, problem.shape)
    result = lr.solve(problem, 5, tol=1e-10)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-8 * truth.norm()
    notes = list(result.history.notes.values())
    assert "rank 1" in notes[0]
    assert [note[:6] for note in notes[1:5]] == ["rank 1", "rank 2", "rank 3", "rank 4"]
    assert all(np.isnan(result.history.step[k]) for k in list(result.history.notes)[:5])


def test_white_noise_starts_no_other_method():
    problem, _ = lr.datasets.random_completion(200, 150, 3, oversampling=6, noise=0.05, factors="gaussian", seed=1)
    result = lr.solve(problem, 3)
    assert result.status == "noise"
    assert not any("IRLS" in note for note in result.history.notes.values())
    assert result.n_iter < 100
    longer = lr.solve(problem, 3, stop=lr.stopping.Iterations(100))
    assert any("white noise" in note for note in longer.history.notes.values())
    assert longer.residual > (1 - 1e-4) * result.residual


@pytest.mark.parametrize("seed", [0, 1])
def test_the_best_point_is_returned_if_all_methods_stall(seed):
    """The rank is too low: the residual is no noise, and all methods stall."""
    problem, _ = lr.datasets.random_completion(80, 70, 6, oversampling=3, factors="gaussian", seed=seed)
    result = lr.solve(problem, 3, max_iter=1000)
    assert not result.converged
    assert result.n_iter < 1000
    assert any("Gauss-Newton" in note for note in result.history.notes.values())
    first = min(result.history.notes)
    assert result.residual <= result.history.residual[:first].min()
    assert result.residual == result.history.residual.min()
    misfit = np.linalg.norm(result.X.entries(problem.rows, problem.cols) - problem.y) / np.linalg.norm(problem.y)
    assert result.residual == pytest.approx(misfit, rel=1e-6)


def test_the_noise_test_distinguishes_noise_from_structure():
    rng = np.random.default_rng(0)
    rows, cols = lr.datasets.sample_pattern(rng, (150, 120), 4000)
    X = lr.FixedRank.from_factors(rng.standard_normal((150, 2)), rng.standard_normal((120, 2)))
    clean, noise = X.entries(rows, cols), rng.standard_normal(4000)
    other = lr.FixedRank.from_factors(rng.standard_normal((150, 1)), rng.standard_normal((120, 1))).entries(rows, cols)
    for rest, expected in ((noise, True), (other, False), (noise + 0.8 * other, False)):
        problem = lr.Completion(rows, cols, clean + rest, (150, 120))
        assert residual_is_white(problem, State.at(problem, X)) is expected


def test_a_smaller_rank_that_fits_is_padded():
    problem, _ = ill_conditioned(300, 3, 6.0, 1e4, 0)
    result = lr.solve(problem, 5, tol=1e-8, max_iter=1000)
    assert result.converged, result
    assert result.X.rank == 5
    np.testing.assert_allclose(result.X.U.T @ result.X.U, np.eye(5), atol=1e-10)
    np.testing.assert_allclose(result.X.V.T @ result.X.V, np.eye(5), atol=1e-10)


def test_padding():
    X = lr.FixedRank.from_dense(np.diag([3.0, 2, 1, 0, 0]), 2)
    Y = X.padded(4)
    np.testing.assert_allclose(Y.to_dense(), X.to_dense(), atol=1e-14)
    np.testing.assert_allclose(Y.U.T @ Y.U, np.eye(4), atol=1e-14)
    assert X.padded(2) is X


def test_small_changes_at_lower_ranks_do_not_end_the_run():
    problem, truth = ill_conditioned(300, 5, 4.0, 1e4, 0, noise=1e-7)
    # a loose rule on the change would be met at rank 1 already
    result = lr.solve(problem, 5, stop=lr.stopping.RelativeChange(1e-6), max_iter=1000)
    if result.history.notes:
        assert result.X.s[4] > 0
    assert truth.distance(result.X) < 1e-3 * truth.norm()


def test_noisy_data_end_near_the_truth():
    problem, truth = lr.datasets.random_completion(200, 150, 3, oversampling=6, noise=0.05, factors="gaussian", seed=1)
    result = lr.solve(problem, 3)
    assert result.status == "noise"
    assert truth.distance(result.X) < 0.05 * truth.norm()


def test_an_interrupt_within_irls_returns_the_best_point():
    problem, _ = ill_conditioned(300, 5, 4.0, 1e4, 0)

    def interrupt(problem, state, clock):
        if "3 of 5" in state.note:
            raise KeyboardInterrupt

    result = lr.solve(problem, 5, tol=1e-10, callbacks=[interrupt])
    assert result.status == "interrupted"
    assert result.X.rank == 5
    assert result.residual == min(result.history.residual)


def test_a_given_start_is_used():
    problem, truth = lr.datasets.random_completion(100, 90, 2, seed=1)
    assert lr.solve(problem, 2, start=truth).n_iter == 0


@pytest.mark.parametrize("spread", [1.0, 2.0])
@pytest.mark.parametrize("backend_name", NUMPY_BACKENDS)
def test_badly_scaled_rows_converge(spread, backend_name):
    problem, truth = lr.datasets.random_completion(
        300, 250, 4, oversampling=5, factors="ill-scaled", spread=spread, seed=1, backend=backend_name
    )
    result = lr.solve(problem, 4, tol=1e-9)
    assert result.converged, result
    assert result.n_iter < 60
    assert truth.distance(result.X) < 1e-7 * truth.norm()
    # the history is in the units of the data
    misfit = np.linalg.norm(result.X.entries(problem.rows, problem.cols) - problem.y) / np.linalg.norm(problem.y)
    assert result.residual == pytest.approx(misfit, rel=1e-3)


def test_noise_on_badly_scaled_rows_ends_in_data_units():
    problem, _ = lr.datasets.random_completion(
        200, 150, 3, oversampling=6, factors="ill-scaled", spread=1.0, noise=0.02, seed=1
    )
    result = lr.solve(problem, 3, max_iter=1000)
    reference = lr.solve(problem, 3, "rcg", start=result.X, max_iter=1000)
    assert result.residual < 1.05 * reference.residual  # nearly a minimiser of the misfit that was asked for
