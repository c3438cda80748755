"""Unevenly sampled matrices on a GPU: the default solver and `MatrixCompletion`, first call and later ones.

python benchmarks/gpu_uneven.py [--quick] [--profile] [--only NAME ...] [--out FILE.json]

Rows are drawn with frequencies k^-0.6 and columns with k^-0.8, repeated pairs are left out. Exact values are solved to a
relative residual of 5e-5; the error is that of a million entries of rows and columns with at least three times as many
observations as the rank. Ratings are noisy values with biases, passed as NumPy arrays. Every case prints the first run of the
process and the median of the others; `--profile` adds where the host's time goes. Needs a CUDA GPU with about 100 GB; `--quick`
with 2 GB.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lorank as lr

GPU = "cuda"
F32, F64 = torch.float32, torch.float64
# rows, columns, pairs drawn, rank, dtype, factors
SOLVES: dict[str, tuple[int, int, int, int, torch.dtype, str]] = {
    "steep Gaussian, 44 M": (300_000, 30_000, 50_000_000, 16, F32, "gaussian"),
    "steep Gaussian, 471 M": (3_000_000, 300_000, 500_000_000, 16, F32, "gaussian"),
    "steep uniform, rank 32, 281 M": (2_000_000, 200_000, 300_000_000, 32, F32, "uniform"),
}
RATINGS: dict[str, tuple[int, int, int, dict[str, Any]]] = {
    "ratings, rank 16, 46 M": (300_000, 30_000, 52_000_000, {"rank": 16}),
    "ratings, default, 46 M": (300_000, 30_000, 52_000_000, {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the observations, a fiftieth of rows and columns")
    parser.add_argument("--only", nargs="+", default=[*SOLVES, *RATINGS])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu_uneven.py needs a CUDA GPU, and PyTorch finds none")
    warnings.simplefilter("ignore")
    report = measured(args.quick, args.repeat, args.only, args.profile)
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


def measured(
    quick: bool, repeat: int, names: Sequence[str] = (*SOLVES, *RATINGS), profile: bool = False
) -> list[dict[str, Any]]:
    """One row for each case, printed when it is done."""
    report = []
    for name in names:
        case: list[Any] = list(SOLVES.get(name) or RATINGS[name])
        if quick:
            case[:3] = case[0] // 50, case[1] // 50, case[2] // 100
        report.append({"case": name} | (solved if name in SOLVES else fitted)(*case, repeat, profile))
        print(json.dumps(report[-1]), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    return report


def pattern(n1: int, n2: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Different pairs of m draws, rows with frequencies k^-0.6 and columns with k^-0.8, numbered at random."""
    generator = torch.Generator(GPU).manual_seed(1)

    def drawn(n: int, exponent: float) -> torch.Tensor:
        edges = torch.arange(1, n + 1, device=GPU, dtype=F64).pow(-exponent).cumsum(0)
        found = torch.searchsorted(edges / edges[-1], torch.rand(m, device=GPU, generator=generator, dtype=F64))
        return torch.randperm(n, device=GPU, generator=generator)[found.clamp_(max=n - 1)]

    keys = torch.unique(drawn(n1, 0.6) * n2 + drawn(n2, 0.8))
    return keys // n2, keys % n2


def products(left: torch.Tensor, right: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
    values = torch.empty(len(rows), device=GPU, dtype=left.dtype)
    for k in range(0, len(rows), 1 << 24):
        part = slice(k, k + (1 << 24))
        values[part] = (left[rows[part]] * right[cols[part]]).sum(1)
    return values


def solved(n1: int, n2: int, m: int, rank: int, dtype: torch.dtype, kind: str, repeat: int, profile: bool) -> dict[str, Any]:
    generator = torch.Generator(GPU).manual_seed(2)
    draw = torch.randn if kind == "gaussian" else torch.rand
    left, right = (draw(n, rank, device=GPU, dtype=dtype, generator=generator) for n in (n1, n2))
    rows, cols = pattern(n1, n2, m)
    problem = lr.Completion(rows, cols, products(left, right, rows, cols), (n1, n2))
    result, seconds = timed(lambda: lr.solve(problem, rank, tol=5e-5, max_iter=200), repeat, profile)
    well = [torch.nonzero(torch.bincount(i, minlength=n) >= 3 * rank).ravel() for i, n in ((rows, n1), (cols, n2))]
    i, j = (w[torch.randint(len(w), (1_000_000,), device=GPU, generator=generator)] for w in well)
    truth, found = products(left, right, i, j), result.X.entries(i, j)
    return {
        "observations": len(rows),
        **seconds,
        "start residual": float(result.history.residual[0]),
        "iterations": result.n_iter,
        "status": str(result.status),
        "residual": float(result.history.residual[-1]),
        "error": float((found - truth).norm() / truth.norm()),
    }


def fitted(n1: int, n2: int, m: int, options: dict[str, Any], repeat: int, profile: bool) -> dict[str, Any]:
    generator = torch.Generator(GPU).manual_seed(3)
    factors = [torch.randn(n, 16, device=GPU, dtype=F32, generator=generator) / 4**0.5 for n in (n1, n2)]
    biases = [0.5 * torch.randn(n, device=GPU, dtype=F32, generator=generator) for n in (n1, n2)]
    rows, cols = pattern(n1, n2, m)
    values = 3.5 + biases[0][rows] + biases[1][cols] + products(*factors, rows, cols) / 2
    values = (values + 0.7 * torch.randn(len(rows), device=GPU, generator=generator)).round().clamp(1, 5)
    test = torch.rand(len(rows), device=GPU, generator=generator) < 0.02
    pairs = torch.stack([rows, cols], 1).int()
    train, held = (
        (pairs[~test].cpu().numpy(), values[~test].cpu().numpy()),
        (pairs[test].cpu().numpy(), values[test].cpu().numpy()),
    )
    del factors, biases, rows, cols, values, pairs, test
    torch.cuda.empty_cache()
    model, seconds = timed(lambda: lr.MatrixCompletion(device=GPU, shape=(n1, n2), **options).fit(*train), repeat, profile)
    error = model.predict(held[0]) - held[1]
    return {
        "observations": len(train[0]),
        **seconds,
        "rank": model.rank_,
        "iterations": model.n_iter_,
        "status": str(model.status_),
        "held-out RMSE": float(np.sqrt(np.mean(error**2))),
    }


def timed(run: Callable[[], Any], repeat: int, profile: bool) -> tuple[Any, dict[str, Any]]:
    """Result of the last run, and seconds: the first run compiles kernels."""
    seconds = []
    torch.cuda.reset_peak_memory_stats()
    for k in range(repeat + 1):
        profiler = cProfile.Profile()
        torch.cuda.synchronize()
        if profile and k == repeat:
            profiler.enable()
        began = time.perf_counter()
        found = run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        profiler.disable()
        if profile and k == repeat:
            for order in ("tottime", "cumulative"):
                pstats.Stats(profiler).sort_stats(order).print_stats(28)
    later = seconds[1:] or seconds
    times = {"first": seconds[0], "seconds": statistics.median(later), "range": [min(later), max(later)]}
    return found, times | {"peak GB": torch.cuda.max_memory_allocated() / 1e9}


if __name__ == "__main__":
    main()
