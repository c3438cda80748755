"""
On a GPU
========

``device="cuda"`` and PyTorch's tensors do the work. This page runs where there is PyTorch, on a GPU where there is one and
else on the processor, which is slower than lorank's own kernels there. :doc:`/benchmarks/gpu` has the figures of an H200: a
million rows and columns from a hundred million entries in 0.18 s.
"""

import importlib.util
import time

import matplotlib.pyplot as plt

import lorank as lr

# %%
# Where can it run here?

devices = {"kernels or NumPy": None}
if importlib.util.find_spec("torch"):
    import torch

    devices["PyTorch, processor"] = "cpu"
    if torch.cuda.is_available():
        devices["PyTorch, GPU"] = "cuda"
print(", ".join(devices))

# %%
# The same problems on each, rank 10, five observations for each degree of freedom; a first solve warms up, on a GPU it compiles
# kernels.

sizes, rank = (300, 1000, 3000), 10
problems = [lr.datasets.random_completion(n, n, rank, oversampling=5, seed=0) for n in sizes]
seconds = {}
for name, device in devices.items():
    lr.solve(problems[0][0], rank, device=device)
    for problem, truth in problems:
        begin = time.perf_counter()
        result = lr.solve(problem, rank, device=device)
        seconds.setdefault(name, []).append(time.perf_counter() - begin)
        X = result.numpy().X  # from the device to here
        error = truth.distance(X) / truth.norm()
        print(f"{name}: {problem.m:,} observations, {result.status} after {result.n_iter} iterations, error {error:.1e}")

# %%
# Seconds on the machine that built this page (to a residual of 1e-6), and those of an H200 that :doc:`/benchmarks/gpu` records
# (to an error of 1e-4, the data on the device): not measured here. Up to some ten million observations the time there is that
# of starting kernels; a GPU pays from about a million on.

recorded = {"H200, float64": (0.0365, 0.0560, 0.1835), "H200, float32": (0.0336, 0.0372, 0.1717)}
figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for name, taken in seconds.items():
    axis.loglog([problem.m for problem, _ in problems], taken, "o-", label=f"{name}, here")
for name, taken in recorded.items():
    axis.loglog((999_500, 12_000_000, 100_000_000), taken, "s--", label=name)
axis.set(xlabel="observations", ylabel="seconds", title="matrices of rank 10")
axis.legend()
plt.show()
