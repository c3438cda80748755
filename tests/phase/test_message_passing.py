"""Message passing in phase retrieval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lorank as lr
from helpers import host, random_array
from lorank.loop.state import State
from lorank.phase import MessagePassing
from lorank.phase.message_passing import extrinsic


@pytest.mark.parametrize("variance", [1e-3, 0.3, 5.0])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_posterior_of_the_phases_by_quadrature(dtype, variance):
    problem, _ = lr.datasets.random_phase(4, dtype=dtype, seed=1)
    b = np.sqrt(problem.y)
    p = random_array(np.random.default_rng(1), b.shape, dtype)
    angles = np.linspace(0, 2 * np.pi, 20000, endpoint=False) if dtype is np.complex128 else np.array([0, np.pi])
    z = b[:, None] * np.exp(1j * angles)
    exponent = -(np.abs(z - p[:, None]) ** 2) / variance * (1 if dtype is np.complex128 else 0.5)  # complex: both parts
    density = np.exp(exponent - exponent.max(1, keepdims=True))
    density /= density.sum(1, keepdims=True)
    mean = (density * z).sum(1)
    found, spread = MessagePassing().phases(problem, p, variance)
    np.testing.assert_allclose(found, mean, atol=1e-9)
    assert spread == pytest.approx((density * np.abs(z - mean[:, None]) ** 2).sum(1).mean(), rel=1e-6, abs=1e-12)


def test_extrinsic_is_the_quotient_of_normals():
    """Precisions add up, and so do means times precisions."""
    message, other = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    spread = 1 / (1 / 2.0 + 1 / 0.7)
    z = spread * (message / 2.0 + other / 0.7)
    found, variance = extrinsic(z, spread, message, 2.0)
    np.testing.assert_allclose(found, other)
    assert variance == pytest.approx(0.7)
    with np.errstate(all="raise"):  # an answer that says nothing, and one that claims to know all
        assert extrinsic(message, 3.0, message, 2.0)[1] > 0
        assert extrinsic(message, 0.0, message, 2.0)[1] > 0


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_step_against_its_dense_twin(dtype):
    problem, _ = lr.datasets.random_phase(7, oversampling=3, dtype=dtype, seed=2)
    solver, A, y = MessagePassing(seed=3, damping=0.7, late=0.7), problem.linear_map.A, problem.y
    state = State.at(problem, lr.starts.Spectral()(problem, 1, np.random.default_rng(0)))
    state = state.with_memory(solver.start(problem, state))
    p, v = state.memory.message, state.memory.variance
    assert v == pytest.approx(y.mean())
    new = solver.step(problem, state)

    z, s = solver.phases(problem, p, v)  # the misfit of this message is below v = mean(y), so that v stands
    assert ((np.abs(p) - np.sqrt(y)) ** 2).mean() < v
    e, t = extrinsic(z, s, p, v)
    prior = y.sum() / (np.abs(A) ** 2).sum()
    covariance = np.linalg.inv(A.conj().T @ A / t + np.eye(7) / prior)  # of x, given z = e up to noise of variance t
    x = covariance @ (A.conj().T @ e) / t
    back, returned = extrinsic(A @ x, np.trace(A @ covariance @ A.conj().T).real / problem.m, e, t)
    np.testing.assert_allclose(new.memory.message, 0.7 * back + 0.3 * p, rtol=1e-9)
    assert new.memory.variance == pytest.approx(0.7 * returned + 0.3 * v)
    squares = np.abs(A @ x) ** 2
    x = x * np.sqrt(squares @ y / (squares @ squares))
    np.testing.assert_allclose(new.X.to_dense(), np.outer(x, x.conj()), atol=1e-10)


@pytest.mark.parametrize(("dtype", "oversampling"), [(np.float64, 2.0), (np.complex128, 2.5)])
@pytest.mark.parametrize("seed", [None, 5])
def test_it_comes_near_with_few_measurements(dtype, oversampling, seed):
    problem, x = lr.datasets.random_phase(100, oversampling=oversampling, dtype=dtype, seed=1)
    result = lr.solve(problem, 1, MessagePassing(seed=seed), tol=1e-4)
    assert result.converged, result
    assert lr.phase.phase_distance(result.signal, x) < 1e-3
    descent = lr.solve(problem, 1, "rcg", start="spectral")
    assert lr.phase.phase_distance(descent.signal, x) > 0.1  # the problem is built so


def test_it_is_finished_when_near_or_stuck():
    problem, _ = lr.datasets.random_phase(40, oversampling=4, seed=1)
    seen = []
    lr.solve(problem, 1, MessagePassing(near=0.2), tol=1e-9, max_iter=15, callbacks=[lambda p, s, c: seen.append(s)])
    assert [s.finished for s in seen[1:]] == [s.residual < 0.2 or s.memory.waited >= 40 for s in seen[1:]]
    assert seen[-1].finished
    impossible = lr.PhaseRetrieval(problem.linear_map.A, np.random.default_rng(1).permutation(problem.y))
    seen.clear()
    lr.solve(impossible, 1, MessagePassing(patience=6), tol=1e-9, callbacks=[lambda p, s, c: seen.append(s)])
    assert seen[-1].finished
    assert max(s.residual for s in seen[1:]) <= 1 + 1e-12  # scaled to fit


def test_numbers_out_of_range_end_it():
    problem, _ = lr.datasets.random_phase(10, seed=1)
    solver = MessagePassing()
    state = State.at(problem, lr.starts.Spectral()(problem, 1, np.random.default_rng(0)))
    memory = solver.start(problem, state)
    state = state.with_memory(replace(memory, message=np.full_like(memory.message, np.nan)))
    new = solver.step(problem, state)
    assert new.finished
    assert new.iteration == 1
    assert new.X is state.X


def test_same_seed_same_bits_and_other_seeds_begin_elsewhere(backend):
    problem, _ = lr.datasets.random_phase(30, oversampling=4, dtype=np.complex128, seed=1, backend=backend)
    one, two, other = (host(lr.solve(problem, 1, MessagePassing(seed=s), max_iter=3).X.U) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 1e-3


def test_refusals():
    completion, _ = lr.datasets.random_completion(20, 20, 1, seed=1)
    with pytest.raises(lr.ParameterError, match="MessagePassing needs a PhaseRetrieval"):
        lr.solve(completion, 1, MessagePassing())
    problem, _ = lr.datasets.random_phase(10, seed=1)
    with pytest.warns(UserWarning, match="one signal"), pytest.raises(ValueError, match="rank 1"):
        lr.solve(problem, 2, MessagePassing())
    with pytest.raises(ValueError, match=r"damping must lie between 0 \(excluded\) and 1"):
        MessagePassing(damping=0)
