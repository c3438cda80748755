"""Two threads against one: the default fit of MovieLens-1M.

    LORANK_DATA=folder python benchmarks/estimator_threads.py [--fits 7] [--threads 1 2]    # the folder has ml-1m.zip

Processes with different numbers of threads take turns, so that a neighbour on the machine disturbs them alike; each has fitted
once before, to warm up. Prints medians and ranges of the wall clock, CPU seconds, how long threads that could have run had to
wait for a core, and the ratio turn by turn. Then as many processes of one thread as there were threads fit at once: whatever
slows them down (caches, memory, clock rates) slows threads down as well, so that their rate is what threads can reach at best
on this machine. Nothing is to be believed of a machine that others use.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np


def waited() -> float:
    """Seconds that the threads of this process were ready, and had no core; nan where the system does not tell."""
    try:
        return sum(int(path.read_text().split()[1]) for path in Path("/proc/self/task").glob("*/schedstat")) / 1e9
    except (OSError, IndexError):
        return float("nan")


def serve() -> None:
    """Fit once, then once more for each line that comes in, and print the seconds with what came of it."""
    import lorank as lr
    from accuracy import ratings, rmse

    warnings.simplefilter("ignore")
    data = ratings("ml-1m", "ratings.dat")
    pairs = np.column_stack([np.unique(data[:, k], return_inverse=True)[1] for k in (0, 1)])
    values, test = data[:, 2].astype(float), np.zeros(len(data), bool)
    test[np.array_split(np.random.default_rng(0).permutation(len(values)), 5)[0]] = True  # the first fold of accuracy.py
    model = lr.MatrixCompletion(bounds=(1, 5)).fit(pairs[~test], values[~test])
    error = rmse(model.predict(pairs[test]), values[test])
    print("ready", flush=True)
    for _ in sys.stdin:
        wall, cpu, idle = time.perf_counter(), time.process_time(), waited()
        model = lr.MatrixCompletion(bounds=(1, 5)).fit(pairs[~test], values[~test])
        found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "waited": waited() - idle}
        rounded = {name: round(seconds, 3) for name, seconds in found.items()}
        print(json.dumps(rounded | {"rank": model.rank_, "error": error}), flush=True)


class Fitter:
    """A process with so many threads that fits when it is told to."""

    def __init__(self, threads: int) -> None:
        setting = os.environ | {"OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(command, env=setting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready"

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> dict:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def at_once(fitters: list[Fitter]) -> list[dict]:
    for one in fitters:
        one.begin()
    return [one.end() for one in fitters]


def spread(a: np.ndarray) -> str:
    return f"{np.median(a):.2f} ({a.min():.2f} to {a.max():.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    fitters = {count: Fitter(count) for count in args.threads}
    found: dict[int, list[dict]] = {count: [] for count in args.threads}
    for turn in range(args.fits):
        for count in args.threads if turn % 2 == 0 else args.threads[::-1]:
            found[count] += at_once([fitters[count]])
            print(f"turn {turn}, {count} thread(s): {found[count][-1]}", file=sys.stderr, flush=True)
    for one in fitters.values():
        one.close()
    base = args.threads[0]
    for count, runs in found.items():
        wall, idle = (np.array([d[name] for d in runs]) for name in ("wall", "waited"))
        ratio = np.array([d["wall"] for d in found[base]]) / wall
        free = ratio[idle < 0.1 * wall]
        print(
            f"{count} thread(s): {spread(wall)} s, CPU {np.median([d['cpu'] for d in runs]):.2f} s, waited "
            f"{np.median(idle):.2f} s, rank {runs[0]['rank']}, RMSE {runs[0]['error']:.4f}; "
            f"{spread(ratio)} times as fast as {base}"
            + (f"; {np.median(free):.2f} in the {len(free)} turns that hardly waited" if len(free) else "")
        )
    most = max(args.threads)
    alone = [Fitter(1) for _ in range(most)]
    rates = []
    for turn in range(args.fits):
        one = at_once([alone[turn % most]])[0]["wall"]
        both = float(np.mean([d["wall"] for d in at_once(alone)]))
        rates.append(most * one / both)
        print(f"turn {turn}, one process: {one:.2f} s, {most} at once: {both:.2f} s each", file=sys.stderr, flush=True)
    for fitter in alone:
        fitter.close()
    print(f"{most} processes of one thread at once: {spread(np.array(rates))} times the rate of one, at best what threads gain")


if __name__ == "__main__":
    main()
