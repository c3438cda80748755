"""Passes with one number for each row or column: the kernels against plain NumPy, and bits on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from helpers import host
from kernel_cases import _kernels, native_only, random_case
from lorank.backends import get_backend

SHAPES = [(7, 9), (9, 7), (1, 5), (5, 1)]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gathered_against_dense_sums(backend, shape, side, dtype):
    case = random_case(np.random.default_rng(1), shape, dtype)
    w = case.rng.standard_normal((shape[1 - side], 1)).astype(dtype)
    found = case.observations(backend).gathered(backend.asarray(w), side)
    mask = case.mask if side == 0 else case.mask.T
    np.testing.assert_allclose(host(found), mask @ w, rtol=1e-5 if dtype == np.float32 else 1e-13, atol=1e-6)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_counts_and_sums(backend, shape, side):
    case = random_case(np.random.default_rng(2), shape, np.float64)
    passes, p = case.observations(backend), case.vector()
    dense = np.zeros(shape)
    dense[case.rows, case.cols] = p
    np.testing.assert_array_equal(host(passes.counts(side)), case.mask.sum(1 - side))
    found = host(passes.sums(backend.asarray(p), side))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, dense.sum(1 - side), atol=1e-13)
    single = host(passes.sums(backend.asarray(p.astype(np.float32)), side))
    assert single.dtype == np.float64


@native_only
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_weights_of_sides_are_their_products(columns, weighted):
    case = random_case(np.random.default_rng(3), (17, 12), np.float64)
    rng, (n1, n2) = case.rng, case.shape
    passes = case.observations(get_backend("native"))
    passes = passes.with_weights(case.weights()) if weighted else passes
    rows, cols = rng.random(n1) + 0.1, rng.random(n2) + 0.1
    weights = rows[case.rows] * cols[case.cols] * (passes.weights if weighted else 1.0)
    other = rng.standard_normal((n1 if columns else n2, 3))
    moments = np.abs(rng.standard_normal((len(other), 6)))
    arguments = (columns, other, np.eye(3), np.zeros(3))
    for more in ({}, {"moments": moments, "covariance": True}):
        expected = passes.normal_equations(*arguments, weights=weights, **more)
        found = passes.normal_equations(*arguments, weights=passes.side_weights(rows, cols), **more)
        for a, b in zip(found, expected, strict=True):
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@native_only
def test_bits_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(4)
    case = random_case(rng, (2000, 300), np.float64)  # more than a thread is woken for
    passes = case.observations(get_backend("native"))
    rows, cols, w = rng.random(2000), rng.random(300), rng.random((300, 1))
    flat, other = rng.permutation(case.m), rng.standard_normal((2000, 2))

    def everything():
        sides = passes.side_weights(rows, cols)
        return (
            passes.gathered(w, 0),
            passes.sums(case.values, 1),
            *passes.normal_equations(True, other, np.eye(2), np.zeros(2), weights=sides, covariance=True),
            get_backend("native").row_major_order(case.rows[flat], case.cols[flat], case.shape),
        )

    with threadpool_limits(1, user_api="openmp"):
        one = everything()
    with threadpool_limits(3, user_api="openmp"):
        three = everything()
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


@native_only
def test_the_kernels_refuse_arrays_that_do_not_fit():
    pattern = _kernels.Pattern(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), 3)
    pattern.side_sums(False, np.ones(3), np.empty(2))
    pattern.side_sums(True, np.ones(2), np.empty(3))
    pattern.column_counts(np.empty(3, np.int64))
    wrong = [(False, np.ones(2), np.empty(2)), (True, np.ones(2), np.empty(2)), (False, np.ones(3, np.float32), np.empty(2))]
    for arguments in wrong:
        with pytest.raises((TypeError, ValueError)):
            pattern.side_sums(*arguments)
    for out in (np.empty(2, np.int64), np.empty(3, np.int32), np.empty(3)):
        with pytest.raises((TypeError, ValueError)):
            pattern.column_counts(out)


@native_only
def test_a_wrong_pattern_is_blamed_on_its_first_row():
    indptr = np.arange(0, 100_001, 10)
    indices = np.tile(np.arange(10, dtype=np.int32), 10_000)
    indices[70_005], indices[90_005] = 99, 99
    with pytest.raises(ValueError, match="column index 99 in row 7000 "):
        _kernels.Pattern(indptr, indices, 10)
    rows, cols = np.zeros(200_000, np.int64), np.zeros(200_000, np.int64)
    rows[[150_000, 190_000]] = 5
    with pytest.raises(ValueError, match="at observation 150000"):
        _kernels.row_major_order(rows, cols, 5, 1, np.empty(200_000, np.int64))
