"""Missingness patterns, and the kernel that fills them."""

from __future__ import annotations

import numpy as np
import pytest

from lorank.tables.patterns import NATIVE, fill_missing, find_patterns


def test_rows_of_one_pattern_share_a_batch():
    missing = np.zeros((50, 5), bool)
    missing[:20, 1] = missing[20:30, [0]] = True
    missing[30:34, 2:] = True
    groups = find_patterns(missing).batches
    rows = np.sort(np.concatenate([g.rows for g in groups]))
    np.testing.assert_array_equal(rows, np.arange(34))
    for g in groups:
        for row, pattern in zip(g.rows, g.pattern, strict=True):
            np.testing.assert_array_equal(np.flatnonzero(missing[row]), g.columns[pattern])
        np.testing.assert_array_equal(np.bincount(g.pattern), g.counts)


def test_patterns_of_many_columns():
    rng = np.random.default_rng(0)
    missing = np.repeat(rng.random((6, 150)) < 0.1, 3, axis=0)[rng.permutation(18)]
    found = find_patterns(missing)
    assert len(found.row_ptr) == 7
    for p in range(6):
        for row in found.rows[found.row_ptr[p] : found.row_ptr[p + 1]]:
            np.testing.assert_array_equal(
                np.flatnonzero(missing[row]), found.columns[found.column_ptr[p] : found.column_ptr[p + 1]]
            )
    assert not len(find_patterns(np.zeros((4, 3), bool)).rows)


@pytest.mark.skipif(not NATIVE, reason="the extension is not there")
@pytest.mark.parametrize("d", [1, 5, 8, 13, 30])
def test_the_native_kernel_agrees_with_numpy(d):
    rng = np.random.default_rng(d)
    A = rng.standard_normal((d, 2 * d))
    K = A @ A.T / d + 0.1 * np.eye(d)
    missing = rng.random((1200, d)) < 0.5
    missing[:300] = missing[0]
    Z0 = np.where(missing, 0.0, rng.standard_normal((1200, d)))
    patterns = find_patterns(missing)
    found = []
    for native in (True, False):
        Z, deviations, moments = Z0.copy(), np.zeros_like(Z0), np.ones((d, d))
        fill_missing(K, Z0 @ K, Z, patterns, deviations=deviations, moments=moments, native=native)
        found.append((Z, deviations, moments))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-8)


@pytest.mark.skipif(not NATIVE, reason="the extension is not there")
def test_the_native_kernel_takes_any_number_of_missing_values():
    """One row with each number of missing values: the kernel uses registers up to 64 of them, and memory beyond."""
    d = 75
    rng = np.random.default_rng(0)
    A = rng.standard_normal((d, 2 * d))
    K = A @ A.T / d + 0.1 * np.eye(d)
    missing = np.zeros((d, d), bool)
    for row in range(d):
        missing[row, rng.permutation(d)[: row + 1]] = True
    Z = np.where(missing, 0.0, rng.standard_normal((d, d)))
    G, deviations, moments = Z @ K, np.zeros((d, d)), np.zeros((d, d))
    fill_missing(K, G, Z, find_patterns(missing), deviations=deviations, moments=moments, native=True)
    covariances = np.zeros((d, d))
    for row in range(d):
        gaps = np.flatnonzero(missing[row])
        inverse = np.linalg.inv(K[np.ix_(gaps, gaps)])
        np.testing.assert_allclose(Z[row, gaps], -inverse @ G[row, gaps], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(deviations[row, gaps], np.sqrt(np.diag(inverse)), rtol=1e-8)
        covariances[np.ix_(gaps, gaps)] += inverse
    np.testing.assert_allclose(moments, covariances, rtol=1e-8, atol=1e-8)


@pytest.mark.skipif(not NATIVE, reason="the extension is not there")
def test_the_native_kernel_refuses_arrays_of_wrong_shape():
    patterns = find_patterns(np.eye(3, dtype=bool))
    good = np.eye(3), patterns.column_ptr, patterns.columns, patterns.row_ptr, patterns.rows, np.ones((3, 3)), np.ones((3, 3))
    from lorank import _kernels

    _kernels.fill_gaps(*good)
    for place, bad in ((0, np.eye(4)), (2, patterns.columns + 1), (3, patterns.row_ptr[::-1].copy()), (4, patterns.rows - 1)):
        with pytest.raises(ValueError, match="must"):
            _kernels.fill_gaps(*good[:place], bad, *good[place + 1 :])
