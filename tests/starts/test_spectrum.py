"""Spectrum of the count-normalized observations: how many components stand out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lorank as lr
import partitioned  # noqa: F401  (registers itself)
from helpers import double, host
from lorank.starts import spectrum
from lorank.starts.normalized import MARGIN, SIGN_FLIPS, Normalization
from machine import NUMPY_BACKENDS

SHAPE = (300, 200)
POWERS = {"even": (0.0, 0.0), "steep": (0.6, 0.8)}


def sampled(pattern, rank, seed, noise, m=9000, tails=None):
    rng = np.random.default_rng(seed)
    rows, cols = lr.datasets.uneven_pattern(rng, SHAPE, m, powers=POWERS[pattern], least=2)
    left, right = (rng.standard_normal((n, max(rank, 1))) * (rank > 0) for n in SHAPE)
    errors = rng.standard_normal(len(rows)) if tails is None else rng.standard_t(tails, len(rows))
    return lr.Completion(rows, cols, (left[rows] * right[cols]).sum(1) + noise * errors, SHAPE)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pattern", POWERS)
def test_noise_has_no_components(pattern, seed):
    assert spectrum(sampled(pattern, 0, seed, 1.0)).count == 0
    assert spectrum(sampled(pattern, 0, seed, 1.0, tails=2.5)).count == 0


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("rank", [1, 4, 9])
@pytest.mark.parametrize("pattern", POWERS)
def test_equal_components_are_counted(pattern, rank, noise):
    assert spectrum(sampled(pattern, rank, 7, noise, m=16_000)).count == rank


def test_components_of_a_residual_are_added_to_those_of_the_fit():
    problem, _ = lr.datasets.random_completion(200, 150, 4, oversampling=8, factors="uniform", seed=1)
    assert spectrum(problem).count == 1  # the mean hides the others
    one = problem.rank_one_point(np.random.default_rng(0))
    found = spectrum(problem, one)
    assert (found.fitted, found.count) == (1, 4)


def test_spectrum_against_a_dense_twin(dtype, backend):
    problem, _ = lr.datasets.random_completion(
        40, 12, 3, oversampling=3, factors="gaussian", dtype=dtype, noise=0.1, backend=backend
    )
    found = spectrum(problem)
    G = problem.gradient(problem.zero(1))
    T = Normalization.of(G)
    scales = double(T.rows), double(T.cols).T

    def values(problem):
        a = np.zeros(problem.shape, problem.dtype)
        a[host(problem.rows), host(problem.cols)] = host(problem.y)
        return double(a)

    expected = np.linalg.svd(scales[0] * values(problem) * scales[1], compute_uv=False)
    np.testing.assert_allclose(found.values, expected[: len(found.values)], rtol=1e-2)
    nulls = []
    for seed in range(SIGN_FLIPS):
        kept, held = problem.split(np.random.default_rng(seed), 0.5)
        nulls.append(np.linalg.norm(scales[0] * (values(kept) - values(held)) * scales[1], 2))
    assert found.edge == pytest.approx(MARGIN * max(nulls), rel=1e-2)


@pytest.mark.parametrize("backend_name", NUMPY_BACKENDS)
def test_partitions_have_the_spectrum_of_the_whole(backend_name):
    whole = sampled("steep", 3, 1, 0.5)
    parts = lr.Completion(whole.rows, whole.cols, whole.y, SHAPE, backend="partitioned:3")
    whole = lr.Completion(whole.rows, whole.cols, whole.y, SHAPE, backend=backend_name)
    a, b = spectrum(whole), spectrum(parts)
    np.testing.assert_allclose(a.values, b.values, rtol=1e-2)
    assert a.count == b.count == 3


def test_limits_are_finite():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((12, 9))
    gaps = np.where(rng.random(table.shape) < 0.5, table, np.nan)
    gaps[3], gaps[:, 2] = np.nan, np.nan
    one_row = np.array([[1.0, np.nan, 2.0, 3.0]])
    tables = {"empty rows": gaps, "one row": one_row, "equal values": np.full((6, 5), 2.0), "zeros": np.zeros((6, 5))}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observation")
        problems = [lr.Completion.from_dense(table) for table in tables.values()]
        problems += [lr.Completion([0], [0], [1.0], (1, 1)), lr.Completion([0, 1], [1, 0], [1.0, 2.0], (2, 2))]
        weights = np.where(rng.random(108) < 0.3, 0.0, rng.uniform(0.1, 9, 108))  # a third of them 0
        problems.append(lr.Completion.from_dense(table, weights=weights))
    for problem in problems:
        found = spectrum(problem)
        assert np.isfinite(found.values).all()
        assert np.isfinite(found.edge)
        assert 0 <= found.count <= min(problem.shape)


def test_losses_have_a_spectrum():
    rng = np.random.default_rng(1)
    rows, cols = lr.datasets.sample_pattern(rng, (150, 120), 9000)
    left, right = rng.standard_normal((150, 2)), rng.standard_normal((120, 2))
    labels = (left[rows] * right[cols]).sum(1) + rng.logistic(size=9000) * 0.3 > 0
    problem = lr.Completion(rows, cols, labels.astype(float), (150, 120), loss="logistic")
    assert spectrum(problem).count == 2


def test_models_without_counts_are_refused():
    with pytest.raises(lr.ParameterError, match="problem needs a HasCounts"):
        spectrum(lr.datasets.random_sensing(8, 6, 1)[0])
