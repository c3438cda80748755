"""Read 20 million ratings from a CSV file: seconds, and memory against the arrays that come out.

python benchmarks/reading.py [--rows 20000000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

READ = """
import re, sys, time
from pathlib import Path
from lorank.io import read_ratings
import polars, scipy.sparse
def most():  # resident memory at its highest, MB; getrusage would count the parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
before = most()
begin = time.perf_counter()
data = read_ratings(sys.argv[1])
seconds = time.perf_counter() - begin
peak = most() - before
arrays = sum(a.nbytes for a in (data.rows, data.cols, data.values)) / 2**20
print(f"{len(data.values):,} rows in {seconds:.1f} s; peak {peak:.0f} MB, {peak / arrays:.2f} times {arrays:.0f} MB")
"""


def main() -> None:
    import polars as pl

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--ids", nargs="+", default=["numbers", "text"])
    chosen = parser.parse_args()
    rows = chosen.rows
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for ids in chosen.ids:
            path = Path(folder) / f"{ids}.csv"
            users, movies = rng.integers(1, 140_000, rows), rng.integers(1, 27_000, rows)
            frame = pl.DataFrame({"user": users, "movie": movies, "rating": rng.integers(1, 11, rows) / 2})
            if ids == "text":
                frame = frame.with_columns(pl.format("u{}", "user").alias("user"), pl.format("m{}", "movie").alias("movie"))
            frame.write_csv(path)
            del frame, users, movies
            print(f"ids are {ids}: ", end="", flush=True)
            subprocess.run([sys.executable, "-c", READ, path], check=True)
            path.unlink()


if __name__ == "__main__":
    main()
