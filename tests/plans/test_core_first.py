"""Unevenly sampled problems: the well-observed core first, then all other rows and columns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lorank as lr
from lorank.problems.observed_core import core_masks


def uneven(seed, shape=(1500, 800), rank=5, oversampling=3.3, power=0.8, noise=0.0):
    rng = np.random.default_rng(seed)
    m = int(oversampling * (sum(shape) - rank) * rank)
    drawn = [rng.permutation(n)[rng.choice(n, m, p=(p := np.arange(1, n + 1) ** -power) / p.sum())] for n in shape]
    rows, cols = np.divmod(np.unique(drawn[0] * shape[1] + drawn[1]), shape[1])
    truth = lr.FixedRank.from_factors(*(rng.standard_normal((n, rank)) for n in shape))
    values = truth.entries(rows, cols)
    values = values + noise * values.std() * rng.standard_normal(len(values))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* no observation")
        return lr.Completion(rows, cols, values, shape), truth


def error(problem, truth, X, minimum):
    """Relative error on the rows and columns with so many observations of each other."""
    rows, cols = (mask[:, 0] > 0 for mask in core_masks(problem.observations, minimum, problem.backend, np.float64))
    found, wanted = (Y.to_dense()[np.ix_(rows, cols)] for Y in (X, truth))
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_exact_data(seed):
    problem, truth = uneven(seed)
    assert problem.observed_core(5) is not None
    result = lr.solve(problem, 5)
    assert result.converged
    assert any("core" in note for note in result.history.notes.values())
    assert error(problem, truth, result.X, 7) < 1e-3
    assert result.residual <= 1e-6
    assert result.undetermined is not None


def test_more_digits_than_the_core_was_solved_to():
    problem, truth = uneven(14)
    result = lr.solve(problem, 5, tol=1e-11)
    assert result.residual <= 1e-11
    assert error(problem, truth, result.X, 7) < 1e-6


def test_noise_ends_in_data_units():
    problem, truth = uneven(15, noise=0.05, oversampling=8)
    result = lr.solve(problem, 5)
    assert result.status == "noise"
    assert abs(result.noise / (0.05 * np.std(problem.y)) - 1) < 0.1
    assert error(problem, truth, result.X, 20) < 0.1


def test_residuals_of_the_history_are_those_of_the_points():
    """In the core X is zero elsewhere, and the residual counts the data there."""
    problem, _ = uneven(16)
    seen = []
    lr.solve(problem, 5, max_iter=5, tol=0, callbacks=[lambda p, state, timer: seen.append((state.residual, state.X))])
    for residual, X in seen:
        d = X.entries(problem.rows, problem.cols) - problem.y
        assert residual == pytest.approx(np.linalg.norm(d) / problem.y_norm, rel=1e-3)
