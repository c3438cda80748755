"""The public checks for a measurement model: they pass on right ones, and fail on wrong ones."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

from helpers import DTYPES, eps, host, random_array, random_problem, seeds
from lorank.losses import Huber, Loss
from lorank.problems import Completion, Gradient, MatrixProblem
from lorank.problems.testing import check_gradient, dot_test

RANK = 2


class Sensing(MatrixProblem):
    """``y_k = <A_k, X>`` with dense random matrices A_k."""

    def __init__(self, shape=(8, 7), m=60, dtype=np.float64, seed=0):
        rng = np.random.default_rng(seed)
        self.A = random_array(rng, (m, shape[0] * shape[1]), dtype)
        super().__init__(random_array(rng, m, dtype), shape, operator_scale=m)

    def forward(self, left, right):
        return self.A @ (left @ right.conj().T).ravel()

    def adjoint(self, p):
        return (self.A.conj().T @ p).reshape(self.shape)


complex_dtypes = [d for d in DTYPES if d.kind == "c"]
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)


# -- right models ------------------------------------------------------------------------------------------------------
@given(shape=st.tuples(st.integers(2, 15), st.integers(2, 15)), rank=st.integers(1, 3), seed=seeds)
def test_dot_test_passes_on_completion(shape, rank, seed, dtype, backend):
    problem = random_problem(np.random.default_rng(seed), shape, dtype, backend)
    assert dot_test(problem, rank=rank, seed=seed) <= 100 * eps(dtype)


@pytest.mark.parametrize("seed", range(3))
def test_check_gradient_passes_on_completion(seed, dtype, backend):
    problem = random_problem(np.random.default_rng(seed), (15, 12), dtype, backend)
    assert abs(check_gradient(problem, RANK, seed=seed) - 2) < 0.1


@by_dtype
def test_both_pass_on_sensing(dtype):
    problem = Sensing(dtype=dtype)
    assert dot_test(problem) <= 100 * eps(dtype)
    assert abs(check_gradient(problem, RANK) - 2) < 0.1


@by_dtype
def test_both_pass_on_a_linear_operator(dtype):
    class Operator(Sensing):
        def adjoint(self, p):
            return aslinearoperator(super().adjoint(p))

    dot_test(Operator(dtype=dtype))
    check_gradient(Operator(dtype=dtype), RANK)


# -- wrong ones --------------------------------------------------------------------------------------------------------
class NoConjugate(Sensing):
    def adjoint(self, p):
        return (self.A.T @ p).reshape(self.shape)


class ConjugateResult(Sensing):
    def adjoint(self, p):
        return super().adjoint(p).conj()


class ForwardWithoutConjugate(Sensing):
    def forward(self, left, right):
        return self.A @ (left @ right.T).ravel()


class TransposedAdjoint(Sensing):
    def __init__(self, **options):
        super().__init__(shape=(8, 8), **options)

    def adjoint(self, p):
        return super().adjoint(p).T


class DoubledAdjoint(Sensing):
    def adjoint(self, p):
        return 2 * super().adjoint(p)


class NegativeAdjoint(Sensing):
    def adjoint(self, p):
        return -super().adjoint(p)


class OneWrongRow(Sensing):
    """A slip in one measurement of sixty."""

    def adjoint(self, p):
        p = p.copy()
        p[7] = 0
        return super().adjoint(p)


@pytest.mark.parametrize("model", [TransposedAdjoint, DoubledAdjoint, NegativeAdjoint, OneWrongRow])
@by_dtype
def test_wrong_adjoints_fail_both_checks(model, dtype):
    problem = model(dtype=dtype)
    with pytest.raises(AssertionError, match="do not match"):
        dot_test(problem)
    if model is OneWrongRow and eps(dtype) > 1e-10:
        return  # so small an error in the slope drowns in single precision
    with pytest.raises(AssertionError, match="the gradient is wrong"):
        check_gradient(problem, RANK)


@pytest.mark.parametrize("model", [NoConjugate, ConjugateResult])
@pytest.mark.parametrize("dtype", complex_dtypes, ids=lambda d: d.name)
def test_missing_conjugates_fail_both_checks(model, dtype):
    problem = model(dtype=dtype)
    with pytest.raises(AssertionError, match="do not match"):
        dot_test(problem)
    with pytest.raises(AssertionError, match="the gradient is wrong"):
        check_gradient(problem, RANK)


# Without conj, forward is no function of the matrix left right^H: the gradient check need not see that.
@pytest.mark.parametrize("dtype", complex_dtypes, ids=lambda d: d.name)
def test_a_missing_conjugate_in_forward_fails(dtype):
    with pytest.raises(AssertionError, match="do not match"):
        dot_test(ForwardWithoutConjugate(dtype=dtype))


@pytest.mark.parametrize(
    ("method", "wrong"), [("forward", "forward returns an array of shape"), ("adjoint", "adjoint returns a matrix")]
)
def test_wrong_shapes_fail_the_dot_test(method, wrong):
    problem = Sensing()
    right = getattr(problem, method)
    setattr(problem, method, lambda *a: right(*a)[:-1])
    with pytest.raises(AssertionError, match=wrong):
        dot_test(problem)


def test_nan_fails_the_dot_test():
    problem = Sensing()
    problem.A[3, 3] = np.nan
    with pytest.raises(AssertionError, match="do not match"):
        dot_test(problem)


def test_a_tighter_tolerance_is_respected():
    class SlightlyOff(Sensing):
        def adjoint(self, p):
            return (1 + 1e-10) * super().adjoint(p)

    dot_test(SlightlyOff())
    with pytest.raises(AssertionError, match="do not match"):
        dot_test(SlightlyOff(), rtol=1e-12)


@pytest.mark.parametrize("name", ["GV", "GhU"])
def test_a_wrong_gradient_fails(name, dtype):
    """A model with a fast gradient of its own that forgets a factor in one of its two products."""

    class WrongGradient(Gradient):
        pass

    setattr(WrongGradient, name, property(lambda self: 1.1 * getattr(Gradient, name).func(self)))

    class Model(Sensing):
        def gradient(self, X):
            return WrongGradient(self, X)

    dot_test(Model(dtype=dtype))  # forward and adjoint are right
    with pytest.raises(AssertionError, match="the gradient is wrong"):
        check_gradient(Model(dtype=dtype), RANK)


def test_a_wrong_completion_fails(backend):
    """The checks see through the fused passes too."""

    class Shifted(Completion):
        def adjoint(self, p):
            return super().adjoint(self.backend.asarray(np.roll(host(p), 1)))

    rng = np.random.default_rng(0)
    right = random_problem(rng, (10, 9), np.float64, backend)
    problem = Shifted(right.rows, right.cols, right.y, right.shape, backend=backend)
    with pytest.raises(AssertionError, match="do not match"):
        dot_test(problem)


def test_in_place_work_is_named():
    class InPlace(Sensing):
        def adjoint(self, p):
            out = super().adjoint(p)
            p *= 0
            return out

    class InPlaceForward(Sensing):
        def forward(self, left, right):
            out = super().forward(left, right)
            right += 1
            return out

    with pytest.raises(AssertionError, match="adjoint changes its argument p"):
        dot_test(InPlace())
    with pytest.raises(AssertionError, match="forward changes its argument right"):
        dot_test(InPlaceForward())


class FourthPower(Loss):
    """Its error has large terms of higher order."""

    name = "fourth power"

    def value(self, xp, d, y):
        return d**4 / 4

    def slope(self, xp, d, y):
        return d**3

    def curvature(self, xp, d, y):
        return 3 * d**2


class WrongFourthPower(FourthPower):
    def slope(self, xp, d, y):
        return 1.01 * d**3


class WrongHuber(Huber):
    def slope(self, xp, d, y):
        return 1.01 * super().slope(xp, d, y)


@pytest.mark.parametrize("seed", range(8))
def test_losses_with_terms_of_higher_order_and_with_fitted_parameters_pass(seed):
    """The scale of Huber's loss is fitted at the random point, and is the same along the curve."""
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random((12, 10)) < 0.5)
    values = rng.standard_normal(len(rows))
    for loss, is_right in (("squares", 1), (FourthPower(), 1), (Huber(), 1), (WrongFourthPower(), 0), (WrongHuber(), 0)):
        problem = Completion(rows, cols, values, (12, 10), loss=loss)
        with contextlib.nullcontext() if is_right else pytest.raises(AssertionError, match="the gradient is wrong"):
            check_gradient(problem, RANK, seed=seed)
