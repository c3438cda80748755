"""CPU seconds of the entry points with all threads, against one thread of BLAS and of the kernels.

    python benchmarks/blas_threads.py [--threads 2] [--repeats 5] [--busy]

Each entry point runs in a process of its own with OMP_NUM_THREADS and OPENBLAS_NUM_THREADS set to 1 and to ``--threads``, in
alternation. With ``--busy`` another process keeps one core busy. Prints medians of CPU seconds and their ratio, which should
not exceed 1.3: threads that wait for each other use the CPU as much as those that work.
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


def ratings(n1: int = 1500, n2: int = 1000, m: int = 90_000) -> tuple[np.ndarray, np.ndarray]:
    """Ratings from 1 to 5 with biases and three components, unevenly sampled."""
    rng = np.random.default_rng(0)
    popular = (1 + np.arange(n2)) ** -0.7
    pairs = np.unique(np.column_stack([rng.integers(n1, size=m), rng.choice(n2, m, p=popular / popular.sum())]), axis=0)
    i, j = pairs.T
    U, V, b, c = (rng.standard_normal(shape) for shape in ((n1, 3), (n2, 3), n1, n2))
    values = 3.5 + 0.4 * b[i] + 0.4 * c[j] + 0.4 * (U[i] * V[j]).sum(1) + 0.8 * rng.standard_normal(len(pairs))
    return pairs, values.round().clip(1, 5)


def entry_points() -> dict:
    """Functions without arguments, by name; what they need is fitted before."""
    import lorank as lr

    pairs, values = ratings()
    rng = np.random.default_rng(1)
    table = rng.standard_normal((600, 3)) @ rng.standard_normal((3, 12)) + 0.3 * rng.standard_normal((600, 12))
    table[rng.random(table.shape) < 0.1] = np.nan
    problem, _ = lr.datasets.random_completion(2000, 1500, 5, oversampling=5)
    model = lr.MatrixCompletion(rank=8).fit(pairs, values)
    implicit, imputer = lr.ImplicitFactorization().fit(pairs), lr.TableImputer().fit(table)
    more, rated = pairs[:500], values[:500]
    return {
        "solve": lambda: lr.solve(problem, 5),
        "MatrixCompletion.fit": lambda: lr.MatrixCompletion().fit(pairs, values),
        "MatrixCompletion.fit, rank=32": lambda: lr.MatrixCompletion(rank=32).fit(pairs, values),
        "MatrixCompletion.fit_ranking": lambda: model.fit_ranking(),
        "MatrixCompletion.partial_fit": lambda: model.partial_fit(more, rated),
        "MatrixCompletion.predict": lambda: model.predict(pairs),
        "MatrixCompletion.recommend": lambda: model.recommend(np.arange(1000), by="rating"),
        "ImplicitFactorization.fit": lambda: lr.ImplicitFactorization().fit(pairs),
        "ImplicitFactorization.recommend": lambda: implicit.recommend(np.arange(1000)),
        "TableImputer.fit": lambda: lr.TableImputer().fit(table),
        "TableImputer.transform": lambda: imputer.transform(table),
    }


def measure() -> None:
    """CPU seconds of each entry point, called twice: the first call loads and compiles."""
    warnings.simplefilter("ignore")
    found = {}
    for name, work in entry_points().items():
        work()
        before = time.process_time()
        work()
        found[name] = time.process_time() - before
    print(json.dumps(found))


def run(threads: int) -> dict[str, float]:
    setting = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, "--measure"]
    return json.loads(subprocess.run(command, env=setting, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="keep one core busy")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure()
        return
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if args.busy else None
    try:
        runs: dict[int, list[dict[str, float]]] = {1: [], args.threads: []}
        for _ in range(args.repeats):
            for threads in runs:
                runs[threads].append(run(threads))
    finally:
        if busy is not None:
            busy.terminate()
    print(f"{'entry point':34} {'1 thread':>10} {f'{args.threads} threads':>10}  ratio")
    for name in runs[1][0]:
        one, more = (float(np.median([found[name] for found in runs[k]])) for k in (1, args.threads))
        print(f"{name:34} {one:10.3f} {more:10.3f}  {more / max(one, 1e-9):.2f}")


if __name__ == "__main__":
    main()
