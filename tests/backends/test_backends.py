"""Choosing a backend, and the dense operations that every backend shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_close, assert_orthonormal, double, eps, host, random_array, random_point, real_dtype, seeds
from lorank.backends import get_backend, registry
from lorank.backends.orthonormal import first_pass
from machine import NUMPY_BACKENDS


# -- choice ------------------------------------------------------------------------------------------------------------
def test_backends_are_found_by_name(backend):
    assert get_backend(backend.name) is backend
    assert get_backend(backend) is backend


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="unknown backend 'cuda': choose one of 'native', 'numpy', 'torch'"):
        get_backend("cuda")


@pytest.fixture
def no_extension(monkeypatch):
    monkeypatch.setattr(registry, "_native", lambda: None)
    registry._best.cache_clear()
    yield
    registry._best.cache_clear()


def test_the_numpy_backend_replaces_a_missing_extension_with_a_warning(no_extension):
    with pytest.raises(ValueError, match="without its C\\+\\+ extension"):
        get_backend("native")
    with pytest.warns(RuntimeWarning, match="NumPy backend"):
        assert get_backend().name == "numpy"


# -- dense operations --------------------------------------------------------------------------------------------------
@given(n=st.integers(1, 30), a=st.integers(1, 5), b=st.integers(1, 5), seed=seeds)
def test_gram_concat_inner_norm(n, a, b, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    x, y, z = (random_array(rng, (n, k), dtype) for k in (a, b, a))
    scale = np.linalg.norm(x) * np.linalg.norm(y)
    a, b, c = (backend.asarray(k) for k in (x, y, z))
    assert_close(backend.gram(a, b), double(x).conj().T @ y, dtype, scale=scale)
    np.testing.assert_array_equal(host(backend.concat([a, b])), np.hstack([x, y]))
    product = (double(x).conj() * z).sum().real
    size = np.sqrt((np.abs(double(x)) ** 2).sum())
    assert_close(backend.inner(a, c), product, dtype, scale=np.linalg.norm(x) * np.linalg.norm(z))
    assert_close(backend.norm(a), size, dtype)
    assert_close(backend.norms([a, c]), [size, np.sqrt((np.abs(double(z)) ** 2).sum())], dtype)
    assert_close(
        backend.inners([(a, c), (a, a)]), [product, size**2], dtype, scale=np.linalg.norm(x) * np.linalg.norm(z) + size**2
    )


@given(n=st.integers(3, 30), r=st.integers(1, 4), k=st.integers(1, 3), seed=seeds)
def test_combinations(n, r, k, seed, dtype, backend):
    """``u a``, ``y - u a`` and ``u a + v b``, and what is computed from them before they are settled."""
    rng = np.random.default_rng(seed)
    u, v, y, (a, b) = (
        *(random_array(rng, (n, w), dtype) for w in (r, r, k)),
        (random_array(rng, (r, k), dtype) for _ in range(2)),
    )
    U, V, Y = (backend.asarray(x) for x in (u, v, y))
    made = [backend.product(U, a), backend.minus(Y, U, a), backend.plus(U, a, V, b)]
    expected = [double(u) @ a, double(y) - double(u) @ a, double(u) @ a + double(v) @ b]
    scale = np.linalg.norm(y) + np.linalg.norm(u) * np.linalg.norm(a) + np.linalg.norm(v) * np.linalg.norm(b)
    for one, dense in zip(made, expected, strict=True):
        assert_close(backend.gram(V, one), double(v).conj().T @ dense, dtype, scale=np.linalg.norm(v) * scale)
        assert_close(backend.inner(Y, one), (double(y).conj() * dense).sum().real, dtype, scale=np.linalg.norm(y) * scale)
        assert abs(backend.norm(one) ** 2 - np.linalg.norm(dense) ** 2) <= 100 * eps(dtype) * scale**2
        assert_close(-2.0 * one + Y, y - 2 * dense, dtype, scale=2 * scale)
    for one, dense in zip(backend.asarrays(*made), expected, strict=True):
        assert_close(one, dense, dtype, scale=scale)
        assert backend.dtype(one) == dtype


@given(n=st.integers(4, 30), w=st.integers(1, 3), k=st.integers(1, 3), seed=seeds)
def test_project_out(n, w, k, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    basis = random_point(rng, (n, n), w, dtype).U
    y = random_array(rng, (n, k), dtype)
    rest, part = backend.project_out(backend.asarray(basis), backend.asarray(y.copy()))
    scale = np.linalg.norm(y)
    assert_close(double(basis).conj().T @ double(rest), np.zeros((w, k)), dtype, scale=scale)
    assert_close(double(rest) + double(basis) @ double(part), double(y), dtype, scale=scale)


@pytest.mark.parametrize("dependent", [False, True])
@given(n=st.integers(9, 40), w=st.integers(1, 3), seed=seeds)
def test_a_basis_that_grows(n, w, dependent, seed, dtype, backend):
    """Three blocks, the last one mostly or all in the span of the first two; then a new beginning."""
    rng = np.random.default_rng(seed)
    basis = backend.basis(n, 3 * w, dtype)
    basis.append(backend.orthonormalize(backend.asarray(random_array(rng, (n, w), dtype))))
    for k in (1, 2):
        columns = host(basis.product(np.eye(k * w, dtype=dtype)))
        y = random_array(rng, (n, w), dtype)
        if k == 2:
            y = 1e-4 * y + columns @ random_array(rng, (2 * w, w), dtype)
            if dependent:
                y[:, 0] = columns[:, 0]
        scale = np.linalg.norm(y)
        rest, part = basis.project_out(backend.asarray(y))
        size = backend.norm(rest)
        rest = host(rest)
        assert_close(double(columns).conj().T @ double(rest), np.zeros((k * w, w)), dtype, scale=scale)
        assert_close(double(rest) + double(columns) @ double(part), double(y), dtype, scale=scale)
        assert abs(size - np.linalg.norm(rest)) <= 1e-2 * np.linalg.norm(rest) + 100 * eps(dtype) * scale
        factor = basis.extend(backend.asarray(rest.copy()))
        assert_close(double(basis.last) @ double(factor), double(rest), dtype, scale=scale)
        assert_orthonormal(host(basis.product(np.eye((k + 1) * w, dtype=dtype))), 200)
    p = np.linalg.qr(random_array(rng, (3 * w, w), np.result_type(dtype, np.float64)))[0].astype(dtype)
    whole = host(basis.product(np.eye(3 * w, dtype=dtype)))
    basis.restart(*backend.asarrays(basis.product(p)))
    assert_close(basis.last, double(whole) @ double(p), dtype)
    assert_close(basis.first(1), (double(whole) @ double(p))[:, :1], dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_long_sums_in_single_precision_have_the_digits_of_double(dtype):
    backend = get_backend("numpy")
    rng = np.random.default_rng(0)
    x, y = (random_array(rng, (10_001, 2), dtype) for _ in range(2))
    a, b = map(backend.asarray, (x, y))
    assert backend.norm(a) == pytest.approx(np.linalg.norm(double(x)), rel=1e-12)
    size = np.linalg.norm(double(x)) * np.linalg.norm(double(y))
    assert backend.inner(a, b) == pytest.approx(np.vdot(double(x), double(y)).real, abs=1e-12 * size)


def test_norm_does_not_overflow_in_single_precision(backend):
    assert backend.norm(backend.asarray(np.array([3e30, 4e30], np.float32))) == pytest.approx(5e30, rel=1e-6)
    assert backend.norm(backend.asarray(np.array([3e30 + 4e30j], np.complex64))) == pytest.approx(5e30, rel=1e-6)


def extend(backend, u, y):
    extended = backend.extend_basis(backend.asarray(u), backend.asarray(y))
    return None if extended is None else (host(*backend.asarrays(extended[0])), extended[1])


@given(n=st.integers(8, 40), r=st.integers(1, 4), spread=st.integers(0, 8), seed=seeds)
def test_extend_basis(n, r, spread, seed, dtype, backend):
    """Columns of very different lengths are no trouble: ``y = q k``, q orthonormal and orthogonal to u."""
    rng = np.random.default_rng(seed)
    u = random_point(rng, (n, n), r, dtype).U
    y = random_array(rng, (n, r), dtype)
    y = (y - u @ (u.conj().T @ y)) * np.logspace(0, -spread, r).astype(real_dtype(dtype))
    extended = extend(backend, u, y)
    if extended is None:  # too close to dependent, by chance
        assert np.linalg.cond(y / np.linalg.norm(y, axis=0)) > 20
        return
    q, k = extended
    assert q.dtype == k.dtype == dtype
    assert_orthonormal(np.hstack([u, q]))
    for column, expected in zip((double(q) @ k).T, double(y).T, strict=True):  # each relative to its own length
        assert_close(column, expected, dtype, 100, np.linalg.norm(expected))


@given(power=st.floats(0, 1.3), r=st.integers(2, 4), seed=seeds)
def test_extend_basis_gives_up_or_is_right(power, r, seed, dtype, backend):
    """Columns ever closer to dependent, up to where only rounding tells them apart: one Cholesky pass loses its accuracy on
    the way, the second makes up for it, until both would be wrong.
    """
    rng = np.random.default_rng(seed)
    u = random_point(rng, (20, 20), r, dtype).U
    y = random_array(rng, (20, 1), np.complex128 if dtype.kind == "c" else np.float64)
    y = (y + eps(dtype) ** power * random_array(rng, (20, r), y.dtype)).astype(dtype)
    y -= u @ (u.conj().T @ y)
    extended = extend(backend, u, y)
    if extended is None:
        assert power > 0.2
    else:
        assert_orthonormal(np.hstack([u, extended[0]]))
        assert_close(double(extended[0]) @ extended[1], double(y), dtype)


@pytest.mark.parametrize("part", [0.05, 0.5, 0.95])
def test_extend_basis_projects_u_out_of_y(part, dtype, backend):
    rng = np.random.default_rng(0)
    u, y = np.split(np.linalg.qr(random_array(rng, (30, 6), np.result_type(dtype, np.float64)))[0].astype(dtype), 2, axis=1)
    extended = extend(backend, u, (y + part * u[:, ::-1]).astype(dtype))
    if extended is None:
        assert part > 0.1
        return
    assert_orthonormal(np.hstack([u, extended[0]]))
    assert_close(double(extended[0]) @ extended[1], double(y), dtype)


@pytest.mark.parametrize("name", NUMPY_BACKENDS)
def test_extend_basis_takes_a_second_pass_where_columns_are_at_small_angles(name, dtype, monkeypatch):
    backend = get_backend(name)
    rng, gram, count = np.random.default_rng(0), type(backend).gram, []
    monkeypatch.setattr(type(backend), "gram", lambda self, a, b: count.append(1) or gram(self, a, b))
    u, y = np.split(np.linalg.qr(random_array(rng, (40, 6), np.result_type(dtype, np.float64)))[0].astype(dtype), 2, axis=1)
    for mix, grams in ((0.0, 2), (0.3, 2), (3.0, 4), (30.0, 4)):
        count.clear()
        mixed = (y + mix * y[:, :1]).astype(dtype)
        assert_orthonormal(np.hstack([u, extend(backend, u, mixed)[0]]))
        assert len(count) == grams, mix


@pytest.mark.parametrize("size", [1e-19, 1e-21, 1e-22, 5e-23, 3e-23, 1e-30, 1e16, 1e19, 1e30])
def test_extend_basis_of_numbers_whose_squares_leave_float32(size, backend):
    y = (np.random.default_rng(0).standard_normal((5000, 2)) * size).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # in NumPy's product
        extended = extend(backend, y[:, :0], y)
    if extended is None:
        assert not 1e-19 <= size <= 1e16
    else:
        assert_orthonormal(extended[0])
        assert_close(double(extended[0]) @ extended[1], double(y), np.float32, 100, size)


@pytest.mark.parametrize("bad", [np.inf, np.nan, 0.0, -1.0])
def test_first_pass_of_invalid_squares_is_none_without_warning(bad):
    with np.errstate(all="raise"):
        assert first_pass(np.array([[bad, 0.0], [0.0, 1.0]])) is None


@pytest.mark.parametrize("case", ["zero column", "repeated column", "nearly repeated", "nan", "infinite"])
def test_extend_basis_of_special_columns(case, dtype, backend):
    rng = np.random.default_rng(0)
    u = random_point(rng, (20, 20), 3, dtype).U
    y = random_array(rng, (20, 3), dtype)
    y -= u @ (u.conj().T @ y)
    if case == "zero column":
        y[:, 1] = 0
    elif case == "repeated column":
        y[:, 2] = y[:, 0]
    elif case == "nearly repeated":
        y[:, 2] = y[:, 0] * (1 + 4 * eps(dtype)) + (2 * eps(dtype)) * y[:, 1]
    else:
        y[0, 0] = np.nan if case == "nan" else np.inf
    with np.errstate(invalid="ignore"):
        extended = extend(backend, u, y)
    if case in ("zero column", "nan", "infinite"):
        assert extended is None
    elif extended is not None:
        assert_orthonormal(np.hstack([u, extended[0]]))
        assert_close(double(extended[0]) @ extended[1], double(y), dtype)


@given(n=st.integers(1, 30), b=st.integers(1, 8), deficient=st.booleans(), seed=seeds)
def test_orthonormalize_spans_the_columns(n, b, deficient, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    y = random_array(rng, (n, b), dtype)
    if deficient:
        y[:, -1] = y[:, 0]
    q = host(backend.orthonormalize(backend.asarray(y)))
    assert q.shape == (n, min(n, b))
    assert_orthonormal(q)
    assert_close(double(q) @ (double(q).conj().T @ y), double(y), dtype, scale=np.linalg.norm(y))


@given(n1=st.integers(1, 8), n2=st.integers(1, 8), seed=seeds)
def test_svd(n1, n2, seed, dtype, backend):
    a = random_array(np.random.default_rng(seed), (n1, n2), dtype)
    u, s, v = backend.svd(a)
    assert_orthonormal(u)
    assert_orthonormal(v)
    assert_close((double(u) * s) @ double(v).conj().T, double(a), dtype, scale=np.linalg.norm(a))
    assert (np.diff(s) <= 0).all()


def test_svd_of_nan_is_nan(dtype, backend):
    u, s, v = backend.svd(np.full((3, 2), np.nan, dtype))
    assert (u.shape, s.shape, v.shape) == ((3, 2), (2,), (2, 2))
    assert (u.dtype, s.dtype, v.dtype) == (dtype, real_dtype(dtype), dtype)
    assert all(np.isnan(a).all() for a in (u, s, v))


def test_svd_falls_back_to_gesvd(monkeypatch, backend):
    def give_up(*args, **options):
        raise np.linalg.LinAlgError("SVD did not converge")

    a = random_array(np.random.default_rng(1), (4, 3), np.complex128)
    monkeypatch.setattr(np.linalg, "svd", give_up)
    u, s, v = backend.svd(a)
    np.testing.assert_allclose((u * s) @ v.conj().T, a, atol=1e-13)


def test_inverse_and_diagonal(dtype, backend):
    rng = np.random.default_rng(2)
    a = random_array(rng, (4, 4), dtype)
    m = (a @ a.conj().T + 4 * np.eye(4)).astype(dtype)
    assert_close(double(backend.inverse(m)) @ m, np.eye(4), dtype, 500)
    assert np.isnan(backend.inverse(np.zeros((2, 2), dtype))).all()
    d = np.arange(1, 5).astype(real_dtype(dtype))
    np.testing.assert_array_equal(backend.add_diagonal(a.copy(), d), a + np.diag(d).astype(dtype))


def test_max_abs(dtype, backend):
    a = np.array([1, -3, 2], dtype)
    assert backend.max_abs(backend.asarray(a)) == 3
    if dtype.kind == "c":
        assert backend.max_abs(backend.asarray(a + np.array([0, 4j, 0], dtype))) == 5


def test_random_normal_fills_both_parts(dtype, backend):
    a = host(backend.random_normal(np.random.default_rng(3), (2000,), dtype))
    assert a.dtype == dtype
    parts = [a.real, a.imag] if dtype.kind == "c" else [a]
    for part in parts:
        assert abs(part.mean()) < 0.1
        assert abs(part.std() - 1) < 0.1
