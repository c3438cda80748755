"""What benchmarks share: the line printed beside the figures, and runs that are kept in a file and can be resumed."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import scipy

import lorank as lr
from lorank.backends import get_backend

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"


def versions() -> str:
    """One line: versions, instruction set and threads."""
    backend = get_backend()
    kernels = "reference path"
    if backend.name == "native":
        from lorank import _kernels

        kernels = f"{_kernels.instruction_set()}, {_kernels.threads()} kernel thread(s)"
    return (
        f"lorank {lr.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, Python {platform.python_version()}, "
        f"{kernels}, BLAS limited to 1"
    )


def write_csv(rows: list[dict], path: Path) -> None:
    """One line for each row, the keys of the first as heads."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows: list[dict]) -> list[str]:
    """The lines of a Markdown table."""
    return [
        f"| {' | '.join(rows[0])} |",
        f"|{'---|' * len(rows[0])}",
        *(f"| {' | '.join(map(str, row.values()))} |" for row in rows),
    ]


def spread(values: list[float]) -> str:
    """Median and range, in milliseconds."""
    low, mid, high = np.percentile(values, [0, 50, 100]) * 1e3
    return f"{mid:7.2f} ({low:.2f} .. {high:.2f})"


def run_jobs(solve: Callable[[tuple], dict], jobs: list[tuple], log: Path, keys: tuple[str, ...], workers: int = 1) -> None:
    """Solve the jobs that the log does not hold yet, and append a JSON line for each.

    ``keys`` are the entries of a line that make up its job.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    done = {tuple(d[key] for key in keys) for d in read(log)}
    jobs = [job for job in jobs if job not in done]
    print(f"{versions()}; {len(jobs)} solves to go, {len(done)} done", flush=True)
    if workers > 1:
        import multiprocessing

        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            record(log, pool.imap_unordered(solve, jobs))
    else:
        record(log, map(solve, jobs))


def record(log: Path, results: Iterable[dict]) -> None:
    with log.open("a") as file:
        for d in results:
            file.write(json.dumps(d) + "\n")
            file.flush()
            print(" ".join(f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}" for key, value in d.items()))


def read(log: Path) -> list[dict]:
    """The lines so far; a last one that was cut off is left out."""
    if not log.exists():
        return []
    out = []
    for line in log.read_text().splitlines():
        try:
            out.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return out
