"""Starts on patterns and data at the limits: finite points of the rank asked for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lorank as lr
import partitioned  # noqa: F401  (registers itself)
from lorank.starts import STARTS


def gaps(share=0.6, shape=(14, 9), dtype=float):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    if np.dtype(dtype).kind == "c":
        table = table + 1j * (rng.standard_normal((shape[0], 1)) @ rng.standard_normal((1, shape[1])))
    rows, cols = np.nonzero(rng.random(shape) < share)
    return rows, cols, table[rows, cols].astype(dtype), shape


def without_row_and_column():
    rows, cols, values, shape = gaps()
    keep = (rows != 3) & (cols != 5)
    return lr.Completion(rows[keep], cols[keep], values[keep], shape)


def weighted():
    weights = np.random.default_rng(1).uniform(0, 5, len(gaps()[0])).round()  # some are 0
    return lr.Completion(*gaps(), weights=weights)


CASES = {
    "empty row and column": (without_row_and_column, 2),
    "one row": (lambda: lr.Completion([0, 0, 0], [0, 2, 3], [1.0, 2.0, 3.0], (1, 4)), 1),
    "one column": (lambda: lr.Completion([0, 2, 3], [0, 0, 0], [1.0, 2.0, 3.0], (4, 1)), 1),
    "rank of the smaller side": (lambda: lr.Completion(*gaps(0.9)), 9),
    "rank next to it": (lambda: lr.Completion(*gaps(0.9)), 8),
    "equal values": (lambda: lr.Completion(*gaps()[:2], np.full(len(gaps()[0]), 2.5), (14, 9)), 3),
    "weights": (weighted, 2),
    "complex": (lambda: lr.Completion(*gaps(dtype=complex)), 2),
    "float32": (lambda: lr.Completion(*gaps(dtype=np.float32)), 2),
    "partitions": (lambda: lr.Completion(*gaps(), backend="partitioned:3"), 2),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("case", CASES)
def test_starts_are_finite_at_the_limits(case, start):
    make, rank = CASES[case]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")
        problem = make()
    X = STARTS[start](problem, rank, np.random.default_rng(0))
    assert X.rank == rank
    assert X.is_finite()
    assert X.dtype == problem.dtype
    assert problem.gradient(problem.project_feasible(X)).residual_norm < 1.5 * problem.y_norm
