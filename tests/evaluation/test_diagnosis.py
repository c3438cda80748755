"""What the pattern of the observations allows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse

import lorank as lr
from lorank.evaluation import diagnosis


def test_good_data_are_good():
    problem, _ = lr.datasets.random_completion(60, 50, 2, oversampling=5, seed=0)
    found = lr.diagnose(problem, 2)
    assert found.unique
    assert found.oversampling == pytest.approx(5, rel=0.01)
    assert found.verdict.startswith("Good")
    assert "60 x 50" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["unique"] is True


def test_components_that_share_no_row_or_column():
    a = np.full((6, 8), np.nan)
    a[:3, :4], a[3:, 4:] = 1.0, 2.0
    found = lr.diagnose(a, 1)
    assert found.components == 2
    assert found.largest == 0.5
    assert not found.unique
    assert "2 parts" in found.verdict
    a[0, 7] = 1.0
    assert lr.diagnose(a, 1).components == 1


def test_thin_and_empty_rows_and_columns():
    pairs = np.array([(i, j) for i in range(5) for j in range(6)] + [(6, 0), (6, 1), (0, 7)])
    found = lr.diagnose(pairs, 3)
    assert (found.empty_rows, found.empty_cols, found.thin_rows, found.thin_cols) == (1, 1, 1, 1)
    assert "One row has no observation" in found.verdict
    assert "One column has fewer than 3" in found.verdict


def test_singular_and_plural_in_findings():
    """No "1 observations", no "One row ... their own"."""
    pairs = np.argwhere(np.ones((12, 8)))
    rows = scipy.sparse.coo_array(([*np.arange(96.0) % 5, 1e6], [[*pairs[:, 0], 12], [*pairs[:, 1], 0]]), (13, 8))
    said = str(lr.diagnose(rows, 2))
    assert "One row has fewer than 2 observations, too few for 2 factors" in said
    assert "1 value is extreme" in said
    assert "1 observation repeats" in str(lr.diagnose(np.concatenate([pairs, pairs[:1]]), 2))
    assert "2 observations repeat a" in str(lr.diagnose(np.concatenate([pairs, pairs[:2]]), 2))


def test_duplicates_and_outliers():
    pairs = np.array([(i, j) for i in range(5) for j in range(6)])
    assert lr.diagnose(np.concatenate([pairs, pairs[:4]]), 1).duplicates == 4
    rng = np.random.default_rng(0)
    S = scipy.sparse.csr_array(rng.random((20, 20)))
    assert lr.diagnose(S, 1).outliers == 0
    S.data[3] = 1e6
    assert lr.diagnose(S, 1).outliers == 1
    assert "units" in lr.diagnose(S, 1).verdict


def test_too_few():
    rng = np.random.default_rng(0)
    rows, cols = lr.datasets.sample_pattern(rng, (50, 50), 150)
    found = lr.diagnose(np.column_stack([rows, cols]), 5)
    assert found.oversampling < 1
    assert found.verdict.startswith("Too few data")


def test_kinds_of_input():
    with pytest.raises(ValueError, match="between 1 and"):
        lr.diagnose(np.ones((3, 3)), 4)
    with pytest.raises(ValueError, match="diagnose takes"):
        lr.diagnose("ratings.csv")
    with pytest.raises(ValueError, match="empty"):
        lr.diagnose(np.zeros((0, 2), int))


@pytest.mark.filterwarnings("ignore:.*no observation")
@pytest.mark.parametrize("parts", [1, 2])
def test_observations_on_a_device_are_diagnosed_there(parts):
    """By passes over them; the plain twin has them in main memory."""
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((40, 30)) < 0.2)
    if parts == 2:
        keep = (rows < 25) == (cols < 18)
        rows, cols = rows[keep], cols[keep]
    values = rng.standard_normal(len(rows))
    values[3] = 1e6
    problem = lr.Completion(rows, cols, values, (41, 30))
    here, there = lr.diagnose(problem, 2), diagnosis._diagnose_there(problem, 2, 0)
    assert here == there
    assert here.components == parts


def test_a_fit_whose_residuals_have_heavy_tails():
    rng = np.random.default_rng(0)
    truth = lr.FixedRank.from_factors(rng.standard_normal((60, 2)), rng.standard_normal((50, 2)))
    rows, cols = np.nonzero(rng.random((60, 50)) < 0.5)
    y = truth.entries(rows, cols) + 0.05 * rng.standard_normal(len(rows))
    clean = lr.Completion(rows, cols, y, (60, 50))
    found = lr.diagnose(clean, 2, fit=lr.solve(clean, 2))
    assert found.far == 0
    assert abs(found.tails - 1) < 0.15
    assert "outliers" not in found.verdict
    y = np.where(rng.random(len(y)) < 0.05, y + 20 * rng.standard_normal(len(y)), y)
    wrong = lr.Completion(rows, cols, y, (60, 50))
    found = lr.diagnose(wrong, 2, fit=truth)
    assert found.far > 0.03
    assert "loss='robust'" in found.verdict
    assert found.to_dict()["tails"] == found.tails
    robust = lr.Completion(rows, cols, y, (60, 50), loss="robust")
    result = lr.solve(robust, 2)
    found = lr.diagnose(robust, 2, fit=result)
    assert found.far == result.outliers.share
    assert "left out as outliers" in found.verdict
    exact = lr.Completion(rows, cols, truth.entries(rows, cols), (60, 50))
    assert lr.diagnose(exact, 2, fit=lr.solve(exact, 2)).tails is None
    with pytest.raises(ValueError, match="fit must be the result"):
        lr.diagnose(exact, 2, fit=3)
    with pytest.raises(ValueError, match="fit has shape"):
        lr.diagnose(exact, 2, fit=lr.FixedRank.from_factors(truth.U[:9], truth.V))


def test_components_that_stand_out_of_the_spectrum_of_a_fit():
    problem, _ = lr.datasets.random_completion(120, 100, 3, oversampling=8, factors="gaussian", noise=0.1)
    fit = lr.solve(problem, "auto")
    assert lr.diagnose(problem, 3, fit=fit).standing_out == 3
    assert lr.diagnose(problem, 3, fit=fit).findings == []
    assert "3 components stand out" in lr.diagnose(problem, 2, fit=fit).verdict
    assert "3 components stand out" in lr.diagnose(problem, 5, fit=fit).verdict
    assert lr.diagnose(problem, 3).standing_out is None
