"""Solvers on memory-mapped partitions: results of the same data in memory to rounding, reproducible bits."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.distributed import memory_mapped as mapped
from lorank.distributed.completion import map_folder
from lorank.distributed.folder import open_folder
from lorank.plans import SOLVERS
from solver_cases import BY_TRUNCATED_SVD


@pytest.fixture(autouse=True)
def everything_to_disk(monkeypatch):
    monkeypatch.setattr(mapped, "MIN_MAPPED_BYTES", 0)


def pair(place, weights=False, n_partitions=5, **options):
    problem, truth = lr.datasets.random_completion(60, 45, 3, oversampling=4, **options)
    w = np.random.default_rng(1).uniform(0.5, 2, problem.m) if weights else None
    problem = lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, weights=w)
    lr.distributed.save_partitions(problem, place / "p", n_partitions=n_partitions)
    return problem, lr.distributed.from_partitions(place / "p"), truth


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_every_solver_takes_the_same_steps(tmp_path, solver, weights):
    one, two, _ = pair(tmp_path, weights)
    stop = lr.stopping.Iterations(5)
    a, b = (lr.solve(p, 3, solver, stop=stop, max_iter=5) for p in (one, two))
    off = 1e-3 if solver in BY_TRUNCATED_SVD else 1e-6  # their singular vectors are only as accurate as that
    np.testing.assert_allclose(b.history.residual, a.history.residual, rtol=off, atol=1e-11)
    assert a.X.distance(b.X.numpy()) < off * a.X.norm()


@pytest.mark.parametrize("n_partitions", [1, 2, 7])
def test_the_same_bits_each_time(tmp_path, n_partitions):
    _, two, truth = pair(tmp_path, n_partitions=n_partitions)
    first, second = (lr.solve(p, 3).numpy() for p in (two, lr.distributed.from_partitions(tmp_path / "p")))
    assert truth.distance(first.X) < 1e-4 * truth.norm()
    np.testing.assert_array_equal(first.X.U, second.X.U)
    np.testing.assert_array_equal(first.X.V, second.X.V)
    np.testing.assert_array_equal(first.history.residual, second.history.residual)


def test_a_rank_is_found(tmp_path):
    _, two, truth = pair(tmp_path)
    result = lr.solve(two, "auto").numpy()
    assert result.X.rank == 3
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_without_the_extension(tmp_path):
    one, _, truth = pair(tmp_path)
    observations, backend = map_folder(open_folder(tmp_path / "p"), lr.backends.get_backend("numpy"))
    twin = one.with_observations(one.observations)
    twin._observe(observations, backend)
    result = lr.solve(twin, 3).numpy()
    assert truth.distance(result.X) < 1e-4 * truth.norm()


@pytest.mark.parametrize("weights", [False, True])
def test_derived_observations_are_kept_on_disk(tmp_path, weights):
    """Other values, subsets and products are mapped from scratch files, with the same numbers as in memory."""
    one, two, _ = pair(tmp_path, weights, noise=0.3)
    parts = [p.split(np.random.default_rng(1), 0.1) for p in (one, two)]
    for a, b in zip(*parts, strict=True):
        for x, y in zip(a.observations.host(), b.observations.host(), strict=True):
            np.testing.assert_array_equal(x, y)
    u, v = np.ones((60, 2)), np.ones((45, 2))
    for a, b in zip(*parts, strict=True):
        changed = [p.observations.with_values(p.y * 2.0 + 1.0) for p in (a, b)]
        np.testing.assert_allclose(
            np.asarray(changed[1].adjoint_times(changed[1].values, u)), changed[0].adjoint_times(changed[0].values, u)
        )
        products = [p.products(p.values * 3.0) for p in changed]
        np.testing.assert_allclose(np.asarray(products[1][0](v)), products[0][0](v))
        np.testing.assert_allclose(np.asarray(products[1][1](u)), products[0][1](u))
    kept = [block for held in two.observations.graph.engine.shard.block_values.values() for block in held.values()]
    arrays = [a for a in kept if isinstance(a, np.ndarray) and len(a) > 45]
    assert all(mapped.is_mapped(a) for a in arrays if a.ndim == 1 and a.dtype == float)
    assert all(mapped.is_mapped(o.values) for o in kept if hasattr(o, "with_values"))


def test_a_checkpoint_of_mapped_data(tmp_path):
    _, two, truth = pair(tmp_path)
    lr.solve(two, 3, stop=lr.stopping.Iterations(3), max_iter=3, checkpoint=tmp_path / "c")
    result = lr.solve(lr.distributed.from_partitions(tmp_path / "p"), 3, checkpoint=tmp_path / "c").numpy()
    assert truth.distance(result.X) < 1e-4 * truth.norm()
    problem, _ = lr.datasets.random_completion(60, 45, 3, oversampling=4, seed=9)
    lr.distributed.save_partitions(problem, tmp_path / "q", n_partitions=5)
    with pytest.raises(ValueError, match="another problem"):
        lr.solve(lr.distributed.from_partitions(tmp_path / "q"), 3, checkpoint=tmp_path / "c")


def test_a_diagnosis(tmp_path):
    from lorank.evaluation.diagnosis import diagnose

    one, two, _ = pair(tmp_path)
    a, b = (diagnose(p, 3).to_dict() for p in (one, two))
    assert a.keys() == b.keys()
    for key in ("shape", "rank", "observations"):
        assert a.get(key) == b.get(key)


def test_percentiles_of_many_numbers(tmp_path, monkeypatch):
    from lorank.distributed import backend

    monkeypatch.setattr(backend, "MAX_GATHERED", 40)
    one, two, _ = pair(tmp_path, noise=0.5)
    at = [0, 3, 25, 50, 75.5, 100]
    np.testing.assert_allclose(two.backend.percentiles(two.y, at), np.percentile(one.y, at), rtol=1e-12)
    same = two.observations.with_values(two.y * 0.0 + 2.0).values  # all alike
    assert two.backend.percentiles(same, [50]) == [2.0]


@pytest.mark.parametrize("loss", ["huber", "logistic", "poisson", "ordinal"])
def test_losses(tmp_path, loss):
    """Also losses that encode the values as classes."""
    problem, _ = lr.datasets.random_completion(60, 45, 3, oversampling=4, noise=0.1)
    values = {"huber": problem.y, "logistic": 2.0 * (problem.y > 0) - 1, "poisson": np.round(np.exp(problem.y / 4))}
    values = values.get(loss, np.clip(np.round(problem.y), -2, 2))
    data = lr.Completion(problem.rows, problem.cols, values, problem.shape)
    lr.distributed.save_partitions(data, tmp_path / "p", n_partitions=3)
    one = lr.Completion(problem.rows, problem.cols, values, problem.shape, loss=loss)
    two = lr.distributed.from_partitions(tmp_path / "p", loss=loss)
    a, b = (lr.solve(p, 3, stop=lr.stopping.Iterations(3), max_iter=3) for p in (one, two))
    np.testing.assert_allclose(b.history.residual, a.history.residual, rtol=1e-6)
