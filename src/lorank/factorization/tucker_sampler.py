"""Bayesian Tucker model of a tensor with missing entries: Gibbs sampling of factors, core and variances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import get_backend
from ..tensors import TensorCompletion

BLOCK = 1 << 22  # numbers in products of factors that are formed at once
SLICES = 1 << 22  # entries of whole slices that are formed at once
CG_STEPS, CG_TOL = 30, 1e-3  # of the linear system for the core
SINGULAR = 1e-6  # of the mean variance of factors: bounds the change of collinear ones
LEAST_VARIANCE = 1e-12  # of the values: bounds the precision of data without noise


@dataclass(frozen=True)
class TuckerSample:
    """``C x_1 [1, U_1] ... x_d [1, U_d]``: the constant columns give means, effects and interactions of some modes only.

    Attributes
    ----------
    core : (1 + r_1, ..., 1 + r_d) array
    factors : list of (n_k, 1 + r_k) arrays
        The first column is 1.
    noise : float
        Variance of the noise.
    """

    core: np.ndarray
    factors: list[np.ndarray]
    noise: float

    def entries(self, index: np.ndarray) -> np.ndarray:
        """Entries at the rows of an (m, d) array of indices: one by one, or by blocks of whole slices if there are many."""
        found = np.empty(len(index))
        shape = [len(u) for u in self.factors]
        if len(index) * self.core.size < math.prod(shape) * self.core.shape[-1]:
            matrix = self.core.reshape(len(self.core), -1).T
            step = max(1, BLOCK // len(matrix))
            for at in range(0, len(index), step):
                part = index[at : at + step]
                others = _products([u[part[:, k]] for k, u in enumerate(self.factors) if k])
                found[at : at + step] = np.einsum("ij,ij->i", self.factors[0][part[:, 0]], others @ matrix)
            return found
        order = np.argsort(index[:, 0], kind="stable")
        step = max(1, SLICES // math.prod(shape[1:]))
        for first in range(0, shape[0], step):
            begin, end = np.searchsorted(index[order, 0], [first, first + step])
            if begin < end:
                slices = self.core
                for u in (self.factors[0][first : first + step], *self.factors[1:]):
                    slices = np.tensordot(slices, u, (0, 1))
                part = index[order[begin:end]]
                found[order[begin:end]] = slices[(part[:, 0] - first, *part.T[1:])]
        return found


class _Mode:
    """The unfolding of one mode on the observed entries: a row for each index, a column for each observed combination."""

    def __init__(self, index: np.ndarray, y: np.ndarray, shape: Sequence[int], k: int) -> None:
        others = [j for j in range(len(shape)) if j != k]
        flat = np.zeros(len(index), np.int64)
        for j in others:
            flat = flat * shape[j] + index[:, j]
        distinct, cols = np.unique(flat, return_inverse=True)
        self.order = np.lexsort((cols, index[:, k]))
        self.columns = {}
        for j in reversed(others):
            distinct, self.columns[j] = np.divmod(distinct, shape[j])
        self.others, self.n, self.k = others, len(next(iter(self.columns.values()))), k
        self.y = y[self.order]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(index[:, k], minlength=shape[k]))])
        self.observations: Any = get_backend().make_observations(indptr, cols[self.order].astype(np.int32), self.y, self.n)

    def products(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Kronecker products of the rows of the other factors, one row per column."""
        return _products([factors[j][self.columns[j]] for j in self.others])

    def factor(self, core: np.ndarray, factors: Sequence[np.ndarray]) -> np.ndarray:
        """The factor of the columns: the other factors times the core, in blocks."""
        matrix = np.moveaxis(core, self.k, 0).reshape(core.shape[self.k], -1).T
        found = np.empty((self.n, matrix.shape[1]))
        step = max(1, BLOCK // len(matrix))
        for at in range(0, self.n, step):
            part = [factors[j][self.columns[j][at : at + step]] for j in self.others]
            found[at : at + step] = _products(part) @ matrix
        return found


class TuckerSampler:
    """Gibbs sampler of a Tucker model with normal priors.

    Rows of the factors have standard normal priors. Entries of the core have normal priors with one variance for each set of
    modes, learned with the variance of the noise: effects of single modes, interactions of two modes and so on are shrunk
    each to its own degree.
    """

    def __init__(self, index: np.ndarray, y: np.ndarray, shape: Sequence[int], rng: np.random.Generator) -> None:
        self.problem = TensorCompletion(index, y, shape, backend="numpy")
        self.y, self.shape, self.rng = self.problem.y, self.problem.shape, rng
        self.modes = [_Mode(self.problem.indices, self.y, shape, k) for k in range(len(shape))]
        self.scale = float(np.mean(y**2)) or 1.0
        self.factors: list[np.ndarray] = []

    # -- state ---------------------------------------------------------------------------------------------------------
    def begin(self, factors: Sequence[np.ndarray], noise: float | None = None) -> None:
        """Begin at these factors, without their constant columns, and the core that fits best."""
        self.factors = [np.hstack([np.ones((len(u), 1)), u]) for u in factors]
        self.core = np.zeros([u.shape[1] for u in self.factors])
        self.noise = 0.5 * self.scale if noise is None else noise
        self.groups = np.zeros(self.core.shape, int)
        for k in range(self.core.ndim):
            places = np.arange(self.core.shape[k]) > 0
            self.groups += (places * 2**k).reshape([-1 if j == k else 1 for j in range(self.core.ndim)])
        self.variance = np.full(self.core.shape, self.scale)
        sizes = [mode.n * math.prod(self.core.shape) / self.core.shape[mode.k] for mode in self.modes]
        self.small = self.modes[int(np.argmin(sizes))]
        for k in range(self.core.ndim):
            self._standardize(k)
        self._core(draw=False)
        self._variances()

    def enlarge(self, ranks: Sequence[int]) -> None:
        """Add leading directions of the residual to the factors, up to these ranks, and begin there."""
        residual = np.empty(len(self.y))
        residual[self.small.order] = self.residual
        known = [u[:, 1:] for u in self.factors]
        self.begin([self._leading(residual, k, r, u) for k, (r, u) in enumerate(zip(ranks, known, strict=True))], self.noise)

    def spectral(self, ranks: Sequence[int]) -> None:
        """Begin at leading directions of the data."""
        self.begin(
            [self._leading(self.y, k, r, np.zeros((n, 0))) for k, (r, n) in enumerate(zip(ranks, self.shape, strict=True))]
        )

    def _leading(self, values: np.ndarray, k: int, r: int, known: np.ndarray) -> np.ndarray:
        if r <= known.shape[1]:
            return known
        new = self.problem.unfoldings[k].leading(values, r - known.shape[1], known if known.size else None)[1]
        size = np.sqrt((new**2).mean(0))
        return np.hstack([known, new / np.where(size > 0, size, 1.0)])

    def supported(self) -> list[int]:
        """Number of components of each mode that are larger than the error of their estimate."""
        found = []
        for k, n in enumerate(self.shape):
            energy = (np.moveaxis(self.core, k, 0)[1:] ** 2).reshape(self.core.shape[k] - 1, -1).sum(1)
            found.append(int((energy > self.noise * n / len(self.y)).sum()))
        return found

    def sample(self) -> TuckerSample:
        """The present state."""
        return TuckerSample(self.core.copy(), [u.copy() for u in self.factors], self.noise)

    def truncate(self, ranks: Sequence[int]) -> None:
        """Keep the leading components of each mode."""
        if any(u.shape[1] > r + 1 for u, r in zip(self.factors, ranks, strict=True)):
            self.begin([u[:, 1 : r + 1] for u, r in zip(self.factors, ranks, strict=True)], self.noise)

    def resume(self, sample: TuckerSample) -> None:
        """Begin at the factors of a sample."""
        self.begin([u[:, 1:] for u in sample.factors], sample.noise)

    def run(self, burn_in: int, kept: int) -> list[TuckerSample]:
        """Samples after a burn-in."""
        found = []
        for t in range(burn_in + kept):
            self.sweep()
            if t >= burn_in:
                found.append(self.sample())
        return found

    def sweep(self) -> None:
        """Draw every factor, the core and the variances once."""
        for k in range(self.core.ndim):
            self._rows(k)
            self._standardize(k)
        self._core()
        self._variances()

    # -- conditional distributions -------------------------------------------------------------------------------------
    def _rows(self, k: int) -> None:
        mode, width = self.modes[k], self.core.shape[k]
        if width == 1:
            return
        other = mode.factor(self.core, self.factors)
        mean, packed, _ = mode.observations.normal_equations(
            False, other, np.eye(width), np.zeros(width), fixed=0, noise=1 / self.noise, covariance=True
        )
        cov = np.empty((len(mean), width, width))
        above, below = np.triu_indices(width)
        cov[:, above, below] = cov[:, below, above] = packed
        root = np.linalg.cholesky(cov[:, 1:, 1:])
        self.factors[k] = mean.copy()
        self.factors[k][:, 1:] += np.einsum("nij,nj->ni", root, self.rng.standard_normal((len(mean), width - 1)))

    def _standardize(self, k: int) -> None:
        """Columns of mean 0, variance 1 and no correlation, with the core changed so that the tensor stays as it is."""
        u = self.factors[k][:, 1:]
        n, r = u.shape
        if not r:
            return
        mean = u.mean(0)
        centred = u - mean
        gram = centred.T @ centred / n
        root = np.linalg.cholesky(gram + (SINGULAR * np.trace(gram) / r + 1e-100) * np.eye(r))
        self.factors[k] = np.hstack([np.ones((n, 1)), np.linalg.solve(root, centred.T).T])
        core = np.moveaxis(self.core, k, 0)
        constant = core[0] + np.tensordot(mean, core[1:], 1)
        rest = np.tensordot(root.T, core[1:], 1)
        turn = np.linalg.svd(rest.reshape(r, -1), full_matrices=False)[0] if rest.any() and rest[0].size >= r else np.eye(r)
        self.factors[k][:, 1:] = self.factors[k][:, 1:] @ turn
        self.core = np.moveaxis(np.concatenate([constant[None], np.tensordot(turn.T, rest, 1)]), 0, k)

    def _core(self, draw: bool = True) -> None:
        """The core by conjugate gradients; a draw perturbs the right-hand side."""
        mode, precision = self.small, 1 / self.noise
        rows = self.factors[mode.k]
        products = mode.products(self.factors)
        prior = np.moveaxis(1 / self.variance, mode.k, 0).reshape(len(rows.T), -1)

        def adjoint(p: np.ndarray) -> np.ndarray:
            return mode.observations.adjoint_times(p, rows).T @ products

        def normal(core: np.ndarray) -> np.ndarray:
            image = mode.observations.sample(rows, products @ core.T)
            return precision * adjoint(image) + prior * core

        p = mode.y
        right = precision * adjoint(p)
        if draw:
            p = p + math.sqrt(self.noise) * self.rng.standard_normal(len(p))
            right = precision * adjoint(p) + np.sqrt(prior) * self.rng.standard_normal(prior.shape)
        core = np.moveaxis(self.core, mode.k, 0).reshape(prior.shape)
        core = conjugate_gradients(normal, right, core, precision * len(p) + prior)
        self.core = np.moveaxis(core.reshape(np.moveaxis(self.core, mode.k, 0).shape), 0, mode.k)
        self.residual = mode.y - mode.observations.sample(rows, products @ core.T)

    def _variances(self) -> None:
        m = len(self.y)
        squares = float(self.residual @ self.residual) + LEAST_VARIANCE * self.scale * m
        self.noise = squares / (2 * self.rng.gamma(m / 2))
        energy = self.core**2
        for group in range(1, 2**self.core.ndim):
            entries = self.groups == group
            self.variance[entries] *= self._ratio(energy[entries] / self.variance[entries])
        for k in range(self.core.ndim):
            variance = np.moveaxis(self.variance, k, 0)
            for a in range(1, len(variance)):
                variance[a] *= self._ratio(np.moveaxis(energy, k, 0)[a] / variance[a])
        np.maximum(self.variance, LEAST_VARIANCE * self.scale, out=self.variance)

    def _ratio(self, ratios: np.ndarray) -> float:
        """A draw of the variance of core entries relative to the present one."""
        n = ratios.size + 1
        return float((ratios.sum() + 1) / (2 * self.rng.gamma(n / 2))) if ratios.size else 1.0


def conjugate_gradients(normal: Any, right: np.ndarray, start: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """A solution of ``normal(x) = right`` to three digits, with a diagonal preconditioner."""
    x = start
    residual = right - normal(x)
    direction = scaled = residual / diagonal
    square = float(np.vdot(residual, scaled))
    enough = CG_TOL**2 * float(np.vdot(right, right / diagonal))
    for _ in range(CG_STEPS):
        if square <= enough:
            break
        image = normal(direction)
        alpha = square / float(np.vdot(direction, image))
        x, residual = x + alpha * direction, residual - alpha * image
        scaled = residual / diagonal
        square, last = float(np.vdot(residual, scaled)), square
        direction = scaled + square / last * direction
    return x


def _products(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Kronecker products of rows."""
    found = rows[0]
    for more in rows[1:]:
        found = (found[:, :, None] * more[:, None, :]).reshape(len(found), -1)
    return found
