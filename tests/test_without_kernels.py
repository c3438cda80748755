"""Installations without the C++ kernels: each process warns once, and the doctor names the remedy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FINDER = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "lorank._kernels":
            raise ModuleNotFoundError("No module named 'lorank._kernels'")

sys.meta_path.insert(0, Finder())
"""
SOLVE = """
import lorank as lr
for seed in (0, 1):
    problem, truth = lr.datasets.random_completion(60, 50, 2, oversampling=5, seed=seed)
    assert problem.backend.name == "numpy"
    assert lr.solve(problem, 2).X.distance(truth) < 1e-4 * truth.norm()
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(FINDER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    environment.pop("PYTHONWARNINGS", None)
    return lambda *command: subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )


def test_solve_warns_once_and_solves(run):
    said = run("-c", SOLVE).stderr
    assert said.count("lorank runs on its NumPy backend, several times slower than its C++ kernels: reinstall it") == 1


def test_commands_say_it_in_a_line_and_the_doctor_names_the_remedy(run, tmp_path):
    for name in ("typer", "rich", "matplotlib", "polars", "sklearn"):
        pytest.importorskip(name)
    found = run("-m", "lorank", "doctor").stdout
    assert "kernels" in found
    assert "reinstall lorank with a C++17 compiler" in found
    (tmp_path / "r.csv").write_text("user,item,rating\n" + "".join(f"{k % 9},{k // 9},{k % 5}\n" for k in range(60)))
    said = run("-m", "lorank", "complete", "r.csv", "--rank", "1", "--regularization", "1").stderr
    assert said.count("lorank: note: lorank runs on its NumPy backend") == 1


BROWSER = """
import sys, threading

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("lorank._kernels", "_multiprocessing", "_posixshmem", "fcntl", "resource"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def start(self):
    raise RuntimeError("can't start new thread")

sys.meta_path.insert(0, Absent())
threading.Thread.start = start
"""
ESTIMATE = """
import numpy as np, lorank as lr
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
pairs = np.argwhere(rng.random(X.shape) < 0.5)
model = lr.MatrixCompletion(rank=2, ranking=True).fit(pairs, X[tuple(pairs.T)])
assert abs(model.predict(pairs) - X[tuple(pairs.T)]).max() < 0.1
model.recommend([0], n=3)
table = np.where(rng.random((80, 5)) < 0.2, np.nan, rng.standard_normal((80, 2)) @ rng.standard_normal((2, 5)))
assert np.isfinite(lr.TableImputer().fit_transform(table)).all()
A = rng.standard_normal((90, 20))
assert lr.solve(lr.PhaseRetrieval(A, (A @ np.ones(20)) ** 2)).converged
t = np.sort(rng.permutation(64)[:30])
assert lr.solve(lr.HankelCompletion(t, np.exp(0.3j * t), 64), 1).converged
"""


def test_in_the_python_of_a_browser(run, tmp_path):
    """Without kernels, threads and processes, as in Pyodide."""
    pytest.importorskip("sklearn")
    (tmp_path / "sitecustomize.py").write_text(BROWSER)
    run("-c", SOLVE + ESTIMATE)
