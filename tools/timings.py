"""Timings over commits: five kernels and five solves, one line of JSON for each run.

    python tools/timings.py                     measure, add a line to build/timings.jsonl, and compare it
    python tools/timings.py --log file.jsonl    keep them elsewhere
    python tools/timings.py --show              the lines there are, as a table

Each is run a few times and the smallest time is kept, which other work on the machine disturbs least. Lines of other machines,
backends or numbers of threads are never compared. A change of more than a fifth is marked; look at it on a quiet machine before
believing it. To look at an old commit, check it out and run this file with the same --log.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import lorank as lr
from lorank.geometry import retract, riemannian_gradient
from lorank.metrics import RowColumn

ROOT = Path(__file__).resolve().parents[1]
MARKED = 1.2


def kernels() -> dict[str, Callable[[], object]]:
    """Passes over half a million observations, and what is done with tall arrays between them."""
    problem, truth = lr.datasets.random_completion(5000, 5000, rank=10, oversampling=5, seed=0)
    rng = np.random.default_rng(1)
    X = lr.FixedRank.from_factors(rng.standard_normal((5000, 10)), rng.standard_normal((5000, 10)))
    G = problem.gradient(X)
    metric = RowColumn()
    weights = metric.weights(G, metric.start(G))[0]
    xi = riemannian_gradient(X, G, weights)
    rows, cols = np.array(problem.rows), np.array(problem.cols)

    def gradient() -> object:
        found = problem.gradient(X)
        return found.GV, found.GhU

    return {
        "gradient": gradient,
        "line search": lambda: problem.squared_image_norm(xi),
        "entries": lambda: truth.entries(rows, cols),
        "retraction": lambda: retract(xi, -1e-3),
        "problem": lambda: lr.Completion(rows, cols, problem.y, problem.shape),
    }


def solves() -> dict[str, Callable[[], object]]:
    """One of each kind, to the default tolerance."""
    completion, _ = lr.datasets.random_completion(3000, 3000, rank=10, oversampling=5, seed=0)
    noisy, _ = lr.datasets.random_completion(2000, 1000, rank=5, oversampling=8, noise=0.1, seed=0)
    phase, _ = lr.datasets.random_phase(200, seed=0)
    rng = np.random.default_rng(0)
    values = np.array(noisy.y)
    values[rng.random(len(values)) < 0.1] += 20
    robust = lr.Completion(noisy.rows, noisy.cols, values, noisy.shape, loss="robust")
    return {
        "completion, auto": lambda: lr.solve(completion, 10),
        "completion, prgd": lambda: lr.solve(completion, 10, "prgd"),
        "noise, auto": lambda: lr.solve(noisy, 5),
        "outliers, robust": lambda: lr.solve(robust, 5),
        "phase retrieval, auto": lambda: lr.solve(phase, 1),
    }


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The smallest of some runs, after one that does not count."""
    work()
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def measure() -> dict:
    from lorank.backends import get_backend

    backend = get_backend("native" if _native() else "numpy").name
    line = {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "lorank": lr.__version__,
        "machine": f"{platform.node()} {_processor()}",
        "backend": backend,
        "numpy": np.__version__,
        "seconds": {},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for repeats, group in ((7, kernels()), (3, solves())):
            for name, work in group.items():
                line["seconds"][name] = seconds(work, repeats)
                print(f"{name:>24} {1000 * line['seconds'][name]:9.2f} ms", flush=True)
    return line


def before(lines: list[dict], new: dict) -> dict | None:
    """The last line that may be compared with a new one."""
    same = [line for line in lines if all(line[key] == new[key] for key in ("machine", "backend"))]
    return same[-1] if same else None


def _native() -> bool:
    import importlib.util

    return importlib.util.find_spec("lorank._kernels") is not None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, default=ROOT / "build" / "timings.jsonl")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.log.read_text().splitlines()] if options.log.exists() else []
    if options.show:
        for line in lines:
            shown = "  ".join(f"{1000 * value:.1f}" for value in line["seconds"].values())
            print(f"{line['date']}  {line['commit']}{'+' if line['changed'] else ' '}  {line['backend']}  {shown}")
        return
    new = measure()
    old = before(lines, new)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    with options.log.open("a") as file:
        file.write(json.dumps(new) + "\n")
    if old is None:
        print("the first line of this machine: nothing to compare with")
        return
    print(f"against {old['commit']} of {old['date']}:")
    for name, value in new["seconds"].items():
        if name in old["seconds"]:
            ratio = value / old["seconds"][name]
            mark = " slower" if ratio > MARKED else " faster" if ratio < 1 / MARKED else ""
            print(f"{name:>24} {ratio:6.2f} x{mark}")


if __name__ == "__main__":
    main()
