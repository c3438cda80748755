"""The default regularization of `MatrixCompletion` against learned priors and fixed strengths, on a grid of noisy problems.

    python benchmarks/regularization.py run --log FILE.jsonl [--seeds 5] [--first-seed 9000] [--jobs 2] [--quick]
    python benchmarks/regularization.py report --log FILE.jsonl

Matrices of 400 x 300 and rank 4: factors uniform in [0, 1] or Gaussian, or equal ("flat") or geometric ("decaying", 1
to 1/30) singular values; noise of 0.01, 0.1, 0.3 and 1 of the standard deviation of the matrix; 2, 4 and 10
observations per degree of freedom; even and uneven patterns (rows with frequencies k^-0.5, columns k^-0.7); with and
without biases of rows and columns (of the standard deviation of the matrix each). Fits: `MatrixCompletion(rank=4)`,
with `regularization="learned"`, with three fixed strengths in units of the spectral norm of the observed noise, and
`MatrixCompletion()`. R^2 is that of 20 000 entries which were not observed. A run that is cut off resumes; the report
has one line for each cell in which the default is behind.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import argparse
import concurrent.futures
import itertools
import json
import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import lorank as lr
from common import versions

SHAPE, RANK, HELD = (400, 300), 4, 20_000
FACTORS = ("uniform", "gaussian", "flat", "decaying")
NOISE, PER_DOF = (0.01, 0.1, 0.3, 1.0), (2, 4, 10)
PATTERNS, BIASES = ("even", "uneven"), (False, True)
STRENGTHS = (0.1, 0.3, 1.0)
ALLOWED = 0.005


def matrix(kind: str, biases: bool, rng: np.random.Generator) -> np.ndarray:
    n1, n2 = SHAPE
    if kind in ("uniform", "gaussian"):
        draw = rng.random if kind == "uniform" else rng.standard_normal
        X = draw((n1, RANK)) @ draw((n2, RANK)).T
    else:
        U, V = (np.linalg.qr(rng.standard_normal((n, RANK)))[0] for n in SHAPE)
        X = U * (np.ones(RANK) if kind == "flat" else 30.0 ** -np.linspace(0, 1, RANK)) @ V.T
    if biases:
        X = X + X.std() * (rng.standard_normal((n1, 1)) + rng.standard_normal((1, n2)))
    return X


def one(factors: str, noise: float, per_dof: int, pattern: str, biases: bool, seed: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    rng, (n1, n2) = np.random.default_rng(seed), SHAPE
    X = matrix(factors, biases, rng)
    Y = X + noise * X.std() * rng.standard_normal(SHAPE)
    p, q = (np.arange(1, n + 1.0) ** -e if pattern == "uneven" else np.ones(n) for n, e in ((n1, 0.5), (n2, 0.7)))
    keys = rng.exponential(size=SHAPE) / np.outer(rng.permutation(p), rng.permutation(q))  # draws without replacement
    order = np.argsort(keys, axis=None)
    m = per_dof * RANK * (n1 + n2 - RANK)
    pairs = np.column_stack(np.divmod(order[:m], n2))
    held = np.column_stack(np.divmod(rng.permutation(order[m:])[:HELD], n2))
    values, truth = Y[*pairs.T], Y[*held.T]
    norm = noise * X.std() * sum(np.sqrt(m / n) for n in SHAPE)
    options = {"rank 4": (RANK,), "learned": (RANK, "learned"), "default": ()}
    options |= {f"{s:g} noise": (RANK, s * norm) for s in STRENGTHS}
    found: dict[str, Any] = {"factors": factors, "noise": noise, "per_dof": per_dof, "pattern": pattern, "biases": biases}
    found |= {"seed": seed, "R2": {}, "rank": {}}
    for name, arguments in options.items():
        model = lr.MatrixCompletion(*arguments, shape=SHAPE).fit(pairs, values)
        found["R2"][name] = float(1 - np.mean((model.predict(held) - truth) ** 2) / truth.var())
        found["rank"][name] = int(model.rank_)
    return found


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[k] for k in ("factors", "noise", "per_dof", "pattern", "biases", "seed"))


def read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def run(log: Path, seeds: range, jobs: int, quick: bool) -> None:
    done = {key(row) for row in read(log)}
    grid = itertools.product(FACTORS, NOISE[2:3] if quick else NOISE, PER_DOF[1:2] if quick else PER_DOF, PATTERNS, BIASES)
    cases = [(*cell, seed) for seed, cell in itertools.product(seeds, list(grid))]
    cases = [case for case in cases if case not in done]
    with log.open("a") as file, concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(one, *case) for case in cases]):
            print(json.dumps(future.result()), file=file, flush=True)


def report(log: Path) -> None:
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in read(log):
        cells.setdefault(key(row)[:-1], []).append(row)
    seeds = sorted({row["seed"] for rows in cells.values() for row in rows})
    print(f"{len(cells)} cells, {len(seeds)} seeds ({seeds[0]} to {seeds[-1]}); {versions()}")
    medians = {
        cell: {name: statistics.median(row["R2"][name] for row in rows) for name in rows[0]["R2"]}
        for cell, rows in cells.items()
    }
    for fit in ("rank 4", "default"):
        behind = {cell: max(m.values()) - m[fit] for cell, m in medians.items()}
        over = sorted((cell for cell, gap in behind.items() if gap > ALLOWED), key=lambda cell: -behind[cell])
        ranks = [row["rank"][fit] for rows in cells.values() for row in rows]
        print(f"\n{fit}: behind the best fit by more than {ALLOWED} in {len(over)} of {len(cells)} cells")
        print(f"  gap: median {statistics.median(behind.values()):.4f}, largest {max(behind.values()):.4f}")
        print("  fitted ranks: " + ", ".join(f"{r} in {ranks.count(r)}" for r in sorted(set(ranks))))
        for cell in over:
            print("  ", *cell, " ".join(f"{name} {value:.4f}" for name, value in medians[cell].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=9000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one noise level and one number of observations")
    args = parser.parse_args()
    if args.what == "run":
        run(args.log, range(args.first_seed, args.first_seed + args.seeds), args.jobs, args.quick)
    report(args.log)


if __name__ == "__main__":
    main()
