"""Completion: what goes in, what is refused, and the dense twin of what comes out."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse

import lorank as lr
from helpers import host, on
from lorank.metrics.epsilon import max_norm

ROWS, COLS, VALUES = [0, 0, 1, 2, 2], [0, 2, 1, 0, 1], [1.0, 2.0, 3.0, 4.0, 5.0]


def test_observations_are_kept_in_row_major_order(backend):
    order = [3, 0, 4, 2, 1]
    rows, cols, values = (np.array(a)[order] for a in (ROWS, COLS, VALUES))
    problem = lr.Completion(rows, cols, values, (3, 3), backend=backend)
    np.testing.assert_array_equal(host(problem.rows), ROWS)
    np.testing.assert_array_equal(host(problem.cols), COLS)
    np.testing.assert_array_equal(host(problem.y), VALUES)
    assert problem.m == 5
    assert problem.shape == (3, 3)
    assert problem.operator_scale == pytest.approx(5 / 9)


def test_the_shape_may_be_left_out():
    assert lr.Completion(ROWS, COLS, VALUES).shape == (3, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_floats_keep_their_precision(dtype):
    assert lr.Completion(ROWS, COLS, np.array(VALUES, dtype), (3, 3)).dtype == dtype


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, np.float16])
def test_other_numbers_become_float64(dtype):
    assert lr.Completion(ROWS, COLS, np.array(VALUES).astype(dtype), (3, 3)).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.uint8, np.uint64, np.float64])
def test_any_integral_index_type_will_do(dtype, backend):
    problem = lr.Completion(np.array(ROWS, dtype), np.array(COLS, np.int32), VALUES, (3, 3), backend=backend)
    np.testing.assert_array_equal(host(problem.rows), ROWS)
    np.testing.assert_array_equal(host(problem.cols), COLS)


def test_from_sparse_takes_explicit_zeros_as_observed():
    S = scipy.sparse.coo_array(([1.0, 0.0, 3.0], ([0, 1, 1], [0, 0, 1])), shape=(2, 2)).tocsr()
    problem = lr.Completion.from_sparse(S)
    assert problem.m == 3
    np.testing.assert_array_equal(host(problem.y), [1, 0, 3])


def test_from_dense_takes_nan_as_gaps():
    problem = lr.Completion.from_dense(np.array([[1.0, np.nan], [np.nan, 4.0]]))
    np.testing.assert_array_equal(host(problem.rows), [0, 1])
    np.testing.assert_array_equal(host(problem.cols), [0, 1])
    np.testing.assert_array_equal(host(problem.y), [1, 4])


def test_from_dense_takes_masked_entries_as_gaps():
    problem = lr.Completion.from_dense(np.ma.masked_equal([[1.0, -999.0], [np.nan, 4.0]], -999.0))
    np.testing.assert_array_equal(host(problem.y), [1, 4])


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">c16", ">c8"])
def test_foreign_byte_order(dtype, backend):
    problem = lr.Completion(np.array(ROWS, ">i8"), np.array(COLS, ">i4"), np.array(VALUES, dtype), (3, 3), backend=backend)
    assert problem.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(host(problem.y), VALUES)
    np.testing.assert_array_equal(host(problem.cols), COLS)


def test_problems_can_be_pickled_and_copied(backend):
    problem, _ = lr.datasets.random_completion(30, 20, 2, seed=1, backend=backend)
    for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        np.testing.assert_array_equal(host(lr.solve(twin, 2).X.U), host(lr.solve(problem, 2).X.U))


def test_input_arrays_are_not_kept():
    values = np.array(VALUES)
    problem = lr.Completion(ROWS, COLS, values, (3, 3))
    values[:] = 0
    np.testing.assert_array_equal(host(problem.y), VALUES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [0, 0, 1, 2]}, r"length: got 4, 5 and 5"),
        ({"values": VALUES[:3]}, r"length: got 5, 5 and 3"),
        ({"rows": [0, 0, 1, 3, 2]}, r"rows\[3\] = 3 is outside 0 \.\. 2: indices count from 0"),
        ({"cols": [0, 2, 1, 9, 1]}, r"cols\[3\] = 9 is outside 0 \.\. 2: fix the index or enlarge shape"),
        ({"cols": [0, 2, -1, 0, 1]}, r"cols\[2\] = -1 is not an index: negative indices are not wrapped"),
        ({"rows": [0, 0, -5, 2, 2], "shape": None}, r"rows\[2\] = -5 is not an index: negative"),
        ({"rows": [0, 0, 2**31, 2, 2], "shape": None}, r"rows\[2\] = 2147483648 is not an index: at most 2,147,483,647 rows"),
        ({"rows": np.array([0, 0, 2**64 - 1, 2, 2], np.uint64)}, r"rows\[2\] = 18446744073709551615 is not an index"),
        ({"rows": [0, 0, 1e30, 2, 2]}, r"rows\[2\] = 1e\+30 is not an index"),
        ({"rows": np.ma.masked_equal(ROWS, 2)}, r"rows is a masked array"),
        ({"duplicates": "first"}, r"duplicates must be one of 'error', 'mean', 'last', 'sum', got 'first'"),
        ({"rows": [0, 0.5, 1, 2, 2]}, r"rows\[1\] = 0\.5 is not a whole number"),
        ({"rows": [0, np.nan, 1, 2, 2]}, r"rows\[1\] = nan is not a whole number"),
        ({"rows": list("aabbc")}, r"rows must be integers.*numpy\.unique"),
        ({"rows": [[0, 0, 1, 2, 2]]}, r"rows must be one-dimensional, got shape \(1, 5\)"),
        ({"values": [[1.0], [2.0], [3.0], [4.0], [5.0]]}, r"values must be one-dimensional"),
        ({"values": [1, 2, np.nan, 4, np.inf]}, r"values\[2\] = nan \(row 1, column 1\) is not finite.*from_dense"),
        ({"values": [1, 2, 3, np.inf, 5]}, r"values\[3\] = inf \(row 2, column 0\) is not finite"),
        ({"values": list("abcde")}, r"values must be numbers"),
        ({"values": np.ma.masked_equal(VALUES, 2.0)}, r"masked array"),
        ({"shape": (3,)}, r"shape must be a pair of integers"),
        ({"shape": (3, -3)}, r"shape must be a pair of positive integers"),
        ({"shape": (3.5, 3)}, r"shape must be a pair of integers \(n1, n2\), got \(3\.5, 3\)"),
        ({"shape": (3, 2**31)}, r"too large"),
        ({"rows": [], "cols": [], "values": []}, r"no observations"),
        ({"backend": "cuda"}, r"unknown backend 'cuda'"),
    ],
)
def test_bad_input_names_the_culprit(change, message):
    arguments = {"rows": ROWS, "cols": COLS, "values": VALUES, "shape": (3, 3)} | change
    with pytest.raises(ValueError, match=message):
        lr.Completion(**arguments)


def test_other_containers_are_refused_with_a_hint():
    with pytest.raises(ValueError, match="from_sparse takes a SciPy sparse matrix, got ndarray"):
        lr.Completion.from_sparse(np.eye(3))
    with pytest.raises(ValueError, match="two dimensions"):
        lr.Completion.from_dense(np.ones(3))
    with pytest.raises(ValueError, match="array of numbers"):
        lr.Completion.from_dense(np.array([["a", "b"]]))


@pytest.mark.parametrize(("how", "expected"), [("mean", 4.0), ("last", 6.0), ("sum", 12.0)])
def test_duplicates_are_merged_as_told(how, expected, backend):
    rows, cols, values = [1, 0, 1, 0, 1], [1, 0, 1, 1, 1], [2.0, 1.0, 4.0, 7.0, 6.0]
    problem = lr.Completion(rows, cols, values, (2, 2), duplicates=how, backend=backend)
    np.testing.assert_array_equal(host(problem.rows), [0, 0, 1])
    np.testing.assert_array_equal(host(problem.cols), [0, 1, 1])
    np.testing.assert_allclose(host(problem.y), [1.0, 7.0, expected])


def test_duplicates_are_an_error_by_default_and_the_message_tells_the_way_out():
    with pytest.raises(ValueError, match=r"places 0 and 2; 1 repetition in all\).*duplicates='mean'"):
        lr.Completion([1, 0, 1], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2))
    with pytest.raises(ValueError, match="duplicates must be"):
        lr.Completion([1, 0, 1], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2), duplicates="first")


@pytest.mark.filterwarnings("ignore:1 column has no")
def test_equal_columns_in_neighbouring_rows_are_no_duplicates():
    assert lr.Completion([0, 1, 2], [1, 1, 1], [1.0, 2.0, 3.0], (3, 2), duplicates="error").m == 3


def test_rows_and_columns_without_observations_warn():
    with pytest.warns(UserWarning, match="no observation") as caught:
        lr.Completion([0, 9], [0, 1], [1.0, 2.0], (10, 3))
    messages = [str(w.message) for w in caught]
    assert any("8 rows have no observation (1, 2, 3, 4, 5, ...)" in text for text in messages)
    assert any("1 column has no observation (2)" in text for text in messages)
    assert all(w.filename == __file__ for w in caught)


@pytest.mark.filterwarnings("ignore:.*no observation")
@pytest.mark.parametrize("solver", ["auto", "prgd", "adaptive-rgd", "niht"])
def test_rows_and_columns_without_observations_come_back_as_zeros(solver, backend):
    problem, truth = lr.datasets.random_completion(40, 30, 2, oversampling=6, seed=2)
    keep = (problem.rows != 7) & (problem.cols != 3)
    problem = lr.Completion(problem.rows[keep], problem.cols[keep], problem.y[keep], (40, 30), backend=backend)
    start = None
    if solver == "prgd":  # also from a start that is not zero there
        start = lr.FixedRank.from_factors(truth.U + 0.05, truth.V * truth.s + 0.05)
    if solver == "niht":  # and from one whose factors are not, though the matrix is
        start = lr.FixedRank(np.eye(40, 2, -7), np.zeros(2), np.eye(30, 2, -3))
    X = lr.solve(problem, 2, solver, start=start, max_iter=2000).X.numpy().to_dense()
    assert np.abs(X[7]).max() < 1e-12
    assert np.abs(X[:, 3]).max() < 1e-12
    rows, cols = np.delete(np.arange(40), 7), np.delete(np.arange(30), 3)
    error = X[np.ix_(rows, cols)] - truth.to_dense()[np.ix_(rows, cols)]
    assert np.linalg.norm(error) < 1e-4 * truth.norm()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_gradient_against_its_dense_twin(dtype, backend):
    problem, _ = lr.datasets.random_completion(12, 9, 2, oversampling=1.5, dtype=dtype, seed=4, backend=backend)
    other, X = lr.datasets.random_completion(12, 9, 2, dtype=dtype, seed=5)
    assert other.shape == problem.shape
    dense = np.zeros((12, 9), dtype)
    rows, cols = host(problem.rows), host(problem.cols)
    dense[rows, cols] = X.to_dense()[rows, cols] - host(problem.y)
    G = problem.gradient(on(backend, X))
    np.testing.assert_allclose(host(G.GV), dense @ X.V, atol=1e-12)
    np.testing.assert_allclose(host(G.GhU), dense.conj().T @ X.U, atol=1e-12)
    np.testing.assert_allclose(host(G.squared_norms[0]), (abs(dense) ** 2).sum(1), atol=1e-12)
    np.testing.assert_allclose(host(G.squared_norms[1]), (abs(dense) ** 2).sum(0), atol=1e-12)
    np.testing.assert_allclose(host(G.residual), dense[rows, cols], atol=1e-12)
    assert G.residual_norm == pytest.approx(np.linalg.norm(dense))
    assert max_norm(G) == pytest.approx(max(np.linalg.norm(dense, axis=0).max(), np.linalg.norm(dense, axis=1).max()))
    np.testing.assert_allclose(host(G.times(backend.eye(9, dtype))), dense, atol=1e-12)
    np.testing.assert_allclose(host(G.adjoint_times(backend.eye(12, dtype))), dense.conj().T, atol=1e-12)
    by_rows, by_cols = map(host, G.outer())
    np.testing.assert_allclose(by_rows, dense @ dense.conj().T, atol=1e-12)
    np.testing.assert_allclose(by_cols, dense.conj().T @ dense, atol=1e-12)


def test_the_residual_sums_of_a_line_search_agree_with_the_slope(backend):
    problem, _ = lr.datasets.random_completion(30, 20, 3, seed=6, backend=backend)
    X = on(backend, lr.datasets.random_completion(30, 20, 3, seed=7)[1])
    from lorank.geometry import Weights, riemannian_gradient

    G = problem.gradient(X)
    xi = riemannian_gradient(X, G, Weights())
    inner, squares = problem.observations.line_sums(xi.blocks(), G.residual)
    assert inner == pytest.approx(xi.inner(G))  # <A X - y, A xi> = <G, xi>
    assert squares == pytest.approx(problem.squared_image_norm(xi))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_balancing_against_its_definition(dtype, backend):
    problem, truth = lr.datasets.random_completion(
        60, 50, 2, oversampling=6, factors="ill-scaled", spread=1.5, dtype=dtype, seed=1, backend=backend
    )
    truth = on(backend, truth)
    balanced = problem.rescaled()
    twin = balanced.problem
    np.testing.assert_array_equal(host(twin.rows), host(problem.rows))
    left, right = (host(balanced.back.keywords[side]) for side in ("rows", "cols"))
    expected = host(problem.y) / (left[host(problem.rows)] * right[host(problem.cols)])
    np.testing.assert_allclose(host(twin.y), expected, rtol=1e-5)
    for index, n in ((host(problem.rows), 60), (host(problem.cols), 50)):
        sizes = np.sqrt(np.bincount(index, np.abs(host(twin.y)) ** 2, n) / np.bincount(index, minlength=n))
        assert 0.8 < sizes.min() <= sizes.max() < 1.25
    X = balanced.into(truth)
    dense = host(X.to_dense())
    np.testing.assert_allclose(dense, host(truth.to_dense()) / np.outer(left, right), atol=1e-4 * np.abs(dense).max())
    assert balanced.back(X).distance(truth) < 1e-5 * truth.norm()
    # the same exact solution: the residual vanishes there, in the passes of both orders
    G = twin.gradient(X)
    precision = 1e-4 if dtype == np.float32 else 1e-11
    assert G.residual_norm < precision * twin.y_norm
    assert np.linalg.norm(host(G.GhU)) < precision * twin.y_norm * 10
    np.testing.assert_array_equal(host(problem.y), host(problem.observations.values))  # and the original is as it was


def test_nothing_to_balance():
    assert lr.datasets.random_completion(100, 90, 8, factors="uniform", seed=1)[0].rescaled() is None


@pytest.mark.filterwarnings("ignore:.*no observation")
def test_balancing_with_empty_and_zero_rows():
    table = np.outer([1e6, 1.0, np.nan, 0.0, 2.0, 3e4], [1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 2.0])
    table[:, 4] = np.nan
    balanced = lr.Completion.from_dense(table).rescaled()
    assert np.isfinite(balanced.back.keywords["rows"]).all()
    assert np.isfinite(balanced.problem.y).all()
    assert (balanced.back.keywords["rows"] > 0).all()


@pytest.mark.filterwarnings("ignore:.*no observation")
def test_too_few_observations_to_tell_sizes_from():
    problem, _ = lr.datasets.random_completion(100, 90, 1, oversampling=1.2, factors="ill-scaled", spread=2.0, seed=1)
    assert problem.rescaled() is None


@pytest.mark.parametrize("shape", [(np.inf, 3), (3, np.nan), "ab", 5, (True, 3)])
def test_shapes_that_are_none(shape):
    with pytest.raises(ValueError, match="shape must be a pair of"):
        lr.Completion([0], [0], [1.0], shape)


@pytest.mark.parametrize("largest", [2**31 - 2, 20_000_000])
def test_far_too_large_a_matrix_is_refused_at_once(largest):
    """Before anything of its size is made: a quarter of an hour, or all of the memory, is no answer."""
    for arguments in (([0], [0], [1.0], (largest, largest)), ([largest], [0], [1.0])):
        with pytest.raises(ValueError, match=r"is far too large for 1 observations.*Map ids to 0 \.\. n-1 first"):
            lr.Completion(*arguments)


def test_half_precision_indices_are_whole_numbers_or_refused():
    rows = np.array([0, 1, 60000], np.float16)
    with pytest.warns(UserWarning, match="rows have no observation"):
        problem = lr.Completion(rows, [0, 1, 1], [1.0, 2.0, 3.0])
    assert problem.shape == (int(rows[2]) + 1, 2)
    with pytest.raises(ValueError, match=r"rows\[2\] = inf is not a whole number"):
        lr.Completion(np.array([0, 1, np.inf], np.float16), [0, 1, 1], [1.0, 2.0, 3.0])
