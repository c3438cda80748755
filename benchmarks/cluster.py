"""Partitions: out of core, at worker processes, and a billion observations on a GPU.

    python benchmarks/cluster.py disk [--m 40_000_000]      passes and a solve in memory, from mapped files, the same with all
                                                            other memory limited to a quarter of the files, dropped after
                                                            each block (every pass reads the disk), and beside a balloon of
                                                            memory (on a machine that nobody else uses); --threads 1 2
    python benchmarks/cluster.py workers [--m 50_000_000]   Dask workers against one process on one and two threads
    python benchmarks/cluster.py gpu [--m 1_000_000_000]    made and solved on one GPU, float32; --partitions 2 in two blocks,
                                                            --shards 2 with a thread each, as with two GPUs

Where there is systemd, a limit on everything, the pages of files included, is
``systemd-run --user --scope -p MemoryMax=1G python benchmarks/cluster.py disk --modes mapped``.
The cost model has runs of its own: benchmarks/cost_runs.py.
With ``--results FILE`` each figure is a line of JSON there, and what is there is not run again: a run that was cut off goes on.

Exact data of rank r. Row i is observed once in each of ``m / n1`` strata of the columns, so that pairs are distinct and sorted
as they are drawn. Every figure is printed with what it is compared to, in the same run.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import mmap
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
from lorank.distributed import completion
from lorank.distributed.building import write_folder
from lorank.distributed.folder import block_arrays, open_folder
from lorank.distributed.memory_mapped import MappedBlocks


def factors(n1, n2, rank, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, rank), dtype=np.float32) for n in (n1, n2)]


def write(place, n1, n2, each, rank, partitions):
    """A folder of exact data, made block by block."""
    left, right = factors(n1, n2, rank)
    width = n2 // each
    with write_folder(place, n2, np.float32, False) as writer:
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
    """Seconds of both passes of a gradient: the best and the median of some after a first one; MiB read from disk in each."""
    U, V = factors(*problem.shape, rank, seed=7)
    X = lr.FixedRank(U, np.ones(rank, np.float32), V, problem.backend)
    seconds, read = [], 0
    for k in range(repeat + 1):
        if k == 1:  # the first one opens files, and fills the page cache where there is room
            read = bytes_read()
        began = time.perf_counter()
        G = problem.gradient(X)
        _ = G.residual_norm, problem.backend.norm(G.GhU)
        seconds.append(time.perf_counter() - began)
    found = {"gradient": min(seconds[1:]), "gradient_median": float(np.median(seconds[1:])), "gradient_first": seconds[0]}
    return found | {"gradient_read_mib": (bytes_read() - read) / 2**20 / repeat}


def bytes_read():
    """From disk, by this process."""
    words = Path("/proc/self/io").read_text().split()
    return int(words[words.index("read_bytes:") + 1])


def report(args, key, problem):
    """Seconds of a gradient, of an iteration and of a solve; printed, and kept as a line of JSON."""
    found = key | passes(problem, args.rank, args.passes)
    if args.solve:
        found |= solved(args, problem)
    found["resident_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    status = Path("/proc/self/status").read_text().split()
    found["anonymous_mib"] = int(status[status.index("RssAnon:") + 1]) / 1024
    print(json.dumps({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in found.items()}), flush=True)
    if args.results:
        with open(args.results, "a") as file:
            file.write(json.dumps(found) + "\n")


def solved(args, problem):
    """Seconds of a solve and of its iterations, and what went to and fro."""
    graph = getattr(problem.observations, "graph", None)
    trips = graph.trips if graph else 0
    at, began = [], time.perf_counter()

    def mark(problem, state, clock):
        at.append((time.perf_counter() - began, graph.trips if graph else 0))

    checkpoint = {"checkpoint": f"{args.folder}.checkpoint"} if problem.m >= 500_000_000 else {}
    result = lr.solve(problem, args.rank, tol=1e-4, callbacks=[mark], **checkpoint)
    found = {"solve": time.perf_counter() - began, "iterations": result.n_iter, "residual": result.residual}
    seconds = np.diff([s for s, _ in at])
    found |= {"start": at[0][0], "iteration": float(np.median(seconds)) if len(seconds) else 0.0}
    found["status"] = str(result.status)
    if graph is not None:
        found |= {"trips": graph.trips - trips, "trips_an_iteration": float(np.median(np.diff([t for _, t in at])))}
        found |= {"bytes_among_workers": graph.engine.bytes, "in_sums": getattr(graph.engine, "seconds_in_sums", 0.0)}
    return found


def disk(args, place):
    n1, n2 = args.m // 200, args.m // 800
    if not (place / "manifest.json").exists():
        began = time.perf_counter()
        write(place, n1, n2, 200, args.rank, args.partitions or 10)
        print(f"written in {time.perf_counter() - began:.0f} s")
    folder = open_folder(place)
    size = sum(a for p in folder.parts for a, _ in p.files.values())
    print(
        f"{folder.m:,} observations, {folder.shape}, rank {args.rank}, {size / 2**20:.0f} MiB, {len(folder.parts)} partitions"
    )
    for threads in args.threads:
        for mode in args.modes:
            each(args, place, mode, threads, limit=size // 4)
    if args.results:
        ratios(args.results, folder.m)


def ratios(results, m):
    """Passes of each mode against those in memory with as many threads."""
    found = [one for one in map(json.loads, Path(results).read_text().splitlines()) if one["what"] == "disk" and one["m"] == m]
    memory = {one["threads"]: one["gradient_median"] for one in found if one["mode"] == "memory"}
    for one in found:
        if one["threads"] in memory:
            ratio = memory[one["threads"]] / one["gradient_median"]
            print(f"{one['mode']}, {one['threads']} threads: {ratio:.2f} x the passes in memory a second")


def each(args, place, mode, threads, **more):
    """One figure, in a process of its own; from the file of results where it is there."""
    options = {
        "mode": mode,
        "folder": place,
        "rank": args.rank,
        "results": args.results,
        "passes": args.passes,
        "solve": args.solve,
    } | more
    key = {"what": args.what, "m": open_folder(place).m, "mode": mode, "threads": threads}
    if args.results and Path(args.results).exists():
        for line in Path(args.results).read_text().splitlines():
            found = json.loads(line)
            if all(found.get(k) == v for k, v in key.items()):
                print(f"{mode}, {threads} threads: there already: {line}", flush=True)
                return
    command = [sys.executable, __file__, "one", "--key", json.dumps(key)]
    command += [x for k, v in options.items() if v is not None for x in (f"--{k}", str(v))]
    environment = os.environ | {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    subprocess.run(command, check=False, env=environment)


class Dropping(MappedBlocks):
    """Drops the pages of a block when the next one is requested, so that every pass reads the files."""

    last = None

    def observations(self, block):
        found = super().observations(block)
        if self.last not in (None, block):
            self.drop(self.last)
        self.last = block
        return found

    def drop(self, block):
        for a in self._open[block][0]:
            if a is not None and isinstance(a.base, mmap.mmap):
                a.base.madvise(mmap.MADV_DONTNEED)
        for path in self._open[block][2]:
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def balloon(left):
    """Take memory until so many bytes are left for everything, the pages of files included."""
    words = Path("/proc/meminfo").read_text().split()
    pages = int(words[words.index("MemAvailable:") + 1]) * 1024
    Path("/proc/self/oom_score_adj").write_text("1000")  # where it takes too much, it goes, and nobody else
    held = np.ones(max(pages - left, 0), np.uint8)
    print(f"a balloon of {held.nbytes / 2**30:.1f} GiB leaves {left / 2**30:.2f} GiB", flush=True)
    return held


def one(args):
    held, key = None, json.loads(args.key)
    if args.mode == "limited":  # what is not mapped from files may take a quarter of them
        resource.setrlimit(resource.RLIMIT_DATA, (args.limit, args.limit))
    if args.mode == "balloon":  # files four times as large as what is left
        held = balloon(args.limit)
    if args.mode.startswith("dask"):
        at_workers(args, key)
        return
    folder = open_folder(args.folder)
    if args.mode == "memory":
        problem = in_memory(folder)
    else:
        if args.mode == "dropped":
            completion.MappedBlocks = Dropping
        problem = lr.distributed.from_partitions(args.folder)
    report(args, key, problem)
    del held


def at_workers(args, key):
    import dask

    import distributed

    count = int(args.mode.partition(":")[2])
    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster, direct_to_workers=True) as client,
    ):
        problem = lr.distributed.from_partitions(args.folder, client=client)
        graph = problem.observations.graph
        began = time.perf_counter()
        for _ in range(20):
            graph.fetch([("item", ((0,), 0))])
        key["idle_trip"] = (time.perf_counter() - began) / 20
        report(args, key, problem)


def workers(args, place):
    each_row, n1 = 50, args.m // 50
    if not (place / "manifest.json").exists():
        write(place, n1, n1 // 10, each_row, args.rank, 8)
    folder = open_folder(place)
    print(f"{folder.m:,} observations, {folder.shape[0]:,} x {folder.shape[1]:,}, rank {args.rank}")
    for mode, threads in (("memory", 1), ("dask:2", 1), ("memory", 2), ("mapped", 1), ("dask:1", 1)):
        each(args, place, mode, threads)


def gpu(args):
    found = solved_on(args.device, args.m, args.rank, args.partitions, args.shards)
    print("residuals", " ".join(f"{r:.1e}" for r in found["residuals"]), found["notes"])
    print(f"error {found['error']:.1e}")


def solved_on(device, m, rank, partitions=None, shards=1, runs=2):
    """What the last run took, the first of which compiles, on m observations made on a device: in one piece, or in blocks."""
    import torch

    where, began = torch.device(device), time.perf_counter()
    on_gpu = where.type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    problem, left, right = made_on(where, m, rank, partitions, shards)
    wait()
    n1, n2 = problem.shape
    print(
        f"{problem.m:,} observations, {n1:,} x {n2:,}, rank {rank}, {problem.backend.name}, made in "
        f"{time.perf_counter() - began:.1f} s",
        flush=True,
    )
    for k in range(runs):
        began = time.perf_counter()
        result = lr.solve(problem, rank, tol=1e-4)
        wait()
        seconds = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0
        print(
            f"solve {k + 1}: {seconds:.2f} s, {result.n_iter} iterations, residual {result.residual:.1e}, peak {peak:.0f} GiB",
            flush=True,
        )
    parts = (a if isinstance(a, torch.Tensor) else np.asarray(a) for a in (result.X.U, result.X.s, result.X.V))
    found = lr.FixedRank(*(torch.as_tensor(a, device=where) for a in parts))
    truth = lr.FixedRank.from_factors(left, right)
    return {
        "seconds": seconds,
        "start": float(result.history.seconds[0]),
        "iterations": result.n_iter,
        "residual": result.residual,
        "error": truth.distance(found) / truth.norm(),
        "peak GiB": peak,
        "residuals": list(result.history.residual),
        "notes": result.history.notes,
    }


def made_on(where, m, rank, partitions=None, shards=1, dtype=None):
    """A problem of m observations made on a device, in one piece or in blocks of rows, and the factors of its matrix."""
    import torch

    n1, n2, each = m // 100, m // 1000, 100
    torch.manual_seed(0)
    left, right = torch.randn(n1, rank, device=where), torch.randn(n2, rank, device=where)
    width = n2 // each
    cols = torch.randint(0, width, (n1, each), device=where, dtype=torch.int32)
    cols += torch.arange(each, device=where, dtype=torch.int32) * width
    values = torch.empty(n1, each, device=where, dtype=dtype)
    for k in range(0, n1, 50_000):
        some = slice(k, k + 50_000)
        values[some] = torch.einsum("ik,ijk->ij", left[some], right[cols[some].long()]).to(values.dtype)
    if partitions or shards > 1:
        return blocks_of(cols, values, n2, partitions or shards, shards, str(where)), left, right
    rows = torch.arange(n1, device=where, dtype=torch.int32).repeat_interleave(each)
    precision = "auto" if values.dtype == torch.float32 else "double"  # starts, too
    return lr.Completion(rows, cols.ravel(), values.ravel(), (n1, n2), precision=precision), left, right


def blocks_of(cols, values, n2, count, shards, device):
    """Blocks of rows on a device, assigned to shards with a thread each, as for several GPUs of a machine."""
    import torch

    from lorank.backends import device_backend
    from lorank.distributed.backend import Partitioned, distributed_observations
    from lorank.distributed.multi_device import MultiDevice
    from lorank.distributed.program import BlockLayout, assign_blocks
    from lorank.distributed.shard import LocalEngine, Shard

    n1, each = cols.shape
    layout = BlockLayout((n1, n2), tuple(int(k) for k in np.linspace(0, n1, count + 1)))
    holders = [copy.deepcopy(device_backend(device)) for _ in range(shards)]
    made = []
    for holder, numbers in zip(holders, assign_blocks(count, shards), strict=True):
        blocks = {}
        for k in numbers:
            rows = layout.rows(k)
            indptr = torch.arange(rows.stop - rows.start + 1, device=cols.device, dtype=torch.int64) * each
            blocks[k] = holder.make_observations(indptr, cols[rows].ravel(), values[rows].ravel(), n2)
        made.append(Shard(holder, layout, numbers, blocks.__getitem__))
    engine = LocalEngine(made[0]) if shards == 1 else MultiDevice(made)
    sizes = [each * (b - a) for a, b in itertools.pairwise(layout.edges)]
    problem = lr.Completion(np.array([0]), np.array([0]), np.array([1.0]), (1, 1))
    observations = distributed_observations(engine, sizes, np.dtype(np.float32), False)
    problem._observe(observations, Partitioned(holders[0], count, None, holders[1:]))
    return problem


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["disk", "workers", "gpu", "one"])
    parser.add_argument("--m", type=int)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--folder", help="keep the data here, and use what is there")
    parser.add_argument("--modes", nargs="*", default=["memory", "mapped", "limited", "dropped", "balloon"])
    parser.add_argument("--partitions", type=int, help="of the files; of the GPU, where all is in one piece otherwise")
    parser.add_argument("--shards", type=int, default=1, help="on the GPU: threads, each with some of the partitions")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, nargs="*", default=[1], help="of disk: a run with each number")
    parser.add_argument("--passes", type=int, default=3, help="gradients to time")
    parser.add_argument("--solve", type=int, default=1, help="0: gradients only")
    parser.add_argument("--results", help="figures go to this file, and are not made again")
    parser.add_argument("--mode")
    parser.add_argument("--key")
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
