"""Conjugate gradients for one signal in phase retrieval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lorank as lr
from helpers import host, random_array
from lorank.loop.state import State
from lorank.phase import SignalCG


def uneven(problem, x):
    scales = np.random.default_rng(0).permutation(np.geomspace(1, 30, len(x)))
    return lr.PhaseRetrieval(problem.linear_map.A * scales, problem.y), x / scales


def begin(problem, solver, X):
    state = State.at(problem, X)
    return state.with_memory(solver.start(problem, state))


@pytest.mark.parametrize("whiten", [0, 100])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_step_against_its_dense_twin(dtype, whiten):
    problem, x = lr.datasets.random_phase(7, dtype=dtype, seed=2)
    near = x + 0.3 * random_array(np.random.default_rng(1), x.shape, dtype)
    solver = SignalCG(whiten_real=whiten, whiten_complex=whiten, sign_fit_below=0.0)
    new = solver.step(problem, begin(problem, solver, lr.FixedRank.semidefinite(near[:, None])))
    A, y, z = problem.linear_map.A, problem.y, problem.linear_map.A @ near
    d = np.abs(z) ** 2 - y
    w = 1 / (np.abs(z) ** 2 + y)
    g = A.conj().T @ (w * d * z)
    s = np.linalg.solve(A.conj().T @ A, g) if whiten else g
    image = A @ s
    alpha = np.vdot(g, s).real / (2 * (w * (z.conj() * image).real ** 2).sum())
    expected = near - alpha * s
    assert np.abs(np.abs(A @ expected) ** 2 - y) @ (w * np.abs(np.abs(A @ expected) ** 2 - y)) < (w * d) @ d  # a full step
    assert lr.phase.phase_distance(problem.signal(new.X), expected) < 1e-4
    assert new.step == pytest.approx(alpha, rel=1e-3)


def test_signs_are_fitted_by_least_squares():
    """Near a real signal: up to the few digits of the metric, the exact solution with the signs of ``A x``."""
    problem, x = lr.datasets.random_phase(9, oversampling=6, noise=0.01, seed=2)
    near = x + 0.02 * np.roll(x, 1)
    solver = SignalCG(sign_fit_below=1.0)
    new = solver.step(problem, begin(problem, solver, lr.FixedRank.semidefinite(near[:, None])))
    A = problem.linear_map.A
    expected = np.linalg.lstsq(A, np.sign(A @ near) * np.sqrt(problem.y), rcond=None)[0]
    assert lr.phase.phase_distance(problem.signal(new.X), expected) < 1e-4


@pytest.mark.parametrize("columns", ["even", "uneven"])
@pytest.mark.parametrize(("dtype", "oversampling"), [(np.float64, 3), (np.float64, 6), (np.complex128, 4), (np.complex128, 6)])
@pytest.mark.parametrize("seed", range(3))
def test_signals_are_recovered(dtype, oversampling, columns, seed):
    problem, x = lr.datasets.random_phase(80, oversampling=oversampling, dtype=dtype, seed=seed)
    if columns == "uneven":
        problem, x = uneven(problem, x)
    result = lr.solve(problem, 1, tol=1e-8)
    assert result.converged, result
    assert lr.phase.phase_distance(result.signal, x) < 1e-6


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("whiten", [0, 1000])
def test_uneven_columns_take_as_many_steps_as_even_ones(dtype, whiten):
    problem, x = lr.datasets.random_phase(60, oversampling=6, dtype=dtype, seed=1)
    solver = SignalCG(whiten_real=whiten, whiten_complex=whiten)
    even = lr.solve(problem, 1, solver, tol=1e-8)
    other = lr.solve(uneven(problem, x)[0], 1, solver, tol=1e-8)
    assert even.converged
    assert other.converged
    assert other.n_iter <= 2 * even.n_iter + 5  # columns that differ by 30 took five times as many without


def test_whitening_saves_steps():
    problem, _ = lr.datasets.random_phase(100, oversampling=4, seed=1)
    plain, whitened = (lr.solve(problem, 1, SignalCG(whiten_real=n), tol=1e-8).n_iter for n in (0, 100))
    assert 2 * whitened < plain


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-11])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("columns", ["even", "uneven"])
def test_the_residual_is_correct_with_rounded_products(dtype, columns, tol):
    problem, x = lr.datasets.random_phase(50, oversampling=6, dtype=dtype, seed=3)
    if columns == "uneven":
        problem, x = uneven(problem, x)
    seen = []

    def look(problem, state, clock):
        misfit = np.abs(problem.linear_map.A @ problem.signal(state.X)) ** 2 - problem.y
        seen.append((state.residual, np.linalg.norm(misfit) / problem.y_norm))

    assert problem.single_precision_map.rounds
    result = lr.solve(problem, 1, SignalCG(), tol=tol, callbacks=[look])
    assert result.converged, result
    for said, true in seen:
        assert said == pytest.approx(true, rel=0.01, abs=1e-14)


def test_products_are_two_an_iteration():
    problem, _ = lr.datasets.random_phase(60, oversampling=6, dtype=np.complex128, seed=1)
    counted = {"apply": 0, "adjoint": 0, "exact": 0}

    class Counting:
        def __getattr__(self, name):
            if name in counted:
                counted[name] += 1
            return getattr(rough, name)

    rough = problem.single_precision_map
    X = problem.rank_one_point(np.random.default_rng(0))
    vars(problem)["single_precision_map"] = Counting()
    result = lr.solve(problem, 1, SignalCG(), start=X, tol=1e-8)
    assert result.converged
    assert counted["apply"] == counted["adjoint"] == result.n_iter
    assert counted["exact"] <= 2 + result.n_iter // 25 + 1  # 1e-8 takes two refreshments of 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_single_precision(dtype):
    problem, x = lr.datasets.random_phase(40, oversampling=6, dtype=dtype, seed=3)
    result = lr.solve(problem, 1, SignalCG(), tol=1e-5)
    assert result.converged, result
    assert result.signal.dtype == dtype
    assert lr.phase.phase_distance(result.signal, x) < 1e-3


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_every_backend(dtype, backend):
    problem, x = lr.datasets.random_phase(40, oversampling=6, dtype=dtype, seed=4, backend=backend)
    result = lr.solve(problem, 1, tol=1e-8)
    assert result.converged, result
    assert lr.phase.phase_distance(host(result.signal), x) < 1e-6


@pytest.mark.parametrize("noise", [1e-3, 0.02])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_noise(dtype, noise):
    """It settles near x. Least squares of the intensities, where ``auto`` ends, come two to four times as near where noise is
    normal: amplitudes count small intensities too much.
    """
    problem, x = lr.datasets.random_phase(60, oversampling=6, dtype=dtype, noise=noise, seed=5)
    result = lr.solve(problem, 1, SignalCG(), stop=lr.stopping.RelativeChange(1e-6))
    assert result.status == "settled"
    best = lr.solve(problem, 1, "rcg", start=lr.FixedRank.semidefinite(x[:, None]), stop=lr.stopping.RelativeChange(1e-8))
    assert lr.phase.phase_distance(result.signal, x) < 8 * lr.phase.phase_distance(best.signal, x)


def test_a_zero_column():
    problem, x = lr.datasets.random_phase(20, oversampling=8, seed=6)
    A = problem.linear_map.A.copy()
    A[:, 3] = 0
    x[3] = 0
    result = lr.solve(lr.PhaseRetrieval(A, np.abs(A @ x) ** 2), 1, tol=1e-6)
    assert result.converged, result
    x_found = result.signal
    assert np.isfinite(x_found).all()
    others = np.arange(20) != 3
    assert lr.phase.phase_distance(x_found[others], x[others]) < 1e-4


def test_refusals():
    completion, _ = lr.datasets.random_completion(20, 20, 1, seed=1)
    with pytest.raises(lr.ParameterError, match="SignalCG needs a PhaseRetrieval"):
        lr.solve(completion, 1, SignalCG())
    problem, _ = lr.datasets.random_phase(10, seed=1)
    with pytest.warns(UserWarning, match="one signal"), pytest.raises(ValueError, match="rank 1"):
        lr.solve(problem, 2, SignalCG())
    for change in ({"whiten_real": -1}, {"restart": "a"}, {"sign_fit_below": -1}, {"max_halvings": 1.5}):
        with pytest.raises(ValueError, match=next(iter(change))):
            replace(SignalCG(), **change)
