"""Completion in the tensor-train format: the gradient of the objective at a tensor train."""

from __future__ import annotations

import functools

import numpy as np

from ..backends import Array, Vector
from ..backends.train_observations import TrainObservations
from ..geometry import TensorTrain, TrainTangent
from ..problems import GradientBase

Products = list[np.ndarray]  # one (m, r_k) array for each k


class TrainGradient(GradientBase):
    """``G = A* slope`` at a tensor train by its products with the cores, about ``d r^2`` multiplications per observation.

    Products of the cores left and right of each mode are kept: about ``2 d r`` numbers per observation.
    """

    X: TensorTrain

    @functools.cached_property
    def _observations(self) -> TrainObservations:
        found: TrainObservations = self.problem.observations
        return found

    @functools.cached_property
    def _left_products(self) -> Products:
        """For each mode k, and after the last, the rows ``U_1[i_1] ... U_(k-1)[i_(k-1)]``."""
        found = [np.ones((self.problem.m, 1), self.X.dtype)]
        for k, core in enumerate(self.X.cores):
            found.append(self._observations.chain(k, found[-1], core))
        return found

    @functools.cached_property
    def right_products(self) -> Products:
        """For each mode k the columns ``V_(k+1)[i_(k+1)] ... V_d[i_d]``."""
        found = [np.ones((self.problem.m, 1), self.X.dtype)]
        for k in range(len(self.X.cores) - 1, 0, -1):
            found.append(self._observations.chain(k, found[-1], self.X.right[k].T))
        return found[::-1]

    @functools.cached_property
    def residual(self) -> Vector:
        return self._left_products[-1][:, 0] - self.problem.y

    def image(self, xi: TrainTangent) -> Vector:
        found = 0.0 * self.problem.y
        for k, (core, left, right) in enumerate(zip(xi.cores, self._left_products, self.right_products, strict=False)):
            found += np.einsum("pa,pa->p", self._observations.chain(k, left, core), right)
        return found

    def adjoint(self, p: Vector) -> list[np.ndarray]:
        """The products of ``A* p`` with the cores on the left and on the right of each mode."""
        pairs = zip(self._left_products, self.right_products, strict=False)
        return [self._observations.sums(k, left * p[:, None], right) for k, (left, right) in enumerate(pairs)]

    @functools.cached_property
    def cores(self) -> list[np.ndarray]:
        """For each mode k the (r_(k-1), n_k, r_k) products of G with ``U_1 ... U_(k-1)`` and ``V_(k+1) ... V_d``."""
        return self.adjoint(self.dual)

    @functools.cached_property
    def squared_norms(self) -> tuple[Array, ...]:
        """For each mode the squared norms of the slices of G."""
        squares = self.dual * self.dual
        return tuple(self._observations.mode_sums(k, squares) for k in range(len(self.X.cores)))
