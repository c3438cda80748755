"""The conditional distributions of the Tucker sampler against dense twins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lorank.factorization import tucker_sampler
from lorank.factorization.tucker_sampler import TuckerSample, TuckerSampler

SHAPES = [(7, 6, 5), (5, 4, 3, 4)]


class NoNoise:
    """Draws that are zero, so that a draw is the mean of its distribution."""

    def standard_normal(self, shape):
        return np.zeros(shape)


def sampler_of(shape, rank, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    index = np.argwhere(rng.random(shape) < share)
    sampler = TuckerSampler(index, rng.standard_normal(len(index)), shape, rng)
    sampler.begin([rng.standard_normal((n, r)) for n, r in zip(shape, rank, strict=True)])
    for _ in range(3):
        sampler.sweep()
    return sampler


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9 * abs(expected).max())


def dense(core, factors):
    letters = "abcd"[: core.ndim]
    inputs = ",".join(f"{x.upper()}{x}" for x in letters)
    return np.einsum(f"{letters},{inputs}->{letters.upper()}", core, *factors)


def design(sampler):
    """One row per observed entry: its derivatives by the entries of the core."""
    rows = [u[sampler.problem.indices[:, k]] for k, u in enumerate(sampler.factors)]
    found = rows[0]
    for more in rows[1:]:
        found = np.einsum("na,nb->nab", found, more).reshape(len(found), -1)
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_entries_agree_with_the_dense_tensor(shape, block, monkeypatch):
    monkeypatch.setattr(tucker_sampler, "BLOCK", block)
    monkeypatch.setattr(tucker_sampler, "SLICES", block)
    rng = np.random.default_rng(1)
    factors = [rng.standard_normal((n, 3)) for n in shape]
    sample = TuckerSample(rng.standard_normal((3,) * len(shape)), factors, 1.0)
    whole = dense(sample.core, factors)
    few = rng.integers(0, shape, (5, len(shape)))
    for index in (few, np.argwhere(whole != 0)[rng.permutation(whole.size)]):  # one by one, and by slices
        assert_close(sample.entries(index), whole[tuple(index.T)])


@pytest.mark.parametrize("shape", SHAPES)
def test_conditional_mean_of_a_factor_is_a_ridge_regression(shape):
    sampler = sampler_of(shape, [2] * len(shape))
    sampler.rng = NoNoise()
    index, y = sampler.problem.indices, sampler.y
    for k in range(len(shape)):
        others = [np.eye(u.shape[1]) if j == k else u for j, u in enumerate(sampler.factors)]
        rest = np.moveaxis(dense(sampler.core, others), k, -1)
        for i in range(shape[k]):
            own = index[:, k] == i
            z = rest[tuple(np.delete(index[own], k, 1).T)]
            A = z[:, 1:].T @ z[:, 1:] / sampler.noise + np.eye(2)
            expected = np.linalg.solve(A, z[:, 1:].T @ (y[own] - z[:, 0]) / sampler.noise)
            before = sampler.factors[k].copy()
            sampler._rows(k)
            assert_close(sampler.factors[k][i, 1:], expected)
            assert (sampler.factors[k][:, 0] == 1).all()
            sampler.factors[k] = before


@pytest.mark.parametrize("shape", SHAPES)
def test_conditional_mean_of_the_core_is_a_ridge_regression(shape, monkeypatch):
    monkeypatch.setattr(tucker_sampler, "CG_STEPS", 500)
    monkeypatch.setattr(tucker_sampler, "CG_TOL", 1e-13)
    sampler = sampler_of(shape, [2, 1, 2, 1][: len(shape)])
    W, prior = design(sampler), np.diag(1 / sampler.variance.ravel())
    expected = np.linalg.solve(W.T @ W / sampler.noise + prior, W.T @ sampler.y / sampler.noise)
    sampler._core(draw=False)
    np.testing.assert_allclose(sampler.core.ravel(), expected, rtol=1e-6, atol=1e-9)
    residual = np.empty(len(sampler.y))
    residual[sampler.small.order] = sampler.residual
    np.testing.assert_allclose(residual, sampler.y - W @ sampler.core.ravel(), atol=1e-9)


def test_draws_of_the_core_have_the_conditional_covariance(monkeypatch):
    monkeypatch.setattr(tucker_sampler, "CG_TOL", 1e-10)
    sampler = sampler_of((7, 6, 5), [1, 1, 1])
    W = design(sampler)
    expected = np.linalg.inv(W.T @ W / sampler.noise + np.diag(1 / sampler.variance.ravel()))
    draws = []
    for _ in range(2000):
        sampler._core()
        draws.append(sampler.core.ravel())
    scale = np.sqrt(np.diag(expected))
    found = np.cov(np.array(draws).T) / np.outer(scale, scale)
    assert abs(found - expected / np.outer(scale, scale)).max() < 6 * math.sqrt(2 / 2000)


@pytest.mark.parametrize("shape", SHAPES)
def test_standardizing_changes_factors_and_not_the_tensor(shape):
    sampler = sampler_of(shape, [2] * len(shape))
    rng = np.random.default_rng(2)
    for k, n in enumerate(shape):
        sampler.factors[k][:, 1:] = rng.standard_normal((n, 2)) @ [[1.0, 0.5], [0.0, 2.0]] + 3
        before = dense(sampler.core, sampler.factors)
        sampler._standardize(k)
        assert_close(dense(sampler.core, sampler.factors), before)
        u = sampler.factors[k][:, 1:]
        np.testing.assert_allclose(u.mean(0), 0, atol=1e-9)
        np.testing.assert_allclose(u.T @ u / n, np.eye(2), atol=1e-4)


def test_variances_of_superfluous_components_shrink():
    """Data of rank 1 with noise: of three components of each mode, one remains."""
    rng = np.random.default_rng(3)
    shape = (30, 25, 20)
    whole = np.einsum("i,j,k->ijk", *(rng.standard_normal(n) for n in shape)) + 0.3 * rng.standard_normal(shape)
    index = np.argwhere(rng.random(shape) < 0.3)
    sampler = TuckerSampler(index, whole[tuple(index.T)], shape, rng)
    sampler.spectral([3, 3, 3])
    samples = sampler.run(40, 5)
    assert abs(np.sqrt(np.mean([one.noise for one in samples])) - 0.3) < 0.03
    assert sampler.supported() == [1, 1, 1]
