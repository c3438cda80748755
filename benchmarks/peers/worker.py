"""One method on one problem, in a process of its own: prints what it took to reach each tolerance, as JSON.

    python worker.py METHOD PROBLEM.npz --setting '{...}' --threads 1 --tolerances 1e-4 1e-8 --budget 120

Run by the interpreter of the environment that has the method. Data are loaded and everything is warmed up on a small problem
before the clock starts; seconds go from arrays in memory to factors in memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from data import Data


def resident(field: str, pid: str = "self") -> int:
    """Bytes of a process's memory: VmRSS now, VmHWM at its peak (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def forget_peak() -> None:
    """Let the peak start anew from what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def small(rank: int) -> Data:
    """Something to warm up on."""
    rng = np.random.default_rng(0)
    left, right = rng.random((400, rank)), rng.random((300, rank))
    rows, cols = np.nonzero(rng.random((400, 300)) < 0.5)
    values = np.einsum("ij,ij->i", left[rows], right[cols])
    return Data(rows.astype(np.int32), cols.astype(np.int32), values, left, right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method")
    parser.add_argument("problem")
    parser.add_argument("--setting", type=json.loads, default={})
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tolerances", type=float, nargs="+", default=[1e-4])
    parser.add_argument("--budget", type=float, default=120.0, help="seconds that a method may try for")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    method = importlib.import_module(f"methods.{args.method}")
    data = Data.load(args.problem)
    run: Callable[..., dict] = method.run
    run(small(data.rank), args.setting, args.threads, [1e-2], 5.0, 1)
    forget_peak()
    before = resident("VmRSS")
    found = run(data, args.setting, args.threads, args.tolerances, args.budget, args.repeats)
    found.setdefault("peak", resident("VmHWM") - before)
    print(json.dumps(found | {"version": method.version()}))


if __name__ == "__main__":
    main()
