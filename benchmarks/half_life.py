"""Does it pay to let old ratings count for less? MovieLens split by time, with half-lives of all lengths.

    python benchmarks/half_life.py FOLDER [--data ml-1m ml-100k] [--log half_life.jsonl]

FOLDER holds ``ml-1m/ratings.dat`` or ``ml-100k/u.data``. Two splits: the latest tenth of all ratings;
and the latest fifth of each user's ratings. RMSE on what was held out, of pairs whose user and film were rated before, and of
all pairs; ``auto`` is chosen on the training alone. One thread: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import lorank as lr
from lorank.evaluation import leave_last_out

HALF_LIVES = (None, "2y", "1y", "180d", "90d", "30d", "7d", "auto")
FILES = {"ml-1m": ("ml-1m/ratings.dat", "::"), "ml-100k": ("ml-100k/u.data", "\t")}


def load(folder, name):
    """Index pairs, stars and seconds since 1970."""
    path, separator = FILES[name]
    lines = (folder / path).read_text(encoding="latin1").splitlines()
    users, films, stars, seconds = np.array([line.split(separator) for line in lines], float).T
    there = seconds > 0  # some copies of the files have lost the times of a part
    users, films, stars, seconds = users[there], films[there], stars[there], seconds[there]
    print(f"{name}: {there.sum():,} of {len(there):,} ratings have a time\n")
    rows, cols = (np.unique(ids, return_inverse=True)[1] for ids in (users, films))
    return np.column_stack([rows, cols]), stars, seconds


def splits(pairs, seconds):
    """What is held out."""
    last = np.zeros(len(pairs), bool)
    last[np.argsort(seconds, kind="stable")[-len(pairs) // 10 :]] = True
    return {"latest tenth": last, "latest fifth of each user": leave_last_out(pairs[:, 0], seconds, 0.2)}


def main():
    """Fit with each half-life, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", choices=FILES, default=["ml-1m"])
    parser.add_argument("--log", type=Path, default=Path("half_life.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.data:
        pairs, stars, seconds = load(options.folder, name)
        print("| data | held out | half-life | RMSE, known | RMSE, all | seconds |\n|---|---|---|---|---|---|")
        for split, out in splits(pairs, seconds).items():
            for half_life in HALF_LIVES:
                begin = time.process_time()
                model = lr.MatrixCompletion(bounds=(1, 5), half_life=half_life, shape=tuple(pairs.max(0) + 1))
                model.fit(pairs[~out], stars[~out], times=seconds[~out])
                taken = time.process_time() - begin
                squares, known = (model.predict(pairs[out]) - stars[out]) ** 2, model.known(pairs[out])
                found = {"rmse": float(squares[known].mean() ** 0.5), "rmse of all": float(squares.mean() ** 0.5)}
                line = {"data": name, "split": split, "half_life": half_life, "seconds": taken, "known": float(known.mean())}
                line |= found | {"rank": model.rank_, "chosen": model.half_life_, "tried": model.half_lives_}
                with options.log.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                chosen = f" ({model.half_life_ / 86400:.0f}d)" if half_life == "auto" and model.half_life_ else ""
                print(
                    f"| {name} | {split} ({known.mean():.0%} known) | {half_life or 'none'}{chosen} | {found['rmse']:.4f} "
                    f"| {found['rmse of all']:.4f} | {taken:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
