"""The well-observed core of a pattern against plain twins, its extension, and rows that no solver can determine."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import host
from lorank.problems.observed_core import ObservedCore, core_masks, undetermined


def uneven(seed=0, shape=(120, 60), rank=3, m=1500, power=0.7):
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(n, m, p=(p := np.arange(1, n + 1) ** -power) / p.sum()) for n in shape]
    rows, cols = np.divmod(np.unique(drawn[0] * shape[1] + drawn[1]), shape[1])
    left, right = (rng.standard_normal((n, rank)) for n in shape)
    return rows, cols, left, right


def peeled(rows, cols, shape, minimum):
    """The plain twin: remove one row or column at a time."""
    kept = np.ones(len(rows), bool)
    while True:
        counts = [np.bincount(index[kept], minlength=n) for index, n in ((rows, shape[0]), (cols, shape[1]))]
        poor = [np.flatnonzero((c > 0) & (c < minimum)) for c in counts]
        if not len(poor[0]) and not len(poor[1]):
            return counts[0] > 0, counts[1] > 0
        kept &= (rows != poor[0][0]) if len(poor[0]) else (cols != poor[1][0])


@pytest.mark.parametrize("minimum", [2, 6, 9, 40])
def test_core_against_removal_one_by_one(backend, minimum):
    rows, cols, left, right = uneven()
    problem = lr.Completion(rows, cols, (left[rows] * right[cols]).sum(1), (120, 60), backend=backend)
    found = core_masks(problem.observations, minimum, problem.backend, np.float64)
    for mask, wanted in zip(found, peeled(rows, cols, (120, 60), minimum), strict=True):
        np.testing.assert_array_equal(host(mask)[:, 0] > 0, wanted)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_extension_determines_all_rows_with_enough_observations(backend, dtype):
    rows, cols, left, right = uneven()
    if dtype == np.complex128:
        left = left + 1j * np.random.default_rng(3).standard_normal(left.shape)
    values = (left[rows] * right[cols]).sum(1).astype(dtype)
    problem = lr.Completion(rows, cols, values, (120, 60), backend=backend)
    core = ObservedCore.of(problem, 6)
    truth = lr.FixedRank.from_factors(left.astype(dtype), right.astype(dtype))
    assert 0 < core.problem.m < problem.m
    inside = core.restrict(lr.starts.registry.check_point(truth, problem, 3))
    outside = host(core.rows)[:, 0] == 0
    assert outside.any()
    assert not host(inside.to_dense())[outside].any()
    whole = host(core.extend(inside).to_dense())
    known = peeled(rows, cols, (120, 60), 4)  # one more than the rank: far from singular systems
    wanted = truth.to_dense()[np.ix_(*known)]
    assert np.linalg.norm(whole[np.ix_(*known)] - wanted) < 1e-4 * np.linalg.norm(wanted)


def test_an_even_pattern_has_no_core_of_its_own():
    problem, _ = lr.datasets.random_completion(300, 200, 3, oversampling=8)
    assert problem.core(3) is None


def test_other_losses_have_no_core():
    rows, cols, left, right = uneven()
    values = (left[rows] * right[cols]).sum(1)
    assert lr.Completion(rows, cols, values, (120, 60)).core(3) is not None
    assert lr.Completion(rows, cols, values, (120, 60), loss="huber").core(3) is None


def test_undetermined_rows_are_named():
    rng = np.random.default_rng(0)
    truth = lr.FixedRank.from_factors(rng.standard_normal((80, 3)), rng.standard_normal((50, 3)))
    rows, cols = np.nonzero(rng.random((80, 50)) < 0.5)
    kept = (rows != 7) | (np.cumsum(rows == 7) <= 2)  # two observations of row 7
    rows, cols = rows[kept], cols[kept]
    problem = lr.Completion(rows, cols, truth.entries(rows, cols), truth.shape)
    np.testing.assert_array_equal(undetermined(problem, 3).rows, [7])
    result = lr.solve(problem, 3)
    assert result.converged
    assert result.undetermined.rows.tolist() == [7]
    assert not len(result.undetermined.cols)
    assert "1 row " in result.status.advice
    assert lr.solve(problem, 2).undetermined is None


def test_degrees_of_freedom_of_empty_rows_do_not_count():
    problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    with pytest.warns(UserWarning, match="30 rows"):
        wider = lr.Completion(problem.rows, problem.cols, problem.y, (90, 50))
    assert wider.dof(2) == problem.dof(2) == (60 + 50 - 2) * 2
