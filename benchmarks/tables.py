"""Tables and series with gaps: lorank against other imputers on public tables, with cells hidden in five ways.

    python benchmarks/tables.py tune              # lorank and the cheap peers on the tuning tables, seeds from 100 on
    python benchmarks/tables.py run --methods lorank ridge ...  --seeds 0 1 2 3 4
    python benchmarks/tables.py report --log a.jsonl b.jsonl   # the table of docs/benchmarks/tables.md, its CSV and picture
    python benchmarks/tables.py speed             # CPU seconds of lorank and IterativeImputer, in alternation
    python benchmarks/tables.py large             # 1 000 000 x 50 with 20 % missing: seconds and memory

Runs are kept in a log (--log) and are not made twice: a run that was stopped goes on where it was. Those of lorank also count
how many hidden cells lie within intervals at 90 %. A run is given up after --limit CPU seconds. Errors are normalised:
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
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from common import markdown, read, run_jobs
from tables_data import GAPS, SERIES, SERIES_GAPS, TEST, TEST_SERIES, TUNING, TUNING_SERIES, error, hide, load
from tables_peers import PEERS, SERIES_PEERS, quiet
from tables_report import report, write

KEYS = ("table", "gaps", "method", "seed")


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


def imputer(series: bool) -> Any:
    """The default."""
    import lorank as lr

    return lr.TableImputer(time=True if series else None)


def covered(model: Any, table: np.ndarray, hidden: np.ndarray) -> dict:
    """How many hidden cells there are in each column, and how many of them lie within a model's intervals at 90 %."""
    low, high = model.predict_interval(np.where(hidden, np.nan, table), 0.9)
    inside = hidden & (low <= table) & (table <= high)
    return {"cells": hidden.sum(axis=0).tolist(), "inside": inside.sum(axis=0).tolist()}


def fill(method: str, table: np.ndarray, series: bool) -> np.ndarray:
    if method == "lorank":
        return imputer(series).fit_transform(table)
    return quiet(SERIES_PEERS[method], table)


def solve(job: tuple, limit: float) -> dict:
    """One run: the error in hidden cells, and CPU seconds."""
    name, gaps, method, seed = job
    table, series = load(name), name in SERIES
    hidden = hide(table, gaps, seed, series)
    start = time.process_time()
    try:
        with at_most(limit):
            if method == "lorank":
                model = imputer(series)
                filled = model.fit_transform(np.where(hidden, np.nan, table))
            else:
                filled = fill(method, np.where(hidden, np.nan, table), series)
        seconds = time.process_time() - start
        found = error(filled, table, hidden) if np.isfinite(filled).all() else float("inf")
        more = covered(model, table, hidden) if method == "lorank" else {}
        return {"residual": found, "cpu_seconds": seconds, **more}
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


def speed(names: list[str] | None, seeds: list[int]) -> None:
    """The better of two fits of lorank and of ridge, in alternation, and one of the trees, on tables of 1000 rows and more."""
    rows = []
    for name in names or [*TEST]:
        table = load(name)
        if len(table) < 1000 and not names:
            continue
        for gaps in GAPS:
            holes = np.where(hide(table, gaps, seeds[0]), np.nan, table)
            seconds: dict[str, list[float]] = {"lorank": [], "ridge": [], "trees": []}
            for turn in range(2):
                for method, found in seconds.items():
                    if method == "trees" and (turn or table.shape[1] > 20):
                        continue
                    start = time.process_time()
                    fill(method, holes, False)
                    found.append(time.process_time() - start)
            best = {method: min(found) for method, found in seconds.items() if found}
            rows.append({"table": name, "shape": f"{table.shape[0]} x {table.shape[1]}", "gaps": gaps})
            rows[-1] |= {f"{method}, s": f"{best[method]:.3f}" if method in best else "-" for method in seconds}
            rows[-1] |= {
                f"{method} / lorank": f"{best[method] / best['lorank']:.2f}" if method in best else "-"
                for method in ("ridge", "trees")
            }
            print(rows[-1], flush=True)
    print("\n".join(markdown(rows)))


def large(names: list[str] | None, seeds: list[int]) -> None:
    """A million rows of fifty columns with six factors."""
    import resource

    import lorank as lr

    rng = np.random.default_rng(seeds[0])
    loadings = rng.standard_normal((6, 50))
    table = np.empty((1_000_000, 50))
    for at in range(0, len(table), 50_000):
        part = rng.standard_normal((50_000, 6)) @ loadings + 0.7 * rng.standard_normal((50_000, 50))
        part[rng.random(part.shape) < 0.2] = np.nan
        table[at : at + 50_000] = part
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    lr.TableImputer().fit_transform(table)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{wall:.0f} s, {cpu:.0f} CPU s; at most {after / 2**20:.2f} GiB in all, {before / 2**20:.2f} with the table alone")
    print(f"{after * 1024 / table.nbytes:.1f} times the table's {table.nbytes / 2**30:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tune", "run", "report", "speed", "large"))
    parser.add_argument("--methods", nargs="+", default=["lorank", *PEERS, "interpolation"])
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--log", type=Path, nargs="+", default=[Path("tables.jsonl")])
    parser.add_argument("--limit", type=float, default=90.0)
    given = parser.parse_args()
    if given.what in ("tune", "run"):
        tables, series = (TUNING, TUNING_SERIES) if given.what == "tune" else (TEST, TEST_SERIES)
        if given.tables:
            tables, series = ({k: v for k, v in these.items() if k in given.tables} for these in (tables, series))
        seeds = given.seeds or ([100, 101] if given.what == "tune" else [0, 1, 2, 3, 4])
        run_jobs(lambda job: solve(job, given.limit), jobs(tables, series, given.methods, seeds), given.log[0], KEYS)
    elif given.what == "report":
        lines = report([run for log in given.log for run in read(log)])
        write(lines)
        print("\n".join(lines))
    else:
        {"speed": speed, "large": large}[given.what](given.tables, given.seeds or [0])


if __name__ == "__main__":
    main()
