"""Patterns that lie in memory in both orders, as mapped files do: the products of others, and nothing out of bounds."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_cases import _kernels, native_only, random_case

pytestmark = native_only


def both_orders(case, dtype=np.int32):
    """The five arrays of a mapped pattern."""
    order = np.lexsort((case.rows, case.cols))
    colptr = np.concatenate([[0], np.cumsum(case.mask.sum(0))]).astype(np.int64)
    pad = np.zeros(_kernels.PREFETCH, np.int32)
    indices, rows = np.concatenate([case.indices, pad]), np.concatenate([case.rows[order].astype(np.int32), pad])
    return [case.indptr, indices, colptr, rows, order.astype(dtype)]


@pytest.fixture
def case():
    return random_case(np.random.default_rng(3), (7, 9), np.float64, empty_rows=[2], empty_cols=[4])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])  # the second where there are more than two thousand million
def test_a_mapped_pattern_is_a_pattern(case, dtype):
    mapped, own = _kernels.Pattern(*both_orders(case, dtype)), _kernels.Pattern(case.indptr, case.indices, 9)
    assert (mapped.n1, mapped.n2, mapped.m) == (7, 9, case.m)
    found = []
    for pattern in (mapped, own):
        in_columns, left, right = np.zeros(case.m), np.zeros((7, 4)), np.zeros((9, 4))
        pattern.to_columns(case.values, in_columns)
        rng = np.random.default_rng(0)
        pattern.times(False, case.values, rng.standard_normal((9, 4)), left)
        pattern.times(True, in_columns, rng.standard_normal((7, 4)), right)
        found.append((in_columns, left, right))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(found[0][0], case.matrix(case.values).T[case.mask.T])


def spoiled(place, change):
    def spoil(arrays):
        arrays[place] = change(arrays[place].copy())
        return arrays

    return spoil


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


def swap_first_two(array):
    array[[0, 1]] = array[[1, 0]]
    return array


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoiled(0, put(0, 1)), "indptr"),
        (spoiled(0, put(1, 10**6)), "indptr"),
        (spoiled(0, put(-1, 10**6)), "indptr"),
        (spoiled(0, lambda a: a[:1]), "indptr"),
        (spoiled(2, put(0, 1)), "colptr"),
        (spoiled(2, put(-1, 10**6)), "colptr"),
        (spoiled(2, lambda a: a[:1]), "colptr"),
        (spoiled(1, put(0, 9)), "column"),
        (spoiled(1, put(0, -1)), "column"),
        (spoiled(1, swap_first_two), "column indices must increase"),
        (spoiled(3, put(0, 7)), "row"),
        (spoiled(3, put(0, -1)), "row"),
        (spoiled(3, swap_first_two), "row indices must increase"),
        (spoiled(1, put(-1, 9)), "padding"),
        (spoiled(1, put(-1, -1)), "padding"),
        (spoiled(3, put(-1, 7)), "padding"),
        (spoiled(1, lambda a: a[:-1]), "indices"),
        (spoiled(3, lambda a: a[:-1]), "rows"),
        (spoiled(4, put(0, -1)), "order"),
        (spoiled(4, put(0, 10**6)), "order"),
    ],
)
def test_indices_out_of_bounds_are_refused(case, spoil, said, dtype):
    with pytest.raises(ValueError, match=said):
        _kernels.Pattern(*spoil(both_orders(case, dtype)))
