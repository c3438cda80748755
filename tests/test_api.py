"""The package as a whole: what importing it costs, and its data sets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import lorank as lr


def run(code: str, **env: str) -> str:
    import os

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_importing_lorank_imports_nothing_heavy():
    heavy = ["scipy", "matplotlib", "rich", "typer", "sklearn", "polars", "plotly", "torch", "dask", "pandas", "joblib"]
    code = f"import sys, lorank; print([m for m in {heavy!r} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_without_the_extension_there_is_one_line_of_warning_and_the_numpy_backend():
    code = (
        "import sys; sys.modules['lorank._kernels'] = None\n"
        "import lorank as lr\n"
        "for _ in range(2): p, t = lr.datasets.random_completion(30, 20, 2, seed=0)\n"
        "print(p.backend.name, lr.solve(p, 2, max_iter=3).n_iter)"
    )
    out = run(code)
    assert "numpy 3" in out
    assert out.count("NumPy backend") == 1
    assert "C++17 compiler" in out


def test_asking_for_native_without_the_extension_says_what_to_do():
    code = (
        "import sys; sys.modules['lorank._kernels'] = None\n"
        "import lorank as lr\n"
        "try: lr.Completion([0], [0], [1.0], (1, 1), backend='native')\n"
        "except ValueError as e: print(e)"
    )
    assert "reinstall it where a C++17 compiler is found" in run(code)


@pytest.mark.needs("native")
def test_an_instruction_set_can_be_asked_for():
    code = "import lorank as lr; lr.Completion([0], [0], [1.0]); from lorank import _kernels; print(_kernels.instruction_set())"
    assert run(code, LORANK_INSTRUCTION_SET="baseline").strip() == "baseline"
    code = "import lorank as lr\ntry: lr.Completion([0], [0], [1.0])\nexcept ValueError as e: print(e)"
    said = run(code, LORANK_INSTRUCTION_SET="avx1024")
    assert "LORANK_INSTRUCTION_SET='avx1024': this machine has 'baseline'" in said


def test_public_names_exist():
    for name in lr.__all__:
        assert getattr(lr, name) is not None


def test_doctest_of_the_package():
    import doctest

    import lorank.loop.result

    for module in (lr, lorank.loop.result):
        failures, tried = doctest.testmod(module)
        assert tried > 0
        assert failures == 0


@pytest.mark.parametrize("shape", [(7, 5), (200, 100)])
def test_patterns_are_uniform_without_repetition(shape):
    rng = np.random.default_rng(0)
    total = shape[0] * shape[1]
    for m in (0, 1, total // 10, total // 2, total):
        rows, cols = lr.datasets.sample_pattern(rng, shape, m)
        keys = rows * shape[1] + cols
        assert len(keys) == m == len(np.unique(keys))
        assert m == 0 or (keys.min() >= 0 and keys.max() < total)
    with pytest.raises(ValueError, match="m must"):
        lr.datasets.sample_pattern(rng, shape, total + 1)
    counts = np.zeros(total)
    for _ in range(400 if total < 100 else 50):
        rows, cols = lr.datasets.sample_pattern(rng, shape, total // 5)
        counts[rows * shape[1] + cols] += 1
    expected = counts.sum() / total
    assert ((counts - expected) ** 2 / expected).mean() < 1.2  # chi-squared per entry


@pytest.mark.parametrize("factors", list(lr.datasets.FACTORS))
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_random_problems_hold_their_truth(factors, dtype):
    problem, truth = lr.datasets.random_completion(30, 20, 2, oversampling=3, factors=factors, dtype=dtype, seed=1)
    assert problem.m == 3 * (30 + 20 - 2) * 2
    np.testing.assert_allclose(problem.y, truth.entries(problem.rows, problem.cols).astype(dtype), rtol=1e-5)
    noisy, _ = lr.datasets.random_completion(30, 20, 2, oversampling=3, factors=factors, dtype=dtype, noise=0.1, seed=1)
    assert np.linalg.norm(noisy.y - problem.y) == pytest.approx(0.1 * np.linalg.norm(problem.y), rel=1e-4)


def test_random_problems_refuse_unknown_factors():
    with pytest.raises(ValueError, match="factors must be one of 'uniform'"):
        lr.datasets.random_completion(5, 5, 1, factors="poisson")


@pytest.mark.needs("native")
@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "passive"}, {"GOMP_SPINCOUNT": "77"}])
def test_loading_the_extension_leaves_the_environment_as_it_was(own):
    code = (
        "import os; names = ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT'); before = [os.environ.get(k) for k in names]\n"
        "import sys, lorank; print('lorank._kernels' in sys.modules, before == [os.environ.get(k) for k in names])"
    )
    assert run(code, **own).strip() == "True True"
