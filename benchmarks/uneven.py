"""Unevenly sampled matrices: lorank beside its peers, its iterations, and from how few observations it recovers.

    python benchmarks/uneven.py run [--quick] [--ranks 10 50] [--patterns mild movielens steep] [--seeds 1000 1001 1002]
    python benchmarks/uneven.py iterations [--seeds ...]           the same problems, lorank alone: iterations beside even ones
    python benchmarks/uneven.py troubles                           small problems with one kind of trouble each
    python benchmarks/uneven.py recovery                           from how few observations, rows having at least r + 2
    python benchmarks/uneven.py report                             docs/benchmarks/uneven.md from what was measured

Patterns: ``even``; ``mild``, rows drawn with frequencies k^-0.5 and columns k^-0.7; ``steep``, k^-0.6 and k^-0.8;
``movielens``, the pattern of MovieLens-1M (``LORANK_DATA`` names the folder that holds it) with exact values on it. Each row
and column is seen at least 2 r times (MovieLens: those that are not are left out, until all are). One thread each, one process
a run, methods in turn on each problem; a peer is timed as if it knew when to stop (benchmarks/peers). The peers' environment is
.venv-peers, or what LORANK_PEERS names, and for Spark's ALS the interpreter that LORANK_SPARK names: one pattern, at most three
minutes of trying, with ``run --ranks 10 --patterns mild --factors uniform --seeds 1000 --repeats 1 --budget 180 --methods
cmfrec LIBMF "Spark ALS"``. The package implicit has no place here: it fits all entries, seen or not, and no values. The solver
was chosen on seeds below 100.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import lorank as lr
from common import RESULTS, markdown, versions

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import run as peers
from data import Data

POWERS = {"even": (0.0, 0.0), "mild": (0.5, 0.7), "steep": (0.6, 0.8)}
PATTERNS = ["even", "mild", "movielens", "steep"]
SIZES = {10: ((10_000, 5_000), 1_200_000), 50: ((10_000, 5_000), 6_000_000)}
QUICK = {10: ((6_000, 3_000), 600_000), 50: ((3_000, 2_000), 1_500_000)}
TOL, SEEDS, LOG = 1e-4, (1000, 1001, 1002), RESULTS / "uneven.jsonl"
TROUBLES = ["none", "rows r+1", "rows r", "crowd", "sizes", "kappa 1e3", "kappa 1e5", "noise 0.01", "noise 0.1"]
RATIOS = [3.0, 2.5, 2.0, 1.8, 1.6]


def movielens_core(least: int) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """MovieLens-1M's pattern without the rows and columns that have fewer than ``least`` entries."""
    data = lr.datasets.load_movielens("1m")
    rows, cols = data.rows, data.cols
    while True:
        keep = (np.bincount(rows)[rows] >= least) & (np.bincount(cols)[cols] >= least)
        if keep.all():
            break
        rows, cols = rows[keep], cols[keep]
    (users, rows), (movies, cols) = (np.unique(index, return_inverse=True) for index in (rows, cols))
    return rows, cols, (len(users), len(movies))


def make(pattern: str, factors: str, rank: int, seed: int, shape: tuple[int, int], m: int, trouble: str = "none") -> Data:
    """Exact values, but for noise, of a random matrix on a pattern, with one kind of trouble."""
    rng = np.random.default_rng(seed)
    if pattern == "movielens":
        rows, cols, shape = movielens_core(2 * rank)
    else:
        rows, cols = lr.datasets.uneven_pattern(rng, shape, m, powers=POWERS[pattern], least=2 * rank)
    left, right = (rng.random((n, rank)) if factors == "uniform" else rng.standard_normal((n, rank)) for n in shape)
    if trouble == "sizes":
        left = left * rng.lognormal(0, 1.0, (shape[0], 1))
    if trouble.startswith("kappa"):
        s = np.geomspace(1, 1 / float(trouble.split()[1]), rank)
        left, right = (np.linalg.qr(a)[0] for a in (left, right))
        left = left * s * np.sqrt(shape[0] * shape[1])
    if trouble == "crowd":  # one column that everybody saw
        rows, cols = np.divmod(np.union1d(rows * shape[1] + cols, np.arange(shape[0]) * shape[1]), shape[1])
    if trouble.startswith("rows"):  # a tenth of the rows keeps so many observations
        left_over = rank + 1 if trouble == "rows r+1" else rank
        order = np.lexsort((rng.random(len(rows)), rows))
        place = np.empty(len(rows), int)
        place[order] = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
        poor = np.zeros(shape[0], bool)
        poor[rng.choice(shape[0], shape[0] // 10, replace=False)] = True
        keep = ~poor[rows] | (place < left_over)
        rows, cols = rows[keep], cols[keep]
    order = np.lexsort((cols, rows))
    rows, cols = rows[order].astype(np.int32), cols[order].astype(np.int32)
    parts = [slice(k, k + 100_000) for k in range(0, len(rows), 100_000)]
    values = np.concatenate([np.einsum("ij,ij->i", left[rows[p]], right[cols[p]]) for p in parts])
    if trouble.startswith("noise"):
        values = values + float(trouble.split()[1]) * np.sqrt(np.mean(values**2)) * rng.standard_normal(len(values))
    return Data(rows, cols, values, left, right)


def solved(data: Data, tol: float) -> tuple[int, float, str]:
    """Iterations until the error is below tol, the error, and how it ended."""
    truth = lr.FixedRank.from_factors(data.left, data.right)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = lr.Completion(data.rows, data.cols, data.values, data.shape)
        stop = lr.stopping.TruthDistance(truth, tol) | lr.stopping.Stall()
        result = lr.solve(problem, data.rank, stop=stop, max_iter=1000)
    return result.n_iter, truth.distance(result.X) / truth.norm(), str(result.status)


def run(args: argparse.Namespace) -> None:
    """Time lorank and peers in turn."""
    sizes = QUICK if args.quick else SIZES
    ranks, seeds = (args.ranks[:1], args.seeds[:1]) if args.quick else (args.ranks, args.seeds)
    print(f"{versions()}; seeds {seeds}, one thread each, to {TOL:g}", flush=True)
    peers.PEERS = Path(os.environ.get("LORANK_PEERS", peers.PEERS))
    with tempfile.TemporaryDirectory() as folder:
        for rank in ranks:
            for pattern in args.patterns:
                for factors in args.factors:
                    for seed in seeds:
                        path = (args.keep or Path(folder)) / f"{pattern}-{factors}-{rank}-{seed}.npz"
                        if not path.exists():
                            make(pattern, factors, rank, seed, *sizes[rank]).save(path)
                        data = Data.load(path)
                        found = {}
                        for method in ("lorank", *args.methods):
                            found[method] = peers.measure(method, path, {}, (TOL,), args.budget, args.repeats)
                        lines = [
                            {
                                "what": "run",
                                "quick": args.quick,
                                "rank": rank,
                                "pattern": pattern,
                                "factors": factors,
                                "seed": seed,
                                "shape": data.shape,
                                "m": len(data.values),
                                "method": method,
                            }
                            | summary(entry)
                            for method, entry in found.items()
                        ]
                        record(args.log, lines)


def summary(found: dict) -> dict:
    if "failed" in found:
        return {"failed": found["failed"]}
    runs = [r[str(TOL)] for r in found["runs"] if r[str(TOL)]]
    if not runs:
        return {"best": found["best"], "effort": found["effort"], "version": found["version"]}
    seconds = [r["seconds"] for r in runs]
    return {"seconds": float(np.median(seconds)), "steps": runs[0]["steps"], "version": found["version"]}


def iterations(args: argparse.Namespace) -> None:
    """Lorank alone."""
    sizes = QUICK if args.quick else SIZES

    def lines() -> Iterator[dict]:
        for rank in args.ranks:
            for seed in args.seeds:
                for factors in args.factors:
                    for pattern in ["even", *(p for p in args.patterns if p != "even")]:
                        data = make(pattern, factors, rank, seed, *sizes[rank])
                        count, error, status = solved(data, TOL)
                        line = {"what": "iterations", "rank": rank, "pattern": pattern, "factors": factors, "seed": seed}
                        line |= {"quick": args.quick, "m": len(data.values), "shape": data.shape}
                        yield line | {"iterations": count, "error": error, "status": status}

    print(versions())
    record(args.log, lines())


def troubles(args: argparse.Namespace) -> None:
    """Lorank alone on small problems with one kind of trouble each."""
    shape, rank = (1_000, 600), 5

    def lines() -> Iterator[dict]:
        for seed in args.seeds:
            for pattern in POWERS:
                for trouble in args.troubles:
                    data = make(pattern, "gaussian", rank, seed, shape, 5 * rank * sum(shape), trouble)
                    cpu = time.process_time()
                    count, error, status = solved(data, 1e-7 if trouble.startswith("kappa") else TOL)
                    line = {"what": "troubles", "pattern": pattern, "trouble": trouble, "seed": seed, "iterations": count}
                    yield line | {"error": error, "status": status, "cpu": round(time.process_time() - cpu, 2)}

    print(versions())
    record(args.log, lines())


def recovery_job(job: tuple[str, str, float, int]) -> dict:
    """One point of the recovery map's uneven twin: 1 000 x 1 000, rank 5, rows and columns seen at least r + 2 times."""
    what, pattern, ratio, seed = job
    n, rank = 1_000, 5
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for _ in range(2))
    left = u * np.geomspace(10, 1, rank) * n / 10
    m = round(ratio * (2 * n - rank) * rank)
    least, drawn = rank + 2, m
    for _ in range(20):  # what is filled up for rows that lack some is drawn less
        rows, cols = lr.datasets.uneven_pattern(np.random.default_rng(seed), (n, n), drawn, powers=POWERS[pattern], least=least)
        if len(rows) <= 1.005 * m:
            break
        drawn -= min(len(rows) - m, drawn // 2)
    values = np.einsum("ij,ij->i", left[rows], v[cols])
    cpu = time.process_time()
    count, error, status = solved(Data(rows.astype(np.int32), cols.astype(np.int32), values, left, v), 1e-8)
    line = {"what": what, "pattern": pattern, "ratio": ratio, "seed": seed, "m a dof": len(rows) / ((2 * n - rank) * rank)}
    return line | {"iterations": count, "error": error, "status": status, "cpu": round(time.process_time() - cpu, 2)}


def recovery(args: argparse.Namespace) -> None:
    done = set(groups(read(args.log), "recovery", "what", "pattern", "ratio", "seed"))
    jobs = [("recovery", p, q, seed) for seed in range(1000, 1000 + args.instances) for q in args.ratios for p in POWERS]
    record(args.log, (recovery_job(job) for job in jobs if job not in done))


def record(log: Path, lines: Iterable[dict]) -> None:
    """Append and print."""
    with log.open("a") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(
                " ".join(f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}" for key, value in line.items())
            )


def read(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def report(args: argparse.Namespace) -> None:
    """The tables between the marks of uneven.md."""
    lines, page = read(args.log), RESULTS / "uneven.md"
    text = page.read_text()
    for name, rows in (
        ("run", run_table(lines)),
        ("iterations", iterations_table(lines)),
        ("troubles", troubles_table(lines)),
        ("recovery", recovery_table(lines)),
    ):
        if rows:
            begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
            i, j = text.index(begin) + len(begin), text.index(end)
            text = text[:i] + "\n".join(markdown(rows)) + "\n" + text[j:]
    page.write_text(text)
    print(text)


def groups(lines: list[dict], what: str, *keys: str) -> dict[tuple, list[dict]]:
    out = defaultdict(list)
    for line in lines:
        if line.get("what") == what:
            out[tuple(line[key] for key in keys)].append(line)
    return dict(sorted(out.items()))


def spread(values: list, form: str = ".0f") -> str:
    return f"{np.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def run_table(lines: list[dict]) -> list[dict]:
    rows = []
    for (quick, rank, pattern, factors), group in groups(lines, "run", "quick", "rank", "pattern", "factors").items():
        row = {"rank": rank, "pattern": pattern, "factors": factors, "observations": f"{group[0]['m']:,}", "seeds": 0}
        mine = {d["seed"]: d for d in group if d["method"] == "lorank"}
        row["seeds"] = f"{len(mine)}{' (quick)' if quick else ''}"
        for method in dict.fromkeys(d["method"] for d in group):
            found = [d for d in group if d["method"] == method]
            reached = [d for d in found if "seconds" in d]
            if not reached:
                failed = [d for d in found if "failed" in d]
                best, effort = (np.median([d[key] for d in found if key in d] or [np.nan]) for key in ("best", "effort"))
                row[method] = "failed" if failed else f"{best:.0e} after {effort:.0f} s"
                continue
            seconds, steps = (np.median([d[key] for d in reached]) for key in ("seconds", "steps"))
            row[method] = f"{seconds:.2f} s, {steps:.0f} steps"
            if method != "lorank":
                ratios = [d["seconds"] / mine[d["seed"]]["seconds"] for d in reached if "seconds" in mine[d["seed"]]]
                row[f"{method} / lorank"] = (
                    f"{np.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})" if ratios else "-"
                )
        rows.append(row)
    heads = list(dict.fromkeys(key for row in rows for key in row))
    return [{head: row.get(head, "-") for head in heads} for row in rows]


def iterations_table(lines: list[dict]) -> list[dict]:
    found = groups(lines, "iterations", "quick", "rank", "factors", "pattern")
    rows = []
    for (quick, rank, factors, pattern), group in found.items():
        even = {d["seed"]: d["iterations"] for d in found.get((quick, rank, factors, "even"), [])}
        ratios = [d["iterations"] / even[d["seed"]] for d in group if d["seed"] in even]
        counts = [d["iterations"] for d in group]
        row = {"rank": rank, "factors": factors, "pattern": pattern, "shape": " x ".join(map(str, group[0]["shape"]))}
        row |= {
            "observations": f"{group[0]['m']:,}",
            "seeds": len(group),
            "recovered": sum(d["error"] < 1.001 * TOL for d in group),
        }
        row |= {
            "iterations": spread(counts),
            "of the even ones": f"{np.median(ratios):.2f}",
        }
        rows.append(row)
    return rows


def troubles_table(lines: list[dict]) -> list[dict]:
    rows = []
    for (trouble, pattern), group in groups(lines, "troubles", "trouble", "pattern").items():
        row = {"trouble": trouble, "pattern": pattern, "seeds": len(group)}
        row["iterations"] = spread([d["iterations"] for d in group])
        row["largest error"] = f"{max(d['error'] for d in group):.1e}"
        rows.append(row | {"CPU s": f"{np.median([d['cpu'] for d in group]):.2f}"})
    return rows


def recovery_table(lines: list[dict]) -> list[dict]:
    rows = []
    for (pattern, ratio), group in groups(lines, "recovery", "pattern", "ratio").items():
        errors = [d["error"] for d in group]
        row = {"pattern": pattern, "1/q": ratio, "as drawn": f"{np.median([d['m a dof'] for d in group]):.2f}"}
        row |= {"instances": len(group), "median error": f"{np.median(errors):.1e}"}
        row |= {"below 1e-3": f"{np.mean(np.array(errors) < 1e-3):.2f}"}
        row |= {"median iterations": int(np.median([d["iterations"] for d in group]))}
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "iterations", "troubles", "recovery", "report"])
    parser.add_argument("--quick", action="store_true", help="smaller problems, one rank, one seed, once: some minutes")
    parser.add_argument("--ranks", type=int, nargs="*", default=[10, 50])
    parser.add_argument("--patterns", nargs="*", default=PATTERNS, choices=PATTERNS)
    parser.add_argument("--factors", nargs="*", default=["uniform", "gaussian"], choices=["uniform", "gaussian"])
    parser.add_argument("--methods", nargs="*", default=["cmfrec"], choices=[m for m in peers.METHODS if m != "lorank"])
    parser.add_argument("--troubles", nargs="*", default=TROUBLES, choices=TROUBLES)
    parser.add_argument("--ratios", type=float, nargs="*", default=RATIOS)
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each method on each problem, of which the median counts"
    )
    parser.add_argument("--budget", type=float, default=120.0, help="seconds that a peer may try for")
    parser.add_argument("--keep", type=Path, help="a folder for the problems: those that are there are not made again")
    parser.add_argument("--log", type=Path, default=LOG)
    args = parser.parse_args()
    globals()[args.what](args)


if __name__ == "__main__":
    main()
