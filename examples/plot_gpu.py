"""
GPU
===

With ``device="cuda"`` solvers run on a GPU through PyTorch. A GPU is faster from a few hundred thousand observations on; below
that, launches of kernels take most of the time. This page was built on a machine without a GPU: the times of an NVIDIA H200 are
recorded, from :doc:`/benchmarks/gpu`.
"""

import importlib.util
import json
from pathlib import Path

import matplotlib.pyplot as plt

import lorank as lr

# %%
# Available devices.

devices = {"CPU": None}
if importlib.util.find_spec("torch"):
    import torch

    if torch.cuda.is_available():
        devices["GPU"] = "cuda"
print(", ".join(devices))

# %%
# The same problems on each device: rank 10, five observations per degree of freedom, to a residual of 1e-6. The first
# solve on a GPU compiles kernels and is not timed.

seconds = {}
for n in (300, 1000, 3000):
    problem, truth = lr.datasets.random_completion(n, n, rank=10, oversampling=5, seed=0, backend="numpy")
    for name, device in devices.items():
        there = problem if device is None else problem.to(device)
        for _ in range(2):
            result = lr.solve(there, rank=10)
        error = truth.distance(result.numpy().X) / truth.norm()
        seconds.setdefault(name, []).append((problem.m, result.seconds))
        print(f"{name}: {problem.m:,} observations, {result.status} after {result.n_iter} iterations, error {error:.1e}")

# %%
# Recorded times to a relative error of 1e-4, on the same matrices: four cores of a CPU, and one GPU. Numbers are the ratios of
# the two in double precision.

table = Path("../docs/benchmarks/gpu.json")  # of a checkout
rows = json.loads(table.read_text())["sizes"]["found"] if table.exists() else []

figure, axis = plt.subplots(figsize=(8, 4.4), layout="constrained")
recorded = {"cpu": "CPU, 4 cores, float64", "float64": "H200, float64", "float32": "H200, float32"}
curves = {label: [(row["m"], row[key]["seconds"]) for row in rows] for key, label in recorded.items()} if rows else seconds
for (label, taken), mark in zip(curves.items(), "os^", strict=False):
    axis.loglog(*zip(*taken, strict=True), mark + "-", label=label)
for row in rows:
    slow, fast = row["cpu"]["seconds"], row["float64"]["seconds"]
    place = {"xytext": (0, 8), "textcoords": "offset points", "ha": "center", "color": "0.5"}
    axis.annotate(f"{float(f'{slow / fast:.2g}'):g} x", (row["m"], max(slow, fast)), **place)
axis.set(xlabel="observations", ylabel="seconds", title="CPU and GPU on the same matrices of rank 10", ylim=(None, 200))
axis.legend(loc="upper left")
plt.show()
