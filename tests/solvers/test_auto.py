"""The default solver: quick where it can be, and it does not give up."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr


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
    assert not result.history.notes


@pytest.mark.parametrize("seed", [0, 1])
def test_it_escalates_where_the_first_way_stalls(seed):
    problem, truth = ill_conditioned(300, 5, 4.0, 1e4, seed)
    first = lr.solve(problem, 5, "rcg", tol=1e-10)
    assert not first.converged  # the problem is built so
    result = lr.solve(problem, 5, tol=1e-10)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-8 * truth.norm()
    assert "rank by rank" in result.status.advice
    notes = list(result.history.notes.values())
    assert "started again" in notes[0]
    assert [note[:6] for note in notes[1:]] == ["rank 2", "rank 3", "rank 4", "rank 5"]
    assert all(np.isnan(result.history.step[k]) for k in result.history.notes)


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


def test_it_does_not_settle_on_the_way_up():
    problem, truth = ill_conditioned(300, 5, 4.0, 1e4, 0, noise=1e-7)
    # a loose rule on the change would be met at rank 1 already
    result = lr.solve(problem, 5, stop=lr.stopping.RelativeChange(1e-6), max_iter=1000)
    if result.history.notes:
        assert result.X.s[4] > 0
    assert truth.distance(result.X) < 1e-3 * truth.norm()


def test_noisy_data_end_near_the_truth():
    problem, truth = lr.datasets.random_completion(200, 150, 3, oversampling=6, noise=0.05, factors="gaussian", seed=1)
    result = lr.solve(problem, 3)
    assert result.status == "stalled"
    assert truth.distance(result.X) < 0.05 * truth.norm()


def test_it_can_be_interrupted_while_it_grows():
    problem, _ = ill_conditioned(300, 5, 4.0, 1e4, 0)

    def interrupt(problem, state, clock):
        if state.note.startswith("rank 3"):
            raise KeyboardInterrupt

    result = lr.solve(problem, 5, tol=1e-10, callbacks=[interrupt])
    assert result.status == "interrupted"
    assert result.X.rank == 5
    assert result.residual == min(result.history.residual)


def test_a_given_start_is_used():
    problem, truth = lr.datasets.random_completion(100, 90, 2, seed=1)
    assert lr.solve(problem, 2, start=truth).n_iter == 0


@pytest.mark.parametrize("spread", [1.0, 2.0])
@pytest.mark.parametrize("backend_name", ["native", "reference"])
def test_badly_scaled_rows_are_no_trouble(spread, backend_name):
    if backend_name == "native":
        pytest.importorskip("lorank._kernels", reason="lorank was installed without its C++ extension")
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


def test_noise_on_badly_scaled_rows_ends_in_the_units_of_the_data():
    problem, _ = lr.datasets.random_completion(
        200, 150, 3, oversampling=6, factors="ill-scaled", spread=1.0, noise=0.02, seed=1
    )
    result = lr.solve(problem, 3, max_iter=1000)
    reference = lr.solve(problem, 3, "rcg", start=result.X, max_iter=1000)
    assert result.residual < 1.05 * reference.residual  # nearly a minimiser of the misfit that was asked for
