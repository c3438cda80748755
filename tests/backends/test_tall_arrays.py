"""Products of tall arrays in chunks of rows that threads share, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from helpers import assert_close
from lorank import _kernels
from lorank.backends import get_backend, native
from lorank.backends.numpy_backend import NumpyBackend

SHAPES = [(1, 1, 1), (1023, 3, 5), (1024, 10, 10), (1025, 7, 1), (5000, 10, 20), (3001, 33, 4)]


@pytest.fixture(autouse=True)
def _share_always(monkeypatch):
    monkeypatch.setattr(native, "TALL", 1)


def arrays(shape, dtype, seed=0):
    n, p, q = shape
    rng = np.random.default_rng(seed)
    make = lambda *s: rng.standard_normal(s).astype(dtype)  # noqa: E731
    return make(n, p), make(n, q), make(p, q), make(q, q)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_against_numpy(shape, dtype):
    backend, plain = get_backend("native"), NumpyBackend()
    u, y, a, b = arrays(shape, dtype)
    before = [x.copy() for x in (u, y, a, b)]
    for name, given in (("gram", (u, y)), ("product", (u, a)), ("minus", (y, u, a)), ("plus", (u, a, y, b))):
        found = getattr(backend, name)(*given)
        expected = getattr(plain, name)(*(x.astype(np.float64) for x in given))
        assert found.dtype == dtype
        assert found.flags.c_contiguous
        assert_close(found, expected, dtype, 20, scale=np.sqrt(shape[0]) * 10)
    for x, old in zip((u, y, a, b), before, strict=True):
        np.testing.assert_array_equal(x, old)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_of_a_wider_array(dtype, monkeypatch):
    backend, (wide, other, a, b) = get_backend("native"), arrays((3000, 9, 7), dtype)
    u, v = wide[:, 2:6], other[:, :3]
    for name in ("gram", "product", "plus"):  # by the kernels, that is
        monkeypatch.setattr(NumpyBackend, name, None)
    assert_close(backend.gram(u, v), u.astype(float).T @ v, dtype, 20, scale=500)
    assert_close(backend.product(u, a[:4]), u.astype(float) @ a[:4], dtype, 20, scale=10)
    assert_close(backend.minus(other, u, a[:4]), other - u.astype(float) @ a[:4], dtype, 20, scale=10)
    assert_close(backend.plus(u, a[:4], v, b[:3]), u.astype(float) @ a[:4] + v @ b[:3], dtype, 20, scale=10)


def test_qr_is_safe_where_columns_are_dependent():
    backend = get_backend("native")
    a, *_ = arrays((4000, 5, 1), np.float64)
    for columns in (a, a[:, [0, 1, 0]], a * np.logspace(0, -200, 5), 0 * a, a @ (np.ones((5, 5)) + 1e-9 * np.eye(5))):
        q, k = backend.qr(np.ascontiguousarray(columns))
        np.testing.assert_allclose(q.T @ q, np.eye(columns.shape[1]), atol=1e-13)
        np.testing.assert_allclose(q @ k, columns, atol=1e-13 * max(np.linalg.norm(columns), 1e-300))


def test_bits_do_not_depend_on_the_number_of_threads():
    backend = get_backend("native")
    u, y, a, b = arrays((9000, 10, 12), np.float64)
    found = []
    for count in (1, 2, 3):
        with threadpool_limits(1, user_api="blas"), threadpool_limits(count, user_api="openmp"):
            found.append((backend.gram(u, y), backend.minus(y, u, a), backend.plus(u, a, y, b)))
    for other in found[1:]:
        for x, z in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, z)


def test_other_arrays_are_left_to_numpy():
    backend = get_backend("native")
    u, y, a, _ = arrays((2000, 4, 4), np.float64)
    odd = np.zeros(2000, [("a", "f8", 4), ("b", "i4")])["a"]  # rows 36 bytes apart
    odd[...] = u
    for left in (u[:, ::2], u[::-1], np.asfortranarray(u), u + 1j, u.astype(np.float32), u[:, :0], odd):
        np.testing.assert_allclose(backend.gram(left, y), left.conj().T @ y, rtol=1e-5, atol=1e-3)
        np.testing.assert_allclose(backend.product(left, a[: left.shape[1]]), left @ a[: left.shape[1]], rtol=1e-5, atol=1e-5)
    for base in (y[:, ::-1], np.asfortranarray(y), np.hstack([y, y])[:, :4]):
        np.testing.assert_allclose(backend.minus(base, u, a), base - u @ a, atol=1e-12)
    strided = a[::-1].T
    np.testing.assert_allclose(backend.minus(y, u, strided), y - u @ strided, atol=1e-12)
    assert backend.product(u, a[:, :0]).shape == (2000, 0)


def test_arguments_are_checked():
    u, y, a, b = arrays((50, 3, 4), np.float64)
    gemm, out = native._blas("d"), np.empty((50, 4))
    none, small = np.empty((50, 0)), np.empty((0, 4))
    _kernels.combine(gemm, y, 1.0, u, a, none, small, out)
    np.testing.assert_allclose(out, y + u @ a, atol=1e-13)
    for bad in (
        (gemm, y[:-1], 1.0, u, a, none, small, out),
        (gemm, y, 1.0, u[:-1], a, none, small, out),
        (gemm, y, 1.0, u, a[:-1], none, small, out),
        (gemm, y, 1.0, u, a, y, b[:-1], out),
        (gemm, y, 1.0, u, a, none, small, np.empty((50, 3))),
        (gemm, y, 1.0, none, small, none, small, out),
        (gemm, y, 1.0, u.astype(np.float32), a, none, small, out),
        (None, y, 1.0, u, a, none, small, out),
        ("dgemm", y, 1.0, u, a, none, small, out),
    ):
        with pytest.raises((ValueError, TypeError)):
            _kernels.combine(*bad)
    for bad in ((gemm, u[:, ::2], y, np.empty((2, 4))), (gemm, u, y[::-1], np.empty((3, 4)))):
        with pytest.raises(ValueError, match="side by side"):
            _kernels.gram(*bad)
    for bad in ((gemm, u, y[:-1], np.empty((3, 4))), (gemm, u, y, np.empty((4, 3))), (gemm, none, y, small), (0, u, y, a)):
        with pytest.raises((ValueError, TypeError)):
            _kernels.gram(*bad)
