"""The default solver on unevenly sampled rows and columns."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.loop.state import State
from lorank.plans.noise_test import residual_is_white

SHAPE, RANK = (400, 250), 4
POWERS = {"even": (0.0, 0.0), "mild": (0.5, 0.7), "steep": (0.6, 0.8)}


def uneven(pattern, seed, *, kappa=None, noise=0.0, spread=0.0, least=2 * RANK):
    rng = np.random.default_rng(seed)
    if kappa is None:
        left, right = (rng.standard_normal((n, RANK)) for n in SHAPE)
        truth = lr.FixedRank.from_factors(left * rng.lognormal(0, spread, (SHAPE[0], 1)), right)
    else:
        u, v = (np.linalg.qr(rng.standard_normal((n, RANK)))[0] for n in SHAPE)
        truth = lr.FixedRank(u, np.geomspace(1, 1 / kappa, RANK) * 300, v)
    rows, cols = lr.datasets.uneven_pattern(rng, SHAPE, 5 * RANK * sum(SHAPE), powers=POWERS[pattern], least=least)
    return observed(truth, rows, cols, noise, rng), truth


def observed(truth, rows, cols, noise=0.0, rng=None):
    values = truth.entries(rows, cols)
    if noise:
        values = values + noise * np.linalg.norm(values) / np.sqrt(len(values)) * rng.standard_normal(len(values))
    return lr.Completion(rows, cols, values, SHAPE)


def poor(problem, truth, left, seed):
    """A tenth of the rows keeps ``left`` observations."""
    rng, keep = np.random.default_rng(seed), np.ones(problem.m, bool)
    for i in rng.choice(SHAPE[0], SHAPE[0] // 10, replace=False):
        places = np.flatnonzero(problem.rows == i)
        keep[rng.permutation(places)[left:]] = False
    return observed(truth, problem.rows[keep], problem.cols[keep])


def recovered(problem, truth, tol=1e-9, error=1e-6):
    result = lr.solve(problem, RANK, tol=tol, max_iter=1000)
    assert result.converged, result
    assert truth.distance(result.X) < error * truth.norm()
    return result


@pytest.mark.parametrize("seed", [1001, 1002, 1003])
@pytest.mark.parametrize("pattern", POWERS)
def test_uneven_patterns(pattern, seed):
    recovered(*uneven(pattern, seed))


@pytest.mark.parametrize("seed", [1011, 1012, 1013])
@pytest.mark.parametrize("pattern", POWERS)
def test_rows_with_one_observation_more_than_the_rank(pattern, seed):
    problem, truth = uneven(pattern, seed)
    recovered(poor(problem, truth, RANK + 1, seed), truth, error=1e-4)


@pytest.mark.parametrize("pattern", POWERS)
def test_rows_with_as_many_observations_as_the_rank(pattern):
    """They are barely determined, and some of their directions may keep an error."""
    problem, truth = uneven(pattern, 1021)
    problem = poor(problem, truth, RANK, 1021)
    result = lr.solve(problem, RANK, tol=1e-9, max_iter=1000)
    assert result.residual < 1e-6
    rich = np.bincount(problem.rows, minlength=SHAPE[0]) > RANK
    error = (result.X.to_dense() - truth.to_dense())[rich]
    assert np.linalg.norm(error) < 1e-4 * truth.norm()


@pytest.mark.parametrize("seed", [1031, 1032])
@pytest.mark.parametrize("pattern", POWERS)
def test_a_fully_observed_column(pattern, seed):
    problem, truth = uneven(pattern, seed)
    keys = np.unique(np.concatenate([problem.rows.astype(int) * SHAPE[1] + problem.cols, np.arange(SHAPE[0]) * SHAPE[1] + 7]))
    recovered(observed(truth, *np.divmod(keys, SHAPE[1])), truth)


@pytest.mark.parametrize("seed", [1041, 1042])
@pytest.mark.parametrize("kappa", [1e3, 1e5])
@pytest.mark.parametrize("pattern", POWERS)
def test_ill_conditioned_matrices(pattern, kappa, seed):
    recovered(*uneven(pattern, seed, kappa=kappa), tol=1e-11, error=1e-8)


@pytest.mark.parametrize("seed", [1051, 1052])
@pytest.mark.parametrize("pattern", POWERS)
def test_rows_that_differ_in_size_and_in_number(pattern, seed):
    recovered(*uneven(pattern, seed, spread=1.5), error=1e-5)


@pytest.mark.parametrize("noise", [0.01, 0.1])
@pytest.mark.parametrize("pattern", POWERS)
def test_white_noise_starts_no_other_method(pattern, noise):
    problem, truth = uneven(pattern, 1061, noise=noise)
    result = lr.solve(problem, RANK, max_iter=1000)
    assert result.n_iter < 200
    assert result.status == "noise"
    assert "IRLS" not in result.status.advice
    assert truth.distance(result.X) < 1.2 * noise * truth.norm()


@pytest.mark.parametrize("pattern", POWERS)
def test_noise_on_an_uneven_pattern_passes_the_noise_test(pattern):
    problem, truth = uneven(pattern, 1071, noise=0.05)
    assert residual_is_white(problem, State.at(problem, truth))
    exact, _ = uneven(pattern, 1071)
    short = lr.solve(exact, RANK - 1, "rcg", max_iter=60).X
    assert not residual_is_white(exact, State.at(exact, short))


def test_the_rank_of_uneven_data_is_found():
    problem, _ = uneven("mild", 1081)
    assert lr.solve(problem, "auto").X.rank == RANK


def test_gauss_newton_takes_few_inner_steps(monkeypatch):
    """Where blocks are too large, the expected ones do: a fixed gain takes several times as many steps."""
    from lorank.solvers.tangent_system import TangentSystem

    problem, truth = uneven("steep", 1091)
    rng, steps = np.random.default_rng(0), []
    near = lr.FixedRank.from_factors(truth.U * truth.s + 0.3 * rng.standard_normal(truth.U.shape), truth.V)
    solve = TangentSystem.solve

    def counted(self, *args, **options):
        found = solve(self, *args, **options)
        steps[-1] += found[1]
        return found

    monkeypatch.setattr(TangentSystem, "solve", counted)
    for kind in ("blocks", "counts", "gain"):
        if kind == "counts":
            monkeypatch.setattr(lr.Completion, "blocks", lambda self, X: None)
        elif kind == "gain":
            monkeypatch.setattr(lr.Completion, "counts", lambda self: None)
        steps.append(0)
        assert lr.solve(problem, RANK, "gauss-newton", start=near, tol=1e-10).converged
    blocks, counts, gain = steps
    assert blocks < counts < 0.7 * gain
