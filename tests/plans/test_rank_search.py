"""``rank="auto"``."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lorank as lr
from helpers import PlainSensing


@pytest.mark.parametrize("factors", ["uniform", "gaussian"])
@pytest.mark.parametrize(("rank", "n"), [(1, 120), (3, 150), (7, 200), (20, 320)])
def test_exact_data_show_their_rank(rank, n, factors):
    problem, truth = lr.datasets.random_completion(n, n - 20, rank, oversampling=4, factors=factors, seed=rank)
    result = lr.solve(problem, "auto")
    assert result.X.rank == rank
    assert result.converged
    assert truth.distance(result.X) < 1e-4 * truth.norm()
    fitting = [t.rank for t in result.rank_path if t.residual <= 1e-6]
    assert fitting[0] == rank
    assert len(result.rank_path) <= max(4, rank)  # not every smaller rank is tried
    assert f"rank {rank} is the smallest that fits" in result.status.advice


@pytest.mark.parametrize("factors", ["uniform", "gaussian"])
@pytest.mark.parametrize("rank", [1, 4])
def test_noisy_data_are_judged_by_held_out_measurements(rank, factors):
    problem, truth = lr.datasets.random_completion(150, 140, rank, oversampling=6, factors=factors, noise=0.05, seed=rank)
    result = lr.solve(problem, "auto")
    assert result.X.rank == rank
    assert truth.distance(result.X) < 0.05 * truth.norm()
    best = min(result.rank_path, key=lambda t: t.held_out)
    assert best.rank == rank
    assert [t.rank for t in result.rank_path] == sorted(t.rank for t in result.rank_path)
    assert result.rank_path[-1].rank >= rank + 2  # more were tried, each with a smaller residual and a larger error
    assert result.rank_path[-1].residual < best.residual
    assert best.rank == result.spectrum.count or factors == "uniform"  # whose mean hides the others
    assert "held-out" in result.status.advice


def test_a_matrix_without_structure_ends_at_a_small_rank():
    rng = np.random.default_rng(0)
    rows, cols = lr.datasets.sample_pattern(rng, (60, 50), 1500)
    result = lr.solve(lr.Completion(rows, cols, rng.standard_normal(1500), (60, 50)), "auto", max_iter=50)
    assert result.X.rank <= 2


def test_the_search_is_reproducible():
    problem, _ = lr.datasets.random_completion(80, 70, 2, oversampling=5, noise=0.1, seed=1)
    one, two, other = (lr.solve(problem, "auto", seed=seed, max_iter=20) for seed in (0, 0, 1))
    assert one.rank_path == two.rank_path
    assert one.rank_path[0].held_out != other.rank_path[0].held_out


def test_a_flat_spectrum_is_found_at_once():
    """Each of 16 equal components lowers the held-out error by less than a search from rank 1 would wait for."""
    rng = np.random.default_rng(1)
    rows, cols = lr.datasets.sample_pattern(rng, (700, 500), 120_000)
    left, right = (rng.standard_normal((n, 16)) / 2 for n in (700, 500))
    y = (left[rows] * right[cols]).sum(1) + 1.5 * rng.standard_normal(len(rows))
    result = lr.solve(lr.Completion(rows, cols, y, (700, 500)), "auto")
    assert abs(result.X.rank - 16) <= 1
    assert result.spectrum.values[result.spectrum.count - 1] > result.spectrum.edge > result.spectrum.values[-1]


def test_a_given_rank_leaves_no_path():
    problem, _ = lr.datasets.random_completion(40, 30, 2, seed=1)
    result = lr.solve(problem, 2)
    assert result.rank_path == ()
    assert result.spectrum is None


def test_splitting_keeps_every_observation_once(backend):
    problem, _ = lr.datasets.random_completion(50, 40, 3, oversampling=2, seed=1, backend=backend)
    kept, held = problem.split(np.random.default_rng(0), 0.1)
    assert kept.shape == held.shape == problem.shape
    assert 0 < held.m <= round(0.1 * problem.m)
    entries = [dict(zip(zip(p.rows.tolist(), p.cols.tolist(), strict=True), p.y.tolist(), strict=True)) for p in (kept, held)]
    assert not entries[0].keys() & entries[1].keys()
    assert entries[0] | entries[1] == dict(
        zip(zip(problem.rows.tolist(), problem.cols.tolist(), strict=True), problem.y.tolist(), strict=True)
    )
    # what was seen is still seen
    assert set(kept.rows.tolist()) == set(problem.rows.tolist())
    assert set(kept.cols.tolist()) == set(problem.cols.tolist())


def test_too_few_to_split():
    problem = lr.Completion([0, 1, 2], [0, 1, 2], [1.0, 2.0, 3.0], (3, 3))
    with pytest.raises(ValueError, match="give the rank as a number"):
        problem.split(np.random.default_rng(0), 0.1)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_models_without_a_split_are_judged_by_the_residual(noise):
    rng = np.random.default_rng(0)
    truth = lr.FixedRank.from_factors(rng.standard_normal((12, 2)), rng.standard_normal((10, 2)))
    A = rng.standard_normal((110, 12, 10))
    y = np.tensordot(A, truth.to_dense())
    problem = PlainSensing(A, y + noise * rng.standard_normal(len(y)))
    if noise:
        with pytest.raises(ValueError, match=r"Sensing.*held-out"):
            lr.solve(problem, "auto")
        return
    result = lr.solve(problem, "auto")
    assert result.X.rank == 2
    assert all(math.isnan(t.held_out) for t in result.rank_path)


def test_zero_data_have_rank_one():
    problem = lr.Completion([0, 1, 0, 1], [0, 1, 1, 0], np.zeros(4), (2, 2))
    assert lr.solve(problem, "auto").X.rank == 1


def test_unknown_names_are_refused():
    problem, _ = lr.datasets.random_completion(40, 30, 2, seed=1)
    with pytest.raises(ValueError, match="'auto' or an integer"):
        lr.solve(problem, "full")
