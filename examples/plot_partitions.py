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
from lorank.loop.callbacks import TruthError

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
    errors = TruthError(truth)
    result = lr.solve(one, rank=5, callbacks=[errors])
    curves[name] = errors.error
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
# Left: a tenth of the observations, coloured by the block that stores them. Right: both runs converge to the same matrix. In
# memory ``auto`` starts with alternating least squares, which blocks do not support. The number of blocks and their location
# do not affect the result.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
rows, cols = problem.rows[::10], problem.cols[::10]
borders = np.sort(problem.rows)[(problem.m * np.arange(1, 6)) // 6]
left.scatter(cols, rows, s=1, c=[f"C{block % 2}" for block in np.searchsorted(borders, rows)], linewidths=0)
left.set(title="Observations in six blocks of rows", xlabel="column", ylabel="row", ylim=(3000, 0), xlim=(0, 2000))
left.grid(False)
for name, errors in curves.items():
    right.semilogy(errors, label=name)
right.set(title="Error of the matrix", xlabel="iteration", ylabel="relative error")
right.legend()
plt.show()
