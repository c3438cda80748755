"""The cost model of docs/benchmarks/cost-model.md: held against runs, and projected to more machines.

python benchmarks/cost_model.py check RUNS.jsonl        constants from trips and sums that compute nothing, from one worker at
                                                        three sizes and from two and four at one; predictions for all else
                                                        beside what was measured (benchmarks/cost_runs.py made the file)
python benchmarks/cost_model.py project RUNS.jsonl      10 G and 100 G observations on 16 and 64 machines, blocks of rows and a
                                                        two-dimensional grid
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

SHORT = 1 << 21  # bytes: longer arrays are added up in slices (lorank.distributed.exchange)
CALIBRATION = ((5_000_000, 10), (10_000_000, 20), (20_000_000, 10))  # observations and ranks, at one worker
BUSY = (20_000_000, 10)  # at two, and at four
DISTURBED = 0.3  # cores that others used: such runs are left out


@dataclass(frozen=True)
class Machine:
    """Constants, in seconds.

    An observation in an iteration costs ``(per_observation + per_rank * r) * (1 + cache * log2(n2 * r / 1e5))`` on one core.
    """

    per_observation: float
    per_rank: float
    cache: float
    number: float  # an instruction on one number of a column factor
    trip: float  # of any program,
    trip_worker: float  # for each worker that it goes to,
    instruction: float  # and for each instruction and worker
    message: float  # from worker to worker, of CPU
    byte: float  # of such messages, of CPU
    driver: float = 0.0  # an iteration, while no worker has anything to do
    busy: float = 1.0  # times as long takes what is computed while the other cores compute as well
    crowd: float = 0.0  # share of it that is lost for each further worker of a core
    network: float = 0.0  # a byte, between machines
    cores: int = 2  # of all workers together, or of each machine
    machines: bool = False  # each worker has a machine of its own


@dataclass(frozen=True)
class Work:
    """A problem, and what an iteration asks for: trips, instructions of blocks and of columns, sums."""

    m: float
    n1: float
    n2: float
    rank: int
    trips: float = 6
    of_blocks: float = 32
    shared: float = 28
    sums: float = 1
    size: int = 4


def exchange(machine, workers, size):
    """CPU seconds that a sum of so many bytes costs all workers, messages at the busiest of them, and bytes through it."""
    if workers == 1:
        return 0.0, 0, 0.0
    if size <= SHORT:
        messages, busiest, through = (
            2 * (workers - 1),
            4 * math.ceil(math.log2(workers)),
            2 * math.ceil(math.log2(workers)) * size,
        )
    else:
        messages, busiest, through = 2 * workers * (workers - 1), 4 * (workers - 1), 2 * size * (workers - 1) / workers
    return messages * machine.message + 2 * (workers - 1) * size * machine.byte, busiest, through


def iteration(machine, work, workers, across=1):
    """Seconds of an iteration: passes, column factors, trips, sums. ``across`` blocks of columns in each block of rows."""
    down = workers / across
    alone = machine.cores if machine.machines else 1  # cores of a worker
    share = alone if machine.machines else min(workers, machine.cores) / workers  # of a core, or cores, that a worker has
    share /= machine.busy if machine.machines or workers > 1 else 1
    if not machine.machines:
        share /= 1 + machine.crowd * max(workers / machine.cores - 1, 0)
    n1, n2 = work.n1 / down, work.n2 / across
    each = (machine.per_observation + machine.per_rank * work.rank) * (
        1 + machine.cache * max(math.log2(n2 * work.rank / 1e5), 0)
    )
    passes = work.m / workers * each / share
    columns = n2 * work.rank * work.shared * machine.number / share
    if across > 1:  # rows are shared by several, too
        columns += n1 * (1 - 1 / across) * work.rank * work.shared * machine.number / share
    trips = work.trips * (machine.trip + workers * machine.trip_worker)
    trips += (work.of_blocks + work.shared) * workers * machine.instruction + machine.driver
    sums = 0.0
    for many, length in ((down, n2), (across, n1)):
        size = length * work.rank * work.size * 1.2  # with what goes along: norms, Gram matrices
        cpu, busiest, through = exchange(machine, round(many), size)
        if machine.machines:
            sums += busiest * machine.message / 2 + through * (machine.byte / 2 + machine.network)
        else:
            sums += cpu / min(workers, machine.cores)
    return passes, columns, trips, work.sums * sums


def medians(results):
    """Constants and iterations of a file of runs, each the median of what is there."""
    found = [json.loads(line) for path in results for line in Path(path).read_text().splitlines()]
    constants, runs, drivers = {}, {}, []
    for one in found:
        if one["what"] == "constants":
            constants.setdefault(one["workers"], []).append([one["trip"], one["instructions"], *one["sums"]])
            lengths = one["lengths"]
            continue
        if one["workers"] == 1 and "driver" in one:  # CPU time, whoever else computed
            drivers.append(one["driver"])
        if one["others"] < DISTURBED:
            runs.setdefault((one["m"], one["rank"], one["workers"]), []).append(one)
    at = {}
    for key, several in sorted(runs.items()):
        steps = np.array([step for one in several for step in one["steps"]])
        seconds, trips, _, sums, of_blocks, shared, _ = np.median(steps, axis=0)
        work = Work(key[0], several[0]["n1"], several[0]["n2"], key[1], trips, of_blocks, shared, sums)
        at[key] = seconds, work
    return {workers: np.median(rows, axis=0) for workers, rows in constants.items()}, lengths, float(np.median(drivers)), at


def calibrate(constants, lengths, driver, at, cores):
    """The constants: of trips and sums from programs that compute nothing, of passes from one worker at three sizes."""
    counts = np.array(sorted(constants))
    trip, per_worker = _line(counts, [constants[w][0] for w in counts])
    instruction = np.median([(constants[w][1] - constants[w][0]) / 100 / w for w in counts])
    # At one worker a sum is eight products, seven additions and a norm of so many numbers, and no message.
    alone = constants[1][2:]
    number = (alone[-1] - alone[0]) / (lengths[-1] - lengths[0]) / 16
    rows, found = [], []
    for w in counts[counts > 1]:
        at_once = min(w, cores)
        for k, length in enumerate(lengths):
            count = 2 * (w - 1) if length * 4 <= SHORT else 2 * w * (w - 1)
            own = (w / at_once - 1 / at_once) * length * number  # the norm, at every worker
            rows.append([count / at_once, 2 * (w - 1) * 4 * length / at_once])
            found.append(constants[w][2 + k] - constants[w][0] - (alone[k] - constants[1][0]) / at_once - own)
    weights = 1 / np.array([constants[w][2 + k] for w in counts[counts > 1] for k in range(len(lengths))])
    message, byte = np.linalg.lstsq(np.array(rows) * weights[:, None], np.array(found) * weights, rcond=None)[0]
    machine = Machine(1, 0, 0, number, trip, per_worker, instruction, message, byte, driver=driver, cores=cores)
    left = []
    for m, rank in CALIBRATION:
        seconds, work = at[m, rank, 1]
        left.append((seconds - sum(iteration(replace(machine, per_observation=0), work, 1))) / m)
    (_, r0), (_, r1), _ = CALIBRATION
    wide = [math.log2(at[m, rank, 1][1].n2 * rank / 1e5) for m, rank in CALIBRATION]
    cache = (left[2] / left[0] - 1) / (wide[2] - wide[0])
    slope = (left[1] / (1 + cache * wide[1]) - left[0]) / (r1 - r0)
    machine = replace(machine, per_observation=left[0] - slope * r0, per_rank=slope, cache=cache)
    for name, workers in (("busy", cores), ("crowd", 2 * cores)):
        seconds, work = at[*BUSY, workers]
        passes, columns, *rest = iteration(machine, work, workers)
        lost = (seconds - sum(rest)) / (passes + columns)
        machine = replace(machine, **{name: lost - (name == "crowd")})
    return machine


def _line(x, y):
    """Offset and slope, by relative errors."""
    y = np.asarray(y)
    return np.linalg.lstsq(np.stack([1 / y, x / y], 1), np.ones(len(y)), rcond=None)[0]


def check(args):
    """All numbers of workers and sizes but those that the constants are from."""
    constants, lengths, driver, at = medians(args.results)
    machine = calibrate(constants, lengths, driver, at, args.cores)
    print({name: float(f"{value:.3g}") for name, value in vars(machine).items()})
    worst = 0.0
    for (m, rank, workers), (seconds, work) in at.items():
        parts = iteration(machine, work, workers)
        off = sum(parts) / seconds - 1
        used = (workers == 1 and (m, rank) in CALIBRATION) or (workers in (2, 4) and (m, rank) == BUSY)
        worst = worst if used else max(worst, abs(off))
        print(
            f"{m:>12,} observations, rank {rank}, {workers} workers: measured {seconds:.3f} s, model {sum(parts):.3f} s "
            f"(passes {parts[0]:.3f}, columns {parts[1]:.3f}, trips {parts[2]:.3f}, sums {parts[3]:.3f}): "
            + ("a constant is from here" if used else f"{off:+.1%}")
        )
    print(f"worst of those that no constant is from: {worst:.1%}")


def project(args):
    """With the constants of this machine for each core, and an assumed network."""
    constants, lengths, driver, at = medians(args.results)
    here = calibrate(constants, lengths, driver, at, args.cores)
    machine = replace(here, network=1 / 1.25e9, trip=here.trip + 1e-3, cores=16, machines=True)
    print({name: float(f"{value:.3g}") for name, value in vars(machine).items()})
    print(f"rank {args.rank}, single precision, seconds an iteration")
    for m, n1, n2 in ((10**10, 10**8, 10**6), (10**11, 10**9, 10**7), (10**11, 3 * 10**8, 10**8)):
        work = Work(m, n1, n2, args.rank)
        for workers in (16, 64):
            parts = iteration(machine, work, workers)
            memory = (20 * m / workers, 4 * args.rank * 10 * (n1 / workers + n2))
            print(
                f"m = {m:.0e}, {n1:.0e} x {n2:.0e}, {workers} machines: rows {sum(parts):.2f} s "
                f"(passes {parts[0]:.2f}, columns {parts[1]:.2f}, trips {parts[2]:.2f}, sums {parts[3]:.2f}); a machine has "
                f"{memory[0] / 1e9:.0f} GB of partitions and {memory[1] / 1e9:.1f} GB of factors"
            )
            options = [(sum(iteration(machine, work, workers, c)), c) for c in (1, 2, 4, 8, 16)]
            best = min(options)
            print(f"    best grid: {workers // best[1]} x {best[1]}, {best[0]:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "project"])
    parser.add_argument("results", nargs="+", help="files of runs")
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--cores", type=int, default=2, help="of the machine of the runs")
    args = parser.parse_args()
    {"check": check, "project": project}[args.what](args)


if __name__ == "__main__":
    main()
