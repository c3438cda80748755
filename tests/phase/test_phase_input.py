"""Phase retrieval: input, its checks, and distances up to a phase."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import lorank as lr
from helpers import random_array, real_dtype
from lorank.geometry import FixedRank
from phase_models import N, make


# -- distance up to phase ----------------------------------------------------------------------------------------------
def test_phase_distance():
    rng = np.random.default_rng(16)
    x, e = (random_array(rng, (5, 4), np.complex128) for _ in range(2))
    assert lr.phase.phase_distance(x, x) == 0
    assert lr.phase.phase_distance(np.exp(0.7j) * x, x) < 1e-15
    assert lr.phase.phase_distance(-x.real, x.real) == 0
    assert lr.phase.phase_distance(2 * x, x) == pytest.approx(1)
    assert lr.phase.phase_distance(0 * x, x) == pytest.approx(1)
    assert lr.phase.phase_distance(x.ravel(), x) == 0
    assert lr.phase.phase_distance([1.0, 0.0], [0.0, 2.0]) == pytest.approx(np.sqrt(5) / 2)
    phases = np.exp(2j * np.pi * np.arange(20_000) / 20_000)
    expected = min(np.linalg.norm(x + e - c * x) for c in phases) / np.linalg.norm(x)
    assert lr.phase.phase_distance(x + e, x) == pytest.approx(expected, rel=1e-6)


def test_phase_distance_refuses_other_lengths_and_zero():
    with pytest.raises(ValueError, match="got 3 and 4 entries"):
        lr.phase.phase_distance(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="truth is zero"):
        lr.phase.phase_distance(np.ones(3), np.zeros(3))


# -- what goes in ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("of_A", "of_y", "expected"),
    [
        ("f4", "f4", "f4"),
        ("f4", "f8", "f8"),
        ("f8", "f4", "f8"),
        ("c8", "f4", "c8"),
        ("c8", "f8", "c16"),
        ("i1", "i8", "f8"),
        ("?", "u2", "f8"),
        (">f4", ">f4", "f4"),
        (">c16", ">f4", "c16"),
    ],
)
def test_input_dtypes(of_A, of_y, expected):
    rng = np.random.default_rng(17)
    A, y = rng.integers(0, 2, (9, 3)).astype(of_A), rng.integers(0, 2, 9).astype(of_y)
    problem = lr.PhaseRetrieval(A, y)
    assert problem.dtype == problem.linear_map.A.dtype == np.dtype(expected)
    assert problem.y.dtype == real_dtype(expected)
    np.testing.assert_array_equal(problem.linear_map.A, A)
    np.testing.assert_array_equal(problem.y, y)
    masks = A.reshape(3, 9)
    assert lr.PhaseRetrieval.coded_diffraction(masks, np.ones((3, 9), of_y)).dtype == np.result_type(expected, np.complex64)


def test_a_contiguous_array_is_not_copied():
    A = np.ones((9, 3))
    assert lr.PhaseRetrieval(A, np.ones(9)).linear_map.A is A
    other = lr.PhaseRetrieval(np.asfortranarray(A), np.ones(9))
    assert other.linear_map.A.flags.c_contiguous


def test_flat_intensities_are_accepted():
    problem, _ = lr.datasets.random_diffraction((4, 3), seed=1)
    twin = lr.PhaseRetrieval.coded_diffraction(problem.linear_map.masks, problem.y)
    np.testing.assert_array_equal(twin.y, problem.y)
    assert twin.signal_shape == problem.signal_shape == (4, 3)


@pytest.mark.parametrize("dtype", ["float64", float, np.float32, np.dtype("complex64"), complex])
def test_a_dtype_by_any_name(dtype):
    A = np.ones((9, 3), np.float32)
    problem = lr.PhaseRetrieval.from_functions(lambda v: A @ v, lambda w: A.T @ w, np.ones(9, np.float32), 3, dtype=dtype)
    assert problem.dtype == np.dtype(dtype)


def test_degrees_of_freedom():
    real, complex_ = make("matrix")[0], make("matrix", np.complex128)[0]
    assert [real.dof(r) for r in (1, 2, N)] == [N, 2 * N - 1, N * (N + 1) // 2]
    assert [complex_.dof(r) for r in (1, 2, N)] == [2 * N - 1, 4 * N - 4, N**2]


# -- what is refused ---------------------------------------------------------------------------------------------------
A = np.random.default_rng(0).standard_normal((9, 3))
Y = np.arange(1.0, 10.0)
MASKS = np.random.default_rng(0).standard_normal((3, 4, 2))
YD = np.abs(MASKS)


def spoiled(a, place, value):
    a = np.array(a, np.result_type(a, np.float64))
    a[place] = value
    return a


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": spoiled(Y, 4, -0.5)}, r"y\[4\] = -0\.5 is negative, and \|A x\|\^2 cannot be: .*numpy\.maximum\(y, 0\)"),
        ({"y": Y + 0j}, r"y is complex"),
        ({"y": spoiled(Y, 4, np.nan)}, r"y\[4\] is not finite"),
        ({"y": spoiled(Y, 0, np.inf)}, r"y\[0\] is not finite"),
        ({"A": spoiled(A, (7, 2), np.nan)}, r"A\[7, 2\] is not finite"),
        ({"A": spoiled(A + 0j, (0, 1), complex(0, np.inf))}, r"A\[0, 1\] is not finite"),
        ({"y": Y[:5]}, r"9 rows and y 5 measurements"),
        ({"y": Y[:, None]}, r"y must be one-dimensional, got shape \(9, 1\)"),
        ({"y": 5}, r"y must be one-dimensional, got shape \(\)"),
        ({"y": []}, r"y is empty"),
        ({"y": "abc"}, r"y must be numbers, got <U3"),
        ({"y": np.ma.masked_less(Y, 3)}, r"y is a masked array"),
        ({"A": Y}, r"A must be an \(m, n\) array, one measurement a row: got shape \(9,\)"),
        ({"A": A[None]}, r"A must be an \(m, n\) array, one measurement a row: got shape \(1, 9, 3\)"),
        ({"A": np.zeros((9, 0))}, r"A is empty, of shape \(9, 0\)"),
        ({"A": [["a"]] * 9}, r"A must be numbers, got <U1"),
        ({"A": np.ma.masked_less(A, 0)}, r"A is a masked array"),
        ({"A": scipy.sparse.csr_array(A)}, r"A is a sparse matrix: pass A\.toarray\(\).*from_functions"),
        ({"A": 0 * A}, r"A is zero"),
        ({"A": 1e100 * A}, r"fourth powers overflow"),
        ({"row_norms": 0}, r"row_norms must be 'auto', 'exact' or a number of probes, got 0"),
        ({"row_norms": -3}, r"row_norms must be .* got -3"),
        ({"row_norms": 2.5}, r"row_norms must be .* got 2\.5"),
        ({"row_norms": True}, r"row_norms must be .* got True"),
        ({"row_norms": None}, r"row_norms must be .* got None"),
        ({"row_norms": "probes"}, r"row_norms must be .* got 'probes'"),
        ({"row_norms": 1000000}, r"row_norms=1,000,000 probes for 3 unknowns: .*row_norms='exact'"),
        ({"backend": "cuda"}, r"unknown backend 'cuda'"),
    ],
)
def test_bad_input_names_the_culprit(change, message):
    with pytest.raises(ValueError, match=message):
        lr.PhaseRetrieval(**({"A": A, "y": Y} | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masks": MASKS[0, 0]}, r"masks must be an \(L, n\) array for signals or \(L, h, w\) for images, got shape \(2,\)"),
        ({"masks": MASKS[None]}, r"masks must be .* got shape \(1, 3, 4, 2\)"),
        ({"masks": spoiled(MASKS, (1, 3, 0), np.nan)}, r"masks\[1, 3, 0\] is not finite"),
        ({"masks": 0 * MASKS}, r"A is zero"),
        ({"masks": np.zeros((0, 4))}, r"masks is empty"),
        ({"y": YD[:2]}, r"y has shape \(2, 4, 2\) and masks \(3, 4, 2\): there is one intensity for each mask and frequency"),
        ({"y": YD.reshape(3, 8)}, r"y must have the shape of masks, \(3, 4, 2\), or be flat: got \(3, 8\)"),
        ({"y": spoiled(YD, (2, 1, 0), np.inf)}, r"y\[2, 1, 0\] is not finite"),
        ({"y": spoiled(YD, (1, 0, 0), -1)}, r"y\[8\] = -1 is negative"),
        ({"y": YD + 1j}, r"y is complex"),
        ({"y": 5}, r"y has shape \(\) and masks \(3, 4, 2\)"),
        ({"row_norms": "some"}, r"row_norms must be"),
    ],
)
def test_bad_masks_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        lr.PhaseRetrieval.coded_diffraction(**({"masks": MASKS, "y": YD} | change))


def times(v):
    return A @ v


def adjoint_times(w):
    return A.T @ w


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apply": A}, r"apply must be a function, apply\(v\).*got ndarray"),
        ({"adjoint": None}, r"adjoint must be a function, adjoint\(w\), .*: got NoneType"),
        ({"apply": lambda v, w: v}, r"apply must be a function apply\(v\), .*: got a lambda\(v, w\)"),
        (
            {"apply": lambda v: A[:5] @ v},
            r"apply gives an array of shape \(5, 16\), expected \(9, 16\): columns are mapped one by",
        ),
        ({"apply": lambda v: times(v)[:, 0]}, r"apply gives an array of shape \(9,\), expected \(9, 16\)"),
        ({"adjoint": lambda w: A[:, :2].T @ w, "check": True}, r"adjoint gives an array of shape \(2, 1\), expected \(3, 1\)"),
        ({"adjoint": lambda w: 2 * adjoint_times(w), "check": True}, r"forward and adjoint do not match"),
        ({"apply": lambda v: 1j * times(v), "dtype": float}, r"apply.*complex numbers"),
        ({"apply": lambda v: 0 * times(v)}, r"A is zero"),
        ({"apply": lambda v: np.nan * times(v)}, r"A has nan, inf"),
        ({"row_norms": "exact"}, r"row_norms='exact' needs A as an array or as masks: give a number of probes instead"),
        ({"n": -3}, r"n, the length of the signal, must be a positive integer: got -3"),
        ({"n": 3.5}, r"n, the length of the signal, must be a positive integer: got 3\.5"),
        ({"n": "3"}, r"n, the length of the signal, must be a positive integer: got '3'"),
        ({"dtype": int}, r"dtype must be float32, float64, complex64 or complex128, got dtype\('int64'\)"),
        ({"dtype": "phase"}, r"dtype must be .* got 'phase'"),
        ({"y": 5}, r"y must be one-dimensional, got shape \(\)"),
        ({"y": -Y}, r"y\[0\] = -1 is negative"),
        ({"y": spoiled(Y, 3, np.nan)}, r"y\[3\] is not finite"),
    ],
)
def test_bad_functions_are_named(change, message):
    arguments = {"apply": times, "adjoint": adjoint_times, "y": Y, "n": 3} | change
    with pytest.raises(ValueError, match=message):
        lr.PhaseRetrieval.from_functions(**arguments)


def test_the_dot_test_is_on_request():
    wrong = lr.PhaseRetrieval.from_functions(times, lambda w: 2 * adjoint_times(w), Y, 3)
    assert wrong.m == 9


@pytest.mark.parametrize(("dtype", "enough"), [(np.float64, 5), (np.complex128, 9)])
def test_too_few_measurements_warn(dtype, enough):
    """A real signal has n unknowns, a complex one 2 n - 1: its global phase does not count."""
    problem, _ = lr.datasets.random_phase(5, m=enough - 1, dtype=dtype, seed=1)
    with pytest.warns(UserWarning, match=f"{enough - 1} measurements are fewer than the {enough} degrees of freedom"):
        lr.solve(problem, 1, max_iter=1)
    lr.solve(lr.datasets.random_phase(5, m=enough, dtype=dtype, seed=1)[0], 1, max_iter=1)


def test_rank_2_warns():
    problem, _ = lr.datasets.random_phase(6, seed=1)
    with pytest.warns(UserWarning, match=r"rank 2.*result\.signal") as caught:
        lr.solve(problem, 2, "rgd", max_iter=2)
    assert caught[0].filename == __file__  # others may follow: that the run has not converged


def test_a_complex_start_for_a_real_signal_is_refused():
    problem, _ = lr.datasets.random_phase(6, seed=1)
    with pytest.raises(ValueError, match="start is complex and the problem is real"):
        lr.solve(problem, 1, start=FixedRank.semidefinite(np.ones((6, 1)) * 1j))


def test_full_shampoo_is_refused():
    problem, _ = lr.datasets.random_phase(6, seed=1)
    with pytest.raises(ValueError, match=r"PhaseRetrieval\.adjoint returns a LinearOperator.*solver='rgd'"):
        lr.solve(problem, 1, lr.solvers.RGD(lr.metrics.FullShampoo()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-150, -100, -60, -30, -8, 0, 8, 15, 30, 60, 70, 100, 150])
def test_numbers_of_any_size_are_solved_or_refused(exponent, dtype):
    """Without NumPy warnings and nan."""
    problem, x = lr.datasets.random_phase(8, seed=1, dtype=dtype)
    with np.errstate(all="ignore"):
        c = dtype(10.0) ** exponent
        A, y = c * problem.linear_map.A, (c * np.abs(problem.linear_map.A @ x)) ** 2
    if not (np.isfinite(A).all() and np.isfinite(y).all() and y.any()):
        return
    for unit in (1, 0):  # intensities in the units of A, and not
        try:
            made = lr.PhaseRetrieval(A, y if unit else problem.y)
            result = lr.solve(made, 1, tol=1e-5)
        except ValueError as error:
            said = str(error)
            assert exponent != 0
            assert "divide" in said.lower() or "A is zero" in said
        else:
            assert abs(exponent) < 100
            assert lr.phase.phase_distance(result.signal * dtype(1 if unit else c), x) < 1e-3


def test_functions_may_work_in_place():
    def apply(v):
        out = A @ v
        v *= 0
        return out

    def adjoint(w):
        out = A.T @ w
        w *= 0
        return out

    y = (A @ np.ones(3)) ** 2
    for solver in ("auto", lr.phase.MessagePassing(), "rcg"):
        result = lr.solve(lr.PhaseRetrieval.from_functions(apply, adjoint, y, 3, dtype=float), 1, solver)
        plain = lr.solve(lr.PhaseRetrieval.from_functions(times, adjoint_times, y, 3, dtype=float), 1, solver)
        np.testing.assert_array_equal(result.history.residual, plain.history.residual)


def test_unmeasured_entries_of_the_signal_are_reported():
    blind = np.where(np.arange(3) == 1, 0.0, A)
    with pytest.warns(UserWarning, match="entry 1"):
        lr.PhaseRetrieval.from_functions(lambda v: blind @ v, lambda w: blind.T @ w, Y, 3, dtype=float, check=True)
