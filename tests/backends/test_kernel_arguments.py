"""What the C++ entry points refuse: patterns, shapes, types and layouts that would lead them out of bounds."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import assert_close
from kernel_cases import _kernels, native_only, random_case
from lorank.backends import get_backend

# -- patterns that are refused -----------------------------------------------------------------------------------------
BAD_PATTERNS = {
    "indptr does not start at 0": ([1, 2, 3], [0, 1, 2]),
    "indptr does not end at m": ([0, 2, 4], [0, 1, 2]),
    "indptr ends before m": ([0, 1, 2], [0, 1, 2]),
    "indptr decreases": ([0, 3, 1, 3], [0, 1, 2]),
    "indptr rises past m on the way": ([0, 5, 3], [0, 1, 2]),
    "indptr goes below 0": ([0, -2, 3], [0, 1, 2]),
    "negative index": ([0, 2, 3], [-1, 1, 2]),
    "index too large": ([0, 2, 3], [0, 4, 2]),
    "indices decrease": ([0, 2, 3], [1, 0, 2]),
    "index twice in a row": ([0, 2, 3], [1, 1, 2]),
}


@pytest.mark.parametrize("name", BAD_PATTERNS)
def test_bad_patterns_are_refused(name, backend):
    indptr, indices = BAD_PATTERNS[name]
    with pytest.raises(ValueError, match=r"indptr|index|indices"):
        backend.make_observations(np.array(indptr, np.int64), np.array(indices, np.int32), np.ones(3), 4)


def test_too_few_or_too_many_values_are_refused(backend):
    indptr, indices = np.array([0, 2, 3]), np.array([0, 1, 2], np.int32)
    for count in (0, 2, 4):
        with pytest.raises(ValueError, match=r"values|indptr"):
            backend.make_observations(indptr, indices, np.ones(count), 4)


@native_only
@pytest.mark.parametrize(
    ("indptr", "indices", "n2"),
    [
        (np.zeros(0, np.int64), np.zeros(0, np.int32), 4),
        (np.array([0, 2, 3], np.int32), np.array([0, 1, 2], np.int32), 4),
        (np.array([0, 2, 3], np.float64), np.array([0, 1, 2], np.int32), 4),
        (np.array([0, 2, 3]), np.array([0, 1, 2], np.int64), 4),
        (np.array([0, 2, 3]), np.array([0, 1, 2], np.uint32), 4),
        (np.array([0, 0, 2, 2, 3, 3])[::2], np.array([0, 1, 2], np.int32), 4),
        (np.array([0, 2, 3]), np.array([0, 9, 1, 9, 2, 9], np.int32)[::2], 4),
        (np.array([[0, 2, 3]]), np.array([0, 1, 2], np.int32), 4),
        ([0, 2, 3], np.array([0, 1, 2], np.int32), 4),
        (np.array([0, 2, 3]), None, 4),
        (np.array([0, 2, 3]), np.array([0, 1, 2], np.int32), -1),
        (np.array([0, 2, 3]), np.array([0, 1, 2], np.int32), 2**31),
        (np.array([0, 2, 3]), np.array([0, 1, 2], np.int32), 2**70),
        (np.array([0, 2, 3]), np.array([0, 1, 2], np.int32), 4.0),
        (np.array([0, 2, 3], ">i8"), np.array([0, 1, 2], np.int32), 4),
    ],
)
def test_pattern_arguments_are_checked(indptr, indices, n2):
    with pytest.raises((TypeError, ValueError)):
        _kernels.Pattern(indptr, indices, n2)


@native_only
def test_a_pattern_keeps_its_own_copy():
    """Changing the arrays afterwards must not lead the kernels out of bounds."""
    case = random_case(np.random.default_rng(7), (7, 9), np.float64)
    indptr, indices = case.indptr.copy(), case.indices.copy()
    pattern = _kernels.Pattern(indptr, indices, 9)
    indptr[:], indices[:] = 10**9, 10**9
    u, v = case.factors(3)
    sampled, none = np.empty(case.m), np.empty(0)
    pattern.sample(u, v, u[:, :0].copy(), v[:, :0].copy(), none, sampled)
    assert_close(sampled, (u @ v.T)[case.mask], np.float64, scale=10)


# -- calls that are refused --------------------------------------------------------------------------------------------
def valid_calls(case):
    """For each method the arguments of a valid call, with those that may not be changed at their front."""
    # outputs are zeros and not np.empty: what a spoiler casts to float32 must fit into it
    u, v = case.factors(4)
    u2, v2 = case.factors(3)
    s, p, m = case.singular_values(4), case.values, case.m
    n1, n2 = case.shape
    return {
        "gradient rows": ("gradient", (False,), [u, s, v, p, np.zeros((n1, 4), case.dtype), np.zeros(n1)]),
        "gradient columns": ("gradient", (True,), [v, s, u, p, np.zeros((n2, 4), case.dtype), np.zeros(n2)]),
        "sample": ("sample", (), [u, v, u2, v2, p.copy(), np.zeros(m, case.dtype)]),
        "times rows": ("times", (False,), [p, v, np.zeros((n1, 4), case.dtype)]),
        "times columns": ("times", (True,), [p, u, np.zeros((n2, 4), case.dtype)]),
        "to_columns": ("to_columns", (), [p, np.zeros(m, case.dtype)]),
    }


def refuses(call, *arguments) -> bool:
    try:
        call(*arguments)
    except (TypeError, ValueError):
        return True
    return False


def longer(a):
    return np.concatenate([a, a[:1]])


def shorter(a):
    return a[:-1].copy()


def wider(a):
    return np.concatenate([a, a[:, :1]], axis=1)


def narrower(a):
    return a[:, 1:].copy()


def no_columns(a):
    return a[:, :0].copy()


def transposed(a):
    return np.ascontiguousarray(a.T)


def column_order(a):
    return np.asfortranarray(a)


def strided(a):
    return np.repeat(a, 2, axis=0)[::2]


def backwards(a):
    return a[::-1]


def one_more_dimension(a):
    return a[None]


def other_precision(a):
    return a.astype({"f": "d", "d": "f", "F": "D", "D": "F"}[a.dtype.char])


def other_kind(a):
    return a.real.copy() if a.dtype.kind == "c" else a.astype(np.complex128)


def integers(a):
    return np.zeros(a.shape, np.int64)


def byte_swapped(a):
    return a.astype(a.dtype.newbyteorder())


def a_list(a):
    return a.tolist()


def nothing(a):
    return None


SPOILERS = [longer, shorter, strided, backwards, one_more_dimension, other_precision, other_kind, integers, byte_swapped]
SPOILERS += [a_list, nothing]
MATRIX_SPOILERS = [wider, narrower, no_columns, transposed, column_order]
CALLS = ["gradient rows", "gradient columns", "sample", "times rows", "times columns", "to_columns"]


@native_only
@pytest.mark.parametrize("call", CALLS)
def test_spoiled_arguments_are_refused(call, dtype):
    """Each argument in turn is spoiled in each way: an exception, no crash, and the pattern works on."""
    case = random_case(np.random.default_rng(8), (7, 9), dtype)
    pattern = _kernels.Pattern(case.indptr, case.indices, 9)
    method, fixed, arguments = valid_calls(case)[call]
    for k, good in enumerate(arguments):
        for spoil in SPOILERS + (MATRIX_SPOILERS if good.ndim == 2 else []):
            bad = [*arguments[:k], spoil(good), *arguments[k + 1 :]]
            assert refuses(getattr(pattern, method), *fixed, *bad), f"{method} took argument {k} although {spoil.__name__}"
    getattr(pattern, method)(*fixed, *arguments)


@native_only
@pytest.mark.parametrize("call", ["gradient rows", "gradient columns", "sample"])
def test_spoiled_weights_are_refused(call, dtype):
    case = random_case(np.random.default_rng(8), (7, 9), dtype)
    pattern = _kernels.Pattern(case.indptr, case.indices, 9)
    method, fixed, arguments = valid_calls(case)[call]
    more = {"weights": case.weights()}
    if method == "gradient":
        more["misfit"] = np.zeros(9 if fixed[0] else 7)

    def refused(changed):
        return refuses(lambda: getattr(pattern, method)(*fixed, *arguments, **(more | changed)))

    for name, good in more.items():
        spoilers = [spoil for spoil in SPOILERS if spoil is not nothing]
        assert all(refused({name: spoil(good)}) for spoil in (*spoilers, unaligned))
    assert not refused({})
    assert not refused({"weights": None, "misfit": None} if "misfit" in more else {"weights": None})
    assert "misfit" not in more or refused({"weights": None})  # there is no such sum without weights
    if "misfit" in more:
        more["misfit"].flags.writeable = False
        assert refused({})


@native_only
@pytest.mark.parametrize("call", [call for call in CALLS if call != "sample"])
def test_read_only_outputs_are_refused(call, dtype):
    case = random_case(np.random.default_rng(9), (7, 9), dtype)
    pattern = _kernels.Pattern(case.indptr, case.indices, 9)
    method, fixed, arguments = valid_calls(case)[call]
    for a in arguments[:-1] if method != "gradient" else arguments[:-2]:
        a.flags.writeable = False  # inputs may be
    getattr(pattern, method)(*fixed, *arguments)
    arguments[-1].flags.writeable = False
    with pytest.raises((TypeError, ValueError)):
        getattr(pattern, method)(*fixed, *arguments)


@native_only
def test_patterns_of_other_shapes_are_refused_by_every_pass():
    """Factors that belong to the transposed problem."""
    case = random_case(np.random.default_rng(10), (7, 9), np.float64)
    passes = case.observations(get_backend("native"))
    u, v = case.factors(3)
    s, p = case.singular_values(3), case.vector()
    calls = [
        lambda: passes.gradient_rows(v, s, u),
        lambda: passes.gradient_cols(v, s, u),
        lambda: passes.gradient_rows(u, s[:2], v),
        lambda: passes.sample(v, u),
        lambda: passes.sample(u, v[:, :2]),
        lambda: passes.line_sums(((u, v), (v, u)), p),
        lambda: passes.line_sums(((u, v), (u, v)), p[1:]),
        lambda: passes.times(p, u),
        lambda: passes.times(p[1:], v),
        lambda: passes.adjoint_times(p, v),
        lambda: passes.adjoint_times(p[1:], u),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError)):
            call()


@native_only
@pytest.mark.parametrize(
    ("rows", "cols", "n1", "n2", "size"),
    [
        ([0, 1], [0, -1], 2, 2, 2),
        ([-1, 1], [0, 0], 2, 2, 2),
        ([0, 2], [0, 0], 2, 2, 2),
        ([0, 1], [0, 2], 2, 2, 2),
        ([0, 2**40], [0, 0], 2, 2, 2),
        ([0, -(2**40)], [0, 0], 2, 2, 2),
        ([0, 1, 1], [0, 0], 2, 2, 3),
        ([0, 1], [0, 0, 1], 2, 2, 2),
        ([0, 1], [0, 0], 2, 2, 1),
        ([0, 1], [0, 0], 2, 2, 3),
        ([0, 1], [0, 0], -1, 2, 2),
        ([0, 1], [0, 0], 2, -1, 2),
        ([0, 1], [0, 0], 0, 0, 2),
        ([0, 1], [0, 0], 2**70, 2, 2),
    ],
)
def test_row_major_order_checks_its_arguments(rows, cols, n1, n2, size):
    with pytest.raises((TypeError, ValueError)):
        _kernels.row_major_order(np.array(rows, np.int64), np.array(cols, np.int64), n1, n2, np.empty(size, np.int64))


@native_only
@pytest.mark.parametrize("spoil", [strided, backwards, one_more_dimension, a_list, nothing, byte_swapped, np.float64, np.int16])
def test_row_major_order_checks_its_arrays(spoil):
    arrays = [np.array([0, 1, 1]), np.array([0, 0, 1]), np.empty(3, np.int64)]
    for k in range(3):
        rows, cols, order = [spoil(a) if i == k else a for i, a in enumerate(arrays)]
        with pytest.raises((TypeError, ValueError)):
            _kernels.row_major_order(rows, cols, 2, 2, order)


@native_only
def test_mixed_index_types_are_refused_by_the_kernel():
    with pytest.raises(TypeError):
        _kernels.row_major_order(np.zeros(3, np.int32), np.zeros(3, np.int64), 2, 2, np.empty(3, np.int64))


# -- arrays that are not aligned: contiguous, but at an odd address, as from numpy.frombuffer(..., offset=1) ---------------
# They are taken as they are, which is undefined behaviour (harmless on x86 so far; the sanitizer build ends there, hence
# run=False). The kernels should refuse them, and the Python side should copy them: numpy.ascontiguousarray does not.
def unaligned(a):
    raw = np.empty(a.nbytes + 1, np.uint8)[1:]
    raw[:] = np.frombuffer(a.tobytes(), np.uint8)
    out = raw.view(a.dtype).reshape(a.shape)
    assert out.flags.c_contiguous
    assert not out.flags.aligned
    return out


@native_only
@pytest.mark.parametrize("call", CALLS)
def test_unaligned_arrays_are_refused(call):
    case = random_case(np.random.default_rng(11), (7, 9), np.float64)
    pattern = _kernels.Pattern(case.indptr, case.indices, 9)
    method, fixed, arguments = valid_calls(case)[call]
    for k, good in enumerate(arguments):
        assert refuses(getattr(pattern, method), *fixed, *arguments[:k], unaligned(good), *arguments[k + 1 :])


@native_only
def test_unaligned_indices_are_copied():
    rows, cols = np.array([1, 0, 1]), np.array([0, 1, 1])
    order = get_backend("native").row_major_order(unaligned(rows), unaligned(cols), (2, 2))
    np.testing.assert_array_equal(order, [1, 0, 2])
    with pytest.raises((TypeError, ValueError)):
        _kernels.row_major_order(unaligned(rows), cols, 2, 2, np.empty(3, np.int64))


# n + 1 overflows in the counting sort: undefined behaviour, though std::vector refuses the size that comes out of it.
@native_only
@pytest.mark.parametrize("shape", [(2**63 - 1, 2), (2, 2**63 - 1)])
def test_row_major_order_refuses_a_shape_beyond_int32(shape):
    with pytest.raises(ValueError, match="2147483647"):
        _kernels.row_major_order(np.zeros(2, np.int64), np.zeros(2, np.int64), *shape, np.empty(2, np.int64))
