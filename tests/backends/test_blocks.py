"""Sums of outer products over rows and columns, and systems with such matrices, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from helpers import assert_close, double, eps, host, random_array
from kernel_cases import SETS, _kernels, native_only, random_case
from lorank.backends import get_backend


def check_blocks(case, passes, width, weights=None):
    u, v = case.factors(width)
    w = case.matrix(np.ones(case.m) if weights is None else weights).real
    for side, (factor, seen) in enumerate(((v, w), (u, w.T))):
        f = double(factor)
        found = host(passes.blocks(side, factor))
        assert found.dtype == case.dtype
        expected = np.einsum("ij,jk,jl->ikl", seen, f.conj(), f)
        size = np.einsum("ij,jk,jl->ikl", seen, np.abs(f), np.abs(f))
        assert_close(found, expected, case.dtype, 20, size.max(initial=0))


@pytest.mark.parametrize("width", [1, 3, 8, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_against_dense(width, weighted, dtype, backend):
    case = random_case(np.random.default_rng(width), (13, 50), dtype, empty_rows=[0, 7], empty_cols=[3, 49])
    passes, weights = case.observations(backend), case.weights() if weighted else None
    check_blocks(case, passes.with_weights(weights), width, None if weights is None else double(weights))


def test_blocks_of_factors_in_single_precision(backend):
    """ALS solves its systems in single precision, whatever the precision of the values and weights."""
    case = random_case(np.random.default_rng(2), (13, 50), np.float64, empty_rows=[0, 7])
    u, v = case.factors(3)
    weights = case.weights()
    passes, w = case.observations(backend).with_weights(weights), case.matrix(double(weights))
    for side, (factor, seen) in enumerate(((v, w), (u, w.T))):
        f = host(factor).astype(np.float32)
        found = host(passes.blocks(side, backend.asarray(f)))
        assert found.dtype == np.float32
        size = np.einsum("ij,jk,jl->ikl", seen, np.abs(f), np.abs(f))
        assert_close(found, np.einsum("ij,jk,jl->ikl", seen, double(f), double(f)), np.dtype(np.float32), 20, size.max())


def test_blocks_of_nothing_are_zero(backend):
    case = random_case(np.random.default_rng(0), (4, 5), np.float64, density=0)
    check_blocks(case, case.observations(backend), 3)


@native_only
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", SETS)
def test_blocks_of_every_width_on_every_instruction_set(name, kind):
    case = random_case(np.random.default_rng(1), (9, 40), kind, empty_rows=[2])
    passes, before = case.observations(get_backend("native")), _kernels.instruction_set()
    weights = case.weights()
    try:
        _kernels.use_instruction_set(name)
        for width in [*range(1, 42), 64, 71]:
            check_blocks(case, passes, width)
            check_blocks(case, passes.with_weights(weights), width, double(weights))
            check_systems(np.random.default_rng(width), 9, width, np.dtype(kind), get_backend("native"))
            check_solved(passes, case, width)
            check_solved(passes.with_weights(weights), case, width)
    finally:
        _kernels.use_instruction_set(before)


def check_solved(passes, case, width, shift=0.5):
    """One pass for what blocks and a solver for them do one after the other; rows without observations have the shift alone."""
    u, v = case.factors(width)
    for side, (factor, right) in enumerate(((v, u), (u, v))):
        x = passes.solve_blocks(side, factor, shift, right)
        assert x.dtype == case.dtype
        stack = double(passes.blocks(side, factor)) + shift * np.eye(width)
        left = np.einsum("ij,ijk->ik", double(x), stack) - double(right)
        scale = np.linalg.norm(stack, axis=(1, 2)) * np.linalg.norm(x, axis=1)
        assert (np.linalg.norm(left, axis=1) <= 50 * width * eps(case.dtype) * scale).all()


@native_only
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_bits_do_not_depend_on_the_number_of_threads(kind):
    """Enough observations that three threads share the pass, and systems enough for as many."""
    case = random_case(np.random.default_rng(2), (900, 700), kind, density=0.4, empty_rows=range(100, 200))
    backend = get_backend("native")
    passes = case.observations(backend).with_weights(case.weights())
    u, v = case.factors(9)
    a = random_array(case.rng, (900, 9), kind)
    eye = np.eye(9, dtype=kind)
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="openmp"):
            by_rows, by_cols = passes.blocks(0, v), passes.blocks(1, u)
            found.append([by_rows, by_cols, backend.block_solver(by_rows + eye)(a), passes.solve_blocks(0, v, 1.0, a)])
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


# -- systems -----------------------------------------------------------------------------------------------------------
def definite(rng, n, width, dtype):
    root = random_array(rng, (n, width, 2 * width), np.result_type(dtype, np.float64))
    return (root @ root.conj().transpose(0, 2, 1) + np.eye(width)).astype(dtype)


def check_systems(rng, n, width, dtype, backend):
    stack, a = definite(rng, n, width, dtype), random_array(rng, (n, width), dtype)
    x = host(backend.block_solver(backend.asarray(stack))(backend.asarray(a)))
    assert x.dtype == dtype
    left = np.einsum("ij,ijk->ik", double(x), double(stack)) - double(a)
    scale = np.linalg.norm(stack, axis=(1, 2)) * np.linalg.norm(x, axis=1)
    assert (np.linalg.norm(left, axis=1) <= 50 * width * eps(dtype) * scale).all()


@pytest.mark.parametrize("n", [1, 7, 8, 9, 100])
@pytest.mark.parametrize("width", [1, 2, 5, 11, 20])
def test_many_small_systems_are_solved(n, width, dtype, backend):
    check_systems(np.random.default_rng(n + width), n, width, dtype, backend)


@native_only
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_semidefinite_systems_leave_a_definite_solver(kind):
    """As a preconditioner has to be: rounding may leave a pivot below zero where there is nothing but rounding."""
    rng = np.random.default_rng(3)
    root = rng.standard_normal((200, 6, 2))
    stack = (root @ root.transpose(0, 2, 1)).astype(kind)
    a = rng.standard_normal((200, 6)).astype(kind)
    x = get_backend("native").block_solver(stack)(a)
    assert np.isfinite(x).all()
    assert (np.einsum("ij,ij->i", double(x), double(a)) > 0).all()


@native_only
def test_a_bad_system_spoils_no_other():
    stack = np.tile(np.eye(3), (10, 1, 1))
    stack[4] = np.nan
    x = get_backend("native").block_solver(stack)(np.ones((10, 3)))
    assert np.isnan(x[4]).all()
    np.testing.assert_array_equal(np.delete(x, 4, axis=0), 1)


@native_only
def test_the_kernels_refuse_arrays_that_do_not_fit():
    pattern = _kernels.Pattern(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), 2)
    calls = {
        lambda other, *rest: pattern.solve_blocks(False, other, 0.1, *rest): (
            (),
            [np.ones((2, 3)) for _ in range(3)] + [np.ones(3)],
        ),
        pattern.blocks: ((False,), [np.ones((2, 3)), np.zeros((2, 3, 3)), np.ones(3)]),
        _kernels.factor_systems: ((), [np.ones((9, 3, 3)), np.zeros((2, 6, _kernels.TOGETHER))]),
        _kernels.solve_systems: ((), [np.ones((2, 6, _kernels.TOGETHER)), np.ones((9, 3)), np.zeros((9, 3))]),
    }
    for call, (fixed, good) in calls.items():
        call(*fixed, *good)
        for k, a in enumerate(good):
            wrong = [np.concatenate([a, a]), a[:0], a[..., :-1].copy(), a[None], a.astype(np.float32), a.astype(int), a[::-1]]
            for bad in wrong:
                with pytest.raises((TypeError, ValueError)):
                    call(*fixed, *good[:k], bad, *good[k + 1 :])
