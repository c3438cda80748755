"""Partitions: out of core, at worker processes, and a billion observations on a GPU.

    python benchmarks/cluster.py disk [--m 40_000_000]      passes and a solve from mapped files, in a quarter of their size
    python benchmarks/cluster.py workers [--m 50_000_000]   Dask workers against one process: time, bytes, overhead of a trip
    python benchmarks/cluster.py gpu [--m 1_000_000_000]    made and solved on one GPU, float32

Exact data of rank r. Row i is observed once in each of ``m / n1`` strata of the columns, so that pairs are distinct and sorted
as they are drawn. Every figure is printed with what it is compared to, in the same run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import lorank as lr
from lorank.backends import HostEntries
from lorank.partitions.blocks import block_arrays
from lorank.partitions.folder import FolderWriter, open_folder


def factors(n1, n2, rank, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, rank), dtype=np.float32) for n in (n1, n2)]


def write(place, n1, n2, each, rank, partitions):
    """A folder of exact data, made block by block."""
    left, right = factors(n1, n2, rank)
    width = n2 // each
    with FolderWriter(place, n2, np.float32, False) as writer:
        for k, rows in enumerate(np.array_split(np.arange(n1), partitions)):
            rng = np.random.default_rng([1, k])
            cols = rng.integers(0, width, (len(rows), each), dtype=np.int32) + (np.arange(each) * width).astype(np.int32)
            values = np.empty((len(rows), each), np.float32)
            for first in range(0, len(rows), 10_000):
                some = slice(first, first + 10_000)
                values[some] = np.einsum("ik,ijk->ij", left[rows[some]], right[cols[some]])
            indptr = np.arange(len(rows) + 1, dtype=np.int64) * each
            writer.add(block_arrays(HostEntries(indptr, cols.ravel(), values.ravel()), n2))
    return open_folder(place)


def in_memory(folder):
    """The same observations as one problem in main memory."""
    blocks = [folder.block(k) for k in range(len(folder.parts))]
    rows = np.concatenate(
        [np.repeat(np.arange(p.first, p.first + p.rows), np.diff(b.indptr)) for p, b in zip(folder.parts, blocks, strict=True)]
    )
    cols = np.concatenate([b.indices[: len(b.values)] for b in blocks])
    return lr.Completion(rows.astype(np.int32), cols, np.concatenate([b.values for b in blocks]), folder.shape)


def passes(problem, rank, repeat=3):
    """Seconds of both passes of a gradient, the best of some."""
    U, V = factors(*problem.shape, rank, seed=7)
    X = lr.FixedRank(U, np.ones(rank, np.float32), V, problem.backend)
    best = np.inf
    for _ in range(repeat):
        began = time.perf_counter()
        G = problem.gradient(X)
        _ = G.residual_norm, problem.backend.norm(G.GhU)
        best = min(best, time.perf_counter() - began)
    return best


def report(name, problem, rank, **more):
    pass_time = passes(problem, rank)
    began = time.perf_counter()
    result = lr.solve(problem, rank, tol=1e-4)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    extra = " ".join(f"{key}={value}" for key, value in more.items())
    print(
        f"{name}: gradient {pass_time:.3f} s ({pass_time / problem.m * 1e9:.2f} ns an observation), solve {seconds:.1f} s, "
        f"{result.n_iter} iterations, residual {result.residual:.1e}, {result.status}; peak {peak:.0f} MiB resident {extra}",
        flush=True,
    )
    return pass_time, seconds


def disk(args, place):
    n1, n2 = args.m // 200, args.m // 800
    if not (place / "manifest.json").exists():
        began = time.perf_counter()
        write(place, n1, n2, 200, args.rank, 10)
        print(f"written in {time.perf_counter() - began:.0f} s")
    folder = open_folder(place)
    size = sum(a for p in folder.parts for a, _ in p.files.values())
    allowed = size // 4
    print(
        f"{folder.m:,} observations, {n1:,} x {n2:,}, rank {args.rank}, {size / 2**20:.0f} MiB, {len(folder.parts)} partitions"
    )
    for mode in args.modes:
        subprocess.run(
            [
                sys.executable,
                __file__,
                "one",
                "--mode",
                mode,
                "--folder",
                str(place),
                "--rank",
                str(args.rank),
                "--limit",
                str(allowed),
            ],
            check=False,
        )


def one(args):
    if args.mode == "limited":  # what is not mapped from files may take a quarter of them
        resource.setrlimit(resource.RLIMIT_DATA, (args.limit, args.limit))
        print(f"limited to {args.limit / 2**20:.0f} MiB of data", flush=True)
    folder = open_folder(args.folder)
    problem = in_memory(folder) if args.mode == "memory" else lr.Completion.from_partitions(args.folder)
    report(args.mode, problem, args.rank)


def workers(args, place):
    import distributed

    each, n1 = 50, args.m // 50
    if not (place / "manifest.json").exists():
        write(place, n1, n1 // 10, each, args.rank, 8)
    folder = open_folder(place)
    print(f"{folder.m:,} observations, {folder.shape[0]:,} x {folder.shape[1]:,}, rank {args.rank}")
    report("one process", lr.Completion.from_partitions(place), args.rank)
    for count in args.workers:
        with (
            distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster, direct_to_workers=True) as client,
        ):
            problem = lr.Completion.from_partitions(place, client=client)
            graph = problem.observations.graph
            began = time.perf_counter()
            for _ in range(20):
                graph.find([("item", ((0,), 0))])
            trip = (time.perf_counter() - began) / 20
            before = graph.trips
            report(f"{count} workers", problem, args.rank)
            trips = graph.trips - before
            print(f"  an idle trip {trip * 1e3:.1f} ms, {trips} trips, {graph.engine.bytes / 1e6:.0f} MB among workers")


def gpu(args):
    import torch

    n1, n2, each = args.m // 100, args.m // 1000, 100
    began = time.perf_counter()
    torch.manual_seed(0)
    left, right = torch.randn(n1, args.rank, device="cuda"), torch.randn(n2, args.rank, device="cuda")
    width = n2 // each
    cols = torch.randint(0, width, (n1, each), device="cuda", dtype=torch.int32)
    cols += torch.arange(each, device="cuda", dtype=torch.int32) * width
    values = torch.empty(n1, each, device="cuda")
    for k in range(0, n1, 50_000):
        some = slice(k, k + 50_000)
        values[some] = torch.einsum("ik,ijk->ij", left[some], right[cols[some].long()])
    rows = torch.arange(n1, device="cuda", dtype=torch.int32).repeat_interleave(each)
    problem = lr.Completion(rows, cols.ravel(), values.ravel(), (n1, n2))
    del rows, cols, values
    torch.cuda.synchronize()
    print(
        f"{problem.m:,} observations, {n1:,} x {n2:,}, rank {args.rank}, made in {time.perf_counter() - began:.1f} s",
        flush=True,
    )
    for k in range(2):  # the second time without compiling
        began = time.perf_counter()
        result = lr.solve(problem, args.rank, tol=1e-4)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(
            f"solve {k + 1}: {seconds:.2f} s, {result.n_iter} iterations, residual {result.residual:.1e}, peak {peak:.0f} GiB",
            flush=True,
        )
    truth = lr.FixedRank.from_factors(left, right)
    print(f"error {truth.distance(result.X) / truth.norm():.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["disk", "workers", "gpu", "one"])
    parser.add_argument("--m", type=int)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--folder", help="keep the data here, and use what is there")
    parser.add_argument("--modes", nargs="*", default=["memory", "mapped", "limited"])
    parser.add_argument("--mode")
    parser.add_argument("--limit", type=int)
    args = parser.parse_args()
    args.m = args.m or {"disk": 40_000_000, "workers": 50_000_000, "gpu": 1_000_000_000, "one": 0}[args.what]
    args.rank = args.rank or (16 if args.what == "gpu" else 10)
    print(f"lorank {lr.__version__}, {os.cpu_count()} cores, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}", flush=True)
    if args.what == "gpu":
        gpu(args)
    elif args.what == "one":
        one(args)
    else:
        with tempfile.TemporaryDirectory() as place:
            {"disk": disk, "workers": workers}[args.what](args, Path(args.folder or place) / "data")


if __name__ == "__main__":
    main()
