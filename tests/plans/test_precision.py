"""Mixed precision: factors gathered in float32."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr

pytestmark = pytest.mark.needs("native")


@pytest.fixture(autouse=True)
def _mix_always(monkeypatch):
    from lorank.backends import native

    monkeypatch.setattr(native, "MIXED_BYTES", -1)


def problem(precision, seed=3):
    made, truth = lr.datasets.random_completion(120, 100, 4, oversampling=5, factors="gaussian", seed=seed)
    return lr.Completion(made.rows, made.cols, made.y, made.shape, precision=precision), truth


def error(result, truth):
    return truth.distance(result.X) / truth.norm()


def test_auto_precision_reaches_double_accuracy():
    found = {}
    for precision in ("double", "auto"):
        made, truth = problem(precision)
        result = lr.solve(made, 4, tol=1e-13)
        found[precision] = result
        assert error(result, truth) < 1e-11
    # far from the solution float32 was used: the iterates differ, by no more than it rounds
    first, other = (found[p].history.residual for p in ("double", "auto"))
    assert 0 < abs(first[1] - other[1]) < 1e-5 * first[1]


def test_mixed_precision_reaches_single_accuracy():
    made, truth = problem("mixed")
    result = lr.solve(made, 4, "rcg", tol=1e-6)
    assert result.converged
    assert error(result, truth) < 1e-5
    result = lr.solve(made, 4, "rcg", tol=1e-12)
    assert not result.converged


def test_mixed_gradients_are_those_of_rounded_factors():
    made, _ = problem("mixed")
    plain, _ = problem("double")
    X = lr.solve(plain, 4, "rcg", max_iter=3, tol=0).X
    rough, full = made.gradient(X), plain.gradient(X)
    for a, b in zip((rough.GV, rough.GhU, *rough.squared_norms), (full.GV, full.GhU, *full.squared_norms), strict=True):
        assert 0 < np.linalg.norm(a - b) < 1e-5 * np.linalg.norm(b)


def test_residuals_of_long_steps_are_in_double_precision():
    made, truth = problem("auto")
    far = lr.FixedRank(truth.U, truth.s / 2, truth.V)
    arrived = made.gradient(far).at(truth)
    assert arrived.residual_norm < 1e-13 * made.y_norm
    mixed, _ = problem("mixed")
    assert mixed.gradient(far).at(truth).residual_norm > 1e-9 * made.y_norm
    plain, _ = problem("double")
    np.testing.assert_array_equal(arrived.GhU, plain.gradient(truth).GhU)


def test_same_bits_twice_and_for_the_held_out_part():
    made, _ = problem("auto")
    first, second = (lr.solve(made, 4, tol=1e-10) for _ in range(2))
    np.testing.assert_array_equal(first.X.U, second.X.U)
    kept, held = problem("mixed")[0].split(np.random.default_rng(0), 0.1)
    assert kept.precision == held.precision == "mixed"


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="precision must be one of 'auto', 'double', 'mixed', got 'half'"):
        lr.Completion([0], [0], [1.0], precision="half")
