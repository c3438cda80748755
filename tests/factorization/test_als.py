"""Regularised alternating least squares against plain dense minimisers, and the learned priors against what was drawn."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.factorization import RegularizedALS, VariationalALS
from lorank.factorization.als import scales
from lorank.loop.state import State

SHAPE = (14, 11)


def problem_of(seed=0, shape=SHAPE, density=0.6):
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < density
    mask[np.arange(shape[0]), np.arange(shape[0]) % shape[1]] = True
    mask[np.arange(shape[1]) % shape[0], np.arange(shape[1])] = True
    rows, cols = np.nonzero(mask)
    values = rng.standard_normal(len(rows))
    return lr.Completion(rows, cols, values, shape), mask


def sweep(problem, solver, rank, count, seed=0):
    rng = np.random.default_rng(seed)
    X = lr.FixedRank.from_factors(rng.standard_normal((problem.shape[0], rank)), rng.standard_normal((problem.shape[1], rank)))
    state = State.at(problem, X)
    state = state.with_memory(solver.start(problem, state))
    for _ in range(count):
        state = solver.step(problem, state)
    return state


def soft_impute(problem, mask, lam, w=None, rounds=20000):
    """``min |P(X - Y)|^2 / 2 + lam |X|_*`` by proximal steps on dense matrices."""
    Y, W = np.zeros(problem.shape), np.zeros(problem.shape)
    Y[problem.rows, problem.cols] = problem.y
    W[problem.rows, problem.cols] = 1.0 if w is None else w
    step = 1 / W.max()
    X = np.zeros(problem.shape)
    for _ in range(rounds):
        u, s, vt = np.linalg.svd(X - step * W * (X - Y), full_matrices=False)
        new = (u * np.maximum(s - step * lam, 0)) @ vt
        if np.abs(new - X).max() < 1e-12:
            break
        X = new
    return X


@pytest.mark.parametrize("weighted", [False, True])
def test_the_nuclear_norm_is_minimised(weighted):
    problem, mask = problem_of()
    w = np.random.default_rng(1).random(problem.m) + 0.2 if weighted else None
    if w is not None:
        w /= w.mean()
        problem = lr.Completion(problem.rows, problem.cols, problem.y, SHAPE, weights=w)
    state = sweep(problem, RegularizedALS(0.7), 11, 400)
    np.testing.assert_allclose(state.X.to_dense(), soft_impute(problem, mask, 0.7, w), atol=2e-4)
    # balanced factors: half the squared norms are the nuclear norm
    memory = state.memory
    halves = (np.sum(memory.rows**2) + np.sum(memory.cols**2)) / 2
    assert halves == pytest.approx(state.X.s.sum(), rel=1e-3)


def test_the_frobenius_penalty_has_its_plain_minimiser():
    problem, mask = problem_of()
    state = sweep(problem, RegularizedALS(0.5, penalty="frobenius"), 11, 800)
    Y = np.zeros(SHAPE)
    Y[problem.rows, problem.cols] = problem.y
    np.testing.assert_allclose(state.X.to_dense(), np.where(mask, Y / 1.5, 0), atol=2e-3)


def test_biases_alone_solve_their_ridge_regression():
    """At a strength that leaves no factors, the biases are those of a two-way ridge regression."""
    problem, _ = problem_of()
    state = sweep(problem, RegularizedALS(1e6, biases=True, shrinkage=2.0), 2, 300)
    n1, n2 = SHAPE
    D = np.zeros((problem.m, n1 + n2))
    D[np.arange(problem.m), problem.rows] = 1
    D[np.arange(problem.m), n1 + problem.cols] = 1
    b = np.linalg.solve(D.T @ D + 2 * np.eye(n1 + n2), D.T @ problem.y)
    np.testing.assert_allclose(state.memory.rows[:, -2], b[:n1], atol=1e-6)
    np.testing.assert_allclose(state.memory.cols[:, -1], b[n1:], atol=1e-6)
    assert (state.memory.rows[:, -1] == 1).all()
    assert (state.memory.cols[:, -2] == 1).all()
    residual = problem.y - b[problem.rows] - b[n1 + problem.cols]
    assert state.residual == pytest.approx(np.linalg.norm(residual) / problem.y_norm, rel=1e-5)


@pytest.mark.parametrize("solver", [RegularizedALS(), VariationalALS()])
def test_unsupported_problems_are_refused_by_name(solver):
    """Imaginary parts were dropped, and the residual said to be 0."""
    problem, _ = problem_of()
    complex_problem = lr.Completion(problem.rows, problem.cols, problem.y * (1 + 1j), SHAPE)
    with pytest.raises(ValueError, match=f"{type(solver).__name__} fits real entries, and these are complex"):
        lr.solve(complex_problem, 2, solver)
    rng = np.random.default_rng(0)
    sensing = lr.Sensing(rng.standard_normal((30, 12)), rng.standard_normal(30), (4, 3))
    with pytest.raises(ValueError, match=f"{type(solver).__name__} needs a Completion .*Sensing"):
        lr.solve(sensing, 1, solver)


def test_distance_of_factors_by_gram_products():
    problem, _ = problem_of()
    first = sweep(problem, RegularizedALS(0.3), 3, 2)
    second = RegularizedALS(0.3).step(problem, first)
    distance = np.linalg.norm(first.X.to_dense() - second.X.to_dense())
    assert second.step == pytest.approx(distance, rel=1e-6)


@pytest.mark.parametrize("penalty", ["nuclear", "frobenius"])
def test_iterations_never_increase_the_penalized_objective(penalty):
    problem, _ = problem_of(3)
    row_scale, col_scale = scales(problem, 0.5)
    solver = RegularizedALS(0.4, penalty=penalty, biases=True, count_scaling=0.5)

    def objective(state):
        m = state.memory
        fit = np.sum((problem.forward(m.rows, m.cols) - problem.y) ** 2) / 2
        U, V = m.rows[:, :-2] * np.sqrt(row_scale)[:, None], m.cols[:, :-2] * np.sqrt(col_scale)[:, None]
        factors = np.sum(U**2) + np.sum(V**2) if penalty == "nuclear" else np.sum((U @ V.T) ** 2)
        return fit + 0.2 * factors + 2.5 * (row_scale @ m.rows[:, -2] ** 2 + col_scale @ m.cols[:, -1] ** 2)

    rng = np.random.default_rng(0)
    state = State.at(problem, lr.FixedRank.from_factors(rng.standard_normal((14, 3)), rng.standard_normal((11, 3))))
    state = state.with_memory(solver.start(problem, state))
    values = []
    for _ in range(30):
        state = solver.step(problem, state)
        values.append(objective(state))
    assert (np.diff(values) <= 1e-9 * values[0]).all()


def noisy(n1=300, n2=200, rank=3, sigma=0.5, seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n1, rank)) @ rng.standard_normal((rank, n2))
    truth += rng.standard_normal((n1, 1)) + rng.standard_normal(n2)
    rows, cols = np.nonzero(rng.random((n1, n2)) < density)
    values = truth[rows, cols] + sigma * rng.standard_normal(len(rows))
    return lr.Completion(rows, cols, values, (n1, n2)), truth


def test_learned_priors_find_the_noise_and_the_rank():
    problem, truth = noisy()
    state = sweep(problem, VariationalALS(biases=True), 8, 60)
    assert state.memory.noise**-0.5 == pytest.approx(0.5, rel=0.05)
    error = np.sqrt(np.mean((state.X.to_dense() - truth) ** 2))
    assert error < 0.2  # 300 x 200 of rank 3 + biases from 18,000 values with noise 0.5
    U, V = state.memory.rows[:, :-2], state.memory.cols[:, :-2]
    s = lr.FixedRank.from_factors(U - U.mean(0), V - V.mean(0)).s
    assert s[3] < 0.2 * s[2]  # components beyond the third have faded


def test_learned_priors_predict_as_well_as_the_best_penalty():
    problem, truth = noisy(sigma=2.0, density=0.2)

    def error(state):
        return np.sqrt(np.mean((state.X.to_dense() - truth) ** 2))

    best = min(error(sweep(problem, RegularizedALS(lam, biases=True), 5, 30)) for lam in (1, 3, 10, 20, 30, 50))
    assert error(sweep(problem, VariationalALS(biases=True), 5, 30)) < 1.02 * best


def test_noise_of_columns_is_estimated():
    rng = np.random.default_rng(0)
    sigma = np.where(np.arange(40) < 20, 0.1, 1.0)
    table = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 40)) + sigma * rng.standard_normal((400, 40))
    problem = lr.Completion.from_dense(np.where(rng.random(table.shape) < 0.7, table, np.nan))
    memory = sweep(problem, VariationalALS(noise="columns"), 4, 40).memory
    found = (memory.noise * memory.col_noise) ** -0.5
    np.testing.assert_allclose(found, sigma, rtol=0.35)
    assert memory.row_noise is None


def test_weights_count_like_repetitions():
    problem, _ = noisy(40, 30)
    w = np.random.default_rng(2).integers(1, 3, problem.m).astype(float)

    def weighted(w):
        return lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, weights=w)

    light = sweep(weighted(w), VariationalALS(biases=True), 2, 10)
    heavy = sweep(weighted(np.ones(problem.m)), VariationalALS(biases=True), 2, 10)
    plain = sweep(problem, VariationalALS(biases=True), 2, 10)
    np.testing.assert_allclose(heavy.X.to_dense(), plain.X.to_dense(), atol=1e-9)
    assert np.abs(light.X.to_dense() - plain.X.to_dense()).max() > 1e-3
