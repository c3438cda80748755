"""The Riemannian gradient in a metric, against a dense projection built from the definition of the tangent space."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_close, dense_tangent, double, eps, host, random_array, random_point, random_tangent, seeds
from lorank.geometry import DenseWeight, DiagonalWeight, Identity, Tangent, Weights, riemannian_gradient

kinds = pytest.mark.parametrize("kind", ["identity", "diagonal", "dense"])


@st.composite
def sizes(draw):
    """``(n1, n2), rank``: also one row, full rank and n < 2 r."""
    n1, n2 = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    return (n1, n2), draw(st.integers(1, min(n1, n2)))


def random_weight(kind, rng, n, dtype, put=np.asarray):
    """A weight, and the same as a dense matrix in double precision."""
    w = np.exp(rng.uniform(-1, 1, n)).astype(np.finfo(dtype).dtype)
    if kind == "identity":
        return Identity(), np.eye(n)
    if kind == "diagonal":
        return DiagonalWeight(put(w)), np.diag(double(w))
    q = np.linalg.qr(random_array(rng, (n, n), np.result_type(dtype, np.float64)))[0]
    dense = (q * w) @ q.conj().T
    return DenseWeight(put(dense.astype(dtype)), put(np.linalg.inv(dense).astype(dtype))), dense


def cotangent(X, G):
    """What the geometry asks of a dense G."""
    GV, GhU = G @ host(X.V), G.conj().T @ host(X.U)
    return SimpleNamespace(GV=X.backend.asarray(GV), GhU=X.backend.asarray(GhU), core=host(X.U).conj().T @ GV)


class Case:
    """A point with weights; ``projection()`` is the dense twin, the weighted projection as one matrix acting on vec(Z)."""

    def __init__(self, kind, size, seed, dtype, backend):
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.shape, rank = size
        self.X = random_point(self.rng, self.shape, rank, dtype, backend)
        (left, self.L), (right, self.R) = (random_weight(kind, self.rng, n, dtype, backend.asarray) for n in self.shape)
        self.weights = Weights((left, right))
        # vec(U A + C V^H) in row-major order, for all A and for the C orthogonal to U: a basis of the tangent space
        U, V = double(self.X.U), double(self.X.V)
        outside = np.linalg.qr(U, mode="complete")[0][:, rank:]
        self.span = np.hstack([np.kron(U, np.eye(self.shape[1])), np.kron(outside, V.conj())])

    def projection(self) -> np.ndarray:
        # |Z|_W = |C^H Z D| for L = C C^H, R = D D^H, which turns the weighted projection into a plain one
        whiten = np.kron(np.linalg.cholesky(self.L).conj().T, np.linalg.cholesky(self.R).T)
        basis = np.linalg.qr(whiten @ self.span)[0]
        return np.linalg.solve(whiten, basis @ basis.conj().T @ whiten)

    def matrix(self):
        return random_array(self.rng, self.shape, self.dtype)

    def gradient(self, G) -> Tangent:
        return riemannian_gradient(self.X, cotangent(self.X, G), self.weights)

    def project(self, Z) -> np.ndarray:
        """The gradient for ``G = L Z R`` is the weighted projection of Z."""
        return dense_tangent(self.gradient((self.L @ Z @ self.R).astype(self.dtype)))

    def product(self, Z, Y):
        return np.vdot(self.L @ Z @ self.R, Y)

    def norm(self, Z) -> float:
        return float(np.sqrt(self.product(Z, Z).real))


@kinds
@given(size=sizes(), seed=seeds)
def test_equals_the_dense_projection(kind, size, seed, dtype, backend):
    case = Case(kind, size, seed, dtype, backend)
    G = case.matrix()
    Z = np.linalg.solve(case.L, double(G)) @ np.linalg.inv(case.R)  # L^-1 G R^-1
    assert_close(dense_tangent(case.gradient(G)).ravel(), case.projection() @ Z.ravel(), dtype, 200, np.linalg.norm(Z))


@kinds
@given(size=sizes(), seed=seeds)
def test_projection_is_idempotent(kind, size, seed, dtype, backend):
    case = Case(kind, size, seed, dtype, backend)
    once = case.project(case.matrix())
    assert_close(case.project(once), once, dtype, 200, np.linalg.norm(once))


@kinds
@given(size=sizes(), seed=seeds)
def test_projection_is_self_adjoint_in_the_weighted_product(kind, size, seed, dtype, backend):
    case = Case(kind, size, seed, dtype, backend)
    Z, Y = case.matrix(), case.matrix()
    one, other = case.product(case.project(Z), Y), case.product(Z, case.project(Y))
    assert_close(one, other, dtype, 200, case.norm(Z) * case.norm(Y))


@kinds
@given(size=sizes(), seed=seeds)
def test_projection_is_the_closest_tangent_vector(kind, size, seed, dtype, backend):
    case = Case(kind, size, seed, dtype, backend)
    Z = case.matrix()
    rest = double(Z) - case.project(Z)
    # the residual is orthogonal to every tangent direction
    products = case.span.conj().T @ (case.L @ rest @ case.R).ravel()
    assert_close(products, np.zeros_like(products), dtype, 200, np.linalg.norm(case.L @ Z @ case.R))
    # so that no tangent vector comes closer, however small the change and whatever its sign
    for length in (1e-2, -1e-2, 1.0, -1.0):
        eta = dense_tangent(random_tangent(case.rng, case.X))
        change = length * case.norm(Z) / case.norm(eta) * eta
        assert case.norm(rest + change) >= case.norm(rest) - 200 * eps(dtype) * case.norm(Z)


@kinds
@given(size=sizes(), seed=seeds)
def test_slope_is_the_weighted_square(kind, size, seed, dtype, backend):
    case = Case(kind, size, seed, dtype, backend)
    G = case.matrix()
    xi = case.gradient(G)
    slope = xi.inner(cotangent(case.X, G))
    expected = case.norm(dense_tangent(xi)) ** 2
    # rounding of all of L^-1 G R^-1, of which xi may be a small part
    ambient = np.linalg.norm(np.linalg.solve(case.L, double(G)) @ np.linalg.inv(case.R))
    assert_close(slope, expected, dtype, 200, np.linalg.norm(G) * ambient)


@given(size=sizes(), seed=seeds)
def test_tangent_vectors_are_in_normal_form(size, seed, dtype, backend):
    """``left V^H + U right^H - U core V^H``, sums, multiples, norms and slopes, all against dense."""
    rng = np.random.default_rng(seed)
    (n1, n2), r = size
    X = random_point(rng, (n1, n2), r, dtype, backend)
    left, right, core = (random_array(rng, shape, dtype) for shape in ((n1, r), (n2, r), (r, r)))
    xi = Tangent.project(X, backend.asarray(left), backend.asarray(right), core)
    U, V = double(X.U), double(X.V)
    expected = left @ V.conj().T + U @ double(right).conj().T - U @ core @ V.conj().T
    scale = np.linalg.norm(left) + np.linalg.norm(right) + np.linalg.norm(core)
    assert_close(dense_tangent(xi), expected, dtype, scale=scale)
    assert_close(xi.to_dense(), expected, dtype, scale=scale)
    assert_close(U.conj().T @ double(xi.Up), np.zeros((r, r)), dtype, scale=scale)
    assert_close(V.conj().T @ double(xi.Vp), np.zeros((r, r)), dtype, scale=scale)
    assert_close(xi.norm(), np.linalg.norm(expected), dtype, scale=scale)

    eta = random_tangent(rng, X)
    both = dense_tangent(2.5 * xi + -eta)
    assert_close(both, 2.5 * dense_tangent(xi) - dense_tangent(eta), dtype, scale=4 * scale + eta.norm())
    assert (2.5 * xi + -eta).M.dtype == dtype
    G = random_array(rng, (n1, n2), dtype)
    slope = xi.inner(cotangent(X, G))
    assert_close(slope, np.vdot(double(G), expected).real, dtype, scale=np.linalg.norm(G) * scale)


@given(seed=seeds)
def test_weights_apply_and_solve_undo_each_other(seed, dtype):
    rng = np.random.default_rng(seed)
    a = random_array(rng, (6, 3), dtype)
    for kind in ("identity", "diagonal", "dense"):
        weight, dense = random_weight(kind, rng, 6, dtype)
        assert_close(weight.apply(a), dense @ a, dtype)
        assert_close(dense @ weight.solve(a), double(a), dtype, 200)
