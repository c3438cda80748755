"""All solvers with names on three maps: recovery, condition number, and a rank that is too large.

    python benchmarks/solver_maps.py [--quick] [--first 0] [--instances 50] [--workers 2] [--seconds 0.5] [--solvers rcg gnmr]

Solves what the log does not have yet, instance by instance, and writes the page: repeat an interrupted command to continue.
``--report`` only writes the page. Instances are those of recovery.py with n = 200: covered patterns, singular values from n
down to n / kappa geometrically; instance k has seed k. Runs end at a relative residual of 1e-6, after 500 iterations or half a
CPU second. X is recovered where its relative error is below 1e-3.

- recovery: rank 5, kappa 10 and 1e5, by observations per degree of freedom;
- condition number: rank 10, 4 observations per degree of freedom;
- rank: rank 5 given as 5 and 10, exact data and 5 % noise, 6 observations per degree of freedom of rank 5.

A job of the log is one instance of one point, solved by all solvers. Several logs can be joined: ``--log a.jsonl b.jsonl
--report``. ``--quick``: 3 instances, in build/bench.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lorank as lr
from common import RESULTS, markdown, read, run_jobs, versions
from lorank.plans import SOLVERS
from recovery import PUBLISHED, SUCCESS, instance

KEYS = ("map", "n", "rank", "given", "ratio", "kappa", "noise", "limit", "method", "seed")
FOUND = ("error", "iterations", "cpu_seconds", "status", "success", "names_rank")  # of one run, in this order in the log
RATIOS = {10.0: [1.5, 2.0, 2.5, 3.0], 1e5: [2.0]}
KAPPAS = [1.0, 50.0, 1e3]
N, TOL, MAX_ITER, RANK_RATIO, NOISE = 200, 1e-6, 500, 6.0, 0.05
SAME = {name: [other for other in SOLVERS if SOLVERS[other] is made] for name, made in SOLVERS.items()}  # rgn is gauss-newton
METHODS = [name for name, names in SAME.items() if name == names[0]]
NAMES = {"R2RILS": "r2rils", "RTRMC": "rtrmc", "LRGeomCG": "lrgeomcg", "ScaledGD": "scaledgd", "MatrixIRLS": "irls"}
warnings.simplefilter("ignore")  # runs that do not converge are what the maps show


def points(limit: float) -> Iterator[tuple]:
    """The points of the maps, without solver and seed: the first entries of KEYS."""
    for kappa, ratios in RATIOS.items():
        for ratio in ratios:
            yield ("recovery", N, 5, 5, ratio, kappa, 0.0, limit)
    for kappa in KAPPAS:
        yield ("condition", N, 10, 10, 4.0, kappa, 0.0, limit)
    for noise in (0.0, NOISE):
        for given in (5, 10):
            yield ("rank", N, 5, given, RANK_RATIO, 10.0, noise, limit)


def solve(job: tuple) -> dict:
    """One instance of a point by the solvers of the job, "all" or names with commas: the values of FOUND by name."""
    _map, n, rank, given, ratio, kappa, noise, limit, methods, seed = job
    problem, truth = instance(ratio, kappa, "covered", seed, n, rank, noise)
    begin, runs = time.process_time(), {}
    for method in METHODS if methods == "all" else methods.split(","):
        cpu = time.process_time()
        late = [lambda problem, state, clock, cpu=cpu: time.process_time() - cpu > limit]
        try:
            result = lr.solve(problem, given, method, tol=TOL, max_iter=MAX_ITER, callbacks=late)
        except lr.ParameterError:
            runs[method] = (float("nan"), 0, 0.0, "refused", False, False)
            continue
        error, spent, status = truth.distance(result.X) / truth.norm(), time.process_time() - cpu, result.status
        runs[method] = (
            float(f"{error:.3g}"),
            result.n_iter,
            round(spent, 3),
            str(status),
            status.success,
            f"rank={rank}" in status.advice,
        )
    return {"runs": runs, "cpu_seconds": round(time.process_time() - begin, 3)}


def read_runs(logs: list[Path]) -> list[dict]:
    """The runs of some logs, one entry a solver; of repeated runs the last."""
    found = {}
    for job in (job for log in logs for job in read(log)):
        for method, values in job["runs"].items():
            if method in METHODS:
                place = (*(job[key] for key in KEYS if key not in ("limit", "method")), method)
                found[place] = {**{key: job[key] for key in (*KEYS, "date", "machine")}, "method": method}
                found[place] |= dict(zip(FOUND, values, strict=True))
    return list(found.values())


def spans(runs: list[dict]) -> str:
    """The seeds as ranges, such as 0-2, 44-49."""
    seeds = sorted({d["seed"] for d in runs})
    starts = [k for k in seeds if k - 1 not in seeds]
    return ", ".join(f"{a}-{b}" for a, b in zip(starts, [k for k in seeds if k + 1 not in seeds], strict=True))


def select(runs: list[dict], **wanted: Any) -> list[dict]:
    return [d for d in runs if all(d[key] == value for key, value in wanted.items())]


def recovered(runs: list[dict]) -> float:
    return float(np.mean([d["error"] < SUCCESS for d in runs])) if runs else float("nan")


def median(runs: list[dict], key: str) -> float:
    return float(np.median([d[key] for d in runs])) if runs else float("nan")


def smallest(runs: list[dict], ratios: list[float]) -> str:
    """The smallest ratio from which on every median error is below the bound."""
    good = ""
    for ratio in sorted(ratios, reverse=True):
        mine = select(runs, ratio=ratio)
        if not mine or not median(mine, "error") < SUCCESS:
            break
        good = f"{ratio:g}"
    return good or "-"


def label(method: str) -> str:
    return ", ".join(f"`{name}`" for name in SAME[method])


def recovery_table(runs: list[dict], solvers: list[str]) -> list[dict]:
    published = {kappa: {NAMES.get(name): q for name, q in found.items()} for kappa, found in PUBLISHED.items()}
    rows = []
    for method in solvers:
        row: dict[str, Any] = {"solver": label(method)}
        for kappa in (10.0, 1e5):
            mine = select(runs, map="recovery", method=method, kappa=kappa)
            ratios = sorted({d["ratio"] for d in mine})
            row[f"1/q, κ = {kappa:g}"] = smallest(mine, ratios)
            row[f"published, {kappa:g}"] = published[kappa].get(method, "")
            row[f"recovered, {kappa:g}"] = f"{recovered(mine):.2f}"
            row[f"CPU s, {kappa:g}"] = f"{median(mine, 'cpu_seconds'):.2f}"
        rows.append(row)
    return rows


def condition_table(runs: list[dict], solvers: list[str]) -> list[dict]:
    mine = select(runs, map="condition")
    rows = []
    for method in solvers:
        row: dict[str, Any] = {"solver": label(method)}
        for kappa in sorted({d["kappa"] for d in mine}):
            here = select(mine, method=method, kappa=kappa)
            ended = [d for d in here if d["status"] == "converged"]
            row[f"κ = {kappa:g}"] = (
                f"{median(ended, 'iterations'):.0f}" if len(ended) == len(here) else f"{len(ended)} of {len(here)}"
            )
        rows.append(row)
    return rows


def rank_table(runs: list[dict], solvers: list[str]) -> list[dict]:
    rows = []
    for method in solvers:
        row: dict[str, Any] = {"solver": label(method)}
        for noise, name in ((0.0, "exact"), (NOISE, "noise")):
            for given in (5, 10):
                here = select(runs, map="rank", method=method, noise=noise, given=given)
                row[f"{name}, rank {given}: error"] = f"{median(here, 'error'):.1e}"
                row[f"iterations, {name} {given}"] = f"{median(here, 'iterations'):.0f}"
                if given == 10:
                    row[f"success, {name}"] = f"{np.mean([bool(d.get('success')) for d in here]):.2f}"
                    row[f"names rank 5, {name}"] = f"{np.mean([bool(d.get('names_rank')) for d in here]):.2f}"
        rows.append(row)
    return rows


def report(logs: list[Path], out: Path, command: str) -> None:
    runs = read_runs(logs)
    solvers = [name for name in METHODS if any(d["method"] == name for d in runs)]
    tables = {
        "Recovery": recovery_table(runs, solvers),
        "Condition number": condition_table(runs, solvers),
        "Rank": rank_table(runs, solvers),
    }
    names = {key: " and ".join(map(str, sorted({d[key] for d in runs}))) for key in ("n", "limit", "date", "machine")}
    instances = Counter(place[:-1] for place in {tuple(d[key] for key in KEYS if key != "limit") for d in runs}).values()
    counted = " to ".join(map(str, dict.fromkeys((min(instances), max(instances)))))
    cut = [d for d in runs if d["cpu_seconds"] > d["limit"]]
    late = {name: len(select(cut, method=name)) for name in solvers}
    worst = ", ".join(f"`{name}` {count}" for name, count in sorted(late.items(), key=lambda item: -item[1]) if count)
    about = {
        "Recovery": "Rank 5. Smallest 1/q (observations per degree of freedom) from which the median relative "
        "error is below 1e-3; the published value, for n = 1000; the share of all runs of the map that recovered X; the median "
        "of CPU seconds.",
        "Condition number": "Rank 10, 1/q = 4. Medians of iterations; where not all runs converged, how many did.",
        "Rank": f"True rank 5, κ = 10, 1/q = {RANK_RATIO:g} of rank 5, given rank 5 or 10, exact data or "
        f"{NOISE:.0%} noise. Medians of relative errors and iterations; at rank 10 the share of runs with a status of success, "
        "and of runs whose advice has the true rank.",
    }
    few = [row for row in tables["Recovery"] if row["1/q, κ = 10"] != "-"]
    least = min((float(row["1/q, κ = 10"]) for row in few), default=np.nan)
    best = " and ".join(row["solver"] for row in few if float(row["1/q, κ = 10"]) == least)
    text = [
        "# All solvers on three maps",
        "",
        f"At κ = 10 {best} recover most matrices from {least:g} observations per degree of freedom on, the fewest of "
        f"{len(solvers)} solvers.",
        "",
        "![shares of recovered instances, iterations and errors](solver_maps.png)",
        "",
    ]
    for title, rows in tables.items():
        text += [f"## {title}", "", about[title], "", *markdown(rows), ""]
    text += [
        "## Protocol",
        "",
        f"`{command}`: n = {names['n']}, {counted} instances of each point (seeds {spans(runs)}), covered patterns "
        f"([recovery map](recovery.md)), tol {TOL:g}, at most {MAX_ITER} iterations and {names['limit']} CPU "
        "seconds a run. "
        f"{names['date']}, busy machines: {names['machine']}; {versions()}.",
        "",
        *(["The command makes 50 instances; these are the ones that were run.", ""] if max(instances) < 50 else []),
        f"{len(cut)} of {len(runs)} runs reached the limit of CPU seconds{': ' * bool(worst)}{worst}.",
        "",
    ]
    out.with_suffix(".md").write_text("\n".join(text))
    picture(runs, solvers, out.with_suffix(".png"))
    print("\n".join(text))
    print(f"CPU seconds of all runs: {sum(d['cpu_seconds'] for d in runs):.0f}, {len(runs)} runs")


def picture(runs: list[dict], solvers: list[str], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.io.figures import use_style

    use_style()
    plt.rcParams["axes.grid"] = False
    figure, axes = plt.subplots(1, 4, figsize=(17, 0.3 * len(solvers) + 2.2), layout="constrained", width_ratios=[4, 1, 3, 2.5])

    def panel(ax: Any, columns: list[str], value: Callable[[str, int], float], text: str, title: str, **style: Any) -> None:
        shown = np.array([[value(method, k) for k in range(len(columns))] for method in solvers])
        image = ax.imshow(shown, aspect="auto", **style)
        for i, j in np.ndindex(*shown.shape):
            if np.isfinite(shown[i, j]):
                dark = image.cmap(image.norm(shown[i, j]))[:3]
                ax.text(
                    j, i, format(shown[i, j], text), ha="center", va="center", fontsize=7, color="w" if sum(dark) < 1.5 else "k"
                )
        ax.set_xticks(range(len(columns)), columns)
        ax.set_yticks(range(len(solvers)), solvers if ax is axes[0] else [])
        ax.set_title(title)
        ax.grid(False)

    for ax, kappa in zip(axes, (10.0, 1e5), strict=False):
        mine = select(runs, map="recovery", kappa=kappa)
        ratios = sorted({d["ratio"] for d in mine})
        panel(
            ax,
            [f"{q:g}" for q in ratios],
            lambda method, k, mine=mine, ratios=ratios: recovered(select(mine, method=method, ratio=ratios[k])),
            ".2f",
            f"recovered, κ = {kappa:g}" if len(ratios) > 1 else f"κ = {kappa:g}",
            cmap="viridis",
            vmin=0,
            vmax=1,
        )
        ax.set_xlabel("observations per degree of freedom" if len(ratios) > 1 else "same")
    mine = select(runs, map="condition")
    kappas = sorted({d["kappa"] for d in mine})

    def iterations(method: str, k: int) -> float:
        here = select(mine, method=method, kappa=kappas[k])
        ended = select(here, status="converged")
        return median(ended, "iterations") if ended and 2 * len(ended) > len(here) else float("nan")

    scale = matplotlib.colors.LogNorm(3, MAX_ITER)
    panel(
        axes[2],
        [f"{k:g}" for k in kappas],
        iterations,
        ".0f",
        "iterations (blank: most fail)",
        cmap="viridis_r",
        norm=scale,
    )
    axes[2].set_xlabel("condition number κ, 1/q = 4")

    def loss(method: str, k: int) -> float:
        one, two = (select(runs, map="rank", method=method, noise=(0.0, NOISE)[k], given=given) for given in (5, 10))
        return median(two, "error") if k == 0 else median(two, "error") / median(one, "error")

    shown = np.array([[loss(method, k) for k in (0, 1)] for method in solvers])
    order = matplotlib.colors.LogNorm(1, 100)
    axes[3].imshow(
        np.column_stack([np.clip(shown[:, 0] / SUCCESS, 1e-3, None), shown[:, 1]]), aspect="auto", cmap="viridis_r", norm=order
    )
    for i, (exact, ratio) in enumerate(shown):
        axes[3].text(0, i, f"{exact:.0e}", ha="center", va="center", fontsize=7, color="w" if exact > 30 * SUCCESS else "k")
        axes[3].text(1, i, f"{ratio:.1f}", ha="center", va="center", fontsize=7, color="w" if ratio > 30 else "k")
    axes[3].set_xticks([0, 1], ["exact: error", "noise: error\n/ that at rank 5"])
    axes[3].set_yticks(range(len(solvers)), [])
    axes[3].set_title("rank 10 given for 5", fontsize=10)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true", help="only write the page")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--instances", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="most CPU seconds of one run")
    parser.add_argument("--solvers", nargs="*", choices=METHODS, help="these only; the others keep their runs")
    parser.add_argument("--log", type=Path, nargs="*", help="the log of the runs, and others for the page")
    args = parser.parse_args()
    folder = Path("build/bench") if args.quick else RESULTS
    logs = args.log or [folder / "solver_maps.jsonl"]
    folder.mkdir(parents=True, exist_ok=True)
    methods = ",".join(args.solvers) if args.solvers else "all"
    seeds = range(args.first, args.instances or (3 if args.quick else 50))
    jobs = [(*point, methods, seed) for seed in seeds for point in points(args.seconds)]
    if not args.report:
        run_jobs(solve, jobs, logs[0], KEYS, args.workers)
    report(logs, folder / "solver_maps", "python benchmarks/solver_maps.py" + " --quick" * args.quick)


if __name__ == "__main__":
    main()
