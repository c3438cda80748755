"""More ratings for a fitted model: the time of partial_fit over that of a fit to everything, and what it costs in accuracy.

    python benchmarks/partial_fit.py FOLDER [--seeds 3]

FOLDER holds ``ml-1m/ratings.dat``. A tenth of the ratings is the test. Of the others, one in a hundred comes later: any
ratings, or all those of some users and some films. CPU seconds of one process; OMP_NUM_THREADS=1. The first fit of the process
is not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import lorank as lr
from common import markdown, versions


def ratings(folder):
    """Index pairs and stars."""
    lines = (folder / "ml-1m" / "ratings.dat").read_text(encoding="latin1").splitlines()
    users, films, stars = np.array([line.split("::")[:3] for line in lines], float).T
    return np.column_stack([np.unique(a, return_inverse=True)[1] for a in (users, films)]), stars


def later(pairs, what, rng):
    """Which ratings come later, about one in a hundred."""
    if what == "any ratings":
        return rng.random(len(pairs)) < 0.01
    users, films = (rng.permutation(n)[: n // 200] for n in pairs.max(0) + 1)
    return np.isin(pairs[:, 0], users) | np.isin(pairs[:, 1], films)


def timed(work):
    begin = time.process_time()
    model = work()
    return model, time.process_time() - begin


def main():
    """Print a line for each kind of news and each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    pairs, stars = ratings(options.folder)
    print(versions())
    lr.MatrixCompletion(rank=1).fit(pairs[:100_000], stars[:100_000])
    rows = []
    for what in ("any ratings", "new users and films"):
        for seed in range(options.seeds):
            rng = np.random.default_rng(seed)
            test = rng.random(len(stars)) < 0.1
            new = later(pairs, what, rng) & ~test
            old = ~new & ~test
            model, before = timed(lambda old=old: lr.MatrixCompletion().fit(pairs[old], stars[old]))
            errors = [rmse(model, pairs[test], stars[test])]
            _, update = timed(lambda model=model, new=new: model.partial_fit(pairs[new], stars[new]))
            anew, full = timed(lambda test=test: lr.MatrixCompletion().fit(pairs[~test], stars[~test]))
            errors += [rmse(m, pairs[test], stars[test]) for m in (model, anew)]
            rows.append(
                {
                    "new": what,
                    "seed": seed,
                    "share": f"{new.sum() / (~test).sum():.2%}",
                    "fit before, s": f"{before:.2f}",
                    "partial_fit, s": f"{update:.3f}",
                    "fit to all, s": f"{full:.2f}",
                    "time": f"{update / full:.1%}",
                    "RMSE before": f"{errors[0]:.4f}",
                    "partial_fit": f"{errors[1]:.4f}",
                    "fit to all": f"{errors[2]:.4f}",
                    "difference": f"{errors[1] - errors[2]:+.5f}",
                }
            )
            print(rows[-1], flush=True)
    print("\n".join(markdown(rows)))


def rmse(model, pairs, stars):
    return float(np.sqrt(np.mean((model.predict(pairs) - stars) ** 2)))


if __name__ == "__main__":
    main()
