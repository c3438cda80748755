"""Tables and series with gaps: lorank against other imputers on public tables, with cells hidden in five ways.

    python benchmarks/tables.py tune              # lorank and the cheap peers on the tuning tables, seeds from 100 on
    python benchmarks/tables.py run --methods lorank ridge ...  --seeds 0 1 2 3 4

Runs are kept in a log (--log) and are not made twice. A run is given up after --limit CPU seconds. Errors are normalised:
root mean squares over hidden cells, in standard deviations of their columns. What tables there are, and where from:
tables_data.py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from common import read, run_jobs
from tables_data import GAPS, SERIES, SERIES_GAPS, TEST, TEST_SERIES, TUNING, TUNING_SERIES, error, hide, load
from tables_peers import PEERS, SERIES_PEERS, quiet

KEYS = ("table", "gaps", "method", "seed")
CHEAP = ("mean", "neighbours", "ridge", "SoftImpute")


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """A TimeoutError after that many CPU seconds."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def lorank(table: np.ndarray, series: bool) -> np.ndarray:
    """The default."""
    import lorank as lr

    return lr.TableImputer(time=True if series else None).fit_transform(table)


def fill(method: str, table: np.ndarray, series: bool) -> np.ndarray:
    if method == "lorank":
        return lorank(table, series)
    return quiet(SERIES_PEERS[method], table)


def solve(job: tuple, limit: float) -> dict:
    """One run: the error in hidden cells, and CPU seconds."""
    name, gaps, method, seed = job
    table, series = load(name), name in SERIES
    hidden = hide(table, gaps, seed, series)
    start = time.process_time()
    try:
        with at_most(limit):
            filled = fill(method, np.where(hidden, np.nan, table), series)
        found = error(filled, table, hidden) if np.isfinite(filled).all() else float("inf")
        return {"residual": found, "cpu_seconds": time.process_time() - start}
    except TimeoutError:
        return {"residual": float("nan"), "cpu_seconds": limit, "status": "given up"}
    except Exception as problem:  # a peer that fails on a table fails there, and the others go on
        return {"residual": float("nan"), "cpu_seconds": time.process_time() - start, "status": repr(problem)[:200]}


def jobs(tables: dict, series: dict, methods: list[str], seeds: list[int]) -> list[tuple]:
    """One seed after the other, so that a run that is cut off has seen all tables."""
    cells = [(name, gaps) for name in tables for gaps in GAPS] + [(name, gaps) for name in series for gaps in SERIES_GAPS]
    return [
        (name, gaps, method, seed)
        for seed in seeds
        for name, gaps in cells
        for method in methods
        if name in series or method != "interpolation"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tune", "run"))
    parser.add_argument("--methods", nargs="+", default=["lorank", *PEERS, "interpolation"])
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--log", type=Path, default=Path("tables.jsonl"))
    parser.add_argument("--limit", type=float, default=90.0)
    given = parser.parse_args()
    if given.what in ("tune", "run"):
        tables, series = (TUNING, TUNING_SERIES) if given.what == "tune" else (TEST, TEST_SERIES)
        if given.tables:
            tables, series = ({k: v for k, v in these.items() if k in given.tables} for these in (tables, series))
        seeds = given.seeds or ([100, 101] if given.what == "tune" else [0, 1, 2, 3, 4])
        run_jobs(lambda job: solve(job, given.limit), jobs(tables, series, given.methods, seeds), given.log, KEYS)
    print(len(read(given.log)), "runs in", given.log)


if __name__ == "__main__":
    main()
