"""
On a GPU
========

``device="cuda"`` and PyTorch's tensors do the work. This page runs where there is PyTorch, on a GPU where there is one and
else on the processor, which is slower than lorank's own kernels there. :doc:`/benchmarks/gpu` has the figures of an H200: a
million rows and columns from a hundred million entries in 0.23 s.
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
# The same problem on each; a first solve warms up, on a GPU it compiles kernels.

problem, truth = lr.datasets.random_completion(2000, 1500, rank=5, oversampling=5, seed=0)
small, _ = lr.datasets.random_completion(200, 150, rank=5, oversampling=5, seed=0)
seconds = {}
for name, device in devices.items():
    lr.solve(small, rank=5, device=device)
    begin = time.perf_counter()
    result = lr.solve(problem, rank=5, device=device)
    seconds[name] = time.perf_counter() - begin
    X = result.numpy().X  # from the device to here
    print(f"{name}: {result.status} after {result.n_iter} iterations, error {truth.distance(X) / truth.norm():.1e}")

# %%
# Seconds on the machine that built this page, small as the problem is. GPUs pay from about a million observations on.

figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
bars = axis.barh(list(seconds), list(seconds.values()))
axis.bar_label(bars, fmt="%.2f s", padding=4)
axis.margins(x=0.15)
axis.set(xlabel="seconds", title=f"{problem.m:,} observations, rank 5")
axis.invert_yaxis()
plt.show()
