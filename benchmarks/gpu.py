"""Completion, sensing and phase retrieval on a GPU: seconds to a relative error of 1e-4, passes against their bandwidth bound.

python benchmarks/gpu.py [--quick] [--parts rows uneven billion ...] [--out docs/benchmarks/gpu]
python benchmarks/gpu.py --report [--out docs/benchmarks/gpu]

Needs a CUDA GPU with about 100 GB (20 GB with ``--quick``) and PyTorch with Triton; no other packages than lorank's own, and
no C++ extension. Each part, with its date, replaces that of an earlier run in ``OUT.json``; ``OUT.md`` is made from that file.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gpu_uneven
import lorank as lr

GPU = "cuda"
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
DTYPES = {"float64": torch.float64, "float32": torch.float32}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes alone")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--report", action="store_true", help="make the page from the JSON file and measure nothing")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/gpu"))
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args()
    data = args.out.with_suffix(".json")
    report: dict[str, Any] = json.loads(data.read_text()) if data.exists() else {}
    if not args.report:
        if not torch.cuda.is_available():
            sys.exit("benchmarks/gpu.py needs a CUDA GPU, and PyTorch finds none")
        warnings.simplefilter("ignore")
        args.out.parent.mkdir(parents=True, exist_ok=True)
        for name in args.parts:
            report[name] = machine() | {"found": PARTS[name](args.quick, args.repeat)}
            print(name, report[name], flush=True)
            data.write_text(json.dumps(report, indent=1) + "\n")
            if CORES:
                os.sched_setaffinity(0, CORES)
            gc.collect()
            torch.cuda.empty_cache()
    args.out.with_suffix(".md").write_text(markdown(report))


def rows(quick: bool, repeat: int) -> dict[str, Any]:
    """Even patterns: solves, passes over the observations, and the same objective by autograd."""
    found: dict[str, Any] = {"solves": [], "passes": [], "alternatives": {}}
    for n, m, rank, names in cases(quick):
        for name in names:
            problem, truth, made = random_problem(n, m, rank, DTYPES[name])
            row = recover(problem, truth, rank, repeat) | made | {"n": n, "m": m, "rank": rank, "dtype": name}
            found["solves"].append(row)
            if n >= 1_000_000 or quick:
                found["passes"] += passes(problem, rank, name)
            if n == 100_000 and name == "float64":
                found["alternatives"] = alternatives(problem, truth, rank, row["seconds"])
            del problem, truth
            torch.cuda.empty_cache()
    return found


def sizes(quick: bool, repeat: int) -> list[dict[str, Any]]:
    """The same problems on the CPU and on the GPU; all CPU runs first, since those on the GPU are confined to one core."""
    kinds = [(300, 29_500), (1000, 99_500), (10_000, 999_500), (100_000, 12_000_000), (1_000_000, 100_000_000)]
    made = []
    for n, m in kinds[: 2 if quick else None]:
        there, truth, _ = random_problem(n, m, 10, torch.float64)
        rows, cols, y, U, s, V = (one.cpu().numpy() for one in (there.rows, there.cols, there.y, truth.U, truth.s, truth.V))
        here, known, seconds = lr.Completion(rows, cols, y, (n, n)), lr.FixedRank(U, s, V), []
        for _ in range(1 + (min(repeat, 3) if m < 50_000_000 else 1)):  # the first run warms up
            result = lr.solve(here, 10, stop=lr.stopping.TruthDistance(known), max_iter=200)
            seconds.append(result.seconds)
        cpu = {"seconds": statistics.median(seconds[1:]), "iterations": result.n_iter, "status": str(result.status)}
        made.append({"n": n, "m": m, "cores": len(CORES), "cpu": cpu})
        print(made[-1], flush=True)
        del there, truth, here
    for row in made:
        for name, dtype in DTYPES.items():
            problem, truth, _ = random_problem(row["n"], row["m"], 10, dtype)
            row[name] = recover(problem, truth, 10, repeat)
            del problem, truth
            torch.cuda.empty_cache()
    return made


def cases(quick: bool) -> list[tuple[int, int, int, list[str]]]:
    """Sizes: rows and columns, observations, rank, dtypes."""
    both = ["float64", "float32"]
    small = (10_000, 5 * (2 * 10_000 - 10) * 10, 10, both)
    if quick:
        return [small]
    return [small, (100_000, 12_000_000, 10, both), (1_000_000, 100_000_000, 10, both), (20_000, 27_000_000, 100, ["float64"])]


def machine() -> dict[str, str]:
    """What ran this, and what with."""
    import triton

    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    card = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "GPU, driver, memory": card,
        "versions": f"lorank {lr.__version__}, PyTorch {torch.__version__}, Triton {triton.__version__}, "
        f"NumPy {np.__version__}, Python {sys.version.split()[0]}",
    }


def random_problem(n: int, m: int, rank: int, dtype: torch.dtype, seed: int = 0) -> tuple[Any, lr.FixedRank, dict[str, float]]:
    """Uniform [0, 1] factors and m different entries, drawn on the GPU; and what making the problem took."""
    draw = torch.Generator(GPU).manual_seed(seed)
    left, right = (torch.rand(n, rank, generator=draw, device=GPU, dtype=torch.float64) for _ in range(2))
    more = m + 20 * int(m**0.5) + m * m // (n * n)  # some come up twice
    keys = torch.randint(0, n * n, (more,), generator=draw, device=GPU).unique()
    keys = keys[torch.randperm(len(keys), generator=draw, device=GPU)[:m]]
    assert len(keys) == m
    rows, cols = keys // n, keys % n
    del keys
    truth = lr.FixedRank.from_factors(left, right)
    values = truth.entries(rows, cols).to(dtype)
    seconds = []
    for _ in range(2):  # the first one warms up
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, begin = torch.cuda.memory_allocated(), time.perf_counter()
        problem = lr.Completion(rows, cols, values, (n, n))
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        peak = torch.cuda.max_memory_allocated() - before
    made = {"build seconds": seconds[1], "build bytes an observation": peak / m}
    truth = lr.FixedRank(truth.U.to(dtype), truth.s.to(dtype), truth.V.to(dtype))
    return problem, truth, made


def recover(problem: Any, truth: lr.FixedRank, rank: int, repeat: int) -> dict[str, Any]:
    """Median seconds to a relative error of 1e-4 by the default solver, start included; the first run warms up."""
    seconds, first, loops = [], 0.0, [to_the_fastest_core()]
    for k in range(repeat + 1):
        vars(problem).pop("_balanced", None)  # what a problem keeps from one run to the next
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        result = lr.solve(problem, rank, stop=lr.stopping.TruthDistance(truth), max_iter=200)
        torch.cuda.synchronize()
        if k:
            seconds.append(result.seconds)
        else:
            first = result.seconds
    loops.append(host_loop())
    return {
        "status": str(result.status),
        "iterations": result.n_iter,
        "seconds": statistics.median(seconds),
        "range": [min(seconds), max(seconds)],
        "start": float(result.history.seconds[0]),
        "first run": first,
        "host loop": loops,
        "error": truth.distance(result.X) / truth.norm(),
        "peak GB": torch.cuda.max_memory_allocated() / 1e9,
        "solve bytes an observation": (torch.cuda.max_memory_allocated() - held) / problem.m,
    }


def host_loop() -> float:
    """Seconds for a million steps in plain Python: how fast the host is just now."""
    begin, total = time.perf_counter(), 0
    for k in range(1_000_000):
        total += k * k
    return time.perf_counter() - begin


def to_the_fastest_core() -> float:
    """Move to the core of the host that is fastest just now (others may be somebody else's, too), and say how fast it is."""
    if not hasattr(os, "sched_setaffinity"):
        return host_loop()
    found: dict[int, list[float]] = {}
    for core in 2 * sorted(CORES):
        os.sched_setaffinity(0, {core})
        found.setdefault(core, []).append(host_loop())
    best = min(found, key=lambda core: max(found[core]))
    os.sched_setaffinity(0, {best})
    return max(found[best])


def milliseconds(run: Callable[[], Any], count: int = 15) -> float:
    """The median time on the device."""
    for _ in range(3):
        run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
    for begin, end in events:
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events)


def passes(problem: Any, rank: int, name: str) -> list[dict[str, Any]]:
    """Each pass over the observations against the time that its bytes take at the bandwidths measured here.

    Streamed bytes (indices, values, results) move at the speed of a large copy; gathered rows of a factor at that of the same
    rows gathered by the same indices, in the same order, and added up without further work.
    """
    from lorank.backends.torch_ import kernels

    observed, dtype = problem.observations, DTYPES[name]
    size, m, (n1, n2) = dtype.itemsize, problem.m, problem.shape
    u, v = (torch.rand(n, rank, dtype=dtype, device=GPU) for n in (n1, n2))
    s = torch.rand(rank, dtype=dtype, device=GPU)
    big = torch.empty(1 << 28, dtype=torch.float64, device=GPU)
    copy = 2 * big.numel() * 8 / milliseconds(big.clone) * 1e-9
    ones = torch.ones(m, dtype=dtype, device=GPU)
    left, right = (torch.rand(n, 2 * rank, dtype=dtype, device=GPU) for n in (n1, n2))
    tall = rank * size
    runs: list[tuple[str, torch.Tensor, int, Callable[[], Any]]] = [
        ("gradient, by rows", v, m * (4 + size) + n1 * (2 * tall + 8), lambda: observed.gradient_rows(u, s, v)),
        ("gradient, by columns", v, m * (4 + size) + n2 * (2 * tall + 8), lambda: observed.gradient_cols(u, s, v)),
        ("sparse x thin", v, m * (4 + size) + n1 * tall, lambda: observed.times(ones, v)),
        ("residual", v, m * (4 + 2 * size) + n1 * tall, lambda: observed.residual(u, v)),
        ("line search", right, m * 4 + n1 * 2 * tall, lambda: kernels.line_sums(observed.by_rows, left, right, None)),
    ]
    found = []
    for title, table, streamed, run in runs:
        width = table.shape[1]
        gathered = m * width * size
        bare = milliseconds(functools.partial(gather_rows, observed.by_rows, table))
        speed = (gathered + 4 * m) / bare * 1e-9
        bound = streamed / copy * 1e-9 + gathered / speed * 1e-9
        took = milliseconds(run)
        found.append(
            {
                "pass": title,
                "dtype": name,
                "ms": took,
                "streamed GB": streamed / 1e9,
                "gathered GB": gathered / 1e9,
                "copy TB/s": copy,
                "gather TB/s": speed,
                "bound ms": bound,
                "all at copy speed ms": (streamed + gathered) / copy * 1e-9,
                "share of the bound": bound / took,
                "share of copy speed": (streamed + gathered) / copy * 1e-9 / took,
            }
        )
    return found


def gather_rows(order: Any, other: torch.Tensor) -> torch.Tensor:
    """The rows of a factor that the observations point to, added up row by row and nothing else: the gather's own speed."""
    import triton

    from gather_kernel import gather_kernel

    out = torch.empty((order.n, other.shape[1]), dtype=other.dtype, device=other.device)
    width = triton.next_power_of_2(other.shape[1])
    gather_kernel[(order.n,)](
        order.ptr, order.index, other, out, W=other.shape[1], R=width, K=max(2, 512 // width), num_warps=1
    )
    return out


def alternatives(problem: Any, truth: lr.FixedRank, rank: int, ours: float) -> dict[str, Any]:
    """What a user might write instead: factors as parameters, autograd, torch's own optimizers, the best of a few settings."""
    rows, cols, y = problem.rows.long(), problem.cols.long(), problem.y
    n1, n2 = problem.shape
    scale = float((y.mean() / rank).sqrt())

    def run(make: Callable[[list[torch.Tensor]], torch.optim.Optimizer], most: float) -> tuple[float, float, int]:
        draw = torch.Generator(GPU).manual_seed(1)
        factors = [
            (scale * (1 + 0.1 * torch.randn(n, rank, generator=draw, device=GPU, dtype=y.dtype))).requires_grad_()
            for n in (n1, n2)
        ]
        optimizer = make(factors)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            misfit = ((factors[0][rows] * factors[1][cols]).sum(1) - y).square().sum()
            misfit.backward()
            return misfit

        spent, error, steps = 0.0, float("inf"), 0
        while spent < most and error > 1e-4 and np.isfinite(error) | (steps == 0):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(10):
                optimizer.step(closure)
            torch.cuda.synchronize()
            spent, steps = spent + time.perf_counter() - begin, steps + 10
            with torch.no_grad():
                error = truth.distance(lr.FixedRank.from_factors(factors[0].detach(), factors[1].detach())) / truth.norm()
        return spent, error, steps

    found: dict[str, Any] = {"lorank seconds": ours}
    trials: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]] = {
        "L-BFGS, strong Wolfe": lambda f: torch.optim.LBFGS(f, max_iter=1, history_size=10, line_search_fn="strong_wolfe"),
        **{f"Adam, rate {rate}": (lambda f, rate=rate: torch.optim.Adam(f, lr=rate)) for rate in (0.003, 0.01, 0.03)},
    }
    for name, make in trials.items():
        run(make, 0.01)  # warms up
        seconds, error, steps = run(make, 10.0)
        found[name] = {"seconds": seconds, "error": error, "steps": steps, "reached": error <= 1e-4, "ratio": seconds / ours}
    return found


def against_cpu() -> dict[str, Any]:
    """The same problem, seed and solver on both: how far the iterates are apart in the first ten steps."""
    # Up to this size both draw the same random start; larger ones are drawn where they are needed.
    problem, truth = lr.datasets.random_completion(8_000, 8_000, 10, oversampling=5, seed=0, backend="numpy")
    problem.precision = "double"  # else the start is computed in float32, and its rounding shows
    there = problem.to(GPU)
    points: dict[str, list[lr.FixedRank]] = {"cpu": [], "gpu": []}
    results = {}
    for name, one in (("cpu", problem), ("gpu", there)):
        results[name] = lr.solve(
            one,
            10,
            stop=lr.stopping.Iterations(10),
            callbacks=[lambda p, state, clock, name=name: points[name].append(state.X.numpy()) and None],
        )
    apart = [a.distance(b) / a.norm() for a, b in zip(points["cpu"], points["gpu"], strict=True)]
    errors = {name: truth.distance(result.X.numpy()) / truth.norm() for name, result in results.items()}
    return {"largest relative distance of iterates 0..10": max(apart), "errors after 10 steps": errors}


def diffraction(side: int) -> dict[str, Any]:
    """Coded diffraction of an image behind 12 masks, to a relative error of 1e-6."""
    found = {}
    for name, dtype in (("complex128", np.complex128), ("complex64", np.complex64)):
        rng = np.random.default_rng(0)
        image = rng.standard_normal((side, side)) + 1j * rng.standard_normal((side, side))
        problem, x = lr.datasets.random_diffraction(image.astype(dtype), masks=12, seed=0, backend="numpy")
        there, truth = problem.to(GPU), torch.as_tensor(x, device=GPU).ravel()
        del problem
        point = lr.FixedRank.semidefinite(truth[:, None])
        torch.cuda.reset_peak_memory_stats()
        for _ in range(2):
            result = lr.solve(there, 1, stop=lr.stopping.TruthDistance(point, 1e-6), max_iter=500)
        found[name] = {
            "side": side,
            "masks": 12,
            "status": str(result.status),
            "iterations": result.n_iter,
            "seconds": result.seconds,
            "error of the signal": lr.phase.phase_distance(result.signal, x),
            "peak GB": torch.cuda.max_memory_allocated() / 1e9,
        }
        print(found[name], flush=True)
        del there, truth, point, result
        torch.cuda.empty_cache()
    return found


def sensing() -> dict[str, Any]:
    """Dense Gaussian sensing: 20 000 measurements of a 200 x 200 matrix of rank 5, A drawn on the GPU."""
    draw = torch.Generator(GPU).manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, generator=draw, device=GPU, dtype=torch.float64)  # noqa: E731
    truth = lr.FixedRank.from_factors(normal(200, 5), normal(200, 5))
    A = normal(20_000, 40_000)
    problem = lr.Sensing(A, A @ truth.to_dense().ravel(), (200, 200))
    for _ in range(2):
        result = lr.solve(problem, 5, stop=lr.stopping.TruthDistance(truth, 1e-8))
    return {
        "status": str(result.status),
        "iterations": result.n_iter,
        "seconds": result.seconds,
        "GB of A": A.numel() * 8 / 1e9,
    }


def billion(m: int) -> list[dict[str, Any]]:
    """Exact data, m / 100 by m / 1000, rank 16, in one piece and in partitions: the second run of each."""
    from cluster import solved_on

    found = []
    for name, size, partitions, sites in (
        ("in one piece", m, None, 1),
        ("in two partitions", m, 2, 1),
        ("in two partitions, each with its thread", m, None, 2),
        ("in one piece", 2 * m // 5, None, 1),
        ("in two partitions", 2 * m // 5, 2, 1),
    ):
        gc.collect()  # problems in partitions are in cycles
        torch.cuda.empty_cache()
        made = solved_on(GPU, size, 16, partitions, sites)
        found.append({"way": name, "observations": size, **{k: v for k, v in made.items() if k not in ("residuals", "notes")}})
        print(found[-1], flush=True)
    return found


def markdown(report: dict[str, Any]) -> str:
    """The report as a page; a part that was not measured is left out."""
    lines = ["# On a GPU", *_summary(report)]
    versions = {key: [] for key in ("GPU, driver, memory", "versions")}
    for part in report.values():
        for key, seen in versions.items():
            seen += [part[key]] if part[key] not in seen else []
    writers = {"sizes": _sizes, "rows": _rows, "uneven": _uneven, "billion": _billion}
    for name in PARTS:
        if name in report:
            write = writers.get(name, lambda found, name=name: [f"## {name[0].upper()}{name[1:]}", "", *_items(found)])
            title, *text = write(report[name]["found"])
            lines += ["", f"{title} ({report[name]['date']})", *text]
    lines += ["", "## Protocol", "", "Made by `python benchmarks/gpu.py`; `gpu.json` has the data.", ""]
    lines += [f"- {key}: {'; '.join(seen)}" for key, seen in versions.items()]
    lines += ["- Each section has the day on which it was measured."]
    return "\n".join(lines) + "\n"


def _summary(report: dict[str, Any]) -> list[str]:
    """The largest problems in a sentence each."""
    solved = [row for row in report.get("rows", {}).get("found", {}).get("solves", []) if row["dtype"] == "float64"]
    lines = []
    if solved:
        row = max(solved, key=lambda row: row["m"])
        size = f"{row['n']:,} x {row['n']:,} matrix of rank {row['rank']}"
        lines += ["", f"A {size} is recovered from {row['m']:,} entries in {row['seconds']:.2g} s, initial point included."]
    if "billion" in report:
        row = report["billion"]["found"][0]
        lines += [f"From {row['observations']:,} entries, at rank 16, it takes {row['seconds']:.2g} s."]
    return lines


def _items(found: dict[str, Any]) -> list[str]:
    return [f"- {key}: {_plain(value)}" for key, value in found.items()]


def _sizes(found: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## CPU and GPU on the same problems",
        "",
        "Uniform [0, 1] factors, rank 10, the default solver, to a relative error of 1e-4, start included, data on the device; "
        f"medians in milliseconds. The CPU runs used {found[0]['cores']} cores of a machine whose other cores were busy. Drawn "
        "in the gallery ([example](../gallery/plot_gpu.rst)).",
        "",
        "| n x n | observed | CPU, float64 | GPU, float64 | GPU, float32 | CPU / GPU, float64 |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        taken = [1000 * row[name]["seconds"] for name in ("cpu", *DTYPES)]
        ways = [f"{ms:,.0f} ({row[name]['iterations']} iterations)" for ms, name in zip(taken, ("cpu", *DTYPES), strict=True)]
        lines.append(f"| {row['n']:,} | {row['m']:,} | {' | '.join(ways)} | {float(f'{taken[0] / taken[1]:.2g}'):g} |")
    return lines


def _rows(found: dict[str, Any]) -> list[str]:
    lines = [
        "## Evenly sampled matrices",
        "",
        "Uniform [0, 1] factors, the default solver, to a relative error of 1e-4; milliseconds are medians (with ranges) of "
        "repeated runs on a problem on the device, start included. The first run of a process compiles kernels and is listed "
        "apart. Up to n = 100 000 the host's Python sets the pace, not the GPU. Each row was run on the core that was fastest "
        "when it began; the column host has the time of a loop of a million steps in plain Python before and after (a "
        "core that other processes use takes almost twice as long).",
        "",
        "| n x n | rank | observed | dtype | iterations | ms | of these the start | first run | host | build | peak |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found["solves"]:
        low, high = (1000 * one for one in row["range"])
        lines.append(
            f"| {row['n']:,} | {row['rank']} | {row['m']:,} | {row['dtype']} | {row['iterations']} ({row['status']}) | "
            f"{1000 * row['seconds']:.0f} ({low:.0f} to {high:.0f}) | {1000 * row['start']:.0f} | {row['first run']:.2f} s | "
            f"{1000 * row['host loop'][0]:.0f}, {1000 * row['host loop'][1]:.0f} ms | "
            f"{1000 * row['build seconds']:.0f} ms, {row['build bytes an observation']:.0f} B/obs | {row['peak GB']:.2f} GB |"
        )
    lines += [
        "",
        "### Passes over the observations",
        "",
        "Bytes are counted once each: indices, values and results streamed, rows of a factor gathered. The bound takes what is "
        "streamed at the speed of a large copy, and what is gathered at that of a kernel that does nothing else with the same "
        "rows (`benchmarks/gather_kernel.py`; a pass whose tiles suit the memory better may beat it). The last column takes "
        "all bytes at the speed of the copy.",
        "",
        "| pass | dtype | ms | streamed + gathered GB | copy, gather TB/s | bound ms | share of the bound | of copy speed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["passes"]:
        lines.append(
            f"| {row['pass']} | {row['dtype']} | {row['ms']:.3f} | {row['streamed GB']:.2f} + {row['gathered GB']:.2f} | "
            f"{row['copy TB/s']:.2f}, {row['gather TB/s']:.2f} | {row['bound ms']:.3f} | {row['share of the bound']:.0%} | "
            f"{row['share of copy speed']:.0%} |"
        )
    others = dict(found["alternatives"])
    if others:
        lines += [
            "",
            "### Comparison with autograd and PyTorch's optimizers",
            "",
            f"100 000 x 100 000 in float64, as above, factors as parameters, stopped after 10 s; lorank takes "
            f"{others.pop('lorank seconds'):.3f} s.",
            "",
            "| | seconds | steps | error | lorank is faster by |",
            "|---|---|---|---|---|",
        ]
        for name, one in others.items():
            ratio = f"{one['ratio']:.0f} x" if one["reached"] else f"more than {one['ratio']:.0f} x"
            lines.append(f"| {name} | {one['seconds']:.1f} | {one['steps']} | {one['error']:.1e} | {ratio} |")
    return lines


def _uneven(found: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Unevenly sampled matrices",
        "",
        "Rows drawn with frequencies k^-0.6, columns with k^-0.8 (`benchmarks/gpu_uneven.py`). *Solves*: exact values in "
        "float32, to a relative residual of 5e-5; the error is that of a million entries in rows and columns with at least "
        "three times as many observations as the rank. *Ratings*: `MatrixCompletion` of noisy values with biases, from NumPy "
        "arrays in main memory to a model there; the error is the held-out RMSE. The first run of a kind compiles kernels.",
        "",
        "| case | observations | first run | seconds | iterations | error | peak |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        error = f"{row['error']:.1e}" if "error" in row else f"{row['held-out RMSE']:.4f} (rank {row['rank']})"
        lines.append(
            f"| {row['case']} | {row['observations']:,} | {row['first']:.1f} s | {row['seconds']:.2f} "
            f"({row['range'][0]:.2f} to {row['range'][1]:.2f}) | {row['iterations']} ({row['status']}) | {error} | "
            f"{row['peak GB']:.0f} GB |"
        )
    return lines


def _billion(found: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## A billion observations",
        "",
        "Exact data, a hundredth as many rows and a thousandth as many columns as observations, rank 16, 100 of them a row, "
        "float32, to a relative residual of 1e-4; the second run of each, and the start is part of the seconds "
        "(`python benchmarks/cluster.py gpu` makes one of them).",
        "",
        "| | observations | seconds | of these the start | iterations | residual | error | peak |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        lines.append(
            f"| {row['way']} | {row['observations']:,} | {row['seconds']:.2f} | {row['start']:.2f} | {row['iterations']} | "
            f"{row['residual']:.1e} | {row['error']:.1e} | {row['peak GiB']:.0f} GiB |"
        )
    return lines


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items())
    return f"{value:.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


PARTS: dict[str, Callable[[bool, int], Any]] = {
    "sizes": sizes,
    "rows": rows,
    "uneven": lambda quick, repeat: gpu_uneven.measured(quick, min(repeat, 3)),
    "billion": lambda quick, repeat: billion(1_000_000 if quick else 1_000_000_000),
    "against the CPU": lambda quick, repeat: against_cpu(),
    "coded diffraction": lambda quick, repeat: diffraction(256 if quick else 1024),
    "sensing": lambda quick, repeat: sensing(),
}


if __name__ == "__main__":
    main()
