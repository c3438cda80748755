"""The passes over the observations: C++ and reference against dense.

``make sanitize`` runs this file and its neighbours on kernels, on a build that looks for errors of memory.
"""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from helpers import assert_close, double, host, seeds
from kernel_cases import SETS, Case, _kernels, native_only, random_case
from lorank.backends import get_backend


@pytest.fixture(params=SETS)
def instruction_set(request):
    """Each instruction set that this machine can run, in turn."""
    before = _kernels.instruction_set()
    _kernels.use_instruction_set(request.param)
    try:
        yield request.param
    finally:
        _kernels.use_instruction_set(before)


def check_gradient(case, passes, width, weights=None):
    u, v = case.factors(width)
    s = case.singular_values(width)
    w = case.matrix(np.ones(case.m) if weights is None else weights).real
    D = (double(u) * s) @ double(v).conj().T - case.matrix(case.values)
    G = w * D
    # what rounding acts on: the sums of absolute values, not what is left after cancellation
    whole = np.where(case.mask, (np.abs(u) * s) @ np.abs(v).T, 0) + np.abs(case.matrix(case.values))
    size = w * whole

    GV, row_squares, misfit = passes.gradient_rows(u, s, v)
    assert GV.dtype == case.dtype
    assert_close(GV, G @ v, case.dtype, 20, (size @ np.abs(v)).max(initial=0))
    assert_close(row_squares, (np.abs(G) ** 2).sum(1), case.dtype, 20, (size**2).sum(1).max(initial=0))
    assert_close(misfit, (w * np.abs(D) ** 2).sum(1), case.dtype, 20, (size * whole).sum(1).max(initial=0))

    GhU, col_squares = passes.gradient_cols(u, s, v)
    assert GhU.dtype == case.dtype
    assert_close(GhU, G.conj().T @ u, case.dtype, 20, (size.T @ np.abs(u)).max(initial=0))
    assert_close(col_squares, (np.abs(G) ** 2).sum(0), case.dtype, 20, (size**2).sum(0).max(initial=0))
    if case.m:  # see test_squares_of_nothing_are_double
        assert row_squares.dtype == col_squares.dtype == misfit.dtype == np.float64


def check_weighted_gradient(case, passes, width):
    weights = case.weights()
    check_gradient(case, passes.with_weights(weights), width, double(weights))


def check_sample(case, passes, width):
    left, right = case.factors(width)
    expected = (double(left) @ double(right).conj().T)[case.mask]
    size = (np.abs(left) @ np.abs(right).T)[case.mask]
    sampled = passes.sample(left, right)
    assert sampled.dtype == case.dtype
    assert_close(sampled, expected, case.dtype, 20, size.max(initial=0))


def check_line_sums(case, passes, width):
    one, two = case.factors(width), case.factors(max(1, width // 2))
    p, weights = case.vector(), case.weights()
    z = sum(double(left) @ double(right).conj().T for left, right in (one, two))[case.mask]
    size = sum(np.abs(left) @ np.abs(right).T for left, right in (one, two))[case.mask]
    inner, squares = passes.line_sums((one, two), p)
    assert_close(inner, np.vdot(double(p), z).real, case.dtype, 20, np.abs(p) @ size)
    assert_close(squares, np.vdot(z, z).real, case.dtype, 20, size @ size)
    assert passes.line_sums((one, two), None) == (0.0, squares)

    passes = passes.with_weights(weights)
    same, squares = passes.line_sums((one, two), p)
    assert_close(same, inner, case.dtype, 20, np.abs(p) @ size)
    assert_close(squares, double(weights) @ np.abs(z) ** 2, case.dtype, 20, weights @ size**2)
    assert passes.line_sums((one, two), None) == (0.0, squares)


def check_times(case, passes, width):
    p = case.vector()
    P = case.matrix(p)
    u, v = case.factors(width)
    assert_close(passes.times(p, v), P @ v, case.dtype, 20, (np.abs(P) @ np.abs(v)).max(initial=0))
    assert_close(passes.adjoint_times(p, u), P.conj().T @ u, case.dtype, 20, (np.abs(P).T @ np.abs(u)).max(initial=0))
    rows, cols = passes.squares(p)
    assert_close(rows, (np.abs(P) ** 2).sum(1), np.float64)
    assert_close(cols, (np.abs(P) ** 2).sum(0), np.float64)
    np.testing.assert_array_equal(passes.matrix(p).toarray(), P.astype(case.dtype))


CHECKS = [check_gradient, check_weighted_gradient, check_sample, check_line_sums, check_times]


# -- the passes against dense ------------------------------------------------------------------------------------------
# Rows of 1 to 8 cache lines are unrolled (real; 1 to 4 in complex) and longer ones are not: 64 columns of float64, 128 of
# float32. Short ones come in halves of a line.
WIDTHS = [*range(1, 71), 127, 128, 129, 150]


@native_only
@pytest.mark.parametrize("check", CHECKS)
def test_every_width_on_every_instruction_set(check, instruction_set, dtype):
    rng = np.random.default_rng(0)
    case = random_case(rng, (7, 9), dtype, empty_rows=[2], empty_cols=[0, 8])
    passes = case.observations(get_backend("native"))
    for width in WIDTHS:
        check(case, passes, width)


@native_only
@pytest.mark.parametrize("check", CHECKS)
def test_observations_that_are_taken_together(check, instruction_set, dtype):
    """As many as a register has lanes, 2 to 16; rows have 3 to 40 observations, and so some are left over."""
    rng = np.random.default_rng(3)
    mask = rng.permuted(np.arange(40) < np.array([3, 8, 16, 17, 31, 32, 33, 40])[:, None], axis=1)
    case = Case(rng, mask, dtype)
    passes = case.observations(get_backend("native"))
    for width in (*range(1, 35), 63, 64, 65):
        check(case, passes, width)


@native_only
@pytest.mark.parametrize("wide", [np.float64, np.complex128])
@pytest.mark.parametrize("check", [check_gradient, check_weighted_gradient, check_line_sums])
def test_mixed_passes_lose_only_what_float32_cannot_hold(check, wide, instruction_set, monkeypatch):
    from lorank.backends import native

    monkeypatch.setattr(native, "MIXED_BYTES", -1)
    case = random_case(np.random.default_rng(1), (7, 9), wide, empty_rows=[2], empty_cols=[0, 8])
    passes = case.observations(get_backend("native"))
    given_back = Case.factors
    for width in WIDTHS:
        u, v = case.factors(width)
        s = case.singular_values(width)
        for name in ("gradient_rows", "gradient_cols"):  # factors with more digits: float32's error, and no more
            full, mixed = (getattr(p, name)(u, s, v)[0] for p in (passes, passes.mixed_precision))
            assert 0 < np.linalg.norm(mixed - full) <= 2e-6 * np.linalg.norm(full)
        # factors that float32 holds: every digit of float64
        monkeypatch.setattr(Case, "factors", lambda case, w: [_rounded(a) for a in given_back(case, w)])
        check(case, passes.mixed_precision, width)
        monkeypatch.setattr(Case, "factors", given_back)


def _rounded(a):
    """What float32 holds of it."""
    return a.astype(np.complex64 if a.dtype.kind == "c" else np.float32).astype(a.dtype)


@native_only
def test_mixed_passes_are_for_large_factors_in_double(monkeypatch):
    from lorank.backends import native

    for dtype in ("float32", "float64"):
        case = random_case(np.random.default_rng(2), (40, 30), dtype)
        passes, (u, v), s = case.observations(get_backend("native")), case.factors(4), case.singular_values(4)
        for limit, differs in ((1 << 20, False), (-1, dtype == "float64")):
            monkeypatch.setattr(native, "MIXED_BYTES", limit)
            same = np.array_equal(passes.gradient_rows(u, s, v)[0], passes.mixed_precision.gradient_rows(u, s, v)[0])
            assert same is not differs


@pytest.mark.parametrize("check", CHECKS)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    width=st.integers(1, 20),
    density=st.sampled_from([0.02, 0.2, 0.7, 1.0]),
    seed=seeds,
)
def test_against_dense(check, shape, width, density, seed, dtype, backend):
    case = random_case(np.random.default_rng(seed), shape, dtype, density)
    check(case, case.observations(backend), width)


PATTERNS = {
    "one row": np.ones((1, 13), bool),
    "one column": np.ones((13, 1), bool),
    "one observation": np.arange(35).reshape(5, 7) == 17,
    "one entry": np.ones((1, 1), bool),
    "first row and column empty": np.pad(np.ones((4, 5), bool), ((1, 0), (1, 0))),
    "last rows and columns empty": np.pad(np.ones((4, 5), bool), ((0, 3), (0, 3))),
    "one full row among empty ones": np.arange(6)[:, None] == np.full((1, 60), 3),
    "nothing": np.zeros((4, 5), bool),
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("check", CHECKS)
def test_special_patterns(check, name, dtype, backend):
    case = Case(np.random.default_rng(1), PATTERNS[name], dtype)
    passes = case.observations(backend)
    for width in (1, 3, 16, 70):
        check(case, passes, width)


# Completion refuses an empty problem, so no user sees it yet.
def test_squares_of_nothing_are_double(backend):
    passes = Case(np.random.default_rng(1), PATTERNS["nothing"], np.float64).observations(backend)
    assert all(a.dtype == np.float64 for a in passes.squares(np.empty(0)))


def test_factors_of_any_layout_and_dtype_are_taken(dtype, backend):
    """Fortran order, strided views and other precisions are converted, not refused."""
    case = random_case(np.random.default_rng(2), (7, 9), dtype)
    passes = case.observations(backend)
    u, v = case.factors(4)
    s = case.singular_values(4)
    wide = np.zeros((7, 8), dtype)
    wide[:, ::2] = u
    plain = passes.gradient_rows(u, s, v)
    for other in (np.asfortranarray(u), wide[:, ::2]):
        for a, b in zip(plain, passes.gradient_rows(other, s, v), strict=True):
            assert_close(a, double(b), dtype)


def test_inputs_are_not_changed(dtype, backend):
    case = random_case(np.random.default_rng(3), (7, 9), dtype)
    passes = case.observations(backend)
    u, v = case.factors(3)
    s, p = case.singular_values(3), case.vector()
    w = case.weights()
    inputs = [u, s, v, p, w, case.values, case.indptr, case.indices]
    before = [a.copy() for a in inputs]
    weighted = passes.with_weights(w)
    weighted.gradient_rows(u, s, v), weighted.gradient_cols(u, s, v), weighted.line_sums(((u, v), (u, v)), p)
    passes.gradient_rows(u, s, v), passes.gradient_cols(u, s, v), passes.sample(u, v)
    passes.line_sums(((u, v), (u, v)), p), passes.times(p, v), passes.adjoint_times(p, u), passes.squares(p)
    for a, b in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(a, b)


# -- weights -----------------------------------------------------------------------------------------------------------
def test_weights_stay_with_new_values_and_can_be_taken_away(dtype, backend):
    case = random_case(np.random.default_rng(5), (7, 9), dtype, empty_rows=[2])
    plain = backend.make_observations(*map(backend.asarray, (case.indptr, case.indices, case.values)), 9)
    w = backend.asarray(case.weights())
    u, v = map(backend.asarray, case.factors(3))
    s = backend.asarray(case.singular_values(3))
    weighted = plain.with_weights(w)
    assert plain.weights is None  # a twin, not the object itself
    double_values = backend.astype(plain.values, np.result_type(dtype, np.float64))
    assert str(weighted.with_values(double_values).weights.dtype).endswith("float64")

    def found(passes):
        return [host(a) for a in (*passes.gradient_rows(u, s, v), *passes.gradient_cols(u, s, v))]

    expected, doubled = found(weighted), plain.with_values(2 * plain.values)
    for twin in (
        doubled.with_weights(w).with_values(plain.values),
        pickle.loads(pickle.dumps(weighted)),
        copy.copy(weighted),
        weighted.mixed_precision,
    ):
        for a, b in zip(found(twin), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(found(weighted.with_weights(None)), found(plain), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [5, (6, 1), 0])
def test_weights_of_other_lengths_are_refused(shape, backend):
    case = Case(np.random.default_rng(5), np.ones((2, 3), bool), np.float64)
    with pytest.raises(ValueError, match=r"weights must have shape \(6,\)"):
        case.observations(backend).with_weights(np.ones(shape))


def test_numpy_samples_in_blocks(monkeypatch):
    monkeypatch.setattr("lorank.backends.numpy_observations.BLOCK", 5)
    case = random_case(np.random.default_rng(4), (7, 9), np.complex128)
    check_sample(case, case.observations(get_backend("numpy")), 3)


@native_only
def test_patterns_do_not_share_scratch_memory():
    """The packed factors live on between calls: a small problem after a large one must not see what the large one left."""
    rng = np.random.default_rng(5)
    for shape, width in [((30, 40), 40), ((3, 4), 2), ((50, 6), 9), ((2, 2), 70)]:
        case = random_case(rng, shape, np.float64)
        passes = case.observations(get_backend("native"))
        for check in CHECKS:
            check(case, passes, width)


# -- independence of the number of threads -----------------------------------------------------------------------------
@native_only
def test_bits_do_not_depend_on_the_number_of_threads(instruction_set, dtype):
    """Enough observations that three threads share each pass (65 536 each at the least, 2^18 to be put in column order)."""
    case = random_case(np.random.default_rng(6), (900, 700), dtype, density=0.55, empty_rows=range(100, 200))
    assert case.m > 1 << 18
    passes = case.observations(get_backend("native"))
    u, v = case.factors(9)
    s, p = case.singular_values(9), case.vector()
    weighted = passes.with_weights(case.weights())

    def all_passes():
        columns = np.empty_like(p)
        passes.pattern.to_columns(p, columns)
        return [
            *passes.gradient_rows(u, s, v),
            *passes.gradient_cols(u, s, v),
            *weighted.gradient_rows(u, s, v),
            *weighted.gradient_cols(u, s, v),
            *weighted.line_sums(((u, v), (u, v)), p),
            passes.sample(u, v),
            *passes.line_sums(((u, v), (u, v)), p),
            passes.times(p, v),
            passes.adjoint_times(p, u),
            columns,
        ]

    results = {}
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="openmp"):
            if _kernels.threads() != threads:
                pytest.skip("the kernels were built without OpenMP")
            results[threads] = all_passes()
    for threads, (one, other) in itertools.product((2, 3), enumerate(results[1])):
        np.testing.assert_array_equal(results[threads][one], other)


# -- order -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("index", ["int16", "int32", "int64", "uint32"])
@given(n1=st.integers(1, 30), n2=st.integers(1, 30), m=st.integers(0, 200), seed=seeds)
def test_row_major_order_is_stable(index, n1, n2, m, seed, backend):
    """Pairs repeat here, and equal pairs keep the order in which they came."""
    rng = np.random.default_rng(seed)
    rows, cols = (rng.integers(0, n, m).astype(index) for n in (n1, n2))
    order = backend.row_major_order(rows, cols, (n1, n2))
    expected = sorted(range(m), key=lambda k: (rows[k], cols[k], k))
    np.testing.assert_array_equal(host(order), np.array(expected, np.int64))


def test_row_major_order_of_mixed_index_types(backend):
    rows, cols = np.array([1, 0, 1], np.int32), np.array([0, 1, 1], np.int64)
    np.testing.assert_array_equal(host(backend.row_major_order(rows, cols, (2, 2))), [1, 0, 2])


# -- instruction sets --------------------------------------------------------------------------------------------------
@native_only
def test_unknown_instruction_set_is_refused():
    before = _kernels.instruction_set()
    with pytest.raises(ValueError, match="not available"):
        _kernels.use_instruction_set("avx1024")
    assert _kernels.instruction_set() == before


@native_only
def test_instruction_sets_can_be_chosen(instruction_set):
    assert _kernels.instruction_set() == instruction_set
    assert SETS[0] == "baseline"


@native_only
def test_threads_follow_threadpoolctl():
    with threadpool_limits(1, user_api="openmp"):
        assert _kernels.threads() == 1


@native_only
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer's own memory leaves no room for a limit")
def test_a_failed_allocation_leaves_nothing_behind():
    """Out of memory in a wide pass, a narrow one must still work: its scratch memory may not be what was given up."""
    code = """
import resource
import numpy as np
from lorank import _kernels
n = 200_000
pattern = _kernels.Pattern(np.arange(n + 1, dtype=np.int64), np.zeros(n, np.int32), 1)
def times(factor):
    out = np.zeros((1, factor.shape[1]))
    pattern.times(True, np.ones(n), factor, out)
    return out
narrow, wide = np.ones((n, 16)), np.ones((n, 400))
times(narrow)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 100 * 2**20, resource.RLIM_INFINITY))
try:
    times(wide)
except MemoryError:
    print("out of memory")
print(times(narrow)[0, 0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:2] == ["out of memory", "200000.0"], done.stderr
