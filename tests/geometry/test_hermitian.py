"""Hermitian points and vectors, which hold one factor for both sides: against the two-sided formulas and against dense."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import (
    assert_close,
    assert_orthonormal,
    dense_point,
    dense_tangent,
    double,
    eps,
    host,
    random_array,
    random_point,
    random_problem,
    random_tangent,
    real_dtype,
    seeds,
)
from lorank import metrics
from lorank.geometry import (
    FIXED_RANK,
    DenseWeight,
    DiagonalWeight,
    FixedRank,
    FixedRankTransport,
    Identity,
    Tangent,
    Weights,
    retract,
    riemannian_gradient,
)
from lorank.phase import PhaseRetrieval


@st.composite
def sizes(draw):
    """``n, rank``: also one row, full rank and n < 2 r."""
    rank = draw(st.integers(1, 4))
    return draw(st.integers(rank, 10)), rank


def hermitian_point(rng, n, rank, dtype, backend=None, s=None) -> FixedRank:
    X = random_point(rng, (n, n), rank, dtype, backend, s)
    return FixedRank(X.U, X.s, X.U, backend)


def hermitian_tangent(rng, X) -> Tangent:
    a = X.backend.asarray(random_array(rng, X.U.shape, X.dtype))
    return Tangent.project(X, a, a)


def two_sided(X) -> FixedRank:
    """The same matrix as a point that does not know it is Hermitian."""
    return FixedRank(X.U, X.s, X.backend.copy(X.U), X.backend)


def two_sided_tangent(xi, X=None) -> Tangent:
    return Tangent(two_sided(xi.X) if X is None else X, xi.M, xi.Up, 1.0 * xi.Up)


def random_hermitian(rng, n, dtype) -> np.ndarray:
    a = random_array(rng, (n, n), dtype)
    return a + a.conj().T


def assert_hermitian(a, dtype, factor=50.0) -> None:
    assert_close(a, a.conj().T, dtype, factor, scale=np.abs(a).max(initial=0))


def one_weight(kind, rng, n, dtype, backend):
    w = np.exp(rng.uniform(-1, 1, n)).astype(real_dtype(dtype))
    if kind == "identity":
        return Identity()
    if kind == "diagonal":
        return DiagonalWeight(backend.asarray(w))
    q = np.linalg.qr(random_array(rng, (n, n), np.result_type(dtype, np.float64)))[0]
    return DenseWeight(*(backend.asarray((a @ q.conj().T).astype(dtype)) for a in (q * w, q / w)))


def positive_part(W, rank):
    """The best approximation of rank ``rank`` among positive semidefinite matrices, and the eigenvalues from the top."""
    values, vectors = np.linalg.eigh(W)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = np.maximum(values[:rank], 0)
    return (vectors[:, :rank] * kept) @ vectors[:, :rank].conj().T, values


# -- points ------------------------------------------------------------------------------------------------------------
@given(size=sizes(), seed=seeds)
def test_semidefinite(size, seed, dtype, backend):
    n, width = size
    factor = random_array(np.random.default_rng(seed), (n, width), dtype)
    dense = double(factor) @ double(factor).conj().T
    scale = np.linalg.norm(dense)
    for rank in {width, (width + 1) // 2}:
        X = FixedRank.semidefinite(backend.asarray(factor), None if rank == width else rank, backend)
        assert X.hermitian
        assert X.V is X.U
        assert (X.shape, X.rank, X.dtype, X.real_dtype) == ((n, n), rank, dtype, real_dtype(dtype))
        assert_orthonormal(X.U)
        best, values = positive_part(dense, rank)
        assert_close(X.s, values[:rank], dtype, scale=scale)
        off = np.linalg.norm(dense_point(X) - dense)
        assert off <= np.linalg.norm(best - dense) + 100 * eps(dtype) * scale


def test_semidefinite_from_a_wide_factor(dtype):
    factor = random_array(np.random.default_rng(0), (3, 5), dtype)
    X = FixedRank.semidefinite(factor)
    assert X.shape == (3, 3)
    assert_close(dense_point(X), double(factor) @ double(factor).conj().T, dtype)


def test_hermitian_means_one_factor_and_not_equal_ones():
    X = hermitian_point(np.random.default_rng(0), 6, 2, np.complex128)
    assert X.hermitian
    assert X.H.hermitian
    assert not two_sided(X).hermitian
    assert not FixedRank.zero((4, 4), 1, np.float64).hermitian
    np.testing.assert_allclose(X.to_dense(), X.to_dense().conj().T, atol=1e-15)


@pytest.mark.parametrize("hermitian", [True, False])
def test_padding_keeps_matrix_and_kind(hermitian, dtype, backend):
    rng = np.random.default_rng(1)
    X = hermitian_point(rng, 7, 2, dtype, backend) if hermitian else random_point(rng, (7, 7), 2, dtype, backend)
    padded = X.padded(5)
    assert padded.rank == 5
    assert padded.hermitian == hermitian
    assert backend.dtype(padded.U) == backend.dtype(padded.V) == dtype
    assert_orthonormal(padded.U)
    assert_orthonormal(padded.V)
    np.testing.assert_array_equal(host(padded.s)[2:], 0)
    assert_close(dense_point(padded), dense_point(X), dtype)
    assert X.padded(2) is X


# -- tangent vectors ---------------------------------------------------------------------------------------------------
@given(size=sizes(), seed=seeds)
def test_tangent_arithmetic_stays_hermitian(size, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    X = hermitian_point(rng, *size, dtype, backend)
    xi, eta = hermitian_tangent(rng, X), hermitian_tangent(rng, X)
    scale = 3 * (xi.norm() + eta.norm())
    expected = 2.5 * dense_tangent(xi) - dense_tangent(eta)
    both = 2.5 * xi + -eta
    for vector in (xi, 2.5 * xi, -eta, both, 2.5 * xi - eta):
        assert vector.hermitian
        assert vector.Vp is vector.Up
    assert_close(dense_tangent(2.5 * xi - eta), expected, dtype, scale=scale)
    assert both.M.dtype == backend.dtype(both.Up) == dtype
    assert_close(dense_tangent(both), expected, dtype, scale=scale)
    assert_close(both.to_dense(), expected, dtype, scale=scale)
    assert_close(both.norm(), np.linalg.norm(expected), dtype, scale=scale)
    assert_hermitian(dense_tangent(both), dtype)
    assert_close(double(X.U).conj().T @ double(xi.Up), np.zeros((X.rank, X.rank)), dtype, scale=scale)


def test_project_against_the_two_sided_formula(dtype, backend):
    rng = np.random.default_rng(2)
    X = hermitian_point(rng, 8, 3, dtype, backend)
    a, core = backend.asarray(random_array(rng, (8, 3), dtype)), random_hermitian(rng, 3, dtype)
    one, other = Tangent.project(X, a, a, core), Tangent.project(two_sided(X), a, backend.copy(a), core)
    assert one.hermitian
    assert not other.hermitian
    assert_close(dense_tangent(one), dense_tangent(other), dtype)
    # two factors that are equal but not one and the same make no such promise
    assert not Tangent.project(X, a, backend.copy(a), core).hermitian
    assert_close(dense_tangent(Tangent.project(X, a, backend.copy(a), core)), dense_tangent(other), dtype)


def test_a_hermitian_vector_and_another_make_another(dtype, backend):
    rng = np.random.default_rng(3)
    X = hermitian_point(rng, 8, 2, dtype, backend)
    xi, eta = hermitian_tangent(rng, X), random_tangent(rng, X)
    for vector, sign in ((xi + eta, 1), (eta + xi, 1), (xi + -eta, -1), (xi - eta, -1)):
        assert not vector.hermitian
        assert_close(dense_tangent(vector), dense_tangent(xi) + sign * dense_tangent(eta), dtype)


def test_slope(dtype, backend):
    rng = np.random.default_rng(4)
    X = hermitian_point(rng, 8, 3, dtype, backend)
    xi, G = hermitian_tangent(rng, X), random_hermitian(rng, 8, dtype)
    product = backend.asarray(G @ host(X.U))
    slope = xi.inner(SimpleNamespace(GV=product, GhU=product, core=backend.gram(X.U, product)))
    assert_close(slope, np.vdot(double(G), dense_tangent(xi)).real, dtype, scale=np.linalg.norm(G) * xi.norm())


def test_bases_are_computed_once(backend):
    rng = np.random.default_rng(5)
    xi = hermitian_tangent(rng, hermitian_point(rng, 9, 2, np.float64, backend))
    Q2, K2, Q1, K1 = xi.bases
    assert Q1 is Q2
    assert K1 is K2
    np.testing.assert_allclose(host(Q2) @ K2, host(xi.Up), atol=1e-14)


# -- the gradient ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["identity", "diagonal", "dense"])
@given(size=sizes(), seed=seeds)
def test_gradient_equals_the_two_sided_one(kind, size, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    n, rank = size
    X, G = hermitian_point(rng, n, rank, dtype, backend), random_hermitian(rng, n, dtype)
    weight = one_weight(kind, rng, n, dtype, backend)
    product = backend.asarray(G @ host(X.U))
    xi = riemannian_gradient(
        X, SimpleNamespace(GV=product, GhU=product, core=backend.gram(X.U, product)), Weights((weight, weight))
    )
    Y = two_sided(X)
    general = riemannian_gradient(
        Y, SimpleNamespace(GV=product, GhU=backend.copy(product), core=backend.gram(Y.U, product)), Weights((weight, weight))
    )
    scale = 10 * np.linalg.norm(G)
    assert xi.hermitian
    assert not general.hermitian
    assert xi.M.dtype == backend.dtype(xi.Up) == dtype
    assert_close(dense_tangent(xi), dense_tangent(general), dtype, scale=scale)
    assert_close(dense_tangent(xi), dense_tangent(xi).conj().T, dtype, scale=scale)


@pytest.mark.parametrize("other", ["cotangent", "weights"])
def test_gradient_of_what_is_not_hermitian_is_two_sided(other, dtype, backend):
    """A gradient or a metric that is not Hermitian leads away from Hermitian vectors, also at a Hermitian point."""
    rng = np.random.default_rng(6)
    X = hermitian_point(rng, 8, 2, dtype, backend)
    weights = [one_weight("diagonal", rng, 8, dtype, backend) for _ in range(2)]
    G = random_array(rng, (8, 8), dtype) if other == "cotangent" else random_hermitian(rng, 8, dtype)
    pair = Weights((weights[0], weights[0] if other == "cotangent" else weights[1]))
    GV = backend.asarray(G @ host(X.V))
    GhU = backend.asarray(G.conj().T @ host(X.U)) if other == "cotangent" else GV
    xi = riemannian_gradient(X, SimpleNamespace(GV=GV, GhU=GhU, core=backend.gram(X.U, GV)), pair)
    expected = riemannian_gradient(
        two_sided(X), SimpleNamespace(GV=GV, GhU=backend.copy(GhU), core=backend.gram(X.U, GV)), pair
    )
    assert not xi.hermitian
    assert_close(dense_tangent(xi), dense_tangent(expected), dtype)


# -- transport ---------------------------------------------------------------------------------------------------------
@given(size=sizes(), seed=seeds)
def test_transport(size, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    X, Y = (hermitian_point(rng, *size, dtype, backend) for _ in range(2))
    xi = hermitian_tangent(rng, X)
    moved = FixedRankTransport(xi.X, Y).vector(xi)
    Z, P = dense_tangent(xi), double(Y.U) @ double(Y.U).conj().T
    assert moved.hermitian
    assert moved.X is Y
    assert_close(dense_tangent(moved), P @ Z + Z @ P - P @ Z @ P, dtype, scale=xi.norm())
    general = FixedRankTransport(two_sided(xi.X), two_sided(Y)).vector(two_sided_tangent(xi))
    assert not general.hermitian
    assert_close(dense_tangent(moved), dense_tangent(general), dtype, scale=xi.norm())


def test_transport_between_kinds(dtype, backend):
    """A vector that is not Hermitian, or a point that is not, and the result is neither: but right."""
    rng = np.random.default_rng(7)
    X, Y = (hermitian_point(rng, 8, 2, dtype, backend) for _ in range(2))
    P = double(Y.U) @ double(Y.U).conj().T
    for xi, foot in ((random_tangent(rng, X), Y), (hermitian_tangent(rng, X), two_sided(Y))):
        moved, Z = FixedRankTransport(xi.X, foot).vector(xi), dense_tangent(xi)
        assert not moved.hermitian
        assert_close(dense_tangent(moved), P @ Z + Z @ P - P @ Z @ P, dtype)


# -- the retraction ----------------------------------------------------------------------------------------------------
def assert_retracts(xi, alpha, factor=100.0) -> FixedRank:
    """``retract(xi, alpha)`` is the best positive semidefinite approximation of rank r to the dense ``X + alpha xi``."""
    Y, dtype, rank = retract(xi, alpha), xi.X.dtype, xi.X.rank
    W = dense_point(xi.X) + alpha * dense_tangent(xi)
    expected, values = positive_part((W + W.conj().T) / 2, rank)
    scale = xi.X.norm() + abs(alpha) * xi.norm()
    assert Y.hermitian
    assert (Y.dtype, Y.real_dtype) == (dtype, real_dtype(dtype))
    assert_orthonormal(Y.U)
    assert (Y.s >= 0).all()
    assert (np.diff(host(Y.s)) <= 0).all()
    assert_close(Y.s, np.maximum(values[:rank], 0), dtype, factor, scale)
    off = np.linalg.norm(dense_point(Y) - W)
    assert off <= np.linalg.norm(expected - W) + factor * eps(dtype) * scale
    gap = values[rank - 1] - (values[rank] if rank < len(values) else 0.0)
    if gap > 0.05 * scale:
        assert_close(dense_point(Y), expected, dtype, factor * scale / gap, scale)
    return Y


@given(size=sizes(), seed=seeds, alpha=st.sampled_from([-3.0, -0.3, 0.0, 1e-3, 1.0]))
def test_retraction_on_both_paths(size, seed, alpha, dtype, backend):
    rng = np.random.default_rng(seed)
    xi = hermitian_tangent(rng, hermitian_point(rng, *size, dtype, backend))
    scale = xi.X.norm() + abs(alpha) * xi.norm()
    one = assert_retracts(xi, alpha)
    xi.bases = None  # Householder, forced
    other = assert_retracts(xi, alpha)
    assert_close(one.s, double(other.s), dtype, scale=scale)


@pytest.mark.parametrize("rank", [1, 3])
def test_a_short_step_equals_the_two_sided_one(rank, dtype, backend):
    """While X + alpha xi stays positive on the leading directions, the truncated SVD is the same matrix."""
    rng = np.random.default_rng(8)
    xi = hermitian_tangent(rng, hermitian_point(rng, 12, rank, dtype, backend))
    alpha = 0.1 / xi.norm()
    assert xi.bases is not None  # the fast path
    general = retract(two_sided_tangent(xi), alpha)
    assert not general.hermitian
    assert_close(dense_point(retract(xi, alpha)), dense_point(general), dtype)
    xi.bases = None
    assert_close(dense_point(retract(xi, alpha)), dense_point(general), dtype)


@pytest.mark.parametrize("fast", [True, False])
def test_negative_eigenvalues_are_dropped(fast, dtype, backend):
    """A step that overshoots: the truncated SVD would keep the negative eigenvalue, which is the largest in size."""
    rng = np.random.default_rng(9)
    X = hermitian_point(rng, 9, 2, dtype, backend)
    Up = 1e-3 * hermitian_tangent(rng, X).Up
    xi = Tangent(X, np.diag([-5.0, 0.0]).astype(dtype), Up, Up)
    if not fast:
        xi.bases = None
    assert (xi.bases is None) != fast
    Y = assert_retracts(xi, 1.0)
    assert retract(two_sided_tangent(xi), 1.0).s[0] > 2.9
    assert Y.s[0] < 1.1


def test_a_step_that_leaves_nothing_gives_zero(dtype, backend):
    X = hermitian_point(np.random.default_rng(10), 6, 1, dtype, backend)
    nothing = 0 * X.U
    Y = retract(Tangent(X, np.diag(host(X.s)).astype(dtype), nothing, nothing), -3.0)
    assert Y.hermitian
    assert_orthonormal(Y.U)
    assert not Y.s.any()


def repeated_column(rng, Up):
    Up[:, -1] = Up[:, 0]


def zero_column(rng, Up):
    Up[:, 0] = 0


def zeros(rng, Up):
    Up[:] = 0


def nearly_dependent(rng, Up):
    Up[:] = Up[:, :1] + 4 * eps(Up.dtype) * random_array(rng, Up.shape, Up.dtype)


@pytest.mark.parametrize("change", [repeated_column, zero_column, zeros, nearly_dependent])
@given(size=sizes(), seed=seeds)
def test_rank_deficient_vectors(change, size, seed, dtype, backend):
    rng = np.random.default_rng(seed)
    X = hermitian_point(rng, *size, dtype, backend)
    Up = host(hermitian_tangent(rng, X).Up).copy()
    change(rng, Up)
    Up = backend.asarray(Up)
    xi = Tangent(X, random_hermitian(rng, X.rank, dtype), Up, Up)
    if change in (zero_column, zeros):
        assert xi.bases is None
    assert_retracts(xi, -0.7)


@pytest.mark.parametrize("fast", [True, False])
def test_not_a_number_comes_back_as_such(fast, backend):
    """Solvers look at the residual: nothing may raise on the way."""
    rng = np.random.default_rng(11)
    xi = hermitian_tangent(rng, hermitian_point(rng, 6, 2, np.float64, backend))
    xi.M[0, 0] = np.nan
    if not fast:
        xi.bases = None
    assert not retract(xi, 1.0).is_finite()


# -- eigenvalues -------------------------------------------------------------------------------------------------------
def test_eigh(dtype, backend):
    a = random_hermitian(np.random.default_rng(12), 7, dtype)
    values, vectors = backend.eigh(a)
    assert (np.diff(values) <= 0).all()
    assert (values.dtype, vectors.dtype) == (real_dtype(dtype), dtype)
    assert_orthonormal(vectors)
    assert_close((double(vectors) * double(values)) @ double(vectors).conj().T, double(a), dtype)


def test_eigh_never_raises(dtype, backend, monkeypatch):
    assert np.isnan(backend.eigh(np.full((3, 3), np.nan, dtype))[0]).all()

    def fail(a):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", fail)
    values, vectors = backend.eigh(np.eye(3, dtype=dtype))
    assert np.isnan(values).all()
    assert np.isnan(vectors).all()
    assert (values.dtype, vectors.dtype, vectors.shape) == (real_dtype(dtype), dtype, (3, 3))


# -- metrics -----------------------------------------------------------------------------------------------------------
def phase_gradients(dtype, backend, count=3):
    """Gradients of phase retrieval at Hermitian points, each with its dense twin."""
    rng = np.random.default_rng(13)
    A = random_array(rng, (30, 6), dtype)
    problem = PhaseRetrieval(A, rng.random(30).astype(real_dtype(dtype)), backend=backend)
    pairs = []
    for _ in range(count):
        X = hermitian_point(rng, 6, 1, dtype, backend)
        d = (np.abs(double(A) @ double(X.U)) ** 2) @ double(X.s) - host(problem.y)
        pairs.append((problem.gradient(X), double(A).conj().T @ (d[:, None] * double(A))))
    return pairs


def test_one_weight_for_both_sides_of_a_hermitian_gradient(dtype, backend):
    epsilon, row_squares = 0.3, 0
    row_column, shampoo = metrics.RowColumn(metrics.Fixed(epsilon)), metrics.Shampoo(metrics.Fixed(epsilon))
    memory = None
    for G, dense in phase_gradients(dtype, backend):
        squares = (np.abs(dense) ** 2).sum(1)
        weights, _ = row_column.weights(G, row_column.start(G))
        assert weights.mode(1) is weights.mode(0)
        assert backend.dtype(weights.mode(0).w) == real_dtype(dtype)
        assert_close(weights.mode(0).w, (epsilon + squares) ** 0.25, dtype)
        assert_close(weights.high, np.sqrt(epsilon + squares.max()), dtype)
        memory = shampoo.start(G) if memory is None else memory
        weights, memory = shampoo.weights(G, memory)
        row_squares = row_squares + squares
        assert weights.mode(1) is weights.mode(0)
        assert_close(weights.mode(0).w, (epsilon + row_squares) ** 0.25, dtype)
        assert riemannian_gradient(G.X, G, weights).hermitian
    canonical, _ = metrics.Canonical().weights(G, None)
    assert canonical.mode(1) is canonical.mode(0)


def test_two_weights_where_a_square_gradient_is_not_hermitian(dtype, backend):
    """Shampoo's memory starts with one array of zeros for both sides: they must part at once."""
    rng = np.random.default_rng(14)
    problem = random_problem(rng, (6, 6), dtype, backend)
    shampoo, epsilon = metrics.Shampoo(metrics.Fixed(0.3)), 0.3
    memory, rows, cols = None, 0, 0
    for _ in range(3):
        G = problem.gradient(random_point(rng, (6, 6), 2, dtype, backend))
        memory = shampoo.start(G) if memory is None else memory
        weights, memory = shampoo.weights(G, memory)
        rows, cols = rows + G.squared_norms[0], cols + G.squared_norms[1]
        assert weights.mode(1) is not weights.mode(0)
        assert_close(weights.mode(0).w, (epsilon + rows) ** 0.25, dtype)
        assert_close(weights.mode(1).w, (epsilon + cols) ** 0.25, dtype)
    weights, _ = metrics.RowColumn(metrics.Fixed(0.3)).weights(G, 0.3)
    assert weights.mode(1) is not weights.mode(0)
    assert_close(weights.mode(1).w, (epsilon + G.squared_norms[1]) ** 0.25, dtype)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_checked_point_stays_hermitian(order):
    rng = np.random.default_rng(0)
    U = np.asarray(np.linalg.qr(rng.standard_normal((12, 2)) + 1j * rng.standard_normal((12, 2)))[0], order=order)
    X = FixedRank(U, np.array([2.0, 1.0]), U)
    for dtype in (np.complex128, np.complex64):
        found = FIXED_RANK.check_point(X, (12, 12), 2, dtype, X.backend)
        assert found.hermitian
        assert found.dtype == dtype
    start = SimpleNamespace(U=U, s=X.s, V=U)
    assert FIXED_RANK.check_point(FixedRank(start.U, start.s, start.V), (12, 12), 2, np.complex128, X.backend).hermitian


def test_a_stored_point_stays_hermitian():
    rng = np.random.default_rng(0)
    X = FixedRank.semidefinite(rng.standard_normal((12, 2)))
    arrays = {name: np.array(a) for name, a in FIXED_RANK.arrays(X).items()}  # as read from a file
    assert FIXED_RANK.from_arrays(arrays, X.backend).hermitian
    other = random_point(rng, (12, 12), 2, np.float64, X.backend)
    assert not FIXED_RANK.from_arrays(FIXED_RANK.arrays(other), X.backend).hermitian
