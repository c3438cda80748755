"""
GPU
===

With ``device="cuda"`` solvers run on a GPU through PyTorch. This example uses a GPU if there is one, and otherwise PyTorch on
the CPU, which is slower than lorank's kernels. :doc:`/benchmarks/gpu` has timings of an H200: a matrix with a million rows and
columns from a hundred million entries in 0.18 s.
"""

import importlib.util
import time

import matplotlib.pyplot as plt

import lorank as lr

# %%
# Available devices.

devices = {"kernels or NumPy": None}
if importlib.util.find_spec("torch"):
    import torch

    devices["PyTorch, processor"] = "cpu"
    if torch.cuda.is_available():
        devices["PyTorch, GPU"] = "cuda"
print(", ".join(devices))

# %%
# The same problems on each device, rank 10, five observations per degree of freedom. A first solve compiles the kernels of a
# GPU.

sizes, rank = (300, 1000, 3000), 10
problems = [lr.datasets.random_completion(n, n, rank, oversampling=5, seed=0) for n in sizes]
seconds = {}
for name, device in devices.items():
    lr.solve(problems[0][0], rank, device=device)
    for problem, truth in problems:
        begin = time.perf_counter()
        result = lr.solve(problem, rank, device=device)
        seconds.setdefault(name, []).append(time.perf_counter() - begin)
        X = result.numpy().X  # copied to the CPU
        error = truth.distance(X) / truth.norm()
        print(f"{name}: {problem.m:,} observations, {result.status} after {result.n_iter} iterations, error {error:.1e}")

# %%
# Times of the machine that built this page (to a residual of 1e-6), and recorded times of an H200 from
# :doc:`/benchmarks/gpu` (to an error of 1e-4, data on the device). Up to about ten million observations kernel launches
# dominate the time on a GPU; a GPU is faster from about a million observations on.

recorded = {"H200, float64": (0.0365, 0.0560, 0.1835), "H200, float32": (0.0336, 0.0372, 0.1717)}
figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for name, taken in seconds.items():
    axis.loglog([problem.m for problem, _ in problems], taken, "o-", label=f"{name}, this machine")
for name, taken in recorded.items():
    axis.loglog((999_500, 12_000_000, 100_000_000), taken, "s--", label=name)
axis.set(xlabel="observations", ylabel="seconds", title="matrices of rank 10")
axis.legend()
plt.show()
