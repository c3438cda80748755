"""The first stages of ``auto`` in single precision."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.problems import units


@pytest.fixture(autouse=True)
def _single_always(monkeypatch):
    monkeypatch.setattr(units, "MIN_SINGLE", 0)


def problem(precision="auto", unit=1.0, **options):
    made, truth = lr.datasets.random_completion(150, 110, 3, oversampling=5, factors="gaussian", seed=4, **options)
    return lr.Completion(made.rows, made.cols, unit * made.y, made.shape, precision=precision), truth


def test_the_first_steps_are_in_single_precision():
    rough, exact = (lr.solve(problem(precision)[0], 3, tol=1e-3).history.residual for precision in ("auto", "double"))
    assert rough[2] != exact[2]
    assert abs(rough[2] - exact[2]) < 1e-3 * exact[2]


@pytest.mark.parametrize("unit", [1.0, 1e9])
def test_a_run_that_ends_in_single_precision_returns_double(unit):
    made, _ = problem(unit=unit)
    result = lr.solve(made, 3, tol=1e-3)
    X = result.X
    assert result.converged
    assert X.dtype == np.float64
    assert result.residual > 1e-5  # it did end early
    for a in (X.U, X.V):
        assert abs(a.T @ a - np.eye(3)).max() < 1e-11
    residual = np.linalg.norm(X.entries(made.rows, made.cols) - made.y) / np.linalg.norm(made.y)
    assert abs(residual - result.residual) < 1e-2 * residual


def test_the_result_has_double_accuracy():
    made, truth = problem()
    result = lr.solve(made, 3, tol=1e-13)
    assert result.converged
    assert truth.distance(result.X) < 1e-11 * truth.norm()


def test_noise_ends_at_the_same_fit():
    found = [lr.solve(problem(p, noise=0.05)[0], 3, stop=lr.stopping.Stall(window=20)) for p in ("auto", "double")]
    assert found[0].X.distance(found[1].X) < 1e-3 * found[1].X.norm()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_points_change_their_precision(dtype):
    rng = np.random.default_rng(0)
    left, right = (
        rng.standard_normal((n, 3)) + (1j * rng.standard_normal((n, 3)) if dtype is np.complex128 else 0) for n in (40, 30)
    )
    X = lr.FixedRank.from_factors(left, right)
    half = X.astype(np.complex64 if dtype is np.complex128 else np.float32, 0.5)
    back = half.astype(dtype, 2.0)
    assert np.finfo(half.dtype).bits == 32
    assert half.dtype.kind == X.dtype.kind
    assert back.dtype == dtype
    assert abs(back.to_dense() - X.to_dense()).max() < 1e-5 * X.norm()
    assert abs(back.U.conj().T @ back.U - np.eye(3)).max() < 1e-12
    assert X.astype(dtype) is X
