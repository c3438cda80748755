"""Two threads against one: the default fit of MovieLens-1M.

    LORANK_DATA=folder python benchmarks/estimator_threads.py [--fits 7] [--threads 1 2]    # the folder has ml-1m.zip

Each fit is the second one in a process of its own (the first one warms up), and processes with different numbers of threads
take turns, so that a neighbour on the machine disturbs them alike. Prints medians and ranges of the wall clock, CPU seconds and
the ratio turn by turn; nothing is to be believed of a machine that others use.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np


def one() -> None:
    """Fit twice, and print the seconds of the second time with what came of it."""
    import lorank as lr
    from accuracy import ratings, rmse

    warnings.simplefilter("ignore")
    data = ratings("ml-1m", "ratings.dat")
    pairs = np.column_stack([np.unique(data[:, k], return_inverse=True)[1] for k in (0, 1)])
    values, test = data[:, 2].astype(float), np.zeros(len(data), bool)
    test[np.array_split(np.random.default_rng(0).permutation(len(values)), 5)[0]] = True  # the first fold of accuracy.py
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        model = lr.MatrixCompletion(bounds=(1, 5)).fit(pairs[~test], values[~test])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = rmse(model.predict(pairs[test]), values[test])
    print(json.dumps({"wall": round(wall, 3), "cpu": round(cpu, 3), "rank": model.rank_, "error": error}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one()
        return
    found: dict[int, list[dict]] = {count: [] for count in args.threads}
    for turn in range(args.fits):
        for count in args.threads if turn % 2 == 0 else args.threads[::-1]:
            command, setting = [sys.executable, __file__, "--one"], os.environ | {"OMP_NUM_THREADS": str(count)}
            done = subprocess.run(command, env=setting, capture_output=True, text=True, check=True)
            found[count].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"turn {turn}, {count} thread(s): {found[count][-1]}", file=sys.stderr, flush=True)
    base = args.threads[0]
    for count, runs in found.items():
        wall = np.array([d["wall"] for d in runs])
        cpu = np.median([d["cpu"] for d in runs])
        ratio = np.array([d["wall"] for d in found[base]]) / wall
        print(
            f"{count} thread(s): {np.median(wall):.2f} s ({wall.min():.2f} to {wall.max():.2f}), CPU {cpu:.2f} s, rank "
            f"{runs[0]['rank']}, RMSE {runs[0]['error']:.4f}; {np.median(ratio):.2f} times ({ratio.min():.2f} to "
            f"{ratio.max():.2f}) as fast as {base}"
        )


if __name__ == "__main__":
    main()
