"""Numbers for index pairs in any order: entries of products, and their variances, against dense arrays."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from helpers import assert_close
from kernel_cases import SETS, native_only
from lorank.backends import get_backend
from lorank.backends.numpy_backend import NumpyBackend
from machine import _kernels


def case(k, m=300, seed=0):
    """Factors of 9 and 7 rows with random covariances, packed and whole, and pairs, some of them repeated."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((9, k)), rng.standard_normal((7, k))
    whole = []
    for n in (9, 7):
        a = rng.standard_normal((n, k, k + 1))
        whole.append(a @ a.transpose(0, 2, 1) / (k + 1))
    packed = [a[:, *np.triu_indices(k)].copy() for a in whole]
    return x, y, whole, packed, rng.integers(9, size=m), rng.integers(7, size=m)


def variances(x, y, S, T, i, j):
    return np.array([y[b] @ S[a] @ y[b] + x[a] @ T[b] @ x[a] + np.trace(S[a] @ T[b]) for a, b in zip(i, j, strict=True)])


def instruction_sets():
    return [pytest.param(name, marks=native_only) for name in SETS]


@pytest.fixture(params=instruction_sets())
def with_instruction_set(request):
    before = _kernels.instruction_set()
    _kernels.use_instruction_set(request.param)
    yield get_backend("native")
    _kernels.use_instruction_set(before)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 9, 17, 26])
def test_every_width_on_every_instruction_set(k, with_instruction_set):
    x, y, (S, T), packed, i, j = case(k)
    for dtype in (np.float32, np.float64):
        found = with_instruction_set.entries(x.astype(dtype), y.astype(dtype), i, j)
        assert found.dtype == dtype
        assert_close(found, (x @ y.T)[i, j], dtype, 20, scale=k)
    found = with_instruction_set.variances(x, packed[0], y, packed[1], i, j)
    assert_close(found, variances(x, y, S, T, i, j), np.float64, 100, scale=k**2)


@pytest.mark.parametrize("k", [1, 5])
def test_variances_against_matrices(k, backend):
    x, y, (S, T), packed, i, j = case(k, m=40)
    given = [backend.asarray(a) for a in (x, packed[0], y, packed[1])]
    found = backend.variances(*given, *(backend.asindex(a) for a in (i, j)))
    assert_close(backend.to_numpy(found), variances(x, y, S, T, i, j), np.float64, 1000, scale=k**2)


def test_variances_in_pieces(monkeypatch):
    x, y, (S, T), packed, i, j = case(3, m=50)
    monkeypatch.setattr("lorank.backends.protocol.GATHERED", 30)
    found = NumpyBackend().variances(x, packed[0], y, packed[1], i, j)
    assert_close(found, variances(x, y, S, T, i, j), np.float64, 1000, scale=9)
    assert len(NumpyBackend().variances(x, packed[0], y, packed[1], i[:0], j[:0])) == 0


@native_only
def test_bits_do_not_depend_on_the_number_of_threads():
    backend, (x, y, _, packed, i, j) = get_backend("native"), case(10, m=30_000)
    found = []
    for count in (1, 2, 3):
        with threadpool_limits(count, user_api="openmp"):
            found.append((backend.entries(x, y, i, j), backend.variances(x, packed[0], y, packed[1], i, j)))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@native_only
def test_indices_outside_are_wrapped_or_refused_as_by_numpy():
    backend, (x, y, _, packed, i, j) = get_backend("native"), case(4, m=10)
    np.testing.assert_allclose(backend.entries(x, y, i - 9, j), (x @ y.T)[i, j])
    for bad in (np.full(10, 9), np.full(10, -10)):
        with pytest.raises(IndexError):
            backend.entries(x, y, bad, j)
        with pytest.raises(IndexError):
            backend.variances(x, packed[0], y, packed[1], bad, j)
    assert len(backend.entries(x, y, i[:0], j[:0])) == 0


@native_only
def test_layouts_and_types():
    backend, (x, y, _, _, i, j) = get_backend("native"), case(6, m=20)
    expected = (x @ y.T)[i, j]
    for left in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        np.testing.assert_allclose(backend.entries(left, y, i.astype(np.int32), j.astype(np.uint8)), expected)
    np.testing.assert_allclose(backend.entries(x + 1j, y, i, j), expected + 1j * y.sum(1)[j])
    assert backend.entries(x.astype(np.float32), y, i, j).dtype == np.float64


@native_only
def test_arguments_are_checked():
    x, y, _, (S, T), i, j = case(4, m=10)
    out = np.empty(10)
    with pytest.raises(ValueError, match="width"):
        _kernels.entries(x, np.ones((7, 3)), i, j, out)
    with pytest.raises(ValueError, match="length"):
        _kernels.entries(x, y, i[:-1], j, out)
    with pytest.raises(ValueError, match="triangle"):
        _kernels.variances(x, S[:, 1:].copy(), y, T, i, j, out)
    with pytest.raises(ValueError, match="triangle"):
        _kernels.variances(x, S, y, T[1:], i, j, out)
    for bad in (x[:, ::2], x.astype(np.float32), x[0]):
        with pytest.raises(TypeError):
            _kernels.entries(bad, y, i, j, out)
    out.flags.writeable = False
    with pytest.raises(TypeError):
        _kernels.entries(x, y, i, j, out)


@native_only
def test_column_means_by_threads():
    backend, a = get_backend("native"), np.random.default_rng(0).standard_normal((5000, 12)) + 3
    np.testing.assert_allclose(backend.column_means(a), a.mean(0), rtol=1e-13)
    np.testing.assert_allclose(backend.column_means(a[:50]), a[:50].mean(0), rtol=1e-13)
    with threadpool_limits(2, user_api="openmp"):
        first = backend.column_means(a)
    np.testing.assert_array_equal(first, backend.column_means(a))
