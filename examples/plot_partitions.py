"""
Larger than memory: blocks on disk, and a cluster
=================================================

Observations in a folder of blocks are mapped from disk as they are needed, and every solver runs on them as on arrays. The
same folder can be held by the workers of a Dask cluster. The folder here is small; :doc:`/scale` has figures for 160 million
observations.
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import lorank as lr

# %%
# A problem in memory, written as six blocks of rows.

problem, truth = lr.datasets.random_completion(3000, 2000, rank=5, oversampling=6, seed=0)
folder = Path(tempfile.mkdtemp()) / "ratings.parts"
lr.distributed.save_partitions(problem, folder, 6)
size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
print(f"{problem.m:,} observations in {len(list(folder.rglob('*.npy')))} files, {size / 2**20:.1f} MiB")

# %%
# Opened again: nothing is read until a solver asks for it.

mapped = lr.distributed.from_partitions(folder)
curves, values = {}, []
for name, one in (("in memory", problem), ("six blocks on disk", mapped)):
    result = lr.solve(one, rank=5)
    curves[name] = result.history
    values.append(result.numpy().X.s)
    error = truth.distance(result.numpy().X) / truth.norm()
    print(f"{name}: {result.status} after {result.n_iter} iterations, error {error:.1e}")
print(f"singular values differ by {np.max(np.abs(values[0] / values[1] - 1)):.0e} of themselves")

# %%
# On a cluster it is one word more. ``cluster="local"`` starts a worker on each core; an address of a scheduler is taken as it
# is. Set ``LORANK_CLUSTER=local`` to run it here.

if os.environ.get("LORANK_CLUSTER"):
    there = lr.distributed.from_partitions(folder, cluster=os.environ["LORANK_CLUSTER"])
    print(lr.solve(there, rank=5))

# %%
# Both end at the same matrix. In memory ``auto`` begins with sweeps of alternating least squares, which blocks do not have;
# how many blocks there are, and who holds them, decides nothing.

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, history), style in zip(curves.items(), ("-", "--"), strict=True):
    axis.semilogy(history.iteration, history.residual, style, lw=2, label=name)
axis.set(xlabel="iteration", ylabel="relative residual", title=f"{problem.m:,} observations")
axis.xaxis.set_major_locator(plt.MaxNLocator(integer=True))
axis.legend()
plt.show()
