"""Normal equations whose solutions may not be negative, against SciPy's non-negative least squares on dense arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from threadpoolctl import threadpool_limits

from kernel_cases import _kernels, native_only, random_case
from lorank.backends import get_backend
from lorank.backends.normal_equations import descend

EXACTLY = {"cycles": 5000, "tolerance": 1e-13}


def made_up(backend, k, weighted, dtype=np.float64, seed=0):
    """Observations with an empty row and an empty column; weights and values as dense arrays; a common prior; a centre."""
    rng = np.random.default_rng(seed)
    there = rng.random((23, 17)) < 0.6
    there[5], there[:, 3] = False, False
    values = rng.standard_normal(there.shape) + 0.5
    weights = rng.random(there.shape) + 0.2 if weighted else np.ones(there.shape)
    indptr, cols = np.concatenate([[0], np.cumsum(there.sum(1))]), np.nonzero(there)[1].astype(np.int32)
    found = backend.make_observations(
        backend.asindex(indptr), backend.asarray(cols), backend.asarray(values[there].astype(dtype)), 17
    )
    if weighted:
        found = found.with_weights(backend.asarray(weights[there].astype(dtype)))
    root = rng.random((k, k))
    ridge, factors = [0.3 + rng.random(n) for n in (23, 17)], [rng.random((n, k)) for n in (23, 17)]
    return found, there * weights, values, root, rng.random(k), ridge, factors


def dense_twin(w, y, other, root, centre, ridge):
    """SciPy's solution for one row: its observations, the prior's root and the ridge are rows of one least squares problem."""
    if not len(centre):
        return centre
    scaled = np.sqrt(w)[:, None]
    A = np.vstack([scaled * other, root, np.sqrt(ridge) * np.eye(len(centre))])
    b = np.concatenate([scaled[:, 0] * y, np.zeros(len(root)), np.sqrt(ridge) * centre])
    return scipy.optimize.nnls(A, b)[0]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [0, 1, 5, 11])
def test_solutions_are_those_of_non_negative_least_squares(backend, columns, weighted, k):
    found, W, values, root, centre, ridge, factors = made_up(backend, k, weighted)
    own, other = factors[columns], factors[not columns]
    x, squares = found.nonnegative_equations(
        columns,
        *(backend.asarray(a) for a in (other, own, ridge[columns])),
        centre=backend.asarray(centre),
        prior=backend.asarray(root.T @ root),
        **EXACTLY,
    )
    x, squares = backend.to_numpy(x), backend.to_numpy(squares)
    W, values = (W.T, values.T) if columns else (W, values)
    for row, total, w, y, c in zip(x, squares, W, values, ridge[columns], strict=True):
        np.testing.assert_allclose(row, dense_twin(w, y, other, root, centre, c), atol=1e-8)
        assert total == pytest.approx(float(w @ (y - other @ row) ** 2), abs=1e-9)
    assert (x >= 0).all()
    assert k < 2 or (x == 0).any()  # the bound is felt


def test_the_conditions_of_karush_kuhn_and_tucker_hold(backend):
    found, W, values, root, _, ridge, factors = made_up(backend, 7, True, seed=4)
    P = root.T @ root
    x, _ = found.nonnegative_equations(
        False, *(backend.asarray(a) for a in (factors[1], factors[0], ridge[0])), prior=backend.asarray(P), **EXACTLY
    )
    for row, w, y, c in zip(backend.to_numpy(x), W, values, ridge[0], strict=True):
        slope = (factors[1].T * w) @ (factors[1] @ row - y) + (P + c * np.eye(7)) @ row
        assert (slope >= -1e-9).all()
        assert (row >= 0).all()
        assert abs(slope * row).max() < 1e-9


@pytest.mark.parametrize("columns", [False, True])
def test_few_cycles_are_the_same_everywhere_and_take_other_weights(backend, columns):
    k = 6
    found, W, values, _, centre, ridge, factors = made_up(backend, k, True, seed=2)
    own, other = factors[columns], factors[not columns]
    given = np.random.default_rng(9).random(W.shape) + 0.1
    x, _ = found.nonnegative_equations(
        columns,
        *(backend.asarray(a) for a in (other, own, ridge[columns])),
        centre=backend.asarray(centre),
        weights=backend.asarray(given[W > 0]),
        cycles=2,
        tolerance=0.0,
    )
    W = given * (W > 0)
    W, values = (W.T, values.T) if columns else (W, values)
    for row, start, w, y, c in zip(backend.to_numpy(x), own, W, values, ridge[columns], strict=True):
        M, h, plain = (other.T * w) @ other + c * np.eye(k), other.T @ (w * y) + c * centre, start.copy()
        for a in [*range(k), *range(k)]:
            plain[a] = max(0.0, plain[a] + (h[a] - M[a] @ plain) / M[a, a])
        np.testing.assert_allclose(row, plain, atol=1e-10)


def test_no_cycle_increases_the_objective():
    rng = np.random.default_rng(3)
    y = rng.random((4, 9, 6))
    M, h, x = np.einsum("nti,ntj->nij", y, y), rng.standard_normal((4, 6)) + 1, rng.random((4, 6))
    before = np.inf
    for _ in range(12):
        x = descend(M, h, x, 1, 0.0)
        now = np.einsum("ni,nij,nj->n", x, M, x) / 2 - (h * x).sum(1)
        assert (now <= before + 1e-12).all()
        before = now


def test_a_coordinate_without_influence_is_not_changed(backend):
    found, _, _, _, _, _, factors = made_up(backend, 3, False)
    other = factors[1].copy()
    other[:, 1] = 0
    x, _ = found.nonnegative_equations(False, *(backend.asarray(a) for a in (other, factors[0], np.zeros(23))))
    np.testing.assert_array_equal(backend.to_numpy(x)[:, 1], factors[0][:, 1])
    assert np.isfinite(backend.to_numpy(x)).all()


@native_only
@pytest.mark.parametrize("k", [1, 3, 8, 9, 16, 33])
def test_every_instruction_set_and_single_precision(k):
    before, results, few = _kernels.instruction_set(), [], {"cycles": 3, "tolerance": 0.0}
    try:
        for name in _kernels.instruction_sets():
            _kernels.use_instruction_set(name)
            found, _, _, root, centre, ridge, factors = made_up(get_backend("native"), k, True, np.float32)
            args = (factors[0], factors[1], ridge[1])
            results.append(found.nonnegative_equations(True, *args, centre=centre, prior=root.T @ root, **few))
    finally:
        _kernels.use_instruction_set(before)
    twin = made_up(get_backend("numpy"), k, True, np.float32)[0]
    plain = twin.nonnegative_equations(True, *args, centre=centre, prior=root.T @ root, **few)
    for one in results:
        for got, wanted in zip(one, plain, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@native_only
@pytest.mark.parametrize("wrong", ["other", "values", "centre", "ridge", "x", "squares", "prior", "weights"])
def test_arrays_of_the_wrong_size_are_refused(wrong):
    found, _, _, root, centre, ridge, factors = made_up(get_backend("native"), 4, True)
    arrays = {"other": factors[1], "values": found.values, "centre": centre, "ridge": ridge[0], "x": factors[0].copy()}
    arrays |= {"squares": np.empty(23), "prior": root, "weights": found.weights}
    found.pattern.nonnegative(columns=False, cycles=1, tolerance=0.0, **arrays)
    arrays[wrong] = arrays[wrong][:-1].copy()
    with pytest.raises(ValueError, match=wrong):
        found.pattern.nonnegative(columns=False, cycles=1, tolerance=0.0, **arrays)


def test_a_solution_does_not_depend_on_the_other_systems():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((6, 3, 4))
    M = np.einsum("nij,nik->njk", A, A) + 10.0 ** -np.arange(6)[:, None, None] * np.eye(4)  # some take many cycles
    h = rng.standard_normal((6, 4))
    together = descend(M, h, np.zeros((6, 4)), 1000, 1e-3)
    for i in range(6):
        alone = descend(M[i : i + 1], h[i : i + 1], np.zeros((1, 4)), 1000, 1e-3)
        np.testing.assert_allclose(together[i], alone[0], rtol=1e-10, atol=1e-12)


@native_only
def test_bits_do_not_depend_on_the_number_of_threads():
    """Enough observations that three threads share the pass."""
    case = random_case(np.random.default_rng(3), (900, 700), np.float64, density=0.4, empty_rows=range(100, 200))
    passes = case.observations(get_backend("native"))
    factors, ridge = [abs(factor) for factor in case.factors(6)], [np.full(n, 0.5) for n in (900, 700)]
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="openmp"):
            solved = [passes.nonnegative_equations(c, factors[not c], factors[c], ridge[c]) for c in (False, True)]
            found.append([a for pair in solved for a in pair])
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, y)
