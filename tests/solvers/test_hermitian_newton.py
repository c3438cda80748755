"""Gauss-Newton on Hermitian positive semidefinite matrices: iterates keep one factor for both sides."""

from __future__ import annotations

import numpy as np
import pytest

import lorank as lr
from lorank.geometry import FixedRank
from lorank.problems import Gradient, MatrixProblem
from lorank.solvers import GaussNewton


class HermitianGradient(Gradient):
    """A* p is Hermitian for real p."""

    @property
    def GhU(self):
        return self.GV if self.X.hermitian else super().adjoint_times(self.X.U)


class Expectations(MatrixProblem):
    """y_i = trace(H_i X) for Hermitian matrices H_i."""

    def __init__(self, H, y):
        self.H = H
        super().__init__(y, H.shape[1:], operator_scale=len(y))

    @property
    def dtype(self):
        return self.H.dtype

    def forward(self, left, right):
        image = np.einsum("kij,jl,il->k", self.H, left, right.conj())
        return image.real if left is right else image

    def adjoint(self, p):
        return np.tensordot(p, self.H, 1)

    def gradient(self, X):
        return HermitianGradient(self, X)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_the_iterates_stay_hermitian_and_converge(dtype):
    rng, n, rank = np.random.default_rng(0), 16, 2

    def array(*shape):
        a = rng.standard_normal(shape)
        return a + 1j * rng.standard_normal(shape) if dtype == np.complex128 else a

    truth = FixedRank.semidefinite(array(n, rank))
    H = array(6 * n * rank, n, n)
    H = (H + H.conj().transpose(0, 2, 1)) / 2
    y = np.einsum("kij,ji->k", H, truth.to_dense()).real
    near = FixedRank.semidefinite(truth.U * truth.s**0.5 + 0.02 * array(n, rank))
    kept = []
    result = lr.solve(
        Expectations(H, y),
        rank,
        GaussNewton(tol=1e-8),
        start=near,
        tol=1e-11,
        callbacks=[lambda problem, state, clock: kept.append(state.X.hermitian)],
    )
    assert all(kept)
    assert result.converged
    assert truth.distance(result.X) < 1e-8 * truth.norm()
