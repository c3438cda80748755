"""The cost model of docs/scale.md: held against runs, and projected to more machines.

python benchmarks/cost_model.py check RESULTS.jsonl     constants from one worker, predictions for the others beside what was
                                                        measured (benchmarks/cluster.py model --results RESULTS.jsonl)
python benchmarks/cost_model.py project                 10 G and 100 G observations on 16 and 64 machines, blocks of rows and a
                                                        two-dimensional grid
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """Constants: seconds an observation and a number of tall arrays, seconds a trip, bytes a second between workers; cores."""

    observation: float = 25e-9  # of three passes on one core
    number: float = 6e-9  # some thirty operations on each number of a tall array
    trip: float = 5e-3
    bandwidth: float = 1.25e9  # 10 Gbit/s
    cores: int = 16


def rows(machine, m, n1, n2, r, workers, cores=1, trips=8, size=4):
    """Seconds of an iteration with blocks of rows: compute, tall arrays, sums between workers, trips."""
    compute = m / workers / cores * machine.observation
    tall = (n1 / workers + n2) * r * machine.number / cores
    sums = 2 * n2 * r * size * (workers - 1) / workers / machine.bandwidth
    return compute, tall, sums, trips * machine.trip


def grid(machine, m, n1, n2, r, workers, across, cores=1, trips=8, size=4):
    """The same with ``across`` blocks of columns in each block of rows."""
    down = workers / across
    compute = m / workers / cores * machine.observation
    tall = (n1 / down + n2 / across) * r * machine.number / cores
    sums = 2 * (n2 / across * (down - 1) / down + n1 / down * (across - 1) / across) * r * size / machine.bandwidth
    return compute, tall, sums, trips * machine.trip


def check(args):
    """One constant for each size from one worker, a trip's cost from the idle one; then all numbers of workers."""
    found = [json.loads(line) for line in Path(args.results).read_text().splitlines()]
    found = [one for one in found if one["what"] == "model" and one["mode"].startswith("dask")]
    worst = 0.0
    for m in sorted({one["m"] for one in found}):
        by_workers = {int(one["mode"].partition(":")[2]): one for one in found if one["m"] == m}
        first = by_workers[1]
        n1, n2, r, trips = m // 50, m // 500, 10, first["trips_an_iteration"]
        rest = first["iteration"] - trips * first["idle_trip"]
        shared = n2 / (n1 + n2) * args.tall  # of the tall arrays' share of it, which every worker does
        for count, one in sorted(by_workers.items()):
            at_once = min(count, args.cores)
            sums = 2 * n2 * r * 4 * (count - 1) / count / (args.bandwidth * 1e9)
            compute = rest * ((1 - shared) / at_once + shared * count / at_once)
            guess = compute + sums + trips * one["idle_trip"]
            off = guess / one["iteration"] - 1
            worst = max(worst, abs(off))
            print(
                f"{m:>12,} observations, {count} workers: measured {one['iteration']:.3f} s, model {guess:.3f} s ({off:+.0%})"
            )
    print(f"worst: {worst:.0%}")


def project(args):
    machine = Machine()
    print(f"{machine}; rank {args.rank}, single precision, seconds an iteration")
    for m, n1, n2 in ((10**10, 10**8, 10**6), (10**11, 10**9, 10**7), (10**11, 3 * 10**8, 10**8)):
        for workers in (16, 64):
            parts = rows(machine, m, n1, n2, args.rank, workers, machine.cores)
            memory = (20 * m / workers, 4 * args.rank * 10 * (n1 / workers + n2))
            print(
                f"m = {m:.0e}, {n1:.0e} x {n2:.0e}, {workers} machines: rows {sum(parts):.2f} s "
                f"(passes {parts[0]:.2f}, tall {parts[1]:.2f}, sums {parts[2]:.2f}, trips {parts[3]:.2f}); a machine has "
                f"{memory[0] / 1e9:.0f} GB of partitions and {memory[1] / 1e9:.1f} GB of factors"
            )
            best = min((sum(grid(machine, m, n1, n2, args.rank, workers, c, machine.cores)), c) for c in (1, 2, 4, 8, 16))
            print(f"    best grid: {workers // best[1]} x {best[1]}, {best[0]:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "project"])
    parser.add_argument("results", nargs="?")
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--tall", type=float, default=0.3, help="share of tall arrays in an iteration of one worker")
    parser.add_argument("--bandwidth", type=float, default=1.0, help="GB a second between workers of one machine")
    args = parser.parse_args()
    {"check": check, "project": project}[args.what](args)


if __name__ == "__main__":
    main()
