"""Random problems: their data are what they say, and so is their noise."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from helpers import assert_close, double, eps, random_array, real_dtype
from lorank.datasets import random_completion, random_diffraction, random_phase, random_sensing
from lorank.starts.registry import check_point


def relative(noisy, clean) -> float:
    return float(np.linalg.norm(double(noisy) - double(clean)) / np.linalg.norm(double(clean)))


# -- completion --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("factors", ["uniform", "gaussian", "ill-scaled"])
def test_completion(factors, dtype):
    problem, truth = random_completion(30, 20, 2, oversampling=3, factors=factors, dtype=dtype, seed=1)
    assert problem.m == 3 * 48 * 2
    assert problem.dtype == dtype
    assert_close(problem.y, truth.entries(problem.rows, problem.cols), dtype)
    noisy, _ = random_completion(30, 20, 2, oversampling=3, factors=factors, dtype=dtype, seed=1, noise=0.1)
    assert relative(noisy.y, problem.y) == pytest.approx(0.1, rel=1e-4)


def test_completion_of_unknown_factors():
    with pytest.raises(ValueError, match="factors must be one of 'uniform', 'gaussian', 'ill-scaled', got 'normal'"):
        random_completion(30, 20, 2, factors="normal")


# -- sensing -----------------------------------------------------------------------------------------------------------
def test_sensing(dtype):
    problem, truth = random_sensing(8, 6, 2, oversampling=2.5, dtype=dtype, seed=1)
    assert problem.m == 60
    assert problem.shape == truth.shape == (8, 6)
    assert truth.rank == 2
    assert problem.dtype == problem.A.dtype == truth.dtype == dtype
    expected = [np.vdot(double(a), double(truth.to_dense())) for a in problem.A.reshape(-1, 8, 6)]
    assert_close(problem.y, np.array(expected), dtype)


@pytest.mark.parametrize("normalized", [False, True])
def test_entries_of_the_measuring_matrices_are_gaussian(normalized, dtype):
    """Of variance 1, as in the paper's experiments, or 1/m, as in its theory: then about an isometry."""
    problem, truth = random_sensing(8, 6, 1, m=2000, normalized=normalized, dtype=dtype, seed=2)
    variance = 1 / 2000 if normalized else 1.0
    parts = [problem.A.real, problem.A.imag] if dtype.kind == "c" else [problem.A]
    for part in parts:
        assert abs(part.mean()) < 4 * np.sqrt(variance / part.size)
        assert part.var() == pytest.approx(variance / len(parts), rel=0.03)
    fourth = (double(parts[0]) ** 4).mean() / double(parts[0]).var() ** 2
    assert fourth == pytest.approx(3, rel=0.05)
    assert problem.operator_scale == pytest.approx(1.0 if normalized else 2000, rel=0.03)
    assert np.linalg.norm(problem.y) ** 2 / truth.norm() ** 2 == pytest.approx(problem.operator_scale, rel=0.15)


def test_noise_in_sensing(dtype):
    problem, _ = random_sensing(8, 6, 1, dtype=dtype, seed=3)
    noisy, _ = random_sensing(8, 6, 1, dtype=dtype, seed=3, noise=0.05)
    np.testing.assert_array_equal(noisy.A, problem.A)
    assert noisy.dtype == dtype
    assert relative(noisy.y, problem.y) == pytest.approx(0.05, rel=1e-4)


# -- phase retrieval ---------------------------------------------------------------------------------------------------
def test_phase(dtype):
    problem, x = random_phase(40, oversampling=50, dtype=dtype, seed=1)
    A = problem.linear_map.A
    assert A.shape == (2000, 40)
    assert A.dtype == x.dtype == problem.dtype == dtype
    assert problem.y.dtype == real_dtype(dtype)
    assert_close(problem.y, np.abs(double(A) @ double(x)) ** 2, dtype)
    assert (np.abs(double(A)) ** 2).mean() == pytest.approx(1, rel=0.03)
    if dtype.kind == "c":
        assert abs((double(A) ** 2).mean()) < 0.02  # both parts alike and independent
    assert random_phase(40, m=123, seed=1)[0].m == 123
    assert random_phase(40, seed=1)[0].m == 240
    assert random_phase(40, seed=1, row_norms=3)[0].probes.shape == (40, 3)


def test_noise_in_intensities(dtype):
    problem, x = random_phase(40, dtype=dtype, seed=2)
    noisy, same = random_phase(40, dtype=dtype, seed=2, noise=0.01)
    np.testing.assert_array_equal(same, x)
    assert noisy.y.dtype == real_dtype(dtype)
    assert (noisy.y >= 0).all()
    assert 0.005 < relative(noisy.y, problem.y) < 0.0101  # at zero it is cut off
    result = lr.solve(noisy, 1, stop=lr.stopping.RelativeChange(1e-5))
    assert result.status == "settled"
    assert lr.phase.phase_distance(result.signal, x) < 0.02


@pytest.mark.parametrize("shape", [12, np.int64(12), (12,), (4, 3), (3, 5)], ids=str)
def test_diffraction(shape):
    problem, x = random_diffraction(shape, masks=5, seed=1)
    assert x.shape == problem.signal_shape == (tuple(shape) if isinstance(shape, tuple) else (12,))
    assert x.dtype == problem.dtype == np.complex128
    D = problem.linear_map.masks
    assert D.shape == (5, *x.shape)
    patterns = [np.abs(np.fft.fftn(d * x)).ravel() ** 2 for d in D]
    np.testing.assert_allclose(problem.y, np.concatenate(patterns), rtol=1e-10, atol=1e-10)


def test_masks_are_octanary():
    """b1 b2 with b1 in {1, -1, i, -i}, and b2 sqrt(1/2) four times in five, or sqrt(3): E |b1 b2|^2 = 1."""
    D = random_diffraction((40, 40), masks=10, seed=2)[0].linear_map.masks
    sizes, turns = np.abs(D), D / np.abs(D)
    small, large = np.isclose(sizes, np.sqrt(0.5)), np.isclose(sizes, np.sqrt(3))
    assert (small | large).all()
    assert small.mean() == pytest.approx(0.8, abs=0.02)
    for turn in (1, -1, 1j, -1j):
        assert np.isclose(turns, turn).mean() == pytest.approx(0.25, abs=0.02)
    assert (sizes**2).mean() == pytest.approx(1, abs=0.04)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float64, np.complex128, np.int64])
def test_diffraction_of_a_signal_at_hand(dtype):
    given = random_array(np.random.default_rng(0), (4, 3), dtype)
    problem, x = random_diffraction(given, seed=3)
    expected = np.result_type(dtype, np.complex64)
    assert x.dtype == problem.dtype == expected
    np.testing.assert_array_equal(x, given)
    spectrum = np.fft.fftn(double(problem.linear_map.masks) * double(x), axes=(1, 2))
    assert_close(problem.y, np.abs(spectrum).ravel() ** 2, expected)
    listed, _ = random_diffraction([1.0, 2.0, 3.0], seed=3)  # a list is a signal, a tuple a shape
    assert listed.signal_shape == (3,)


def test_noise_in_diffraction_patterns():
    problem, x = random_diffraction((8, 6), seed=4)
    noisy, same = random_diffraction((8, 6), seed=4, noise=0.01, row_norms=7)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(noisy.linear_map.masks, problem.linear_map.masks)
    assert noisy.probes.shape == (48, 7)
    assert (noisy.y >= 0).all()
    assert 0.005 < relative(noisy.y, problem.y) < 0.0101


# -- all of them -------------------------------------------------------------------------------------------------------
def measurements(seed):
    yield random_completion(20, 15, 2, seed=seed, noise=0.1)[0].y
    yield random_sensing(6, 5, 1, seed=seed, noise=0.1)[0].y
    yield random_phase(10, seed=seed, noise=0.1)[0].y
    yield random_diffraction((4, 3), seed=seed, noise=0.1)[0].y


def test_same_seed_same_problem():
    for one, two, other in zip(measurements(1), measurements(1), measurements(2), strict=True):
        np.testing.assert_array_equal(one, two)
        assert not np.allclose(one, other)


def test_backends_are_passed_on(backend):
    for problem, _ in (
        random_completion(20, 15, 2, backend=backend),
        random_sensing(6, 5, 1, backend=backend),
        random_phase(10, backend=backend),
        random_diffraction(10, backend=backend),
    ):
        assert problem.backend is backend


def test_the_truth_fits_the_data_to_their_precision(dtype):
    problem, truth = random_sensing(6, 5, 1, dtype=dtype, seed=5)
    assert problem.gradient(check_point(truth, problem, 1)).residual_norm < 50 * eps(dtype) * problem.y_norm
