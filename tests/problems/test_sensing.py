"""Matrix sensing: its dense twins, what it recovers, and what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import lorank as lr
from helpers import (
    DTYPES,
    assert_close,
    dense_point,
    double,
    eps,
    host,
    random_array,
    random_point,
    real_dtype,
    skip_where_numpy_cannot_go,
)
from lorank.geometry import Weights, riemannian_gradient
from lorank.problems import sensing
from lorank.problems.testing import check_gradient, dot_test
from solver_cases import OF_ANY_MATRIX

SHAPE, M = (5, 4), 30
FORMS = {
    "array": lambda a: a,
    "sparse": scipy.sparse.csr_array,
    "operator": scipy.sparse.linalg.aslinearoperator,
}
KINDS = ["3-D", "2-D", *FORMS]


def functions(A, form="array"):
    """``forward`` and ``adjoint`` for measuring matrices A, an (m, n1, n2) array."""

    def forward(left, right):
        return np.einsum("kij,ij->k", A.conj(), left @ right.conj().T)

    def adjoint(p):
        return FORMS[form](np.einsum("kij,k->ij", A, p))

    return forward, adjoint


def make(kind, dtype=np.float64, backend=None, seed=0):
    """A problem with random data, and its measuring matrices."""
    rng = np.random.default_rng(seed)
    A, y = random_array(rng, (M, *SHAPE), dtype), random_array(rng, M, dtype)
    if kind == "3-D":
        return lr.Sensing(A, y, backend=backend), A
    if kind == "2-D":
        return lr.Sensing(A.reshape(M, -1), y, SHAPE, backend=backend), A
    skip_where_numpy_cannot_go(backend)
    return lr.Sensing.from_functions(*functions(A, kind), y, SHAPE, backend=backend), A


def inner_products(A, Z) -> np.ndarray:
    """``<A_i, Z>``, one by one."""
    return np.array([np.vdot(double(a), Z) for a in A])


def combination(A, p) -> np.ndarray:
    """``sum_i p_i A_i``."""
    return sum(double(c) * double(a) for c, a in zip(p, A, strict=True))


# -- conformance and dense twins ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_conformance(kind, dtype, backend):
    problem, _ = make(kind, dtype, backend)
    assert problem.dtype == dtype
    assert dot_test(problem) <= 100 * eps(dtype)
    assert abs(check_gradient(problem, 2) - 2) < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_forward_and_adjoint_against_their_definitions(kind, dtype, backend):
    problem, A = make(kind, dtype, backend)
    rng = np.random.default_rng(1)
    left, right = (random_array(rng, (n, 3), dtype) for n in SHAPE)
    p = random_array(rng, M, dtype)
    image = problem.forward(backend.asarray(left), backend.asarray(right))
    assert backend.dtype(image) == dtype
    assert_close(image, inner_products(A, double(left) @ double(right).conj().T), dtype)
    matrix, expected = problem.adjoint(backend.asarray(p)), combination(A, p)
    assert_close(matrix @ backend.eye(SHAPE[1], dtype), expected, dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_against_its_dense_twin(kind, dtype, backend):
    problem, A = make(kind, dtype, backend)
    rng = np.random.default_rng(2)
    X = random_point(rng, SHAPE, 2, dtype, backend)
    G = problem.gradient(X)
    residual = inner_products(A, dense_point(X)) - host(problem.y)
    dense = combination(A, residual)
    scale = np.linalg.norm(dense)
    assert_close(G.residual, residual, dtype, 100)
    assert_close(G.residual_norm, np.linalg.norm(residual), dtype)
    v, u = (random_array(rng, (n, 3), dtype) for n in reversed(SHAPE))
    for actual, expected in (
        (G.GV, dense @ host(X.V)),
        (G.GhU, dense.conj().T @ host(X.U)),
        (G.times(backend.asarray(v)), dense @ v),
        (G.adjoint_times(backend.asarray(u)), dense.conj().T @ u),
    ):
        assert backend.dtype(actual) == dtype
        assert_close(actual, expected, dtype, 100, scale)
    if kind == "operator":
        with pytest.raises(ValueError, match=r"LinearOperator.*solver='rgd'"):
            _ = G.squared_norms[0]
        return
    assert_close(G.squared_norms[0], (np.abs(dense) ** 2).sum(1), dtype, 200, scale**2)
    assert_close(G.squared_norms[1], (np.abs(dense) ** 2).sum(0), dtype, 200, scale**2)
    for actual, expected in zip(G.outer(), (dense @ dense.conj().T, dense.conj().T @ dense), strict=True):
        assert_close(actual, expected, dtype, 200, scale**2)


@pytest.mark.parametrize("kind", KINDS)
def test_energy(kind, dtype, backend):
    problem, A = make(kind, dtype, backend)
    X = random_point(np.random.default_rng(3), SHAPE, 2, dtype, backend)
    xi = riemannian_gradient(X, problem.gradient(X), Weights())
    image = inner_products(A, double(xi.to_dense()))
    assert_close(problem.squared_image_norm(xi), np.linalg.norm(image) ** 2, dtype, 200)
    assert_close(xi.inner(problem.gradient(X)), np.vdot(image, double(problem.gradient(X).residual)).real, dtype, 500)


@pytest.mark.parametrize("rows", [0, 1, 7, 10, M - 1, M, M + 1])
def test_the_pass_in_blocks(rows, dtype, backend, monkeypatch):
    """Blocks of so many rows of A, with and without a shorter one at the end; of one row where not even one fits."""
    problem, A = make("3-D", dtype, backend)
    monkeypatch.setattr(sensing, "BLOCK_BYTES", rows * problem.A.shape[1] * problem.A.itemsize)
    assert len(next(problem._blocks())) == min(max(rows, 1), M)
    x = random_array(np.random.default_rng(4), SHAPE, dtype)
    residual, matrix = problem.residual_and_adjoint(backend.asarray(x).ravel())
    expected = inner_products(A, double(x)) - host(problem.y)
    assert backend.dtype(residual) == backend.dtype(matrix) == dtype
    assert_close(residual, expected, dtype)
    assert_close(matrix, combination(A, expected), dtype, 100)
    assert lr.Sensing(A, problem.y, backend=backend).operator_scale == pytest.approx(
        (np.abs(double(A)) ** 2).sum() / 20, rel=1e-5
    )


def test_one_pass_over_A_makes_residual_and_gradient(backend):
    problem, _ = make("3-D", backend=backend)
    passes, whole = [], problem.residual_and_adjoint
    problem.residual_and_adjoint = lambda x: passes.append(1) or whole(x)
    G = problem.gradient(random_point(np.random.default_rng(5), SHAPE, 2, np.float64, backend))
    for name in ("residual", "GV", "GhU", "squared_norms", "residual_norm"):
        getattr(G, name)
    assert len(passes) == 1


# -- what goes in ------------------------------------------------------------------------------------------------------
def test_a_contiguous_array_is_not_copied():
    A, y = np.ones((6, 3, 2)), np.ones(6)
    assert np.shares_memory(lr.Sensing(A, y).A, A)
    assert np.shares_memory(lr.Sensing(A.reshape(6, 6), y, (3, 2)).A, A)


def test_any_layout_of_A_will_do(dtype):
    problem, A = make("3-D", dtype)
    layouts = [np.asfortranarray(A), np.repeat(A, 2, axis=0)[::2], A[:, :, ::-1].copy()[:, :, ::-1], A.tolist()]
    for other in layouts:
        np.testing.assert_array_equal(lr.Sensing(other, problem.y).A, problem.A)


@pytest.mark.parametrize(
    ("of_A", "of_y", "expected"),
    [
        ("f4", "f4", "f4"),
        ("f4", "f8", "f8"),
        ("f8", "c16", "c16"),
        ("c8", "f4", "c8"),
        ("c8", "f8", "c16"),
        ("i1", "f8", "f8"),
        ("?", "i4", "f8"),
        ("f2", "f2", "f8"),
        (">f4", ">f4", "f4"),
        (">c16", ">f8", "c16"),
    ],
)
def test_numbers_of_any_kind(of_A, of_y, expected):
    rng = np.random.default_rng(6)
    A, y = rng.integers(0, 2, (9, 3, 2)).astype(of_A), rng.integers(0, 2, 9).astype(of_y)
    problem = lr.Sensing(A, y)
    assert problem.dtype == problem.A.dtype == np.dtype(expected)
    np.testing.assert_array_equal(problem.A, A.reshape(9, 6))
    np.testing.assert_array_equal(problem.y, y)


def test_real_matrices_with_complex_measurements():
    """Then X is complex, and found."""
    rng = np.random.default_rng(7)
    truth = random_point(rng, (6, 5), 1, np.complex128)
    A = rng.standard_normal((60, 6, 5))
    result = lr.solve(lr.Sensing(A, inner_products(A, truth.to_dense())), 1, tol=1e-10)
    assert truth.distance(result.X) < 1e-8 * truth.norm()


def test_gain():
    rng = np.random.default_rng(8)
    A, y = rng.standard_normal((400, 5, 4)), rng.standard_normal(400)
    assert lr.Sensing(A, y).operator_scale == pytest.approx((A**2).sum() / 20)
    assert lr.Sensing(A, y, operator_scale=7).operator_scale == 7
    assert lr.Sensing.from_functions(*functions(A), y, (5, 4), operator_scale=7).operator_scale == 7
    for scale in (1.0, 1e-3, 1e4):  # estimated: about 400 scale^2 for Gaussian matrices
        estimate = lr.Sensing.from_functions(*functions(scale * A), y, (5, 4)).operator_scale
        assert estimate == pytest.approx(400 * scale**2, rel=0.2)


def test_problems_can_be_pickled_and_copied():
    problem, _ = lr.datasets.random_sensing(6, 5, 1, seed=1)
    for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        np.testing.assert_array_equal(lr.solve(twin, 1).X.U, lr.solve(problem, 1).X.U)


# -- recovery ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", OF_ANY_MATRIX)
def test_matrices_are_recovered(name, dtype):
    problem, truth = lr.datasets.random_sensing(12, 10, 2, oversampling=3, dtype=dtype, seed=1)
    result = lr.solve(problem, 2, name, tol=1e-10, max_iter=1000)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-8 * truth.norm()
    assert result.X.dtype == dtype
    assert result.estimate is None
    assert not hasattr(result, "signal")


@pytest.mark.parametrize("form", list(FORMS))
def test_matrices_are_recovered_through_functions(form, backend):
    skip_where_numpy_cannot_go(backend)
    problem, truth = lr.datasets.random_sensing(12, 10, 2, oversampling=3, seed=2)
    pair = functions(problem.A.reshape(-1, 12, 10), form)
    twin = lr.Sensing.from_functions(*pair, problem.y, (12, 10), check=True, backend=backend)
    result = lr.solve(twin, 2, "adaptive-rgd" if form == "operator" else "adaptive-prgd", tol=1e-10)
    assert result.converged, result
    assert truth.distance(result.X) < 1e-8 * truth.norm()


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_single_precision_stays_single(dtype):
    problem, truth = lr.datasets.random_sensing(12, 10, 2, dtype=dtype, seed=3)
    A = problem.A.reshape(-1, 12, 10).astype(np.result_type(dtype, np.float64))
    careless = lr.Sensing.from_functions(*functions(A), problem.y, (12, 10))  # functions that compute in double
    for model in (problem, careless):
        result = lr.solve(model, 2, "adaptive-prgd", tol=1e-5)
        assert result.converged, result
        assert result.X.U.dtype == result.X.V.dtype == dtype
        assert result.X.s.dtype == real_dtype(dtype)
        assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_zero_measurements_give_zero():
    result = lr.solve(lr.Sensing(np.ones((9, 3, 2)), np.zeros(9)), 1)
    assert result.converged
    assert result.n_iter == 0
    assert not result.X.to_dense().any()


# -- what is refused ---------------------------------------------------------------------------------------------------
A3 = np.random.default_rng(0).standard_normal((9, 3, 2))
A2, Y = A3.reshape(9, 6), np.arange(1.0, 10.0)


def spoiled(a, place, value):
    a = np.array(a, np.result_type(a, np.float64))
    a[place] = value
    return a


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": spoiled(A3, (4, 2, 1), np.nan)}, r"A\[4, 2, 1\] is not finite"),
        ({"A": spoiled(A2, (4, 5), np.inf), "shape": (3, 2)}, r"A\[4, 5\] is not finite"),
        ({"A": spoiled(A3 + 0j, (0, 0, 1), complex(0, -np.inf))}, r"A\[0, 0, 1\] is not finite"),
        ({"y": spoiled(Y, slice(7, None), np.nan)}, r"y\[7\] is not finite"),
        ({"y": spoiled(Y, 0, -np.inf)}, r"y\[0\] is not finite"),
        ({"y": Y[:8]}, r"A holds 9 matrices and y 8 measurements"),
        ({"A": A3[:4]}, r"A holds 4 matrices and y 9 measurements"),
        ({"A": A3[0, 0]}, r"A must be an \(m, n1, n2\) or \(m, n1 n2\) array, got shape \(2,\)"),
        ({"A": A3[None]}, r"A must be an .* array, got shape \(1, 9, 3, 2\)"),
        ({"A": A2}, r"A has shape \(9, 6\), one flattened matrix per row: pass shape=\(n1, n2\)"),
        ({"A": A2, "shape": (3, 3)}, r"a row of A has 6 entries, a 3 x 3 matrix has 9"),
        ({"shape": (2, 3)}, r"A holds 3 x 2 matrices, and shape is \(2, 3\)"),
        ({"shape": 6}, r"shape must be a pair of integers \(n1, n2\), got 6"),
        ({"A": A2, "shape": (3, 2, 1)}, r"shape must be a pair of integers"),
        ({"A": A2, "shape": (3.5, 2)}, r"shape must be a pair of integers \(n1, n2\), got \(3\.5, 2\)"),
        ({"A": A2, "shape": "32"}, r"shape must be a pair of integers"),
        ({"A": A2, "shape": (-3, -2)}, r"shape must be a pair of positive integers, got \(-3, -2\)"),
        ({"A": np.ma.masked_less(A3, 0)}, r"A is a masked array"),
        ({"y": np.ma.masked_less(Y, 3)}, r"y is a masked array"),
        ({"A": [["a", "b"]]}, r"A must be numbers, got <U1"),
        ({"A": scipy.sparse.csr_array(A2), "shape": (3, 2)}, r"A is a sparse matrix: pass A\.toarray\(\).*from_functions"),
        ({"y": list("abcdefghi")}, r"y must be numbers"),
        ({"y": [None] * 9}, r"y must be numbers, got object"),
        ({"A": np.zeros((0, 3, 2))}, r"A is empty, of shape \(0, 3, 2\)"),
        ({"y": []}, r"y is empty"),
        ({"y": 5}, r"y must be one-dimensional, got shape \(\): pass the measurements themselves, one number each"),
        ({"y": Y[:, None]}, r"y must be one-dimensional, got shape \(9, 1\)"),
        ({"A": 0 * A3}, r"operator_scale must be a positive number, got 0\.0: is A zero\?"),
        ({"operator_scale": -1.0}, r"operator_scale must be a positive number, got -1\.0"),
        ({"operator_scale": float("nan")}, r"operator_scale must be a positive number, got nan"),
        ({"operator_scale": "large"}, r"operator_scale must be a positive number, got 'large'"),
        ({"backend": "cuda"}, r"unknown backend 'cuda'"),
    ],
)
def test_bad_input_names_the_culprit(change, message):
    with pytest.raises(ValueError, match=message):
        lr.Sensing(**({"A": A3, "y": Y} | change))


FORWARD, ADJOINT = functions(A3)


def needs_three(left, right, third):
    return np.ones(9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forward": A3}, r"forward must be a function, forward\(left, right\).*: got ndarray"),
        ({"adjoint": None}, r"adjoint must be a function, adjoint\(p\), .*: got NoneType"),
        ({"forward": lambda X: np.ones(9)}, r"forward must be a function forward\(left, right\), .*: got a lambda\(X\)"),
        ({"forward": needs_three}, r"forward\(left, right\), .*: got needs_three\(left, right, third\)"),
        ({"adjoint": lambda: None}, r"adjoint must be a function adjoint\(p\), .*: got a lambda\(\)"),
        ({"forward": lambda left, right: np.ones(4)}, r"forward returns an array of shape \(4,\), and y has shape \(9,\)"),
        ({"forward": lambda left, right: np.zeros(9)}, r"forward returns zero for random matrices"),
        ({"forward": lambda left, right: np.full(9, np.nan)}, r"forward returns nan or inf for random matrices"),
        ({"forward": lambda left, right: 1j * FORWARD(left, right)}, r"forward returns complex numbers, and y is real: take"),
        ({"adjoint": lambda p: ADJOINT(p).T, "check": True}, r"adjoint returns a ndarray of shape \(2, 3\), expected \(3, 2\)"),
        ({"adjoint": lambda p: None, "check": True}, r"adjoint returns a NoneType of shape \(\), expected \(3, 2\)"),
        ({"adjoint": lambda p: 1j * ADJOINT(p), "check": True}, r"adjoint returns complex numbers, and y is real"),
        ({"adjoint": lambda p: 2 * ADJOINT(p), "check": True}, r"forward and adjoint do not match"),
        ({"y": 5}, r"y must be one-dimensional, got shape \(\)"),
        ({"y": spoiled(Y, 3, np.nan)}, r"y\[3\] is not finite"),
        ({"shape": (3,)}, r"shape must be a pair of integers"),
        ({"shape": (3, 0)}, r"shape must be a pair of positive integers"),
        ({"operator_scale": 0}, r"operator_scale must be a positive number, got 0"),
    ],
)
def test_bad_functions_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        lr.Sensing.from_functions(**({"forward": FORWARD, "adjoint": ADJOINT, "y": Y, "shape": (3, 2)} | change))


def test_the_dot_test_is_on_request():
    wrong = lr.Sensing.from_functions(FORWARD, lambda p: 2 * ADJOINT(p), Y, (3, 2))
    assert wrong.m == 9
    for shape in ((3, 2), (1, 6), (6, 1)):  # also where only rank 1 fits
        forward, adjoint = functions(A3.reshape(9, *shape))
        assert lr.Sensing.from_functions(forward, adjoint, Y, shape, check=True).shape == shape


def test_functions_are_watched_during_a_run_too():
    problem = lr.Sensing.from_functions(FORWARD, lambda p: ADJOINT(p).T, Y, (3, 2))
    with pytest.raises(ValueError, match=r"adjoint returns a ndarray of shape \(2, 3\), expected \(3, 2\)"):
        lr.solve(problem, 1)


def test_too_few_measurements_warn():
    problem, _ = lr.datasets.random_sensing(6, 5, 2, m=17, seed=4)
    with pytest.warns(UserWarning, match=r"17 measurements are fewer than the 18 degrees of freedom of rank 2") as caught:
        lr.solve(problem, 2, max_iter=1)
    assert caught[0].filename == __file__  # others may follow: that the run has not converged
    lr.solve(lr.datasets.random_sensing(6, 5, 2, m=18, seed=4)[0], 2, max_iter=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_the_repr_says_what_it_is(dtype):
    assert repr(make("3-D", dtype, "numpy")[0]) == f"Sensing(5 x 4, 30 measurements, {dtype}, numpy)"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-200, -100, -60, -30, -8, 0, 8, 15, 30, 60, 100, 160, 200])
def test_numbers_of_any_size_are_solved_or_refused(exponent, dtype):
    """Never a warning of NumPy's, and never nan."""
    problem, truth = lr.datasets.random_sensing(6, 5, 1, dtype=dtype, seed=1)
    with np.errstate(all="ignore"):
        c = dtype(10.0) ** exponent
        A, y = c * problem.A, c * problem.y
    if not (np.isfinite(A).all() and np.isfinite(y).all() and y.any()):
        return
    for unit in (1, 0):  # measurements in the units of A, and not
        try:
            result = lr.solve(lr.Sensing(A, y if unit else problem.y, (6, 5)), 1, tol=1e-5)
        except ValueError as error:
            said = str(error)
            assert exponent != 0
            assert "divide" in said.lower() or "is A zero" in said
        else:
            assert abs(exponent) <= 100
            assert result.converged
            assert np.abs(result.X.to_dense() * (1 if unit else c) - truth.to_dense()).max() < 1e-3 * truth.norm()


def test_functions_may_work_in_place():
    def forward(left, right):
        out = np.tensordot(A3, left @ right.T)
        left *= 0
        return out

    def adjoint(p):
        out = np.tensordot(p, A3, 1)
        p *= 0
        return out

    y = np.tensordot(A3, np.ones((3, 2)))
    one, two = (lr.solve(lr.Sensing.from_functions(*pair, y, (3, 2)), 1) for pair in ((forward, adjoint), functions(A3)))
    np.testing.assert_allclose(one.history.residual, two.history.residual, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("form", list(FORMS))
def test_rows_and_columns_that_no_measurement_touches_are_named(form, backend):
    skip_where_numpy_cannot_go(backend)
    A = np.random.default_rng(1).standard_normal((90, 9, 8))
    A[:, [2, 5]] = 0
    A[:, :, 7] = 0
    blind = functions(A, form)
    with pytest.warns(UserWarning, match="rows 2, 5 and column 7"):
        lr.Sensing.from_functions(*blind, np.ones(90), (9, 8), check=True, backend=backend)
    lr.Sensing.from_functions(*blind, np.ones(90), (9, 8), backend=backend)  # on request alone: warnings are errors here
    A[:, [2, 5]], A[:, :, 7] = 1e-6, 1e-6  # faint, but measured
    lr.Sensing.from_functions(*functions(A, form), np.ones(90), (9, 8), check=True, backend=backend)


def test_of_many_rows_some_are_named():
    A = np.random.default_rng(1).standard_normal((40, 9, 4))
    A[:, 1:] = 0
    with pytest.warns(UserWarning, match="rows 1, 2, 3, 4, 5 and 3 others"):
        lr.Sensing.from_functions(*functions(A), np.ones(40), (9, 4), check=True)
