"""The phase retrieval map: how few intensities of a signal suffice, out of the box.

    python benchmarks/phase_map.py run [--trials 50] [--methods auto] [--ratios 2 2.5] [--workers 1]
    python benchmarks/phase_map.py report

A is m x n Gaussian, n = 500, and x Gaussian; both are real or both complex. A trial succeeds when x is found to 1e-5, relative
and up to a global phase. Trial k has seed k; the solver was chosen on seeds from 1000 on. Each method has a number of trials of
its own (``--trials`` is for the default solver).

``run`` goes through the trials one by one, all points of the map each time, and appends a JSON line for each solve to
``docs/benchmarks/phase.jsonl``: stop it at any time, start it again, and it goes on. ``report`` writes phase.md, .csv and .png
beside that file.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

import lorank as lr
from common import RESULTS, markdown, read, run_jobs, versions, write_csv

RATIOS = [1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 2.1, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0]
COMPARED = [1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0]  # where other solvers are run, too
FIELDS = {"real": np.float64, "complex": np.complex128}
N, TOL, MAX_ITER, SUCCESS = 500, 1e-8, 1000, 1e-5
# Trials of each method, and what it is called. The others begin at the paper's spectral start.
METHODS = {"auto": (50, "auto"), "rcg": (10, "RCG"), "adaptive-prgd": (5, "adaptive PRGD")}
GOALS = {"real": 2.5, "complex": 4.0}


def solve(job: tuple[str, str, float, int]) -> dict:
    method, field, ratio, seed = job
    problem, x = lr.datasets.random_phase(N, oversampling=ratio, dtype=FIELDS[field], seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer measurements than unknowns, where the map begins
        cpu = time.process_time()
        start = None if method == "auto" else "spectral"
        result = lr.solve(problem, 1, method, tol=TOL, max_iter=MAX_ITER, start=start)
        cpu = time.process_time() - cpu
    return {
        "method": method,
        "field": field,
        "ratio": ratio,
        "seed": seed,
        "error": lr.phase.phase_distance(result.signal, x),
        "residual": result.residual,
        "iterations": result.n_iter,
        "cpu_seconds": round(cpu, 3),
        "status": str(result.status),
        "notes": len(result.history.notes),
    }


def run(args: argparse.Namespace) -> None:
    trials = {name: args.trials if name == "auto" else METHODS[name][0] for name in args.methods}
    jobs = [
        (name, field, ratio, seed)
        for name in args.methods
        for seed in range(trials[name])
        for ratio in args.ratios
        for field in FIELDS
        if name == "auto" or ratio in COMPARED
    ]
    run_jobs(solve, jobs, args.log, ("method", "field", "ratio", "seed"), args.workers)


def table(runs: list[dict]) -> list[dict]:
    points = defaultdict(list)
    for d in runs:
        points[d["field"], d["method"], d["ratio"]].append(d)
    rows = []
    for field in FIELDS:
        for method in METHODS:
            for (f, name, ratio), group in sorted(points.items()):
                if (f, name) != (field, method):
                    continue
                good = [d for d in group if d["error"] <= SUCCESS]
                rows.append(
                    {
                        "signal": field,
                        "solver": method,
                        "m/n": ratio,
                        "trials": len(group),
                        "recovered": f"{len(good) / len(group):.2f}",
                        "median error": f"{np.median([d['error'] for d in group]):.1e}",
                        "median iterations": int(np.median([d["iterations"] for d in group])),
                        "median CPU s": f"{np.median([d['cpu_seconds'] for d in group]):.2f}",
                    }
                )
    return rows


def report(args: argparse.Namespace) -> None:
    runs = read(args.log)
    rows = table(runs)
    out = args.log.with_suffix("")
    write_csv(rows, out.with_suffix(".csv"))
    text = [
        "# Phase retrieval map",
        "",
        *(
            f"`auto` recovers 95 % of {field.capitalize()} signals from {smallest(runs, field)} intensities per unknown on."
            for field in FIELDS
        ),
        "",
        "![recovered signals and time per solve, real and complex, against intensities per unknown](phase.png)",
        "",
        "## Protocol",
        "",
        f"`benchmarks/phase_map.py`: n = {N}, A and x Gaussian, y = |A x|², `lr.solve(problem, 1, tol={TOL:g}, "
        f"max_iter={MAX_ITER})`,",
        "nothing else set; the other solvers by name, from the paper's spectral start, with the same tolerance and limit.",
        f"*recovered*: the share of trials with x found to {SUCCESS:g}, relative and up to a global phase. Trial k has seed k;",
        "the solver was chosen on seeds from 1000 on. Times are CPU seconds of a solve on one core of a busy machine, with the",
        "initial point and all further attempts. A complex signal has 2 n - 1 real unknowns: with fewer intensities others",
        "fit just as well.",
        versions() + ".",
        "",
        "Measured on [the machine](index.md#the-machine) of these pages.",
        "",
        "## All points",
        "",
        *markdown(rows),
        "",
    ]
    out.with_suffix(".md").write_text("\n".join(text))
    picture(runs, out.with_suffix(".png"))
    print("\n".join(text))


def smallest(runs: list[dict], field: str) -> str:
    """The smallest ratio from which on ``auto`` recovers at least 95 % of the trials."""
    good = ""
    for ratio in sorted(RATIOS, reverse=True):
        errors = [d["error"] for d in runs if (d["method"], d["field"], d["ratio"]) == ("auto", field, ratio)]
        if not errors or np.mean(np.array(errors) <= SUCCESS) < 0.95:
            break
        good = f"{ratio:g}"
    return good or "not reached"


def picture(runs: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.io.figures import use_style

    use_style()
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 6), sharex=True, sharey="row", layout="constrained")
    for column, field in zip(axes.T, FIELDS, strict=True):
        for (method, (_, label)), color in zip(METHODS.items(), ("C0", "C1", "C2"), strict=True):
            mine = [d for d in runs if d["field"] == field and d["method"] == method]
            ratios = sorted({d["ratio"] for d in mine})
            groups = [[d for d in mine if d["ratio"] == q] for q in ratios]
            if not groups:
                continue
            shares = [100 * np.mean([d["error"] <= SUCCESS for d in group]) for group in groups]
            seconds = np.array([np.percentile([d["cpu_seconds"] for d in group], [10, 50, 90]) for group in groups])
            trials = min(len(group) for group in groups)
            column[0].plot(
                ratios,
                shares,
                "o-",
                color=color,
                zorder=3 if method == "auto" else 2,
                label=f"{label} ({trials} trials a point)",
            )
            column[1].plot(ratios, seconds[:, 1], "o-", color=color, ms=4)
            column[1].fill_between(ratios, seconds[:, 0], seconds[:, 2], color=color, alpha=0.15, lw=0)
        column[0].plot([GOALS[field]], [95], marker="*", ms=13, color="0.5", ls="", label=f"goal: 95 % at {GOALS[field]:g}")
        column[0].set(title=f"{field.capitalize()} signals", ylim=(-3, 103))
        column[0].legend(fontsize=9, loc="lower right")
        column[1].set(xlabel="m/n, intensities an unknown", yscale="log")
        for ax in column:
            ax.grid(True)
    axes[0, 0].set_ylabel("recovered to 1e-5, %")
    axes[1, 0].set_ylabel("CPU seconds a solve\n(median, 10 to 90 %)")
    figure.suptitle(f"Gaussian phase retrieval, n = {N}")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--trials", type=int, default=METHODS["auto"][0])
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--ratios", type=float, nargs="*", default=RATIOS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--log", type=Path, default=RESULTS / "phase.jsonl")
    args = parser.parse_args()
    run(args) if args.what == "run" else report(args)


if __name__ == "__main__":
    main()
