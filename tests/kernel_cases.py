"""Patterns with their values, dense and sparse, for the tests of the kernels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from helpers import host, random_array, real_dtype
from machine import _kernels

native_only = pytest.mark.needs("native")
SETS = _kernels.instruction_sets() if _kernels else ["none"]


class OnDevice:
    """Passes over tensors that take NumPy arrays and give them back."""

    def __init__(self, passes, backend):
        self.passes, self.backend = passes, backend

    def __getattr__(self, name):
        def call(*args):
            return self.convert(getattr(self.passes, name)(*(self.convert(a, self.backend.asarray) for a in args)), host)

        return call

    def with_weights(self, weights):
        return OnDevice(self.passes.with_weights(self.convert(weights, self.backend.asarray)), self.backend)

    def matrix(self, p):
        return SimpleNamespace(toarray=lambda: host(self.passes.matrix(self.backend.asarray(p)).to_dense()))

    def convert(self, a, how):
        if isinstance(a, (tuple, list)):
            return tuple(self.convert(x, how) for x in a)
        return a if a is None or isinstance(a, float) else how(a)


class Case:
    """A pattern with its values, as CSR arrays and as dense ones."""

    def __init__(self, rng, mask, dtype):
        self.rng, self.mask, self.dtype, self.shape = rng, mask, np.dtype(dtype), mask.shape
        rows, cols = np.nonzero(mask)
        self.indptr = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int64)
        self.indices, self.rows, self.cols = cols.astype(np.int32), rows, cols
        self.m = len(rows)
        self.values = self.vector()

    def vector(self):
        return random_array(self.rng, self.m, self.dtype)

    def weights(self):
        """Of different sizes, a fifth of them zero."""
        w = np.exp(self.rng.standard_normal(self.m)) * (self.rng.random(self.m) > 0.2)
        return w.astype(real_dtype(self.dtype))

    def factors(self, width):
        return [random_array(self.rng, (n, width), self.dtype) for n in self.shape]

    def singular_values(self, width):
        return self.rng.uniform(0.5, 2, width).astype(real_dtype(self.dtype))

    def observations(self, backend):
        made = backend.make_observations(self.indptr, self.indices, self.values, self.shape[1])
        return OnDevice(made, backend) if hasattr(backend, "device") else made

    def matrix(self, p) -> np.ndarray:
        """The entries p as a dense matrix."""
        dense = np.zeros(self.shape, np.result_type(self.dtype, np.float64))
        dense[self.mask] = p
        return dense


def random_case(rng, shape, dtype, density=0.5, empty_rows=(), empty_cols=()) -> Case:
    mask = rng.random(shape) < density
    mask[list(empty_rows)], mask[:, list(empty_cols)] = False, False
    return Case(rng, mask, dtype)
