"""The well-observed core of a pattern against plain twins, its extension, and rows that no solver can determine."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lorank as lr
from helpers import host
from lorank.problems.observed_core import ObservedCore, core_masks, observed_energies, undetermined


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
def test_observed_energies_against_dense_sums(backend, dtype):
    rows, cols, left, right = uneven()
    problem = lr.Completion(rows, cols, (left[rows] * right[cols]).sum(1).astype(dtype), (120, 60), backend=backend)
    factors = left.astype(dtype), right * (1 + 1j if dtype is np.complex128 else 1)
    X = lr.FixedRank.from_factors(*map(problem.backend.asarray, factors), backend=problem.backend)
    U, s, V, mask = host(X.U), host(X.s), host(X.V), np.zeros((120, 60))
    mask[rows, cols] = 1
    expected = np.outer(mask.sum(1), mask.sum(0)) / mask.sum()
    tails = [abs((U[:, k:] * s[k:]) @ V[:, k:].conj().T) ** 2 for k in (0, 1, 2)]
    wanted = [((tail * mask).sum(), (tail * expected).sum()) for tail in tails]
    np.testing.assert_allclose(list(observed_energies(problem, X).values()), wanted, rtol=1e-10)


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
    assert problem.observed_core(3) is None


def test_other_losses_have_no_core():
    rows, cols, left, right = uneven()
    values = (left[rows] * right[cols]).sum(1)
    assert lr.Completion(rows, cols, values, (120, 60)).observed_core(3) is not None
    assert lr.Completion(rows, cols, values, (120, 60), loss="huber").observed_core(3) is None


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


def determined_entries(rows, cols, shape, rank, seed=0):
    """Dense truth: the entries whose derivative lies in the span of those of the observed entries, at a random point."""
    rng = np.random.default_rng(seed)
    left, right = (rng.standard_normal((n, rank)) for n in shape)

    def derivatives(i, j):
        J = np.zeros((len(i), sum(shape), rank))
        J[np.arange(len(i)), i], J[np.arange(len(i)), shape[0] + j] = right[j], left[i]
        return J.reshape(len(i), -1)

    basis = np.linalg.svd(derivatives(rows, cols), full_matrices=False)
    basis = basis[2][basis[1] > 1e-9 * basis[1][0]]
    every = derivatives(*(a.ravel() for a in np.indices(shape)))
    off = np.linalg.norm(every - every @ basis.T @ basis, axis=1)
    return (off < 1e-7 * np.linalg.norm(every, axis=1)).reshape(shape)


def in_two_blocks(share=0.8, seed=0, shape=(24, 20), split=(14, 11)):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random(shape) < share)
    kept = (rows < split[0]) == (cols < split[1])
    return rows[kept], cols[kept]


def pattern_problem(rows, cols, shape, rank=2, seed=1, **options):
    truth = lr.FixedRank.from_factors(*(np.random.default_rng(seed).standard_normal((n, rank)) for n in shape))
    return lr.Completion(rows, cols, truth.entries(rows, cols), shape, **options), truth


def test_separate_parts_are_named_and_entries_between_them_are_not_determined(backend):
    shape = (24, 20)
    rows, cols = in_two_blocks()
    found = undetermined(pattern_problem(rows, cols, shape, backend=backend)[0], 2)
    assert not len(found.rows)
    assert not len(found.cols)
    assert [part[0].tolist() for part in found.parts] == [list(range(14)), list(range(14, 24))]
    assert [part[1].tolist() for part in found.parts] == [list(range(11)), list(range(11, 20))]
    truth = determined_entries(rows, cols, shape, 2)
    expected = np.zeros(shape, bool)
    for part in found.parts:
        expected[np.ix_(*part)] = True
    np.testing.assert_array_equal(truth, expected)


def test_a_part_with_fewer_observations_than_degrees_of_freedom_is_undetermined():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((20, 18)) < 0.8)
    ring = np.arange(8)  # a cycle: two observations for each row and column, 32 unknowns - 4, 16 observations
    rows, cols = np.r_[rows, 20 + ring, 20 + ring], np.r_[cols, 18 + ring, 18 + (ring + 1) % 8]
    found = undetermined(pattern_problem(rows, cols, (28, 26))[0], 2)
    assert found.rows.tolist() == list(range(20, 28))
    assert found.cols.tolist() == list(range(18, 26))
    assert found.parts == ()


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_are_named_have_undetermined_entries(seed):
    rng, shape, rank = np.random.default_rng(seed), (14, 12), 2
    rows, cols = np.nonzero(rng.random(shape) < 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty rows
        problem = pattern_problem(rows, cols, shape)[0]
    found, truth = undetermined(problem, rank), determined_entries(rows, cols, shape, rank)
    named = (np.zeros(0, int), np.zeros(0, int)) if found is None else (found.rows, found.cols)
    assert not truth[named[0]].all(axis=1).any()
    assert not truth[:, named[1]].all(axis=0).any()
    for part in () if found is None else found.parts:
        for other in found.parts:
            assert part is other or not truth[np.ix_(part[0], other[1])].any()


def test_results_and_diagnoses_name_rows_and_parts():
    shape = (24, 20)
    rows, cols = in_two_blocks()
    kept = (rows != 3) | (np.cumsum(rows == 3) <= 1)  # one observation of row 3
    problem, truth = pattern_problem(rows[kept], cols[kept], shape)
    result = lr.solve(problem, 2)
    assert result.undetermined.rows.tolist() == [3]
    assert len(result.undetermined.parts) == 2
    assert "2 parts" in result.status.advice
    part = np.ix_(*result.undetermined.parts[1])
    np.testing.assert_allclose(result.X.to_dense()[part], truth.to_dense()[part], atol=1e-3)
    found = lr.diagnose(problem, 2)
    assert not found.unique
    assert found.undetermined.rows.tolist() == [3]
    assert found.to_dict()["undetermined"] == {"rows": 1, "cols": 0}
