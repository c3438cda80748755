"""How good the default start is where rows and columns are many, and what that does to the run after it.

    python benchmarks/start_at_size.py 400_000_000 [--partitions 2] [--sites 2] [--double] [--solve before after]

Exact data of rank 16 as in ``benchmarks/cluster.py gpu``, made on the device. For the point of rank 1 that the start begins
with, for that with 15 further pairs (the start as it was before) and for the start itself: the relative residual, how much of
the column space of the matrix it spans (the smallest and the median cosine; 1 is all, 0 none), and its largest row of V in root
mean squares (about 2 where no row stands out).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import cluster
import lorank as lr
from lorank.starts import STARTS, grow


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("m", type=int)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--sites", type=int, default=1)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--double", action="store_true", help="everything in float64")
    parser.add_argument("--solve", nargs="*", choices=["before", "after"], default=[], help="from which start, twice each")
    args = parser.parse_args()
    where, rank = torch.device(args.device), args.rank
    dtype = torch.float64 if args.double else torch.float32
    problem, _, right = cluster.made_on(where, args.m, rank, args.partitions, args.sites, dtype)
    truth = torch.linalg.qr(right.double())[0]
    print(
        f"{problem.m:,} observations, {problem.shape[0]:,} x {problem.shape[1]:,}, {problem.backend.name}, {problem.dtype}",
        flush=True,
    )

    def tell(name, X):
        V = X.V if isinstance(X.V, torch.Tensor) else torch.as_tensor(np.asarray(X.numpy().V))
        cosines = torch.linalg.svdvals(truth.mT @ V.to(truth))
        rows = V.norm(dim=1)
        residual = problem.gradient(X).residual_norm / problem.y_norm
        print(
            f"  {name}: residual {residual:.4f}, cosines {cosines.min():.3f} {cosines.median():.3f}, "
            f"largest row {rows.max() / rows.square().mean() ** 0.5:.1f}, "
            f"singular values {float(X.s[0]):.4g} .. {float(X.s[-1]):.4g}",
            flush=True,
        )

    one = problem.rank_one(np.random.default_rng(0))
    tell("rank 1", one)
    before = grow(problem, one, rank - 1, np.random.default_rng(1), tol=0.2 * (rank - 1) ** 0.5)
    tell(f"and {rank - 1} further pairs", before)
    tell("the start", STARTS["balanced"](problem, rank, np.random.default_rng(0)))
    for name in args.solve:
        for _ in range(2):  # the second time without compiling
            began = time.perf_counter()
            result = lr.solve(problem, rank, tol=1e-4, **({"start": before} if name == "before" else {}))
            seconds = time.perf_counter() - began
            print(f"  {name}: {seconds:.2f} s, {result.n_iter} iterations, residual {result.residual:.1e}", flush=True)
        print("   ", " ".join(f"{r:.2g}" for r in result.history.residual), result.history.notes, flush=True)


if __name__ == "__main__":
    main()
