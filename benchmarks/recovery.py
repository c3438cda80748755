"""The recovery map: how few entries suffice, at two condition numbers, out of the box.

    python benchmarks/recovery.py run [--instances 50] [--ratios 1.5 1.7] [--kappas 10 1e5] [--pattern uniform] [--workers 1]
    python benchmarks/recovery.py report

X is n x n of rank r (1000 and 5) with singular values from n down to n / kappa, geometrically; m = (1/q) dof entries are
observed. ``covered``, the protocol of the published curves: uniform patterns in which each row and each column is observed at
least r times, since with fewer nobody can recover it. (Where a drawn pattern is not, a few entries are moved.) ``uniform``: as
they come. Instance k has seed k; the solver was chosen on seeds from 1000 on.

``run`` goes through the instances one by one, all points of the map each time, and appends a JSON line for each solve to
``docs/benchmarks/recovery.jsonl``: stop it at any time, start it again, and it goes on. ``report`` writes recovery.md, .csv
and .png beside that file.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

import lorank as lr
from common import RESULTS, markdown, read, run_jobs, write_csv

RATIOS = [1.5, 1.7, 2.0, 1.4, 1.6, 3.0, 1.3, 1.2, 1.8, 2.5, 4.0, 1.1, 1.05]  # those that matter most first
KAPPAS = [10.0, 1e5]
N, RANK, TOL, MAX_ITER = 1000, 5, 1e-13, 1000
SUCCESS, FEWEST = 1e-3, 5
# DESIGN.md, section 3: the smallest 1/q from which the median relative error is below 1e-3, as published
PUBLISHED = {
    10.0: {"MatrixIRLS": 1.5, "R2RILS": 1.5, "R3MC with rank update": 1.8, "RTRMC": 2.3, "LRGeomCG": 2.7, "ScaledGD": 2.9},
    1e5: {"MatrixIRLS": 1.5, "R3MC with rank update": 1.5, "LRGeomCG pursuit": 1.6},
}
warnings.simplefilter("ignore", lr.ConvergenceWarning)  # where recovery ends is what the map shows


def covered_pattern(rng: np.random.Generator, n: int, m: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """A uniform pattern; rows and columns seen less than ``least`` times get more, from places that can spare them."""
    rows, cols = lr.datasets.sample_pattern(rng, (n, n), m)
    for _ in range(100):
        counts = [np.bincount(index, minlength=n) for index in (rows, cols)]
        if min(c.min() for c in counts) >= least:
            return rows, cols
        keys = set((rows * n + cols).tolist())
        fresh = set()
        for axis, count in enumerate(counts):
            for k in np.flatnonzero(count < least):
                while count[k] < least:
                    other = int(rng.integers(n))
                    key = int(k * n + other if axis == 0 else other * n + k)
                    if key not in keys:
                        keys.add(key)
                        fresh.add(key)
                        count[k] += 1
        place = np.array(sorted(keys))
        r, c = np.divmod(place, n)
        rich = (np.bincount(r, minlength=n)[r] > least + 1) & (np.bincount(c, minlength=n)[c] > least + 1)
        rich &= ~np.isin(place, list(fresh))
        gone = rng.choice(np.flatnonzero(rich), len(place) - m, replace=False)
        rows, cols = np.divmod(np.delete(place, gone), n)
    raise RuntimeError(f"no pattern of {m} entries sees each row and column {least} times")


def determined(rows: np.ndarray, cols: np.ndarray, n: int, rank: int) -> bool:
    """Whether counting allows recovery: rows and columns with exactly ``rank`` entries follow from the others and are peeled
    off, until none is left with fewer (not determined) or all have more.
    """
    left = [np.ones(n, bool), np.ones(n, bool)]
    while True:
        for axis, index in enumerate((rows, cols)):
            count = np.bincount(index, minlength=n)
            few = left[axis] & (count <= rank)
            if (count[few] < rank).any():
                return False
            if few.any():
                left[axis] &= ~few
                rows, cols = rows[~few[index]], cols[~few[index]]
                break
        else:
            return True


def instance(
    ratio: float, kappa: float, pattern: str, seed: int, n: int = N, rank: int = RANK, noise: float = 0.0
) -> tuple[lr.Completion, lr.FixedRank]:
    """A problem and its solution; ``noise`` is relative to the root mean square of the observed entries."""
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for _ in range(2))
    truth = lr.FixedRank(u, np.geomspace(kappa, 1, rank) * n / kappa, v)
    m = round(ratio * (2 * n - rank) * rank)
    rows, cols = covered_pattern(rng, n, m, rank) if pattern == "covered" else lr.datasets.sample_pattern(rng, (n, n), m)
    y = truth.entries(rows, cols)
    if noise:
        y = y + noise * np.sqrt(np.mean(y**2)) * rng.standard_normal(m)
    return lr.Completion(rows, cols, y, (n, n)), truth


def solve(job: tuple[float, float, str, int]) -> dict:
    ratio, kappa, pattern, seed = job
    problem, truth = instance(*job)
    cpu = time.process_time()
    result = lr.solve(problem, RANK, tol=TOL, max_iter=MAX_ITER)
    cpu = time.process_time() - cpu
    return {
        "ratio": ratio,
        "kappa": kappa,
        "pattern": pattern,
        "seed": seed,
        "error": truth.distance(result.X) / truth.norm(),
        "residual": result.residual,
        "iterations": result.n_iter,
        "cpu_seconds": round(cpu, 2),
        "seconds": round(result.seconds, 2),
        "determined": determined(problem.rows, problem.cols, N, RANK),
        "status": str(result.status),
    }


def run(args: argparse.Namespace) -> None:
    jobs = [(q, k, args.pattern, seed) for seed in range(args.instances) for q in args.ratios for k in args.kappas]
    run_jobs(solve, jobs, args.log, ("ratio", "kappa", "pattern", "seed"), args.workers)


def table(runs: list[dict]) -> list[dict]:
    points = defaultdict(list)
    for d in runs:
        points[d["pattern"], d["kappa"], d["ratio"]].append(d)
    rows = []
    for (pattern, kappa, ratio), group in sorted(points.items()):
        errors = np.array([d["error"] for d in group])
        rows.append(
            {
                "pattern": pattern,
                "kappa": f"{kappa:g}",
                "1/q": ratio,
                "instances": len(group),
                "median error": f"{np.median(errors):.1e}",
                "largest error": f"{errors.max():.1e}",
                "below 1e-3": f"{np.mean(errors < SUCCESS):.2f}",
                "below 1e-10": f"{np.mean(errors < 1e-10):.2f}",
                "determined": f"{np.mean([d['determined'] for d in group]):.2f}",
                "median iterations": int(np.median([d["iterations"] for d in group])),
                "median CPU s": f"{np.median([d['cpu_seconds'] for d in group]):.1f}",
                "measured": " and ".join(sorted({d.get("date", "2026-11-15") for d in group})),
            }
        )
    return rows


def report(args: argparse.Namespace) -> None:
    runs = read(args.log)
    rows = table(runs)
    out = args.log.with_suffix("")
    write_csv(rows, out.with_suffix(".csv"))
    head = [
        "# Recovery map",
        "",
        f"`benchmarks/recovery.py`: n = {N}, rank {RANK}, singular values from n down to n/κ geometrically, m = (1/q)·dof",
        f"entries, `lr.solve(problem, {RANK}, tol={TOL:g}, max_iter={MAX_ITER})`, nothing else set. Instance k has seed k; the",
        "solver was chosen on seeds from 1000 on. Times are CPU seconds on one busy core of",
        "[the machine](index.md#the-machine) of these pages.",
        "",
    ]
    legend = [
        "*covered*: each row and column is observed at least r times, as in the published experiments; *uniform*: patterns as",
        "they come. *determined*: the share of instances that counting allows to recover at all: where rows or columns with",
        "fewer than r entries are left after those with just r are peeled off, no method can. They count in the medians.",
        "*measured*: by the version of that day. Which of the hardest instances are recovered depends on rounding.",
        "",
        *markdown(rows),
        "",
    ]
    text = [
        f"Smallest 1/q from which the median relative error is below 1e-3 (of points with at least {FEWEST} instances):",
        "",
        "| | κ = 10 | κ = 1e5 |",
        "|---|---|---|",
    ]
    names = ["MatrixIRLS", "R2RILS", "R3MC with rank update", "LRGeomCG pursuit", "RTRMC", "LRGeomCG", "ScaledGD"]
    first = {k: smallest(runs, k) for k in KAPPAS}
    text.append(f"| **lorank `auto`** (covered) | {first[10.0]} | {first[1e5]} |")
    whole = {k: smallest(runs, k, 1e-10) for k in KAPPAS}
    text.append(f"| **lorank `auto`**, below 1e-10 | {whole[10.0]} | {whole[1e5]} |")
    text += [f"| {name}, published | {PUBLISHED[10.0].get(name, '-')} | {PUBLISHED[1e5].get(name, '-')} |" for name in names]
    text += [
        "",
        "At κ = 1e5 an error of 1e-3 leaves room for two of the five singular values to be missing: 1e-10 is the better test.",
    ]
    text = [*head[:2], *text, "", "![error and seconds against observations per degree of freedom](recovery.png)", ""]
    text += ["## Protocol", "", *head[2:]]
    text += ["## All points", "", *legend]
    out.with_suffix(".md").write_text("\n".join(text))
    picture(runs, out.with_suffix(".png"))
    print("\n".join(text))


def smallest(runs: list[dict], kappa: float, bound: float = SUCCESS) -> str:
    """The smallest ratio from which on every median is below a bound; points with fewer than five instances do not count."""
    good = ""
    ratios = sorted({d["ratio"] for d in runs if d["kappa"] == kappa and d["pattern"] == "covered"}, reverse=True)
    for q in ratios:
        errors = [d["error"] for d in runs if d["kappa"] == kappa and d["ratio"] == q and d["pattern"] == "covered"]
        if len(errors) < FEWEST:
            continue
        if np.median(errors) >= bound:
            break
        good = f"{q:g}"
    return good or "not reached"


def picture(runs: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.io.figures import use_style

    use_style()
    figure, axes = plt.subplots(
        2, 2, figsize=(9.6, 6), sharex=True, sharey="row", layout="constrained", gridspec_kw={"height_ratios": [2, 1]}
    )
    for (ax, below), kappa in zip(axes.T, KAPPAS, strict=True):
        for pattern, color in (("covered", "C0"), ("uniform", "C1")):
            mine = [d for d in runs if d["kappa"] == kappa and d["pattern"] == pattern]
            if not mine:
                continue
            ax.scatter([d["ratio"] for d in mine], [max(d["error"], 1e-16) for d in mine], s=8, alpha=0.4, color=color)
            ratios = sorted({d["ratio"] for d in mine})
            medians = [np.median([d["error"] for d in mine if d["ratio"] == q]) for q in ratios]
            ax.plot(ratios, medians, "o-", color=color, label=f"lorank auto, {pattern} (median)")
            spent = [np.percentile([d["cpu_seconds"] for d in mine if d["ratio"] == q], [10, 50, 90]) for q in ratios]
            low, middle, high = np.transpose(spent)
            below.plot(ratios, middle, "o-", color=color)
            below.fill_between(ratios, low, high, color=color, alpha=0.15, lw=0)
        for k, (name, q) in enumerate(PUBLISHED[kappa].items()):
            ax.axvline(q, color="0.6", lw=0.8, ls=":")
            ax.text(q, 10.0 ** (-9.5 + 1.3 * (k % 6)), f" {name} {q}", fontsize=7, color="0.5", va="bottom")
        ax.axhline(SUCCESS, color="0.5", lw=0.8)
        ax.set(yscale="log", title=f"κ = {kappa:g}", xlim=(1, 4.03), ylim=(1e-16, 10))
        below.set(yscale="log", xlabel="1/q, observations per degree of freedom")
        ax.legend(fontsize=8, loc="upper right")
    axes[0, 0].set_ylabel("relative error")
    axes[1, 0].set_ylabel("CPU seconds a solve\n(median, 10 to 90 %)")
    figure.suptitle(f"n = {N}, rank {RANK}; dotted: from where published methods have a median below 1e-3", fontsize=10)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--ratios", type=float, nargs="*", default=RATIOS)
    parser.add_argument("--kappas", type=float, nargs="*", default=KAPPAS)
    parser.add_argument("--pattern", choices=["covered", "uniform"], default="covered")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--log", type=Path, default=RESULTS / "recovery.jsonl")
    args = parser.parse_args()
    run(args) if args.what == "run" else report(args)


if __name__ == "__main__":
    main()
