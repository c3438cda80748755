"""The normal equations of alternating least squares: the kernel against the reference, and both against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import lorank as lr
from helpers import host
from lorank.backends import get_backend
from machine import _kernels

SHAPE = (23, 31)


def triangle(S: np.ndarray) -> np.ndarray:
    return S[(slice(None), *np.triu_indices(S.shape[-1]))]


def full(packed: np.ndarray, k: int) -> np.ndarray:
    S = np.zeros((len(packed), k, k))
    S[(slice(None), *np.triu_indices(k))] = packed
    return S + np.triu(S, 1).transpose(0, 2, 1)


def case(k, columns, seed=0, shape=SHAPE):
    """A pattern with an empty row and an empty column, and arguments of every kind."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < 0.4
    mask[3], mask[:, 5] = False, False
    rows, cols = np.nonzero(mask)
    values, weights = rng.standard_normal(len(rows)), rng.random(len(rows))
    n, other = shape[::-1] if columns else shape
    y = rng.standard_normal((other, k))
    root = rng.standard_normal((other, k, k))
    P = rng.standard_normal((k, k))
    arguments = {
        "other": y,
        "prior": P @ P.T + np.eye(k),
        "shift": rng.standard_normal(k),
        "moments": triangle(root @ root.transpose(0, 2, 1)),
        "weights": weights,
        "scale": rng.random(n) + 0.1,
        "noise": 1.7,
    }
    return rows, cols, values, arguments


@pytest.mark.filterwarnings("ignore:.*no observation")
@pytest.mark.parametrize("fixed", [-1, 0, 1])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("k", [2, 7, 8, 9, 20])
def test_against_dense_algebra(backend, k, columns, fixed):
    rows, cols, values, arguments = case(k, columns)
    problem = lr.Completion(rows, cols, values, SHAPE, backend=backend)
    mean, cov, squares = map(host, problem.observations.normal_equations(columns, fixed=fixed, covariance=True, **arguments))
    major, minor = (cols, rows) if columns else (rows, cols)
    S, free = full(arguments["moments"], k), np.arange(k) != fixed
    got = full(cov, k)
    for i in range(len(mean)):
        at = major == i
        y, r, w, Sy = arguments["other"][minor[at]], values[at], arguments["weights"][at], S[minor[at]]
        A = np.einsum("t,ti,tj->ij", w, y, y) + np.einsum("t,tij->ij", w, Sy)
        M = 1.7 * A + arguments["scale"][i] * arguments["prior"]
        h = 1.7 * np.einsum("t,t,ti->i", w, r, y) + arguments["scale"][i] * arguments["shift"]
        x, C = np.ones(k), np.zeros((k, k))
        x[free] = np.linalg.solve(M[free][:, free], h[free] - M[free][:, ~free].sum(1))
        C[np.ix_(free, free)] = np.linalg.inv(M[free][:, free])
        np.testing.assert_allclose(mean[i], x, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(got[i], C, rtol=1e-9, atol=1e-10)
        # E (r - x y)^2, term by term
        expected = (r - y @ x) ** 2 + np.einsum("ti,ij,tj->t", y, C, y) + np.einsum("i,tij,j->t", x, Sy, x)
        expected += np.einsum("ij,tij->t", C, Sy)
        np.testing.assert_allclose(squares[i], w @ expected, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*no observation")
@pytest.mark.parametrize("columns", [False, True])
def test_defaults_are_ones(backend, columns):
    rows, cols, values, arguments = case(4, columns)
    passes = lr.Completion(rows, cols, values, SHAPE, backend=backend).observations
    short = {key: arguments[key] for key in ("other", "prior", "shift")}
    n = SHAPE[1 if columns else 0]
    same = passes.normal_equations(columns, weights=np.ones(len(rows)), scale=np.ones(n), **short)
    mean, cov, squares = passes.normal_equations(columns, **short)
    assert cov is None
    np.testing.assert_allclose(host(mean), host(same[0]), rtol=1e-12)
    np.testing.assert_allclose(host(squares), host(same[2]), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*no observation")
@pytest.mark.parametrize("columns", [False, True])
def test_covariances_need_not_be_asked_for(backend, columns):
    rows, cols, values, arguments = case(9, columns)
    passes = lr.Completion(rows, cols, values, SHAPE, backend=backend).observations
    mean, cov, squares = passes.normal_equations(columns, **arguments)
    assert cov is None
    same, cov, more = passes.normal_equations(columns, covariance=True, **arguments)
    np.testing.assert_allclose(host(mean), host(same), rtol=1e-12, atol=1e-13)
    assert (host(more) >= host(squares)).all()


@pytest.mark.filterwarnings("ignore:.*no observation")
@pytest.mark.parametrize("columns", [False, True])
def test_weights_of_the_observations_serve_unless_others_are_given(backend, columns):
    rows, cols, values, arguments = case(4, columns)
    passes = lr.Completion(rows, cols, values, SHAPE, backend=backend).observations
    weights = backend.asarray(arguments.pop("weights"))
    expected = passes.normal_equations(columns, weights=weights, **arguments)
    for found in (
        passes.with_weights(weights).normal_equations(columns, **arguments),
        passes.with_weights(2 * weights).normal_equations(columns, weights=weights, **arguments),
    ):
        np.testing.assert_array_equal(host(found[0]), host(expected[0]))
        np.testing.assert_array_equal(host(found[2]), host(expected[2]))


@pytest.mark.needs("native")
def test_threads_and_instruction_sets_agree():
    shape = (3000, 400)
    rows, cols, values, arguments = case(14, False, shape=shape)
    with pytest.warns(UserWarning, match="no observation"):
        passes = lr.Completion(rows, cols, values, shape, backend=get_backend("native")).observations
    before = _kernels.instruction_set()
    try:
        for name in _kernels.instruction_sets():
            _kernels.use_instruction_set(name)
            with threadpool_limits(1, user_api="openmp"):
                one = passes.normal_equations(False, covariance=True, **arguments)
            two = passes.normal_equations(False, covariance=True, **arguments)
            for a, b in zip(one, two, strict=True):
                np.testing.assert_array_equal(a, b)
            if name == "baseline":
                base = one
            for a, b in zip(one, base, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    finally:
        _kernels.use_instruction_set(before)


@pytest.mark.needs("native")
def test_the_kernel_refuses_arrays_that_do_not_fit():
    rows, cols, values = np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3)
    pattern = lr.Completion(rows, cols, values, (2, 2), backend="native").observations.pattern
    none = np.empty(0)
    good = [np.ones((2, 2)), np.empty((0, 3)), values, none, np.eye(2), np.zeros(2), none, -1, 1.0]
    good += [np.empty((2, 2)), np.empty((0, 3)), np.empty(2)]
    pattern.normal(False, *good)
    spoiled = {
        0: [np.ones((3, 2)), np.ones((2, 0)), np.ones(2)],
        1: [np.ones((1, 3)), np.ones((2, 2))],
        2: [np.ones(2), np.ones(3, np.float32)],
        3: [np.ones(2)],
        4: [np.eye(3)],
        5: [np.zeros(3)],
        6: [np.ones(3)],
        7: [2, -2],
        9: [np.empty((1, 2)), np.empty((2, 3))],
        10: [np.empty((2, 2)), np.empty((1, 3))],
        11: [np.empty(1)],
    }
    for k, bads in spoiled.items():
        for bad in bads:
            with pytest.raises((TypeError, ValueError)):
                pattern.normal(False, *good[:k], bad, *good[k + 1 :])
    pattern.normal(False, *good, np.ones(2), np.ones(2))
    for sides in ((np.ones(2),), (np.ones(3), np.ones(2)), (np.ones(2), np.ones(1)), (None, np.ones(2))):
        with pytest.raises((TypeError, ValueError)):
            pattern.normal(False, *good, *sides)


@pytest.mark.needs("torch")
@pytest.mark.filterwarnings("ignore:.*no observation")
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("chunk", [1, 100, 300])
def test_groups_of_rows_change_nothing_in_torch(columns, chunk, monkeypatch):
    """One row at a time, some, and several segments of matrices."""
    from lorank.backends.torch_ import normal_equations

    rows, cols, values, arguments = case(5, columns)
    passes = lr.Completion(rows, cols, values, SHAPE, backend="torch").observations
    start, ridge = np.ones((SHAPE[1 if columns else 0], 5)), arguments["scale"]
    found = []
    for number in (normal_equations.CHUNK, chunk):
        monkeypatch.setattr(normal_equations, "CHUNK", number)
        solved = passes.normal_equations(columns, covariance=True, **arguments)
        positive = passes.nonnegative_equations(columns, *(passes._double(a) for a in (arguments["other"], start, ridge)))
        found.append([*map(host, solved), *map(host, positive)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
