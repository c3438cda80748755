"""The default solver for phase retrieval, Fisher weights and the whitened metric."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lorank as lr
from helpers import host, random_array
from lorank.geometry import Weights, riemannian_gradient
from lorank.loop.state import State
from lorank.phase import AutoPhase, Fisher, Whitened
from lorank.phase.gram import Iterations
from lorank.solvers import RCG

FISHER = RCG(lr.metrics.Canonical(), reweighting=Fisher())


# -- Fisher weights ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_fisher_weights_are_those_of_amplitudes(dtype):
    problem, x = lr.datasets.random_phase(8, dtype=dtype, seed=1)
    z = problem.linear_map.A @ (x + 0.2 * random_array(np.random.default_rng(1), x.shape, dtype))
    near = (x + 0.2 * random_array(np.random.default_rng(1), x.shape, dtype))[:, None]
    w = Fisher()(problem, State.at(problem, problem.gradient_of_signal(near, z[:, None]).X))
    np.testing.assert_allclose(w, 1 / (np.abs(z) ** 2 + problem.y), rtol=1e-6)
    ratio = w * (np.abs(z) ** 2 - problem.y) ** 2 / (np.abs(z) - np.sqrt(problem.y)) ** 2
    assert ((ratio > 1 - 1e-6) & (ratio < 2 + 1e-6)).all()


def test_fisher_weights_of_zero_measurements():
    problem = lr.PhaseRetrieval(np.array([[1.0, 0], [1, 1], [0, 0], [1, -1], [0, 2]]), np.array([4.0, 4, 0, 4, 0]))
    state = State.at(problem, lr.FixedRank.semidefinite(np.array([[1.0], [0.0]])))
    assert np.isfinite(Fisher()(problem, state)).all()
    result = lr.solve(problem, 1, FISHER)
    np.testing.assert_allclose(np.abs(result.signal), [2, 0], atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_weighted_step_against_its_dense_twin(dtype):
    """The first step: the exact one along the weighted gradient."""
    problem, x = lr.datasets.random_phase(6, dtype=dtype, seed=2)
    state = State.at(problem, lr.FixedRank.semidefinite((x + 0.2 * np.roll(x, 1))[:, None]))
    new = FISHER.step(problem, state.with_memory(FISHER.start(problem, state)))
    A, u = problem.linear_map.A, state.X.U
    d = (np.abs(A @ u) ** 2)[:, 0] * state.X.s - problem.y
    w = 1 / (d + 2 * problem.y)
    G = A.conj().T @ ((w * d)[:, None] * A)
    P = u @ u.conj().T
    xi = P @ G + G @ P - P @ G @ P
    alpha = np.vdot(G, xi).real / (w * np.einsum("ki,ij,kj->k", A, xi, A.conj()).real ** 2).sum()
    assert -new.step == pytest.approx(-alpha, rel=1e-6) or new.step == pytest.approx(alpha, rel=1e-6)
    values, vectors = np.linalg.eigh(state.X.to_dense() - alpha * xi)
    expected = values[-1] * np.outer(vectors[:, -1], vectors[:, -1].conj())
    np.testing.assert_allclose(new.X.to_dense(), expected, atol=1e-6 * values[-1])


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_fisher_weights_save_iterations_and_the_residual_falls(dtype):
    problem, x = lr.datasets.random_phase(64, oversampling=6, dtype=dtype, seed=3)
    plain, weighted = (lr.solve(problem, 1, name, tol=1e-8) for name in ("rcg", FISHER))
    assert weighted.converged
    assert lr.phase.phase_distance(weighted.signal, x) < 1e-7
    assert weighted.n_iter < 0.8 * plain.n_iter
    assert (np.diff(weighted.history.residual) <= 0).all()


def test_fisher_weights_are_refused_for_other_problems():
    problem, _ = lr.datasets.random_completion(20, 20, 1, seed=1)
    with pytest.raises(lr.ParameterError, match="Fisher needs a PhaseRetrieval"):
        lr.solve(problem, 1, FISHER)


# -- the whitened metric -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_whitened_gradient_is_that_of_orthonormal_columns(dtype, backend):
    """With ``A = Q R`` and ``w = R x``: the step at x in the metric is R^-1 of the plain one at w."""
    problem, _ = lr.datasets.random_phase(7, dtype=dtype, seed=4, backend=backend)
    A = host(problem.linear_map.A)
    Q, R = np.linalg.qr(A)
    x = random_array(np.random.default_rng(2), (7, 1), dtype)
    twin = lr.PhaseRetrieval(Q, host(problem.y))
    G, Y = problem.gradient_of_signal(backend.asarray(x), backend.asarray(A @ x)), lr.FixedRank.semidefinite(R @ x)
    X, H, metric = G.X, twin.gradient(Y), Whitened()
    plain = riemannian_gradient(Y, H, Weights())
    whitened = riemannian_gradient(X, G, metric.weights(G, metric.start(G))[0])
    back = np.linalg.solve(R, np.linalg.solve(R, host(plain.to_dense())).conj().T)
    found = host(whitened.to_dense())
    np.testing.assert_allclose(found, back, atol=1e-4 * np.abs(back).max())


def test_whitening_evens_out_columns():
    problem, x = lr.datasets.random_phase(40, oversampling=6, seed=5)
    scales = np.geomspace(0.1, 10, 40)
    problem = lr.PhaseRetrieval(problem.linear_map.A * scales, problem.y)
    near = lr.FixedRank.semidefinite(((x + 0.2 * np.roll(x, 1)) / scales)[:, None])
    plain, whitened = (
        lr.solve(problem, 1, RCG(m, reweighting=Fisher()), start=near, tol=1e-8) for m in (lr.metrics.Canonical(), Whitened())
    )
    assert whitened.converged
    assert whitened.n_iter < 15
    assert lr.phase.phase_distance(whitened.signal * scales, x) < 1e-6
    assert plain.n_iter > 3 * whitened.n_iter


def test_whitening_is_canonical_for_functions():
    problem, _ = lr.datasets.random_phase(12, seed=6)
    A = problem.linear_map.A
    twin = lr.PhaseRetrieval.from_functions(lambda v: A @ v, lambda w: A.T @ w, problem.y, 12, dtype=float)
    assert isinstance(twin.gram_operator, Iterations)
    one, two = (lr.solve(twin, 1, RCG(m), max_iter=5).X.U for m in (lr.metrics.Canonical(), Whitened()))
    np.testing.assert_array_equal(one, two)
    completion, _ = lr.datasets.random_completion(20, 20, 1, seed=1)
    with pytest.raises(lr.ParameterError, match="Whitened needs a PhaseRetrieval"):
        lr.solve(completion, 1, RCG(Whitened()))


# -- what auto does ----------------------------------------------------------------------------------------------------
def test_many_measurements_need_no_message_passing():
    problem, x = lr.datasets.random_phase(64, oversampling=6, seed=3)
    result = lr.solve(problem, 1)
    assert result.converged
    assert not result.history.notes
    assert lr.phase.phase_distance(result.signal, x) < 1e-5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("dtype", "oversampling"), [(np.float64, 1.75), (np.float64, 2.5), (np.complex128, 2.75), (np.complex128, 4.0)]
)
def test_few_measurements(dtype, oversampling, seed):
    problem, x = lr.datasets.random_phase(120, oversampling=oversampling, dtype=dtype, seed=seed)
    result = lr.solve(problem, 1, tol=1e-8)
    assert result.converged, result
    assert lr.phase.phase_distance(result.signal, x) < 1e-5
    if oversampling < (3.5 if dtype is np.complex128 else 2.5):
        assert "message passing" in result.status.advice


def test_message_passing_follows_a_stall():
    problem, x = lr.datasets.random_phase(120, oversampling=2, seed=7)
    first = lr.solve(problem, 1, FISHER, tol=1e-8)
    assert not first.converged  # the problem is built so
    result = lr.solve(problem, 1, AutoPhase(min_oversampling_real=1.0), tol=1e-8)  # descent first all the same
    assert result.converged, result
    assert lr.phase.phase_distance(result.signal, x) < 1e-6
    notes = list(result.history.notes.values())
    assert "message passing from a random signal" in notes[0]
    assert "conjugate gradients" in notes[1]
    assert all(np.isnan(result.history.step[k]) for k in result.history.notes)


@pytest.mark.parametrize("masks", [3, 6])
@pytest.mark.parametrize("shape", [128, (12, 11)])
def test_few_masks(shape, masks):
    problem, x = lr.datasets.random_diffraction(shape, masks=masks, seed=1)
    result = lr.solve(problem, 1, tol=1e-8)
    assert result.converged, result
    assert result.n_iter < 120
    assert lr.phase.phase_distance(result.signal, x) < 1e-6


def test_few_measurements_through_functions():
    problem, x = lr.datasets.random_phase(80, oversampling=3, dtype=np.complex128, seed=1)
    A = problem.linear_map.A
    twin = lr.PhaseRetrieval.from_functions(lambda v: A @ v, lambda w: A.conj().T @ w, problem.y, 80)
    result = lr.solve(twin, 1, tol=1e-8)
    assert result.converged, result
    assert lr.phase.phase_distance(result.signal, x) < 1e-6


@pytest.mark.parametrize(("dtype", "oversampling"), [(np.float32, 2.0), (np.complex64, 3.0)])
def test_few_measurements_in_single_precision(dtype, oversampling):
    problem, x = lr.datasets.random_phase(100, oversampling=oversampling, dtype=dtype, seed=1)
    result = lr.solve(problem, 1, tol=1e-5)
    assert result.converged, result
    assert result.signal.dtype == dtype
    assert lr.phase.phase_distance(result.signal, x) < 1e-3


@pytest.mark.parametrize("noise", [1e-3, 0.05])
@pytest.mark.parametrize(
    ("dtype", "oversampling"), [(np.float64, 2.0), (np.float64, 6.0), (np.complex128, 3.0), (np.complex128, 8.0)]
)
def test_noise_ends_at_least_squares(dtype, oversampling, noise):
    """No worse than least squares from the true signal, in a bounded number of iterations."""
    problem, x = lr.datasets.random_phase(80, oversampling=oversampling, dtype=dtype, noise=noise, seed=2)
    result = lr.solve(problem, 1, max_iter=1000)
    best = lr.solve(problem, 1, "rcg", start=lr.FixedRank.semidefinite(x[:, None]), max_iter=1000)
    assert result.status == ("noise" if oversampling >= 6 else "stalled")  # the noise test needs 3 measurements a real unknown
    assert result.residual <= 1.001 * best.residual
    assert result.n_iter < 450


def test_unfittable_data_end_at_the_best_point():
    problem, _ = lr.datasets.random_phase(40, oversampling=4, seed=1)
    problem = lr.PhaseRetrieval(problem.linear_map.A, np.random.default_rng(1).permutation(problem.y))
    result = lr.solve(problem, 1, AutoPhase(max_attempts=2), max_iter=2000)
    assert not result.converged
    assert result.n_iter < 1000
    assert sum("random signal" in note for note in result.history.notes.values()) <= 2
    assert result.residual == result.history.residual.min()
    misfit = np.abs(problem.linear_map.A @ result.signal) ** 2 - problem.y
    assert result.residual == pytest.approx(np.linalg.norm(misfit) / np.linalg.norm(problem.y), rel=1e-6)


def test_a_given_start_is_used():
    for oversampling in (1.75, 6):
        problem, x = lr.datasets.random_phase(60, oversampling=oversampling, seed=1)
        assert lr.solve(problem, 1, start=lr.FixedRank.semidefinite(x[:, None])).n_iter == 0


def test_same_seed_same_bits():
    problem, _ = lr.datasets.random_phase(60, oversampling=2.75, dtype=np.complex128, seed=1)
    one, two = (lr.solve(problem, 1, tol=1e-8) for _ in range(2))
    np.testing.assert_array_equal(one.signal, two.signal)
    np.testing.assert_array_equal(one.history.residual, two.history.residual)


def test_other_problems_are_refused():
    completion, _ = lr.datasets.random_completion(20, 20, 1, seed=1)
    with pytest.raises(lr.ParameterError, match="AutoPhase needs a PhaseRetrieval"):
        lr.solve(completion, 1, AutoPhase())


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_amplitudes_instead_of_intensities_are_named(complex_, noise):
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((320, 40)), rng.standard_normal(40)
    if complex_:
        A, x = A + 1j * rng.standard_normal(A.shape), x + 1j * rng.standard_normal(40)
    amplitudes = abs(A @ x)
    amplitudes = np.maximum(amplitudes + noise * amplitudes.mean() * rng.standard_normal(320), 0)
    with pytest.warns(lr.ConvergenceWarning, match="amplitudes"):
        result = lr.solve(lr.PhaseRetrieval(A, amplitudes))
    assert result.status == "stalled"
    assert "pass y**2" in result.status.advice.partition(". ")[0]  # the first sentence
    assert "rank" not in result.status.advice
    right = lr.solve(lr.PhaseRetrieval(A, amplitudes**2))
    assert "amplitudes" not in right.status.advice
    assert right.converged


def test_amplitudes_of_coded_diffraction_patterns_are_named():
    rng = np.random.default_rng(1)
    image = np.clip(rng.random((12, 12)) + np.eye(12), 0, 1)
    masks = rng.choice(np.array([1, -1, 1j, -1j]), (6, 12, 12))
    amplitudes = np.abs(np.fft.fft2(masks * image))
    with pytest.warns(lr.ConvergenceWarning, match="amplitudes"):
        lr.solve(lr.PhaseRetrieval.coded_diffraction(masks, amplitudes))


def test_too_few_intensities_are_no_amplitudes():
    rng = np.random.default_rng(3)
    A, x = rng.standard_normal((45, 40)), rng.standard_normal(40)
    for y in ((A @ x) ** 2, np.maximum((A @ x) ** 2 + 5 * rng.standard_normal(45), 0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert "amplitudes" not in lr.solve(lr.PhaseRetrieval(A, y)).status.advice


def test_the_rank_of_phase_retrieval_is_one_by_default():
    problem, x = lr.datasets.random_phase(40, oversampling=4)
    assert lr.phase.phase_distance(lr.solve(problem).signal, x) < 1e-4
    completion, _ = lr.datasets.random_completion(30, 20, 2, oversampling=5)
    with pytest.raises(lr.ParameterError, match="rank is needed for Completion"):
        lr.solve(completion)
