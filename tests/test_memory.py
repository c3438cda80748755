"""Memory: a problem whose dense matrix could not exist, and the bound that the documentation gives."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import lorank as lr

SHAPE, M = (2_000_000, 1_500_000), 200_000


@pytest.mark.filterwarnings("ignore:.*no observation", "ignore:.*fewer than")
def test_a_problem_that_any_dense_array_would_kill():
    rng = np.random.default_rng(0)
    rows, cols = lr.datasets.sample_pattern(rng, SHAPE, M)
    problem = lr.Completion(rows, cols, rng.standard_normal(M), SHAPE)
    result = lr.solve(problem, 2, max_iter=3, tol=0)
    assert result.n_iter == 3
    assert result.X.is_finite()
    with pytest.raises(ValueError, match=r"3,000,000,000,000 entries.*over the limit"):
        result.X.to_dense()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("solver", ["auto", "prgd", "niht"])
def test_peak_memory_keeps_to_its_bound(solver):
    path = Path(__file__).parents[1] / "benchmarks" / "memory.py"
    spec = importlib.util.spec_from_file_location("benchmarks_memory", path)
    memory = importlib.util.module_from_spec(spec)
    sys.modules["benchmarks_memory"] = memory
    spec.loader.exec_module(memory)
    peak, bound = memory.measure((10_000, 10_000, 999_500, 10, 5), solver)
    assert peak < bound
    assert peak > 20e6  # the pattern alone is more: the measurement measures
