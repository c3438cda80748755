"""Runs for the cost model (docs/benchmarks/cost-model.md): times of trips, sums and iterations at 1, 2, 4, 8 workers.

    python benchmarks/cost_runs.py --folder DATA --results RUNS.jsonl     on an idle machine, several times
    python benchmarks/cost_model.py check RUNS.jsonl

Each number of workers is one cluster of its own. There, first, constants that have nothing to do with any solver: a trip that
does nothing, one with many small instructions, sums of a short and of a long array among the workers. Then some iterations of
the default solver at each size, with how often each of them went through the observations, and how many trips, sums and
instructions it had, and how many cores were busy with something else ("others"). A line of JSON each; runs are added to
those in the file, and the model takes medians.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import weakref
from pathlib import Path

import dask
import numpy as np
import psutil

import distributed
import lorank as lr
from cluster import write
from lorank.distributed.folder import open_folder
from lorank.distributed.program import SHARED, SUM

SIZES = ["5_000_000:10", "20_000_000:10", "10_000_000:20", "50_000_000:10"]
LENGTHS, MANY = (16, 400_000, 1_000_000), 100  # numbers to be added up, the last ones in slices; instructions


def data(place, m, rank):
    """Exact data of this rank, 50 observations a row and 500 a column, in eight blocks."""
    where = place / f"{m}-{rank}" / "data"
    if not (where / "manifest.json").exists():
        where.parent.mkdir(parents=True, exist_ok=True)
        write(where, m // 50, m // 500, 50, rank, 8)
    return where


class Counts:
    """What the programs of a graph consist of, as they are run."""

    def __init__(self, graph):
        self.graph, self.sums, self.of_blocks, self.shared, self.inside = graph, 0, 0, 0, 0.0
        run = graph.engine.run

        def counted(program):
            kinds = [one.kind for one in program.instructions]
            self.sums += kinds.count(SUM)
            self.of_blocks += len(kinds) - kinds.count(SHARED)
            self.shared += kinds.count(SHARED)
            began = time.thread_time()
            try:
                return run(program)
            finally:
                self.inside += time.thread_time() - began

        graph.engine.run = counted

    def now(self):
        graph, own = self.graph, time.thread_time() - self.inside
        now = time.perf_counter()
        return [now, graph.trips, graph.passes, self.sums, self.of_blocks, self.shared, graph.engine.bytes, own]


def timed(work, repeat):
    """The median of some seconds."""
    found = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return float(np.median(found))


def constants(graph):
    """Seconds of trips and of sums, whatever is computed."""
    empty = [("item", ((0,), 0))]

    def instructions():
        nodes = [graph.node(SHARED, "constant", 1.0) for _ in range(MANY)]
        graph.fetch(empty)
        return nodes

    def summed(rows):
        ones = graph.node(SHARED, "constant", np.ones((rows, 1), np.float32))
        holder = type("Holder", (), {"like": np.empty((0, 1)), "side": "cols"})()
        ones.owner = weakref.ref(holder)
        graph.fetch(empty)

        def work():
            total = graph.node(SUM, "apply", "mul", ones, np.float32(1))
            graph.fetch([("squared", (total,))])

        work()
        return timed(work, 15), holder

    for _ in range(5):
        graph.fetch(empty)
    return {
        "trip": timed(lambda: graph.fetch(empty), 40),
        "instructions": timed(instructions, 20),
        "sums": [summed(length)[0] for length in LENGTHS],
        "lengths": LENGTHS,
    }


def others():
    """CPU seconds so far of whoever is not of this process and its workers."""
    times = psutil.cpu_times()
    own = 0.0
    for one in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        own += sum(one.cpu_times()[:2])
    return times.user + times.nice + times.system + times.irq + times.softirq + times.steal - own


def iterations(problem, rank, count):
    """Each iteration of the default solver: its seconds, and what it asked for."""
    counts, at = Counts(problem.observations.graph), []
    before, began = others(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not get there
        result = lr.solve(problem, rank, tol=1e-12, max_iter=count, callbacks=[lambda *_: at.append(counts.now())])
    steps = np.diff(np.array(at), axis=0)
    taken = (others() - before) / (time.perf_counter() - began)
    driver = float(np.median(steps[:, -1]))  # CPU seconds of an iteration between programs, while workers have nothing to do
    return {"others": taken, "driver": driver, "steps": steps[:, :-1].tolist(), "residual": result.residual}


def run(args, workers):
    def say(found):
        print(json.dumps(found)[:300], flush=True)
        with open(args.results, "a") as file:
            file.write(json.dumps(found) + "\n")

    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster, direct_to_workers=True) as client,
    ):
        for k, size in enumerate(args.sizes):
            m, rank = (int(a) for a in size.split(":"))
            place = data(Path(args.folder), m, rank)
            problem = lr.distributed.from_partitions(place, client=client)
            if k == 0:
                say({"what": "constants", "workers": workers} | constants(problem.observations.graph))
            n1, n2 = open_folder(place).shape
            key = {"what": "iterations", "workers": workers, "m": m, "n1": n1, "n2": n2, "rank": rank, "blocks": 8}
            say(key | iterations(problem, rank, args.iterations))
            del problem


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, help="where the data are, or are made")
    parser.add_argument("--results", required=True)
    parser.add_argument("--sizes", nargs="*", default=SIZES, help="observations:rank")
    parser.add_argument("--counts", type=int, nargs="*", default=[1, 2, 4, 8], help="workers")
    parser.add_argument("--iterations", type=int, default=10)
    args = parser.parse_args()
    for size in args.sizes:
        data(Path(args.folder), *(int(a) for a in size.split(":")))
    for workers in args.counts:
        run(args, workers)


if __name__ == "__main__":
    main()
