"""
Out-of-core and distributed completion
======================================

Observations stored as blocks in a folder are memory-mapped, and every solver runs on them as on arrays. The same folder can be
distributed over the workers of a Dask cluster. The data of this example are small; :doc:`/scale` has timings for 160 million
observations.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# A problem written as six blocks of rows.

problem, truth = lr.datasets.random_completion(3000, 2000, rank=5, oversampling=6, seed=0)
folder = Path(tempfile.mkdtemp()) / "ratings.parts"
lr.distributed.save_partitions(problem, folder, 6)
size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
print(f"{problem.m:,} observations in {len(list(folder.rglob('*.npy')))} files, {size / 2**20:.1f} MiB")

# %%
# Open the folder; blocks are read on demand.

mapped = lr.distributed.from_partitions(folder)
curves, values = {}, []
for name, one in (("in memory", problem), ("six blocks on disk", mapped)):
    result = lr.solve(one, rank=5)
    curves[name] = result.history
    values.append(result.numpy().X.s)
    error = truth.distance(result.numpy().X) / truth.norm()
    print(f"{name}: {result.status} after {result.n_iter} iterations, error {error:.1e}")
print(f"relative difference of the singular values: {np.max(np.abs(values[0] / values[1] - 1)):.0e}")

# %%
# For a Dask cluster, pass ``cluster``: the address of a scheduler, or ``"local"`` for one worker per core. Set
# ``LORANK_CLUSTER=local`` to run this part.

if os.environ.get("LORANK_CLUSTER"):
    there = lr.distributed.from_partitions(folder, cluster=os.environ["LORANK_CLUSTER"])
    print(lr.solve(there, rank=5))

# %%
# Both runs converge to the same matrix. In memory ``auto`` starts with alternating least squares, which blocks do not
# support. The number of blocks and their location do not affect the result.

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, history), style in zip(curves.items(), ("-", "--"), strict=True):
    axis.semilogy(history.iteration, history.residual, style, lw=2, label=name)
axis.set(xlabel="iteration", ylabel="relative residual", title=f"{problem.m:,} observations")
axis.xaxis.set_major_locator(plt.MaxNLocator(integer=True))
axis.legend()
plt.show()
