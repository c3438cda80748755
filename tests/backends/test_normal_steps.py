"""Steps of conjugate gradients on normal equations against plain dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import partitioned  # noqa: F401  (registers its backend)
from lorank.backends import get_backend


def made_up(backend, dtype, k, weighted, seed=0):
    rng = np.random.default_rng(seed)
    there = rng.random((23, 17)) < 0.4
    there[5], there[:, 3] = False, False  # an empty row and an empty column
    values = rng.standard_normal(there.shape)
    weights = rng.random(there.shape) + 0.2 if weighted else np.ones(there.shape)
    cols = np.nonzero(there)[1]
    indptr = np.concatenate([[0], np.cumsum(there.sum(1))])
    found = backend.make_observations(
        backend.asindex(indptr),
        backend.asarray(cols.astype(np.int32)),
        backend.asarray(values[there].astype(dtype)),
        17,
    )
    if weighted:
        found = found.with_weights(backend.asarray(weights[there].astype(dtype)))
    prior, ridge = rng.random(k), [0.3 + rng.random(n) for n in (23, 17)]
    factors = [rng.standard_normal((n, k)) for n in (23, 17)]
    return found, there * weights, values, prior, ridge, factors


def systems(W, values, other, prior, ridge):
    """The matrix and the right-hand side of each row."""
    for w, y, c in zip(W, values, ridge, strict=True):
        yield (other.T * w) @ other + np.diag(prior + c), other.T @ (w * y)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 5, 16, 37])
def test_enough_steps_solve_the_systems(backend, columns, weighted, k):
    found, W, values, prior, ridge, factors = made_up(backend, np.float64, k, weighted)
    own, other = factors[columns], factors[not columns]
    args = (backend.asarray(prior), backend.asarray(ridge[columns]), backend.asarray(own))
    x = backend.to_numpy(found.normal_steps(columns, backend.asarray(other), *args, 3 * k + 20))
    W, values = (W.T, values.T) if columns else (W, values)
    for row, (M, b) in zip(x, systems(W, values, other, prior, ridge[columns]), strict=True):
        np.testing.assert_allclose(M @ row, b, atol=1e-9 * max(1, abs(b).max()))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_steps_are_those_of_conjugate_gradients(backend, columns, dtype):
    k, steps = 6, 3
    found, W, values, prior, ridge, factors = made_up(backend, dtype, k, True, seed=1)
    own, other = (factors[side].astype(dtype) for side in (columns, not columns))
    args = [backend.asarray(a.astype(dtype)) for a in (prior, ridge[columns], own)]
    x = backend.to_numpy(found.normal_steps(columns, backend.asarray(other), *args, steps))
    assert x.dtype == dtype
    W, values = (W.T, values.T) if columns else (W, values)
    for got, start, (M, b) in zip(x, own.astype(float), systems(W, values, other, prior, ridge[columns]), strict=True):
        y, r = start.copy(), b - M @ start
        p = r / np.diag(M)
        for _ in range(steps):
            rz = r @ (r / np.diag(M))
            alpha = rz / max(p @ M @ p, 1e-30)
            y, r = y + alpha * p, r - alpha * M @ p
            p = r / np.diag(M) + r @ (r / np.diag(M)) / max(rz, 1e-30) * p
        np.testing.assert_allclose(got, y, rtol=0, atol=(1e-3 if dtype == np.float32 else 1e-9) * (1 + abs(y).max()))


def test_partitions_make_the_same_steps():
    one, three = get_backend("numpy"), get_backend("partitioned:3:numpy")
    for columns in (False, True):
        x = []
        for backend in (one, three):
            found, _, _, prior, ridge, factors = made_up(backend, np.float64, 4, True)
            x.append(found.normal_steps(columns, factors[not columns], prior, ridge[columns], factors[columns], 3))
        np.testing.assert_allclose(x[1], x[0], rtol=1e-10)
