"""Methods on factors, against dense computations of the published formulas; the table of solvers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lorank as lr
from lorank.plans.registry import SOLVERS, named_solver
from lorank.solvers import Factored
from lorank.solvers.factored import exact_step
from lorank.solvers.families import FAMILIES, markdown_table
from solver_cases import dense_case, ill_conditioned, steps

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("damping", ["none", "constant", "residual"])
def test_scaled_gradient_descent_is_that_of_the_papers(damping):
    """ScaledGD (Tong, Ma, Chi), ScaledGD(lambda) (Xu and others) and PrecGD (Zhang, Fattahi, Zhang), two dense steps."""
    problem, X, L, R, mask, data = dense_case()
    p, eta, factor = problem.operator_scale, 0.3, 0.2
    for _ in range(2):
        rest = mask * (L @ R.T - data)
        size = {"none": 0.0, "constant": problem.y_norm, "residual": np.linalg.norm(rest)}[damping]
        shift = factor * size / p**0.5 * np.eye(2)
        L, R = (
            L - eta / p * rest @ R @ np.linalg.inv(R.T @ R + shift),
            R - eta / p * rest.T @ L @ np.linalg.inv(L.T @ L + shift),
        )
    found = steps(Factored(damping=damping, damping_factor=factor, step_size=eta), problem, X, 2)
    np.testing.assert_allclose(found, L @ R.T, rtol=1e-9, atol=1e-9)


def test_alternating_scaled_gradient_descent_is_that_of_the_paper():
    problem, X, L, R, mask, data = dense_case(1)
    p, eta = problem.operator_scale, 0.3
    for _ in range(2):
        L = L - eta / p * (mask * (L @ R.T - data)) @ R @ np.linalg.inv(R.T @ R)
        R = R - eta / p * (mask * (L @ R.T - data)).T @ L @ np.linalg.inv(L.T @ L)
    np.testing.assert_allclose(steps(Factored(alternating=True, step_size=eta), problem, X, 2), L @ R.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
def test_alternating_steepest_descent_is_that_of_tanner_and_wei(scaled):
    problem, X, L, R, mask, data = dense_case(2)
    for _ in range(2):
        g = (mask * (L @ R.T - data)) @ R
        d = g @ np.linalg.inv(R.T @ R) if scaled else g
        L = L - (g * d).sum() / ((mask * (d @ R.T)) ** 2).sum() * d
        g = (mask * (L @ R.T - data)).T @ L
        d = g @ np.linalg.inv(L.T @ L) if scaled else g
        R = R - (g * d).sum() / ((mask * (L @ d.T)) ** 2).sum() * d
    found = steps(Factored(preconditioned=scaled, alternating=True), problem, X, 2)
    np.testing.assert_allclose(found, L @ R.T, rtol=1e-8, atol=1e-8)


def test_r3mc_is_conjugate_gradients_in_the_scaled_metric():
    """Two dense steps: Polak-Ribiere in the metric of Mishra and Sepulchre, and a search of the step on a grid."""
    problem, X, L, R, mask, data = dense_case(3)
    last = None
    for _ in range(2):
        rest = mask * (L @ R.T - data)
        gL, gR = rest @ R, rest.T @ L
        xL, xR = gL @ np.linalg.inv(R.T @ R), gR @ np.linalg.inv(L.T @ L)
        slope = (gL * xL).sum() + (gR * xR).sum()
        dL, dR = -xL, -xR
        if last is not None:
            beta = (slope - (gL * last[2]).sum() - (gR * last[3]).sum()) / last[4]
            both = beta * last[0] - xL, beta * last[1] - xR
            if beta > 0 and -((gL * both[0]).sum() + (gR * both[1]).sum()) > 0.1 * slope:
                dL, dR = both
        last = dL, dR, xL, xR, slope
        p, q = mask * (dL @ R.T + L @ dR.T), mask * (dL @ dR.T)
        products = [rest * rest, 2 * rest * p, p * p + 2 * rest * q, 2 * p * q, q * q]
        squares = np.polynomial.Polynomial([a.sum() for a in products])
        t = min((t.real for t in squares.deriv().roots() if abs(t.imag) < 1e-9 and t.real > 0), key=squares)
        L, R = L + t * dL, R + t * dR
    np.testing.assert_allclose(steps(Factored(conjugate=True), problem, X, 2), L @ R.T, rtol=1e-7, atol=1e-7)


def test_the_exact_step_minimizes_along_the_curve():
    problem, X, *_ = dense_case(4)
    rng, G = np.random.default_rng(0), problem.gradient(X)
    p, q = rng.standard_normal((2, problem.m))
    p = p if p @ G.dual < 0 else -p
    t = exact_step(G, p, q)
    values = [np.linalg.norm(G.residual + s * p + s**2 * q) for s in (t - 1e-4, t, t + 1e-4)]
    assert values[1] == min(values)


@pytest.mark.parametrize("name", ["r3mc", "scaledgd", "precgd", "altscaledgd", "asd", "scaled-asd", "rgn"])
def test_published_solvers_recover_a_matrix(name):
    problem, truth = ill_conditioned(kappa=3)
    result = lr.solve(problem, 3, name)
    assert result.converged
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_r3mc_is_fast_where_rcg_stalls():
    problem, truth = ill_conditioned(300, 10, kappa=50, oversampling=4)
    result = lr.solve(problem, 10, "r3mc")
    assert result.converged
    assert result.n_iter < 120
    assert truth.distance(result.X) < 1e-4 * truth.norm()


def test_other_models_and_losses_are_refused_by_name():
    phase, _ = lr.datasets.random_phase(20)
    problem, _ = ill_conditioned()
    for other in (phase, lr.Completion(problem.rows, problem.cols, problem.y, problem.shape, loss="huber")):
        with pytest.raises(lr.ParameterError, match=rf"solver Factored .*{type(other).__name__}"):
            lr.solve(other, 1, "r3mc")
    with pytest.raises(lr.ParameterError, match="conjugate"):
        Factored(alternating=True, conjugate=True)


def test_the_table_has_all_names_with_their_compositions():
    assert {family.name for family in FAMILIES} == set(SOLVERS)
    space = {**vars(lr.solvers), **vars(lr.metrics), **vars(lr.steps), "Auto": lr.plans.Auto}
    for family in FAMILIES:
        assert eval(family.composition, space) == named_solver(family.name)
    keys = (ROOT / "docs/references.bib").read_text()
    assert all(f"{{{family.reference}," in keys for family in FAMILIES if family.reference)


def test_the_page_on_solvers_has_the_table():
    assert markdown_table() in (ROOT / "docs/solvers.md").read_text()
