"""Normal equations on a GPU: seconds of each part, beside the sums by batched products that every device can compute.

python benchmarks/gpu_normal_equations.py [--quick] [--out FILE.json]

Factors of the rows with covariances, as in `MatrixCompletion`, and the operations of which they and the extension of a
well-observed core consist; the first call of each, which compiles kernels, and the median of the others. The program ends with
an error if the kernels and the batched products disagree. Needs a CUDA GPU with about 60 GB; `--quick` with 4 GB. With
`--device cpu` a small size runs anywhere.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import lorank as lr
from lorank.backends.torch_ import normal_equations, plain

CASES = [  # rows, columns, observations, rank, dtype
    (300_000, 30_000, 46_000_000, 16, torch.float64),
    (2_000_000, 200_000, 281_000_000, 32, torch.float32),
]
QUICK = [(20_000, 4_000, 1_000_000, 16, torch.float64)]
TINY = [(2_000, 400, 50_000, 8, torch.float64)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.device != "cpu" and not torch.cuda.is_available():
        sys.exit("a CUDA GPU is needed, and PyTorch sees none: --device cpu runs a small case")
    warnings.simplefilter("ignore")
    report = []
    for case in TINY if args.device == "cpu" else QUICK if args.quick else CASES:
        for row in measured(*case, args.device, args.repeat):
            print(json.dumps(row), flush=True)
            report.append(row)
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


def measured(n1: int, n2: int, m: int, rank: int, dtype: torch.dtype, device: str, repeat: int) -> list[dict[str, Any]]:
    about = {"n1": n1, "n2": n2, "rank": rank, "dtype": str(dtype).removeprefix("torch.")}
    about["device"] = torch.cuda.get_device_name() if device != "cpu" else "cpu"
    observed = problem_of(n1, n2, m, rank, dtype, device).observations
    about["m"] = observed.m
    rows = []

    def row(what: str, run: Callable[[], Any]) -> Any:
        found, seconds = timed(run, repeat)
        rows.append({"what": what, **about, "first": seconds[0], "seconds": statistics.median(seconds[1:])})
        return found

    generator = torch.Generator(device).manual_seed(0)
    factor = torch.randn(n2, rank, device=device, dtype=dtype, generator=generator)
    double = factor.double()
    moments = 1e-3 * torch.rand(n2, rank * (rank + 1) // 2, device=device, dtype=torch.float64, generator=generator)
    prior, shift = torch.eye(rank, device=device, dtype=torch.float64), torch.zeros(rank, device=device, dtype=torch.float64)
    ones = torch.ones(observed.m, device=device, dtype=torch.float64)

    # the operations
    row("matrices in double precision", lambda: observed.blocks(0, double))
    row("matrices in the precision of the values", lambda: observed.blocks(0, factor))
    row("right-hand sides", lambda: observed.times(observed.values, factor))
    row("sums of covariances", lambda: observed.times(ones, moments))
    stack = observed.blocks(0, factor) + torch.eye(rank, device=device, dtype=dtype)
    right = observed.times(observed.values, factor)
    backend = lr.backends.device_backend(device)
    row("systems of all rows, inverted and solved", lambda: backend.block_solver(stack)(right))

    # half an iteration of a factor model, by the kernels and by batched products
    options: dict[str, Any] = {"moments": moments, "covariance": True, "noise": 1.3}
    kernels = row("normal equations", lambda: observed.normal_equations(False, double, prior, shift, **options))
    order, values = observed.by_rows, observed.values.double()
    batched = row(
        "normal equations by batched products",
        lambda: normal_equations.solve(
            order, values, double, prior, shift,
            **options, weights=None, scale=None, fixed=-1, kernels=(plain, normal_equations.blocks),
        ),
    )  # fmt: skip
    for name, a, b in zip(("means", "covariances", "squares"), kernels, batched, strict=True):
        off = float((a - b).abs().max() / b.abs().max())
        assert off < 1e-8, f"{name} differ by {off:.1e}"
        rows.append({"what": f"difference of {name}", **about, "relative": off})
    return rows


def problem_of(n1: int, n2: int, m: int, rank: int, dtype: torch.dtype, device: str) -> lr.Completion:
    """Low-rank values on a pattern with row frequencies k^-0.6 and column frequencies k^-0.8, repeated pairs left out."""
    generator = torch.Generator(device).manual_seed(1)

    def drawn(n: int, exponent: float) -> torch.Tensor:
        edges = torch.arange(1, n + 1, device=device, dtype=torch.float64).pow(-exponent).cumsum(0)
        found = torch.searchsorted(edges / edges[-1], torch.rand(m, device=device, generator=generator, dtype=torch.float64))
        return found.clamp_(max=n - 1)

    keys = torch.unique(drawn(n1, 0.6) * n2 + drawn(n2, 0.8))
    rows, cols = keys // n2, keys % n2
    del keys
    left, right = (torch.randn(n, rank, device=device, dtype=dtype, generator=generator) for n in (n1, n2))
    values = torch.empty(len(rows), device=device, dtype=dtype)
    for k in range(0, len(rows), 1 << 22):
        some = slice(k, k + (1 << 22))
        values[some] = (left[rows[some]] * right[cols[some]]).sum(1)
    return lr.Completion(rows, cols, values, (n1, n2), precision="double")


def timed(run: Callable[[], Any], repeat: int) -> tuple[Any, list[float]]:
    """Result of the last call, and seconds of each: the first compiles."""
    seconds = []
    for _ in range(repeat + 1):
        synchronize()
        began = time.perf_counter()
        found = run()
        synchronize()
        seconds.append(time.perf_counter() - began)
    return found, seconds


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
